//! Comparison of recordings with valgrind's lackey, access by access: two emulators that share no code
//! must agree.
//!
//! Differences by definition, which the comparison permits:
//!
//! - Lackey's `M` is a load and a store; both readers yield two accesses.
//! - Stacks begin at different addresses. The test program aligns its stack to 1MB and has no arguments
//!   to read, so a constant difference separates them, taken from the first access.
//! - For locked xadd and cmpxchg, lackey reports a load, and a load and a store of valgrind's own
//!   compare-and-swap; a recording has one load and one store.
//! - Lackey reports each iteration of a repeated string instruction as a separate instruction. A
//!   recording has one instruction with accesses of up to a cache line, as on hardware. The test
//!   compares the bytes that are read and written.
//!
//! The program has no C library, because that would examine the processor (cpuid) and take different
//! code under each emulator.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::Command;

use perforate_record::{Ending, RecordOptions, record};
use perforate_types::{AccessKind, Chunk, MemoryAccess};

use crate::{is_missing, read};

/// Uses integers, pointers, recursion, vectors, locked operations, unaligned accesses across pages and
/// string instructions. Ends with exit_group.
const PROGRAM: &str = r#"
typedef unsigned long word;
typedef double vector __attribute__((vector_size(16)));
static word table[1 << 16];
static char bytes[3 * 4096] __attribute__((aligned(4096)));
static vector vectors[4096];
static word state = 88172645463325252ul;
static word random(void) {
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    return state;
}
static void sort(word *first, long count) {
    if (count < 2) return;
    word pivot = first[count / 2];
    long low = 0, high = count - 1;
    while (low <= high) {
        while (first[low] < pivot) low++;
        while (first[high] > pivot) high--;
        if (low <= high) {
            word swap = first[low];
            first[low++] = first[high];
            first[high--] = swap;
        }
    }
    sort(first, high + 1);
    sort(first + low, count - low);
}
__attribute__((noinline)) static word depth(word n) {
    volatile word here = n;
    return n ? depth(n - 1) + here : 0;
}
static void run(void) {
    for (long i = 0; i < 1 << 16; i++) table[i] = random();
    for (long i = 0; i < 20000; i++) table[random() & 0xffff] += i;
    sort(table, 4000);
    for (long i = 0; i < 4096; i++) vectors[i] = vectors[4095 - i] * 1.5 + (vector){i, 1};
    for (long i = 4090; i < 8190; i++) *(volatile word *)(bytes + i) += 1;
    for (long i = 0; i < 1000; i++) {
        word add = i;
        __asm__ volatile("lock xaddq %0, %1" : "+r"(add) : "m"(table[i * 8]) : "memory");
    }
    for (long i = 0; i < 1000; i++) {
        word old = i;
        __asm__ volatile("lock cmpxchgq %2, %1"
                         : "+a"(old) : "m"(table[i]), "r"(i) : "memory");
        __asm__ volatile("xchgq %0, %1" : "+r"(old) : "m"(table[i + 1]) : "memory");
        __asm__ volatile("pushq %0; popq %1" : : "m"(table[i]), "m"(table[i + 2]) : "memory");
    }
    depth(500);
#ifdef STRINGS
    for (long length = 1; length < 300; length += 7) {
        void *to = bytes + 5000 + length, *from = bytes + length;
        long count = length;
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
        to = bytes + 3; count = length;
        __asm__ volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(1ul) : "memory");
    }
#endif
    __asm__ volatile("syscall" : : "a"(231), "D"(0) : "rcx", "r11");
}
void _start(void) {
    __asm__ volatile("sub $0x200000, %%rsp; and $-0x100000, %%rsp; call *%0; hlt" : : "r"(run));
}
"#;

/// Lowest address of stacks, above all other parts of a static program.
const STACK_START: u64 = 1 << 32;

/// Traces of the recorder and of lackey; `None` if a tool is missing.
fn both(flags: &[&str]) -> Option<(Chunk, Chunk)> {
    let needed = [("qemu-x86_64", "qemu-user"), ("valgrind", "valgrind"), ("cc", "gcc")];
    if needed.iter().any(|(program, package)| is_missing(program, package)) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (source, program) = (path("program.c"), path("program"));
    std::fs::write(&source, PROGRAM).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-static", "-nostdlib", "-fno-pic", "-no-pie", "-fno-stack-protector"]);
    compiler.args(["-fcf-protection=none", "-ffreestanding", "-mno-avx"]).args(flags);
    assert!(compiler.arg("-o").arg(&program).arg(&source).status().unwrap().success());

    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=lackey", "--trace-mem=yes", "--vex-guest-chase=no"]);
    let mut log = OsString::from("--log-file=");
    log.push(path("lackey.txt"));
    assert!(valgrind.arg(log).arg(&program).status().unwrap().success());

    let summary =
        record(RecordOptions::new(path("our.trace"), vec![program.into_os_string()]), &mut |_| {});
    assert_eq!(summary.unwrap().ending, Ending::Exited(0));
    Some((read(&path("our.trace")), read(&path("lackey.txt"))))
}

/// Instructions with their accesses, with the stack shifted such that its first access is at
/// [`STACK_START`].
fn steps(chunk: &Chunk) -> Vec<(u64, Vec<MemoryAccess>)> {
    let is_stack = |access: &&MemoryAccess| access.address.value() >= STACK_START;
    let first = chunk.accesses.iter().find(is_stack).expect("the stack is used");
    let shift = first.address.value() - STACK_START;
    let mut accesses = chunk.accesses.iter().map(|access| {
        let address = access.address.value();
        // The stack grows down from its first access.
        let moved = if address > STACK_START / 2 { address.wrapping_sub(shift) } else { address };
        MemoryAccess { address: perforate_types::VirtualAddress::new(moved), ..*access }
    });
    let instructions = chunk.instructions.iter();
    let step = |instruction: &perforate_types::Instruction| {
        let own = accesses.by_ref().take(usize::from(instruction.accesses)).collect();
        (instruction.ip.value(), own)
    };
    instructions.map(step).collect()
}

#[test]
fn a_recording_agrees_with_lackey_access_by_access() {
    let Some((ours, lackeys)) = both(&[]) else { return };
    let (ours, mut lackeys) = (steps(&ours), steps(&lackeys));
    let swaps = lackeys.iter_mut().filter_map(|(_, accesses)| {
        let before = accesses.len();
        accesses.dedup();
        (accesses.len() < before).then_some(())
    });
    assert_eq!(swaps.count(), 2000, "xadd and cmpxchg, 1000 times each");
    for (index, pair) in ours.iter().zip(&lackeys).enumerate() {
        assert_eq!(pair.0, pair.1, "instruction {index}: ours and lackey's");
    }
    assert_eq!(ours.len(), lackeys.len(), "instructions");
    let accesses: usize = ours.iter().map(|(_, accesses)| accesses.len()).sum();
    println!("{} instructions and {accesses} accesses are the same", ours.len());
    assert!(ours.len() > 1_000_000 && accesses > 200_000);
}

/// Merges the iterations of repeated instructions, and replaces accesses by the touched bytes.
fn bytes(steps: &[(u64, Vec<MemoryAccess>)]) -> Vec<(u64, BTreeSet<(bool, u64)>)> {
    let mut all: Vec<(u64, BTreeSet<(bool, u64)>)> = Vec::new();
    for (ip, accesses) in steps {
        if all.last().is_none_or(|(last, _)| last != ip) {
            all.push((*ip, BTreeSet::new()));
        }
        let touched = &mut all.last_mut().expect("one was pushed").1;
        for access in accesses {
            let first = access.address.value();
            let is_write = access.kind == AccessKind::Write;
            touched.extend((first..first + u64::from(access.size)).map(|byte| (is_write, byte)));
        }
    }
    all
}

#[test]
fn repeated_string_instructions_touch_the_same_bytes_as_in_lackey() {
    let Some((ours, lackeys)) = both(&["-DSTRINGS"]) else { return };
    let (ours, lackeys) = (bytes(&steps(&ours)), bytes(&steps(&lackeys)));
    for (index, pair) in ours.iter().zip(&lackeys).enumerate() {
        assert_eq!(pair.0, pair.1, "instruction {index}: ours and lackey's");
    }
    assert_eq!(ours.len(), lackeys.len(), "instructions, repeated ones once");
    let longest = ours.iter().map(|(_, bytes)| bytes.len()).max();
    assert_eq!(longest, Some(295 * 8), "rep stosq of the longest length");
}
