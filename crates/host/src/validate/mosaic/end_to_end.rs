//! End-to-end tests with a small C program, run natively and recorded: the program and its simulation
//! must have the chosen layouts.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use perforate_sim::{Machine, Progress};

use super::predict::predict_program;
use super::program::Program;
use super::{Measured, Mosaics, Pages};
use crate::benchmark::WorkerCommand;
use crate::layout::{LARGE_BYTES, LayoutChoice, Shape};
use crate::machine::LargePageSettings;
use crate::validate::plan::Assumption;
use crate::validate::predict::Predictor;
use crate::validate::{Options, ProgramSample};
use crate::{HostError, Reporter};

/// C program that touches 24MB from malloc and 16MB from mmap, waits, and reads the memory again.
/// Without an argument, it also exercises all ways of allocating memory and checks the results; its
/// exit code is the line of the failed check.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#define CHECK(condition) do { if (!(condition)) _exit(__LINE__); } while (0)
#define MB ((size_t)1 << 20)
static char *map(size_t bytes) {
    return mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static void take_in_all_ways(void);
int main(int count, char **words) {
    CHECK(!getenv("PERFORATE_LAYOUT") && !getenv("LD_PRELOAD"));
    char *heap = malloc(24 * MB), *mapped = map(16 * MB);
    CHECK(mapped != MAP_FAILED && (uintptr_t)mapped % (2 * MB) == 0);
    CHECK(((uintptr_t)heap - 16) % (2 * MB) < 4096);
    memset(heap, 1, 24 * MB);
    memset(mapped, 2, 16 * MB);
    if (count == 1) take_in_all_ways();
    usleep(150000);
    long sum = 0;
    for (int round = 0; round < 8; round++)
        for (size_t at = 0; at < 16 * MB; at += 64) sum += heap[at] + mapped[at];
    CHECK(sum == 3 * 16 * MB / 64 * 8);
    return 0;
}
static void take_in_all_ways(void) {
    /* What is given back comes again as zeros. */
    char *small = map(8192);
    small[0] = 1;
    CHECK(munmap(small, 8192) == 0);
    char *again = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(again == small && again[0] == 0);
    CHECK(mprotect(again, 4096, PROT_READ | PROT_WRITE) == 0);
    again[0] = 3;
    /* It grows in place, or moves. */
    char *grown = mremap(again, 4096, 12288, MREMAP_MAYMOVE);
    CHECK(grown == again && grown[0] == 3 && grown[8192] == 0);
    char *behind = map(4096);
    CHECK(behind == grown + 12288);
    CHECK(mremap(grown, 12288, 16384, 0) == MAP_FAILED && errno == ENOMEM);
    char *moved = mremap(grown, 12288, 16384, MREMAP_MAYMOVE);
    CHECK(moved != grown && moved[0] == 3 && map(12288) == grown && grown[0] == 0);
    /* Fixed mappings, of memory and of a file. */
    moved[4096] = 5;
    CHECK(mmap(moved, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == moved);
    CHECK(moved[0] == 0 && moved[4096] == 5);
    CHECK(madvise(moved, 4096, MADV_HUGEPAGE) == 0);
    int file = memfd_create("file", 0);
    CHECK(ftruncate(file, 4096) == 0 && pwrite(file, "x", 1, 0) == 1);
    CHECK(mmap(moved, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) == moved && moved[0] == 'x');
    CHECK(munmap(moved, 4096) == 0 && map(4096) == moved && moved[0] == 0);
    /* A child has copies, and gives back what is its own. */
    pid_t child = fork();
    if (child == 0) {
        behind[0] = 9;
        CHECK(munmap(behind, 4096) == 0 && map(4096) == behind && behind[0] == 0);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0 && behind[0] == 0);
}
"#;

struct Silent;

impl Reporter for Silent {
    fn stage(&mut self, _: &str, _: &'static str) {}
    fn progress(&mut self, _: Progress) {}
}

/// Compiles the C program. `None` if there is no compiler.
fn compile(folder: &Path, flags: &[&str]) -> Option<Vec<OsString>> {
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    std::fs::write(&source, SOURCE).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(flags).arg("-O1").arg("-o").arg(&program).arg(&source);
    if !compiler.status().is_ok_and(|status| status.success()) {
        println!("skipped: no C compiler, or not for {flags:?}");
        return None;
    }
    Some(vec![program.into_os_string(), "quiet".into()])
}

fn mosaics() -> Mosaics {
    let layouts = Shape::list(5).into_iter().map(LayoutChoice::Shape).collect();
    Mosaics { layouts, programs: Vec::new(), written_to: None }
}

fn options() -> Options {
    let mut options = Options::new(true);
    (options.effort.rounds, options.effort.blocks) = (1, 1);
    options
}

#[test]
fn a_program_has_the_layouts_natively() {
    let folder = tempfile::tempdir().unwrap();
    let Some(words) = compile(folder.path(), &[]) else { return };
    let program = Program::prepare(&words, &mosaics(), &options(), &mut Silent).unwrap();
    assert!(
        (24 << 20..28 << 20).contains(&(program.layouts[1].heap.bytes())),
        "{:?}",
        program.pools
    );
    let measured = program.measure(&options(), &mut Silent).unwrap();
    assert_eq!(failures(&measured), 0);
    assert_eq!(measured.pages[0], Pages::default(), "4KB pages only");
    let setting = LargePageSettings::now();
    let setting = setting.get("enabled");
    if !matches!(setting, Some("madvise" | "always")) {
        println!("skipped: transparent_hugepage/enabled is {setting:?}");
        return;
    }
    for (layout, pages) in measured.layouts.iter().zip(&measured.pages).skip(1) {
        assert!(pages.wanted_bytes >= 16 << 20, "{}: {pages:?}", layout.name);
        if pages.obtained() < Some(0.95) {
            println!("skipped: {} was not obtained: {pages:?}", layout.name);
        }
    }
    let all = measured.pages[1];
    assert!(all.wanted_bytes >= 40 << 20, "{all:?}");
}

fn failures(measured: &Measured) -> usize {
    measured.notes.iter().filter(|note| note.contains("of the program failed")).count()
}

#[test]
fn pooled_memory_behaves_like_the_systems() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut words) = compile(folder.path(), &[]) else { return };
    words.pop();
    let program = Program::prepare(&words, &mosaics(), &options(), &mut Silent).unwrap();
    let measured = program.measure(&options(), &mut Silent).unwrap();
    assert_eq!(failures(&measured), 0, "{:?}", measured.notes);
}

#[test]
fn static_programs_and_short_ones_are_refused() {
    let prepare =
        |words: &[OsString]| Program::prepare(words, &mosaics(), &options(), &mut Silent).map(drop);
    let folder = tempfile::tempdir().unwrap();
    if let Some(words) = compile(folder.path(), &["-static"]) {
        let error = prepare(&words).unwrap_err().to_string();
        assert!(error.contains("program: statically linked, and"), "{error}");
    }
    let error = prepare(&["no-such-program".into()]).unwrap_err().to_string();
    assert!(error.contains("no-such-program: not found"), "{error}");
    // The program may happen to be sampled before it ends.
    if let Err(error) = prepare(&["true".into()]) {
        assert!(error.to_string().contains("ended before its memory"), "{error}");
    }
}

/// Compiles the C program with these flags and records it after `skip` instructions. The simulated
/// program must have exactly the 2MB pages of its layouts.
fn assert_simulated(flags: &[&str], skip: u64, instructions: u64) {
    let folder = tempfile::tempdir().unwrap();
    let Some(words) = compile(folder.path(), flags) else { return };
    let machine = Machine::load("perforated-table2").unwrap();
    let assumptions = [
        Assumption { name: "no VM", schemes: ["4k", "thp"] },
        Assumption { name: "VM", schemes: ["4k+thp", "thp+thp"] },
    ];
    let worker = WorkerCommand { program: "/bin/true".into(), arguments: Vec::new() };
    let predictor = Predictor {
        machine: &machine,
        assumptions: &assumptions,
        age: None,
        operations: 0,
        worker: &worker,
    };
    let layouts = [Shape::AllLarge, Shape::Alternating].map(LayoutChoice::Shape).to_vec();
    let mosaics = Mosaics { layouts, programs: Vec::new(), written_to: None };
    let program = Program::prepare(&words, &mosaics, &options(), &mut Silent).unwrap();
    let sample = ProgramSample { words: words.clone(), skip, instructions: Some(instructions) };
    let (cycles, runs) = match predict_program(&predictor, &sample, &program, &mut Silent) {
        Ok(predicted) => predicted,
        Err(HostError::Record(error)) => {
            println!("skipped: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!((cycles.len(), cycles[0].len(), runs.len()), (3, 2, 6));
    let large = |number: usize| runs[number].counters.get("large_pages").unwrap() as u64;
    for (number, layout) in program.layouts.iter().enumerate() {
        let expected = (layout.heap.bytes() + layout.mapped.bytes()) / LARGE_BYTES;
        for scheme in 0..2 {
            let found = large(2 * number + scheme);
            assert_eq!(
                found,
                expected,
                "{flags:?}, {skip}: {}, {:?}",
                layout.name,
                runs[2 * number].scheme
            );
        }
    }
    assert_eq!(large(0), 0);
    assert!(large(2) >= 20, "all 2MB");
}

#[test]
fn simulated_pages_are_those_of_the_layout() {
    // Records the whole program; a part in the middle, after the advice was given; and a heap that
    // also comes from brk in the emulator.
    assert_simulated(&[], 0, 8_000_000);
    assert_simulated(&[], 8_000_000, 1_000_000);
    assert_simulated(&["-no-pie"], 8_000_000, 1_000_000);
}
