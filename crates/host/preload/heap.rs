//! The pool of malloc. The C library allocates from its *top* chunk, and asks the system for memory
//! when the top is too small. So this library allocates the whole pool once and gives it back: that
//! memory becomes the top. The program's allocations then lie in the pool in the order in which they
//! are made.

use core::ffi::c_int;

use super::begin::advise_layout;
use super::plan::{LARGE_BYTES, PoolPlan};
use super::system::{free, malloc, malloc_usable_size, mallopt, realloc};

/// Parameters of mallopt (glibc's malloc.h).
const TRIM_THRESHOLD: c_int = -1;
const TOP_PAD: c_int = -2;
const MMAP_MAX: c_int = -4;
const ARENA_MAX: c_int = -8;

/// Bytes of glibc's chunk header before an allocation.
const HEADER_BYTES: usize = 16;
/// Smallest chunk of glibc's malloc, in bytes.
const LEAST_BYTES: usize = 32;

/// Makes malloc's pool with this layout and returns its address, a multiple of 2MB. `None` if malloc is not
/// glibc's, or if there is no memory.
pub fn begin(plan: &PoolPlan) -> Option<usize> {
    // SAFETY: any program may make these calls; `memory` is not used after it is freed.
    unsafe {
        // One arena, no separate mappings for large requests, and no memory returned to the system.
        mallopt(MMAP_MAX, 0);
        mallopt(TRIM_THRESHOLD, -1);
        mallopt(TOP_PAD, 0);
        mallopt(ARENA_MAX, 1);
        let memory = malloc(plan.bytes.checked_add(2 * LARGE_BYTES)?);
        if memory.is_null() {
            return None;
        }
        // Memory below the 2MB boundary stays allocated; the rest becomes the top.
        let piece = memory as usize - HEADER_BYTES;
        let start = (piece + LEAST_BYTES).next_multiple_of(LARGE_BYTES);
        let usable = start - piece - HEADER_BYTES / 2;
        // The advice must precede the first touch, and realloc writes the top's size to the first page.
        advise_layout(plan, start, 0..plan.bytes);
        let kept = realloc(memory, usable);
        if kept != memory || malloc_usable_size(kept) != usable {
            free(kept);
            return None;
        }
        Some(start)
    }
}
