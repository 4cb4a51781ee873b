//! Selection of the instructions to record: all but the first, windows, or regions given by markers,
//! addresses or a function.
//!
//! Phases belong to the recording, not to a process; each process notices a change by itself. Before
//! the first recorded phase, blocks only contain a counter. Then all code is translated again, with
//! full records, and is kept: between recorded phases, the callbacks return at once. (Every
//! retranslation makes QEMU 7.2 free the functions that it calls for memory accesses of its helpers,
//! and after an indirect branch it may still call them.)

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use super::dictionary;
use super::qemu::{self, Block, Instruction, PluginId};
use super::ring::{self, Cpu};
use crate::layout::{
    MARKER_BEGIN, MARKER_END, Phases, QUESTION_PAGES, REGION_ADDRESSES, REGION_FUNCTION,
    REGION_MARKERS,
};
use crate::record::Control;
use crate::windows;

/// Code of a marker: a no-operation of 8 bytes, `nopl N(%rax,%rax,1)`, where N is one of the marker
/// numbers.
const MARKER_CODE: [u8; 4] = [0x0f, 0x1f, 0x84, 0x00];

static PLUGIN: AtomicU64 = AtomicU64::new(0);
/// Last recorded phase whose start in this process is known to the recorder.
static OWN_PHASE: AtomicU64 = AtomicU64::new(0);
/// True once this process's code is translated with full records: of executed blocks and accesses. Before, it
/// only counts instructions.
static IS_INSTRUMENTED: AtomicBool = AtomicBool::new(false);
/// True while a thread of this process changes `OWN_PHASE` or `IS_INSTRUMENTED`.
static IS_CHANGING: AtomicBool = AtomicBool::new(false);
/// True if the region's addresses refer to this process's program.
static HAS_REGION: AtomicBool = AtomicBool::new(false);
/// Number of active calls of the region's function, over all threads of this process.
static DEPTH: AtomicI64 = AtomicI64::new(0);

/// Stores the ID that QEMU gave to the plugin.
pub fn install(id: PluginId) {
    PLUGIN.store(id, Ordering::Relaxed);
}

fn phases() -> &'static Phases {
    &ring::shared().phases
}

const fn is_recorded(phase: u64) -> bool {
    phase % 2 == 1
}

/// True if blocks are translated with full records, rather than with an instruction counter only.
pub fn is_instrumented() -> bool {
    IS_INSTRUMENTED.load(Ordering::Relaxed)
}

/// Enters the current phase in a program that is loaded and whose mappings the recorder has.
pub fn begin_image(cpu: &mut Cpu) {
    let own = phases().region_process.load(Ordering::Acquire) == ring::process();
    HAS_REGION.store(own, Ordering::Relaxed);
    let phase = phases().number.load(Ordering::Acquire);
    if phase == 0 && phases().skip_first.load(Ordering::Relaxed) == 0 {
        finish(0);
    }
    let phase = phases().number.load(Ordering::Acquire);
    if is_recorded(phase) {
        // No code is translated yet.
        IS_INSTRUMENTED.store(true, Ordering::Relaxed);
        start(cpu, phase);
    }
}

/// Resets the state of a phase change in a forked child, because another thread of its parent may have been
/// in one.
pub fn begin_child() {
    IS_CHANGING.store(false, Ordering::Relaxed);
}

/// Starts recording in this process, for the first time or again.
fn start(cpu: &mut Cpu, phase: u64) {
    let skipped = phases().skipped.load(Ordering::Relaxed);
    cpu.ask(QUESTION_PAGES, Control::Start, skipped, &[phase]);
    OWN_PHASE.store(phase, Ordering::Release);
}

/// Number of instructions after which a phase ends.
fn goal(phase: u64) -> u64 {
    let phases = phases();
    let kept = phases.kept_windows.load(Ordering::Relaxed);
    if kept > 0 && phase > 0 {
        return phases.record.load(Ordering::Relaxed).saturating_mul(windows_of(phase, kept));
    }
    let goal = match phase {
        0 => &phases.skip_first,
        _ if is_recorded(phase) => &phases.record,
        _ => &phases.skip,
    };
    goal.load(Ordering::Relaxed)
}

/// Length of a phase of adaptive sampling, in windows.
fn windows_of(phase: u64, kept: u64) -> u64 {
    match phase {
        1 => windows::contiguous(kept),
        _ if is_recorded(phase) => 1,
        // Phase 2 follows the last window without a gap, and so on.
        _ => windows::skipped_after(windows::contiguous(kept) - 1 + (phase / 2 - 1), kept),
    }
}

/// Ends a phase, unless another thread has ended it already.
fn finish(phase: u64) {
    let phases = phases();
    let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
    if phases.number.compare_exchange(phase, phase + 1, order, failed).is_ok() {
        phases.executed.store(0, Ordering::Relaxed);
    }
}

/// Adds the instructions that the virtual CPU executed to the counts in the shared memory, and ends the phase
/// if it is long enough. `was_recorded` is true if these instructions were recorded. Returns true if the next
/// instructions are to be recorded.
#[cold]
pub fn update(cpu: &mut Cpu, was_recorded: bool) -> bool {
    let phases = phases();
    let executed = cpu.take_executed();
    let total = if was_recorded { &phases.recorded } else { &phases.skipped };
    total.fetch_add(executed, Ordering::Relaxed);
    let phase = phases.number.load(Ordering::Acquire);
    // While one process enters a recorded phase, others continue unrecorded; those instructions do not
    // belong to the phase.
    if was_recorded == is_recorded(phase) {
        let before = phases.executed.fetch_add(executed, Ordering::Relaxed);
        if before.saturating_add(executed) >= goal(phase) {
            finish(phase);
        }
    }
    let phase = phases.number.load(Ordering::Acquire);
    is_recorded(phase) && enter(cpu, phase)
}

/// Enters a recorded phase in this process. Returns false if its code must be translated anew first.
fn enter(cpu: &mut Cpu, phase: u64) -> bool {
    if !is_instrumented() {
        if !IS_CHANGING.swap(true, Ordering::AcqRel) {
            // SAFETY: called on the thread of a virtual CPU while it runs a block. The callback runs
            // when all other threads are stopped and all translated code is discarded.
            unsafe { qemu::qemu_plugin_reset(PLUGIN.load(Ordering::Relaxed), instrument) };
        }
        return false;
    }
    // All threads wait until the recorder has seen the resident pages. Pages touched meanwhile would be
    // missing in the trace.
    while OWN_PHASE.load(Ordering::Acquire) != phase {
        if !IS_CHANGING.swap(true, Ordering::AcqRel) {
            if OWN_PHASE.load(Ordering::Acquire) != phase {
                start(cpu, phase);
            }
            IS_CHANGING.store(false, Ordering::Release);
        } else if !ring::pause_while_read() {
            return false;
        }
    }
    true
}

extern "C" fn instrument(id: PluginId) {
    super::register(id);
    IS_INSTRUMENTED.store(true, Ordering::Relaxed);
    IS_CHANGING.store(false, Ordering::Release);
}

/// Registers callbacks for the instructions of `block` that begin or end a region.
pub fn watch(block: *mut Block) {
    let kind = phases().region.load(Ordering::Relaxed);
    if kind == 0 || kind != REGION_MARKERS && !HAS_REGION.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: `block` and its instructions are valid during the translation callback.
    unsafe {
        for index in 0..qemu::qemu_plugin_tb_n_insns(block) {
            let instruction = qemu::qemu_plugin_tb_get_insn(block, index);
            if let Some(callback) = callback(kind, instruction) {
                let (flags, data) = (qemu::NO_REGISTERS, std::ptr::null_mut());
                qemu::qemu_plugin_register_vcpu_insn_exec_cb(instruction, callback, flags, data);
            }
        }
    }
}

/// Returns the callback for an instruction, if it begins or ends a region of this kind.
///
/// # Safety
/// The instruction must belong to the block that is being translated.
unsafe fn callback(kind: u64, instruction: *mut Instruction) -> Option<qemu::ExecuteCallback> {
    // SAFETY: promised by the caller.
    let (code, address) = unsafe {
        (dictionary::instruction_bytes(instruction), qemu::qemu_plugin_insn_vaddr(instruction))
    };
    if kind == REGION_MARKERS {
        let number = code.strip_prefix(&MARKER_CODE)?.try_into().ok()?;
        return match u32::from_le_bytes(number) {
            MARKER_BEGIN => Some(begins),
            MARKER_END => Some(ends),
            _ => None,
        };
    }
    let phases = phases();
    let bias = phases.region_bias.load(Ordering::Relaxed);
    let linked = address.wrapping_sub(bias);
    let start = phases.region_start.load(Ordering::Relaxed);
    let end = phases.region_end.load(Ordering::Relaxed);
    match kind {
        REGION_ADDRESSES if linked == start => Some(begins),
        REGION_ADDRESSES if linked == end => Some(ends),
        REGION_FUNCTION if linked == start => Some(function_called),
        REGION_FUNCTION if (start..end).contains(&linked) && is_return(code) => {
            Some(function_returns)
        }
        _ => None,
    }
}

/// True for RET, with the prefixes that compilers may add.
fn is_return(code: &[u8]) -> bool {
    let code = code.strip_prefix(&[0xf2]).or(code.strip_prefix(&[0xf3])).unwrap_or(code);
    matches!(code, [0xc3] | [0xc2, _, _])
}

/// Processes a marker in the first argument of prctl.
pub fn marked(cpu: &mut Cpu, marker: u64) {
    if phases().region.load(Ordering::Relaxed) == REGION_MARKERS {
        match u32::try_from(marker) {
            Ok(MARKER_BEGIN) => change(cpu, true),
            Ok(MARKER_END) => change(cpu, false),
            _ => {}
        }
    }
}

extern "C" fn begins(index: c_uint, _data: *mut c_void) {
    change_at(index, true);
}

extern "C" fn ends(index: c_uint, _data: *mut c_void) {
    change_at(index, false);
}

extern "C" fn function_called(index: c_uint, _data: *mut c_void) {
    if DEPTH.fetch_add(1, Ordering::Relaxed) == 0 {
        change_at(index, true);
    }
}

extern "C" fn function_returns(index: c_uint, _data: *mut c_void) {
    if DEPTH.fetch_sub(1, Ordering::Relaxed) == 1 {
        change_at(index, false);
    }
}

fn change_at(index: c_uint, to_recorded: bool) {
    if let Some(cpu) = ring::cpu(index) {
        change(cpu, to_recorded);
    }
}

/// Begins (`to_recorded`) or ends a region. The virtual CPU notices the change at its next block.
fn change(cpu: &mut Cpu, to_recorded: bool) {
    let phase = phases().number.load(Ordering::Acquire);
    if is_recorded(phase) != to_recorded {
        finish(phase);
        cpu.update_soon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_have_prefixes_and_operands_that_compilers_add() {
        for code in [&[0xc3][..], &[0xf2, 0xc3], &[0xf3, 0xc3], &[0xc2, 8, 0], &[0xf2, 0xc2, 8, 0]]
        {
            assert!(is_return(code), "{code:x?}");
        }
        for code in [
            &[][..],
            &[0xf2],
            &[0xc2],
            &[0xc2, 8],
            &[0xcb],
            &[0xc3, 0],
            &[0x66, 0xc3],
            &[0xe8, 0xc3],
        ] {
            assert!(!is_return(code), "{code:x?}");
        }
    }

    /// Odd phases record; of adaptive sampling the first is all windows without gaps, each later one a window. Phases
    /// between are as long as their window is away.
    #[test]
    fn phases_of_adaptive_sampling_are_where_its_windows_are() {
        assert_eq!([0, 1, 2, 3].map(is_recorded), [false, true, false, true]);
        for kept in [1, 2, 60] {
            let mut at = 0;
            for phase in 1..60 {
                if phase > 1 && is_recorded(phase) {
                    let number = windows::contiguous(kept) - 1 + phase / 2;
                    assert_eq!(at, windows::position(number, kept), "phase {phase} of {kept}");
                }
                at += windows_of(phase, kept);
            }
        }
        assert_eq!([1, 2, 3, 4, 5].map(|phase| windows_of(phase, 2)), [5, 1, 1, 1, 1]);
    }
}
