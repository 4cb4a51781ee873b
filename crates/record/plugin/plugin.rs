//! Plugin that runs inside the emulator (QEMU user mode) and records a program's execution.
//!
//! The plugin only writes records: executed blocks, accessed addresses, system calls. The recorder
//! decodes the instructions later. While instructions are skipped, blocks only contain a counter; when
//! recording starts, all code is translated again. A forked child continues to record. execve is
//! performed by starting another emulator with this plugin.

mod attach;
mod dictionary;
#[cfg(not(test))]
mod environment;
#[cfg(not(test))]
mod file_kind;
mod follow;
mod kinds;
#[cfg(not(test))]
mod large_mappings;
#[cfg(not(test))]
mod layout;
mod names;
pub mod phases;
mod placement;
mod qemu;
#[cfg(not(test))]
#[allow(dead_code)] // The recorder uses the rest.
mod record;
mod ring;
#[cfg(not(test))]
mod system_calls;
#[cfg(not(test))]
#[allow(dead_code)] // The recorder uses the rest.
mod windows;

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::layout::{Header, MAGIC, QUESTION_IMAGE, TOTAL_BYTES};
use crate::record::{self as records, Control, MAX_BLOCK_INSTRUCTIONS};
use crate::system_calls::{TRACKED, number};
use qemu::{Arguments, Block, PluginId};

/// Version of QEMU's plugin interface that the plugin uses.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_upper_case_globals)] // QEMU looks for this name.
pub static qemu_plugin_version: c_int = 1;

/// Flag of clone: the child runs in its parent's memory until it executes another program or ends.
const CLONE_VFORK: u64 = 0x4000;

static IS_IMAGE_KNOWN: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Virtual CPU of this thread during a call that may fork, and true if the child shares the
    /// parent's memory.
    static FORKING: Cell<Option<(u32, bool)>> = const { Cell::new(None) };
    /// Number of the process image of the child.
    static CHILD: Cell<u64> = const { Cell::new(0) };
}

/// Entry point. The arguments are `socket=PATH`, the path of the recorder's socket, and `library=PATH`,
/// the path of this plugin's file.
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
    let mut paths = attach::Paths { socket: PathBuf::new(), library: PathBuf::new() };
    for index in 0..count as usize {
        // SAFETY: promised by the caller.
        let argument = unsafe { CStr::from_ptr(*arguments.add(index) as *const c_char) };
        match argument.to_str().unwrap_or("").split_once('=') {
            Some(("socket", path)) => paths.socket = path.into(),
            Some(("library", path)) => paths.library = path.into(),
            _ => {}
        }
    }
    attach::install(paths);
    let Some(reply) = attach::ask(0) else { return -1 };
    if !reply.memory.is_some_and(map_shared) {
        return -1;
    }
    ring::begin_image(reply.process);
    phases::install(id);
    follow::install();
    placement::install();
    // SAFETY: registers functions with the right signatures.
    unsafe { qemu::pthread_atfork(Some(fork_begins), None, Some(child_begins)) };
    register(id);
    0
}

fn map_shared(file: OwnedFd) -> bool {
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
        qemu::qemu_plugin_register_vcpu_exit_cb(id, cpu_ends);
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, block_translated);
        qemu::qemu_plugin_register_vcpu_syscall_cb(id, syscall_begins);
        qemu::qemu_plugin_register_vcpu_syscall_ret_cb(id, syscall_ends);
    }
}

extern "C" fn cpu_starts(_id: PluginId, index: c_uint) {
    ring::start_cpu(index);
}

extern "C" fn cpu_ends(_id: PluginId, index: c_uint) {
    ring::end_cpu(index);
}

extern "C" fn block_translated(_id: PluginId, block: *mut Block) {
    if !IS_IMAGE_KNOWN.swap(true, Ordering::Relaxed)
        && let Some(cpu) = ring::cpu(0)
    {
        let stack_end = cpu.ask(QUESTION_IMAGE, Control::Image, ring::image(), &[]);
        follow::restore_environment(stack_end);
        follow::program_is_loaded();
        phases::begin_image(cpu);
    }
    phases::watch(block);
    if phases::is_instrumented() {
        record(block);
        return;
    }
    // SAFETY: `block` is valid during this callback; the user data is a plain number.
    unsafe {
        let count = qemu::qemu_plugin_tb_n_insns(block);
        let data = count as *mut c_void;
        qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, block_skipped, qemu::NO_REGISTERS, data);
    }
}

/// Adds the block to the dictionary and registers callbacks for its executions and accesses.
fn record(block: *mut Block) {
    let Some(number) = dictionary::append(block) else { return };
    let flags = qemu::NO_REGISTERS;
    // SAFETY: `block` and its instructions are valid during this callback; user data are numbers.
    unsafe {
        let count = qemu::qemu_plugin_tb_n_insns(block).min(MAX_BLOCK_INSTRUCTIONS);
        let data = records::block(number, count) as *mut c_void;
        qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, block_executed, flags, data);
        for index in 0..count {
            let instruction = qemu::qemu_plugin_tb_get_insn(block, index);
            let data = records::access_template(index) as *mut c_void;
            let direction = qemu::READ_WRITE;
            let callback = memory_accessed;
            qemu::qemu_plugin_register_vcpu_mem_cb(instruction, callback, flags, direction, data);
        }
    }
}

extern "C" fn block_executed(index: c_uint, data: *mut c_void) {
    let Some(cpu) = ring::cpu(index) else { return };
    let block = data as u64;
    let is_due = match cpu.is_idle {
        true => cpu.skip(records::block_instructions(block)),
        false => !cpu.push_block(block),
    };
    if is_due {
        block_outside_segments(cpu, block);
    }
}

/// Processes a block outside segments (records of one thread between two points of synchronization): a new
/// segment begins, or the following instructions, perhaps from this block on, are skipped.
#[inline(never)]
fn block_outside_segments(cpu: &mut ring::Cpu, block: u64) {
    let is_idle = cpu.is_idle;
    let next_block = u64::from(records::block_number(block)) + 1;
    cpu.is_idle = !phases::update(cpu, !is_idle);
    if cpu.is_idle {
        cpu.end_segment(next_block);
    } else if cpu.begin_segment(next_block) {
        cpu.push_block(block);
    }
}

extern "C" fn memory_accessed(index: c_uint, description: u32, address: u64, data: *mut c_void) {
    if let Some(cpu) = ring::cpu(index) {
        let place = data as u64 | address & records::PAYLOAD_MASK;
        if cpu.is_idle {
            return;
        }
        // Rare cases are in a separate function, so that the common case needs few registers.
        match cpu.kinds.known(description) {
            Some(kind) if cpu.has_room() => cpu.write(place | kind),
            _ => access_outside_room(cpu, description, place),
        }
    }
}

#[cold]
#[inline(never)]
fn access_outside_room(cpu: &mut ring::Cpu, description: u32, place: u64) {
    let kind = cpu.kinds.ask(description);
    cpu.push(place | kind);
}

extern "C" fn block_skipped(index: c_uint, data: *mut c_void) {
    if let Some(cpu) = ring::cpu(index)
        && cpu.skip(data as u64)
    {
        phases::update(cpu, false);
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
    let number = number as u64;
    let name = names::given_by(number, [a1, a2, a3, a4, a5]);
    if TRACKED.contains(&number) || name.is_some() {
        names::push(cpu, &name.unwrap_or_default());
        let last = if number == number::SHMAT { segment_bytes(a1) } else { a6 };
        cpu.push_control(Control::Syscall, number, &[a1, a2, a3, a4, a5, last]);
    } else if number == number::EXIT_GROUP {
        cpu.push_control(Control::Exit, ring::image(), &[]);
    }
    // The thread may sleep in the call, and the recorder must not wait for the rest of a segment.
    cpu.end_segment(0);
    match number {
        number::MMAP => placement::begin_mmap([a1, a2, a3, a4]),
        number::MUNMAP => addresses_change(),
        number::CLONE | number::FORK | number::VFORK => {
            let shares =
                number == number::VFORK || number == number::CLONE && a1 & CLONE_VFORK != 0;
            FORKING.set(Some((index, shares)));
        }
        number::EXECVE | number::EXECVEAT => {
            follow::execute(number, [a1, a2, a3, a4, a5]);
        }
        number::PRCTL => phases::marked(cpu, a1),
        _ => {}
    }
}

extern "C" fn syscall_ends(_id: PluginId, index: c_uint, number: i64, result: i64) {
    placement::end_mmap();
    let forking = FORKING.take();
    let child = u32::try_from(result).unwrap_or(0);
    if let (Some((_, true)), true) = (forking, child != 0) {
        // The emulator lets the parent of a vfork continue immediately.
        ring::wait_for_child(child, CHILD.get());
    }
    let Some(cpu) = ring::cpu(index) else { return };
    let number = number as u64;
    if TRACKED.contains(&number) {
        cpu.push_control(Control::Return, number, &[result as u64]);
        cpu.end_segment(0);
        addresses_change();
    }
}

/// Size in bytes of a System V shared memory segment; 0 if it does not exist. It is recorded in place of the
/// last of the six arguments, as shmat has only three.
fn segment_bytes(segment: u64) -> u64 {
    segment_status(segment).map_or(0, |status| status.bytes)
}

/// Status of a System V shared memory segment; `None` if it does not exist.
fn segment_status(segment: u64) -> Option<qemu::SegmentStatus> {
    let mut status = qemu::SegmentStatus { permissions: [0; 6], bytes: 0, rest: [0; 16] };
    // SAFETY: `status` has room for the result.
    let result = unsafe { qemu::shmctl(segment as c_int, qemu::STATUS_OF_SEGMENT, &mut status) };
    (result == 0).then_some(status)
}

/// Ends the running segments of all threads because an address space changes, so that their next instructions
/// are ordered after the change.
fn addresses_change() {
    ring::shared().epoch.fetch_add(1, Ordering::AcqRel);
}

/// Records the fork in the parent, before the child exists.
extern "C" fn fork_begins() {
    if let Some((index, shares)) = FORKING.get()
        && let Some(cpu) = ring::cpu(index)
    {
        CHILD.set(ring::next_image());
        cpu.push_control(Control::Fork, CHILD.get(), &[u64::from(shares)]);
        cpu.end_segment(0);
        addresses_change();
    }
}

/// Sets up recording in the child after a fork.
extern "C" fn child_begins() {
    phases::begin_child();
    ring::begin_child(CHILD.get(), FORKING.take().map(|(index, _)| index));
}
