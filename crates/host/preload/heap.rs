//! The pool of malloc. The C library's allocator takes memory from its *top* and makes that larger
//! when it is too small. So one allocation of the whole pool is made and given back: what it took
//! from the system becomes the top, and all that the program allocates lies in it, in the order in
//! which it is asked for.

use core::ffi::c_int;

use super::begin::advise_layout;
use super::plan::{LARGE_BYTES, PoolPlan};
use super::system::{free, malloc, malloc_usable_size, mallopt, realloc};

/// Parameters of mallopt.
const TRIM_THRESHOLD: c_int = -1;
const TOP_PAD: c_int = -2;
const MMAP_MAX: c_int = -4;
const ARENA_MAX: c_int = -8;

/// Bytes before an allocation in which the C library keeps its size.
const HEADER_BYTES: usize = 16;
/// The smallest piece of memory that it manages.
const LEAST_BYTES: usize = 32;

/// Makes a pool with this layout and returns its address, a multiple of 2MB; none if malloc is not
/// the C library's, or there is no memory.
pub fn begin(plan: &PoolPlan) -> Option<usize> {
    // SAFETY: these are calls as any program may make them; `memory` is not used after it was given
    // back.
    unsafe {
        // One arena, no mappings for large requests, and nothing goes back to the system.
        mallopt(MMAP_MAX, 0);
        mallopt(TRIM_THRESHOLD, -1);
        mallopt(TOP_PAD, 0);
        mallopt(ARENA_MAX, 1);
        let memory = malloc(plan.bytes.checked_add(2 * LARGE_BYTES)?);
        if memory.is_null() {
            return None;
        }
        // What lies below the 2MB boundary stays allocated; the rest becomes the top.
        let piece = memory as usize - HEADER_BYTES;
        let start = (piece + LEAST_BYTES).next_multiple_of(LARGE_BYTES);
        let usable = start - piece - HEADER_BYTES / 2;
        // Advice is for pages that are not there yet, and the top's size is written to the first.
        advise_layout(plan, start, 0..plan.bytes);
        let kept = realloc(memory, usable);
        if kept != memory || malloc_usable_size(kept) != usable {
            free(kept);
            return None;
        }
        Some(start)
    }
}
