//! Replacements for the C library's functions that map anonymous memory. Calls from inside the C
//! library (stacks of threads, shared libraries) do not come here.

use core::ffi::{c_int, c_void};

use super::pool::{self, Place};
use super::system::{
    self, EINVAL, ENOMEM, FAILED, MADV_COLLAPSE, MADV_HUGEPAGE, MADV_NOHUGEPAGE,
    MADV_POPULATE_WRITE, MAP_ANONYMOUS, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_POPULATE, MAP_PRIVATE,
    MREMAP_FIXED, MREMAP_MAYMOVE, POOLED_FLAGS, READ_WRITE,
};

fn failed(error: c_int) -> usize {
    system::set_error(error);
    FAILED
}

/// # Safety
/// As for mmap of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    let wanted = address as usize;
    let is_memory = flags & (MAP_ANONYMOUS | MAP_PRIVATE) == MAP_ANONYMOUS | MAP_PRIVATE;
    let is_fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0;
    // SAFETY: promised by the caller; memory taken from the pool has no other user.
    let found = unsafe {
        if is_fixed {
            map_at(wanted, bytes, protection, flags, (file, offset))
        } else if wanted == 0
            && is_memory
            && flags & !POOLED_FLAGS == 0
            && let Some(start) = pool::take(bytes)
        {
            prepare(start, bytes, protection, flags);
            start
        } else {
            system::map(wanted, bytes, protection, flags, file, offset)
        }
    };
    found as *mut c_void
}

/// Gives new memory of the pool the requested protection, and populates it for MAP_POPULATE.
unsafe fn prepare(start: usize, bytes: usize, protection: c_int, flags: c_int) {
    let whole = bytes.next_multiple_of(pool::PAGE_BYTES);
    // SAFETY: the memory was just taken.
    unsafe {
        if flags & MAP_POPULATE != 0 && protection & READ_WRITE == READ_WRITE {
            system::advise(start, whole, MADV_POPULATE_WRITE);
        }
        if protection != READ_WRITE {
            system::protect(start, whole, protection);
        }
    }
}

/// Maps memory at a fixed address (MAP_FIXED, MAP_FIXED_NOREPLACE).
unsafe fn map_at(
    address: usize,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    (file, offset): (c_int, i64),
) -> usize {
    let place = pool::place(address, bytes);
    // SAFETY: promised by the caller.
    unsafe {
        match place {
            Place::Inside if flags & MAP_FIXED_NOREPLACE != 0 => failed(EEXIST),
            Place::Inside
                if flags & !(POOLED_FLAGS | MAP_FIXED) == 0 && flags & MAP_ANONYMOUS != 0 =>
            {
                // Anonymous memory inside the pool: clear the pages, which keeps their layout.
                if !pool::clear(address, bytes, protection) {
                    return FAILED;
                }
                pool::occupy(address, bytes, false);
                address
            }
            Place::Across => failed(ENOMEM),
            _ => {
                let found = system::map(address, bytes, protection, flags, file, offset);
                if place == Place::Inside && found != FAILED {
                    pool::occupy(address, bytes, true);
                }
                found
            }
        }
    }
}

const EEXIST: c_int = 17;

/// # Safety
/// As for mmap64 of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the same contract as `mmap`.
    unsafe { mmap(address, bytes, protection, flags, file, offset) }
}

/// # Safety
/// As for munmap of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn munmap(address: *mut c_void, bytes: usize) -> c_int {
    let start = address as usize;
    let is_sound = start.is_multiple_of(pool::PAGE_BYTES) && bytes > 0;
    // SAFETY: promised by the caller.
    let is_done = unsafe {
        match pool::place(start, bytes) {
            Place::Inside if is_sound => pool::release(start, bytes),
            Place::Across => {
                system::set_error(EINVAL);
                false
            }
            _ => system::unmap(start, bytes),
        }
    };
    if is_done { 0 } else { -1 }
}

/// # Safety
/// As for mremap of the C library; `to` is read only with MREMAP_FIXED.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn mremap(
    address: *mut c_void,
    old: usize,
    new: usize,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    let start = address as usize;
    // SAFETY: promised by the caller.
    let found = unsafe {
        match pool::place(start, old.max(1)) {
            Place::Outside => system::remap(start, old, new, flags, to as usize),
            Place::Inside => resize(start, old, new, flags, to as usize),
            Place::Across => failed(EINVAL),
        }
    };
    found as *mut c_void
}

/// Resizes an allocation in the pool, and moves it if necessary and permitted (mremap).
unsafe fn resize(start: usize, old: usize, new: usize, flags: c_int, to: usize) -> usize {
    let whole = |bytes: usize| bytes.next_multiple_of(pool::PAGE_BYTES);
    if flags & !(MREMAP_MAYMOVE | MREMAP_FIXED) != 0 || old == 0 || new == 0 {
        return failed(EINVAL);
    }
    let (old, new) = (whole(old), whole(new));
    // SAFETY: promised by the caller; the new memory has room for the bytes copied.
    unsafe {
        if flags & MREMAP_FIXED == 0 {
            if new <= old {
                if new < old {
                    pool::release(start + new, old - new);
                }
                return start;
            }
            if pool::place(start, new) == Place::Inside && pool::take_at(start + old, new - old) {
                return start;
            }
            if flags & MREMAP_MAYMOVE == 0 {
                return failed(ENOMEM);
            }
        }
        let fixed = if flags & MREMAP_FIXED == 0 { 0 } else { MAP_FIXED };
        let kind = MAP_PRIVATE | MAP_ANONYMOUS | fixed;
        let target = if fixed == 0 { core::ptr::null_mut() } else { to as *mut c_void };
        let found = mmap(target, new, READ_WRITE, kind, -1, 0) as usize;
        if found != FAILED {
            core::ptr::copy_nonoverlapping(start as *const u8, found as *mut u8, old.min(new));
            pool::release(start, old);
        }
        found
    }
}

/// # Safety
/// As for madvise of the C library. Advice of the program about large pages in the pools is dropped:
/// the pools keep their layout.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn madvise(address: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    let of_large_pages = matches!(advice, MADV_HUGEPAGE | MADV_NOHUGEPAGE | MADV_COLLAPSE);
    if of_large_pages && pool::place(address as usize, bytes) != Place::Outside {
        return 0;
    }
    // SAFETY: promised by the caller.
    if unsafe { system::advise(address as usize, bytes, advice) } { 0 } else { -1 }
}
