//! Start of the library, before the program's `main`.

use core::ffi::{CStr, c_char};
use core::ops::Range;

use super::plan::{PoolPlan, parse};
use super::report::{self, Word};
use super::system::{MADV_HUGEPAGE, MADV_NOHUGEPAGE, advise, getenv, pthread_atfork, unsetenv};
use super::{heap, pool};

const LAYOUT: &CStr = c"PERFORATE_LAYOUT";
const PRELOAD: &CStr = c"LD_PRELOAD";

// SAFETY: the section holds addresses of functions that the loader calls.
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
#[cfg_attr(not(test), used)]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    // SAFETY: nothing else runs yet, and the text of a variable stays where it is.
    let plan = unsafe {
        let text = getenv(LAYOUT.as_ptr());
        if text.is_null() {
            return;
        }
        parse(CStr::from_ptr(text).to_bytes())
    };
    hide();
    let Some(plan) = plan else { return };
    report::begin(plan.report);
    if plan.heap.bytes > 0
        && let Some(start) = heap::begin(&plan.heap)
    {
        report::set(Word::HeapStart, start);
    }
    if let Some(start) = pool::begin(plan.mapped) {
        report::set(Word::MappedStart, start);
    }
    // SAFETY: the functions have no conditions; a child has no thread that holds the lock.
    unsafe { pthread_atfork(Some(pool::lock), Some(pool::unlock), Some(pool::unlock)) };
    report::set(Word::Begun, 1);
}

/// Advises part of a pool (offsets in bytes) as its layout says: MADV_NOHUGEPAGE for all of the part,
/// then MADV_HUGEPAGE for each interval of 2MB pages.
pub fn advise_layout(plan: &PoolPlan, start: usize, part: Range<usize>) {
    let advise_range = |from: usize, to: usize, advice| {
        // SAFETY: the advice changes no contents.
        if from < to && !unsafe { advise(start + from, to - from, advice) } {
            report::add(Word::Refused, 1);
        }
    };
    advise_range(part.start, part.end, MADV_NOHUGEPAGE);
    for (from, to) in plan.intervals() {
        advise_range(from.max(part.start), to.min(part.end), MADV_HUGEPAGE);
    }
}

/// Removes the layout's variable, and this library in LD_PRELOAD, from the environment that the program's
/// children inherit. Our library comes first in LD_PRELOAD.
fn hide() {
    // SAFETY: nothing else runs yet; the tail of the variable's text is moved within that text.
    unsafe {
        unsetenv(LAYOUT.as_ptr());
        let text = getenv(PRELOAD.as_ptr());
        if text.is_null() {
            return;
        }
        let bytes = CStr::from_ptr(text).to_bytes_with_nul();
        match bytes.iter().position(|byte| *byte == b':') {
            Some(colon) => {
                let rest: *const c_char = text.add(colon + 1);
                core::ptr::copy(rest, text, bytes.len() - colon - 1);
            }
            None => drop(unsetenv(PRELOAD.as_ptr())),
        }
    }
}
