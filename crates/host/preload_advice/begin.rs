//! Start of the library, before the program's `main`.

use core::ffi::CStr;
use core::sync::atomic::Ordering;

use super::areas::{self, Word};
use super::environment::{hide, take};
use super::system::{
    self, PR_SET_THP_DISABLE, PR_THP_DISABLE_EXCEPT_ADVISED, getpid, pthread_atfork, set_break,
};
use super::{functions, own_maps, patch, report};

const ADVICE: &CStr = c"PERFORATE_ADVICE";

// SAFETY: the section holds addresses of functions that the loader calls.
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
#[cfg_attr(not(test), used)]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    // SAFETY: nothing else runs yet.
    let Some(text) = (unsafe { take(ADVICE) }) else { return };
    // SAFETY: nothing else runs yet.
    let settings = unsafe { areas::begin(text) };
    if settings.is_none_or(|settings| !settings.inherits) {
        // SAFETY: as above.
        unsafe { hide(ADVICE) };
    }
    let Some(settings) = settings.filter(|_| cfg!(target_arch = "x86_64")) else { return };
    report::begin(settings.report);
    begin_report();
    if settings.only_advised {
        // SAFETY: the call changes no memory. Kernels before 6.18 refuse it, which the caller knows.
        unsafe { system::control(PR_SET_THP_DISABLE, 1, PR_THP_DISABLE_EXCEPT_ADVISED, 0, 0) };
    }
    advise_existing();
    // SAFETY: nothing else runs yet.
    if unsafe { patch::patch() } {
        areas::count(Word::Patched, 1);
    }
}

/// Claims the report for this process, unless it describes another one: the first of a run, which keeps it
/// when it executes another program.
fn begin_report() {
    let Some(begun) = report::word(Word::Begun as usize) else { return };
    // SAFETY: the functions have no conditions.
    let own = unsafe { getpid() } as u64;
    let before = begun.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire);
    if before.is_err_and(|other| other != own) {
        return report::end();
    }
    areas::forget();
    // SAFETY: as above.
    unsafe { pthread_atfork(None, None, Some(end_in_child)) };
}

extern "C" fn end_in_child() {
    report::end();
}

/// Advises memory that exists already: the loader's and libraries' anonymous memory, static data, code, and
/// a heap that other libraries have begun.
fn advise_existing() {
    let (mut program, mut before) = (None, (0, false));
    let mut heap = None;
    own_maps::for_each(|mapping| {
        let range = mapping.range.clone();
        let bytes = range.end - range.start;
        let is_file = mapping.name.starts_with(b"/");
        // Mappings come in order of address, and that of a hash identifies the program's file.
        let identity = hash(mapping.name);
        if is_file {
            let own = *program.get_or_insert(identity);
            before = (range.end, own == identity);
            if mapping.permissions.get(2) == Some(&b'x') {
                areas::text(mapping.name, range.start, bytes);
            }
        } else if mapping.name == b"[heap]" {
            heap = Some(range.start);
        } else if mapping.name.is_empty() && mapping.permissions == b"rw-p" {
            areas::anonymous(range.start, bytes);
            if before == (range.start, true) {
                areas::static_data(range.start, bytes);
            }
        }
    });
    let end = set_break(0);
    functions::heap_is_at(heap.unwrap_or(end), end);
}

/// FNV-1a hash of a path.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
