//! The plugin that runs inside the emulator (QEMU user mode) and records what a program does.
//!
//! It only writes down: which block runs, which addresses it accesses, which system calls it
//! makes. Instructions are taken apart later, by the recorder. While instructions are skipped,
//! blocks carry nothing but a counter; then all code is translated again with full records.

#[cfg(not(test))]
mod layout;
mod qemu;
#[cfg(not(test))]
#[allow(dead_code)] // The recorder uses the rest.
mod record;
mod ring;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::layout::{
    DICTIONARY_BYTES, DICTIONARY_OFFSET, FAILURE_DICTIONARY, Header, MAGIC, TOTAL_BYTES,
};
use crate::record::{self as records, Control, MAX_BLOCK_INSTRUCTIONS};
use qemu::{Arguments, Block, PluginId};

/// The version of the plugin interface that is used.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_upper_case_globals)] // QEMU looks for this name.
pub static qemu_plugin_version: c_int = 1;

/// System calls that change the address space or the set of processes (x86-64 numbers):
/// mmap, mprotect, munmap, brk, mremap, madvise, clone, fork, vfork, execve, wait4, execveat.
const TRACKED_SYSCALLS: [i64; 12] = [9, 10, MUNMAP, 12, 25, 28, 56, 57, 58, 59, 61, 322];
const MUNMAP: i64 = 11;

static PLUGIN: AtomicU64 = AtomicU64::new(0);
/// Instructions to pass over before recording.
static SKIP: AtomicU64 = AtomicU64::new(0);
static IS_SNAPSHOT_TAKEN: AtomicBool = AtomicBool::new(false);
static IS_STARTING: AtomicBool = AtomicBool::new(false);
static IS_RECORDING: AtomicBool = AtomicBool::new(false);
/// The virtual CPU that ended the skipping.
static STARTER: AtomicU32 = AtomicU32::new(0);
/// Instructions a thread skips before it adds them to the shared count.
const SKIP_BATCH: u64 = 1 << 10;

/// What the dictionary holds so far.
struct Dictionary {
    blocks: u32,
    bytes: usize,
}
static DICTIONARY: Mutex<Dictionary> = Mutex::new(Dictionary { blocks: 0, bytes: 0 });

/// Entry point: maps the shared memory named by `shared=PATH` and starts with `skip=N`.
///
/// # Safety
/// `arguments` holds `count` C strings, as QEMU guarantees.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    _info: *const c_void,
    count: c_int,
    arguments: Arguments,
) -> c_int {
    let mut shared = false;
    for index in 0..count as usize {
        // SAFETY: promised by the caller.
        let argument = unsafe { CStr::from_ptr(*arguments.add(index) as *const c_char) };
        match argument.to_str().unwrap_or("").split_once('=') {
            Some(("shared", path)) => shared = map_shared(path),
            Some(("skip", number)) => SKIP.store(number.parse().unwrap_or(0), Ordering::Relaxed),
            _ => {}
        }
    }
    if !shared {
        return -1;
    }
    PLUGIN.store(id, Ordering::Relaxed);
    // SAFETY: registers a function with the right signature.
    unsafe { qemu::pthread_atfork(None, None, Some(ring::detach)) };
    register(id);
    0
}

fn map_shared(path: &str) -> bool {
    let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else { return false };
    // SAFETY: a new mapping of a file of at least this size; it is never unmapped.
    let start = unsafe {
        qemu::mmap(
            std::ptr::null_mut(),
            TOTAL_BYTES,
            qemu::PROTECTION_READ_WRITE,
            qemu::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if start as isize == -1 {
        return false;
    }
    ring::attach(start.cast::<Header>());
    ring::shared().magic.load(Ordering::Acquire) == MAGIC
}

fn register(id: PluginId) {
    // SAFETY: plain registrations of functions with the right signatures.
    unsafe {
        qemu::qemu_plugin_register_vcpu_init_cb(id, cpu_starts);
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, block_translated);
        qemu::qemu_plugin_register_vcpu_syscall_cb(id, syscall_begins);
        qemu::qemu_plugin_register_vcpu_syscall_ret_cb(id, syscall_ends);
    }
}

extern "C" fn cpu_starts(_id: PluginId, index: c_uint) {
    ring::start_cpu(index);
}

extern "C" fn block_translated(_id: PluginId, block: *mut Block) {
    if ring::is_detached() {
        return;
    }
    if !IS_SNAPSHOT_TAKEN.swap(true, Ordering::Relaxed)
        && let Some(cpu) = ring::cpu(0)
    {
        cpu.ask(Control::Snapshot, 0, 1);
        if SKIP.load(Ordering::Relaxed) == 0 {
            cpu.ask(Control::Start, 0, 2);
            IS_RECORDING.store(true, Ordering::Relaxed);
        }
    }
    if IS_RECORDING.load(Ordering::Relaxed) {
        instrument(block);
    } else {
        // SAFETY: `block` is valid during this callback; the user data is a plain number.
        unsafe {
            let count = qemu::qemu_plugin_tb_n_insns(block);
            let data = count as *mut c_void;
            let flags = qemu::NO_REGISTERS;
            qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, block_skipped, flags, data);
        }
    }
}

/// Enters the block into the dictionary and asks for its executions and accesses.
fn instrument(block: *mut Block) {
    let Some(number) = append_to_dictionary(block) else {
        ring::shared().failure.store(FAILURE_DICTIONARY, Ordering::Release);
        return;
    };
    let flags = qemu::NO_REGISTERS;
    // SAFETY: `block` and its instructions are valid during this callback; user data are numbers.
    unsafe {
        let data = records::block(number) as *mut c_void;
        qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, block_executed, flags, data);
        for index in 0..qemu::qemu_plugin_tb_n_insns(block).min(MAX_BLOCK_INSTRUCTIONS) {
            let instruction = qemu::qemu_plugin_tb_get_insn(block, index);
            let data = records::access_template(index) as *mut c_void;
            let direction = qemu::READ_WRITE;
            let callback = memory_accessed;
            qemu::qemu_plugin_register_vcpu_mem_cb(instruction, callback, flags, direction, data);
        }
    }
}

/// An entry: address (8 bytes), number of instructions (4), bytes of code (4), the length of
/// each instruction (1 each), the code, zeros up to a multiple of 8. None if it does not fit.
fn append_to_dictionary(block: *mut Block) -> Option<u32> {
    let mut lengths = [0u8; MAX_BLOCK_INSTRUCTIONS];
    let mut code = Vec::with_capacity(256);
    // SAFETY: `block` and its instructions are valid during the translation callback.
    let address = unsafe {
        let count = qemu::qemu_plugin_tb_n_insns(block).min(MAX_BLOCK_INSTRUCTIONS);
        for (index, length) in lengths[..count].iter_mut().enumerate() {
            let instruction = qemu::qemu_plugin_tb_get_insn(block, index);
            let size = qemu::qemu_plugin_insn_size(instruction);
            let data = qemu::qemu_plugin_insn_data(instruction).cast::<u8>();
            code.extend_from_slice(std::slice::from_raw_parts(data, size));
            *length = size as u8;
        }
        qemu::qemu_plugin_tb_vaddr(block)
    };
    let count = lengths.iter().position(|length| *length == 0).unwrap_or(lengths.len());
    let mut entry = Vec::with_capacity(32 + count + code.len());
    entry.extend_from_slice(&address.to_le_bytes());
    entry.extend_from_slice(&(count as u32).to_le_bytes());
    entry.extend_from_slice(&(code.len() as u32).to_le_bytes());
    entry.extend_from_slice(&lengths[..count]);
    entry.extend_from_slice(&code);
    entry.resize(entry.len().next_multiple_of(8), 0);

    let mut dictionary = DICTIONARY.lock().ok()?;
    let end = dictionary.bytes + entry.len();
    if end > DICTIONARY_BYTES {
        return None;
    }
    let place = ring::shared_bytes(DICTIONARY_OFFSET + dictionary.bytes);
    // SAFETY: the entry ends inside the dictionary, and nobody else writes past `bytes`.
    unsafe { place.copy_from_nonoverlapping(entry.as_ptr(), entry.len()) };
    dictionary.bytes = end;
    dictionary.blocks += 1;
    ring::shared().dictionary_bytes.store(end as u64, Ordering::Release);
    Some(dictionary.blocks - 1)
}

extern "C" fn block_executed(index: c_uint, data: *mut c_void) {
    if let Some(cpu) = ring::cpu(index) {
        cpu.push_block(data as u64);
    }
}

extern "C" fn memory_accessed(index: c_uint, description: u32, address: u64, data: *mut c_void) {
    // SAFETY: `description` is what QEMU passed.
    let (write, shift) = unsafe {
        (qemu::qemu_plugin_mem_is_store(description), qemu::qemu_plugin_mem_size_shift(description))
    };
    if let Some(cpu) = ring::cpu(index) {
        cpu.push(records::access(data as u64, write, shift, address));
    }
}

extern "C" fn block_skipped(index: c_uint, data: *mut c_void) {
    let Some(cpu) = ring::cpu(index) else { return };
    cpu.skipped += data as u64;
    if cpu.skipped < SKIP_BATCH || ring::is_detached() {
        return;
    }
    let skipped = ring::shared().skipped.fetch_add(cpu.skipped, Ordering::Relaxed) + cpu.skipped;
    cpu.skipped = 0;
    let goal = SKIP.load(Ordering::Relaxed);
    if skipped >= goal && !IS_STARTING.swap(true, Ordering::Relaxed) {
        STARTER.store(index, Ordering::Relaxed);
        // SAFETY: called on the thread of a virtual CPU; the callback follows when all others
        // stand still and all translated code is gone.
        unsafe { qemu::qemu_plugin_reset(PLUGIN.load(Ordering::Relaxed), recording_starts) };
    }
}

extern "C" fn recording_starts(id: PluginId) {
    register(id);
    if let Some(cpu) = ring::cpu(STARTER.load(Ordering::Relaxed)) {
        let skipped = ring::shared().skipped.load(Ordering::Relaxed) + cpu.skipped;
        cpu.ask(Control::Start, skipped, 2);
        IS_RECORDING.store(true, Ordering::Relaxed);
    }
}

#[allow(clippy::too_many_arguments)] // The interface has this many.
extern "C" fn syscall_begins(
    _id: PluginId,
    index: c_uint,
    number: i64,
    a1: u64,
    a2: u64,
    a3: u64,
    a4: u64,
    a5: u64,
    a6: u64,
    _a7: u64,
    _a8: u64,
) {
    let Some(cpu) = ring::cpu(index) else { return };
    let is_tracked = TRACKED_SYSCALLS.contains(&number);
    if is_tracked {
        cpu.push_control(Control::Syscall, number as u64, &[a1, a2, a3, a4, a5, a6]);
    }
    // The thread may sleep in the call: the recorder must not wait for the rest of a segment.
    cpu.end_segment(0);
    if number == MUNMAP && !ring::is_detached() {
        ring::shared().epoch.fetch_add(1, Ordering::AcqRel);
    }
}

extern "C" fn syscall_ends(_id: PluginId, index: c_uint, number: i64, result: i64) {
    let Some(cpu) = ring::cpu(index) else { return };
    if !TRACKED_SYSCALLS.contains(&number) || ring::is_detached() {
        return;
    }
    cpu.push_control(Control::Return, number as u64, &[result as u64]);
    cpu.end_segment(0);
    ring::shared().epoch.fetch_add(1, Ordering::AcqRel);
}
