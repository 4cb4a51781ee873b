//! Start of the library, before the program's `main`.

use core::ffi::CStr;
use core::ops::Range;

use super::environment::{hide, take};
use super::plan::{PoolPlan, parse};
use super::system::{MADV_HUGEPAGE, MADV_NOHUGEPAGE, advise, pthread_atfork};
use super::words::Word;
use super::{heap, pool, report};

const LAYOUT: &CStr = c"PERFORATE_LAYOUT";

// SAFETY: the section holds addresses of functions that the loader calls.
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
#[cfg_attr(not(test), used)]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    // SAFETY: nothing else runs yet.
    let text = unsafe { take(LAYOUT) };
    let Some(text) = text else { return };
    // SAFETY: as above.
    unsafe { hide(LAYOUT) };
    let Some(plan) = parse(text) else { return };
    report::begin(plan.report);
    if plan.heap.bytes > 0
        && let Some(start) = heap::begin(&plan.heap)
    {
        Word::HeapStart.set(start);
    }
    if let Some(start) = pool::begin(plan.mapped) {
        Word::MappedStart.set(start);
    }
    // SAFETY: the functions have no conditions; a child has no thread that holds the lock.
    unsafe { pthread_atfork(Some(pool::lock), Some(pool::unlock), Some(pool::unlock)) };
    Word::Begun.set(1);
}

/// Advises part of a pool (offsets in bytes) as its layout says: MADV_NOHUGEPAGE for all of the part,
/// then MADV_HUGEPAGE for each interval of 2MB pages.
pub fn advise_layout(plan: &PoolPlan, start: usize, part: Range<usize>) {
    let advise_range = |from: usize, to: usize, advice| {
        // SAFETY: the advice changes no contents.
        if from < to && !unsafe { advise(start + from, to - from, advice) } {
            Word::Refused.add(1);
        }
    };
    advise_range(part.start, part.end, MADV_NOHUGEPAGE);
    for (from, to) in plan.intervals() {
        advise_range(from.max(part.start), to.min(part.end), MADV_HUGEPAGE);
    }
}
