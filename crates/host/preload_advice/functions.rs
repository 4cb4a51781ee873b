//! Versions of the C library's functions that give advice. They make the same system calls, set errno in
//! the same way, and return the same values.

use core::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use super::areas;
use super::system::{
    self, EFAULT, ENOMEM, FAILED, PR_SET_VMA, PR_SET_VMA_ANON_NAME, set_break, set_error,
};

#[link(name = "c")]
unsafe extern "C" {
    /// End of the heap as the C library's sbrk knows it.
    #[link_name = "__curbrk"]
    static mut CURRENT_BREAK: *mut c_void;
}

/// Address of the heap's first byte.
static HEAP_START: AtomicUsize = AtomicUsize::new(0);
/// End of the heap.
static HEAP_END: AtomicUsize = AtomicUsize::new(0);

/// Stores where the heap lies before the first call of [`brk`], and advises the heap there is.
pub fn heap_is_at(start: usize, end: usize) {
    HEAP_START.store(start, Ordering::Release);
    HEAP_END.store(end, Ordering::Release);
    areas::heap_resized(start, start, end);
}

/// # Safety
/// As for mmap of the C library.
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: promised by the caller.
    let found = unsafe { system::map(address as usize, bytes, protection, flags, file, offset) };
    if found != FAILED {
        areas::mapped(found, bytes, flags);
    }
    found as *mut c_void
}

/// # Safety
/// As for mremap of the C library.
pub unsafe extern "C" fn mremap(
    address: *mut c_void,
    old: usize,
    new: usize,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    let start = address as usize;
    // SAFETY: promised by the caller.
    let remap = || unsafe { system::remap(start, old, new, flags, to as usize) };
    let mut found = remap();
    if found == FAILED && system::error() == EFAULT && areas::made_one(start, old) {
        found = remap();
    }
    if found != FAILED {
        areas::moved(start, found, new);
    }
    found as *mut c_void
}

/// # Safety
/// As for brk of the C library.
pub unsafe extern "C" fn brk(address: *mut c_void) -> c_int {
    let end = set_break(address as usize);
    // SAFETY: the C library changes the variable in this function only, and callers of brk that are not
    // serialised have no defined result.
    unsafe { CURRENT_BREAK = end as *mut c_void };
    if end < address as usize {
        set_error(ENOMEM);
        return -1;
    }
    let before = HEAP_END.swap(end, Ordering::AcqRel);
    areas::heap_resized(HEAP_START.load(Ordering::Acquire), before, end);
    0
}

/// # Safety
/// As for prctl of the C library.
pub unsafe extern "C" fn prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    // SAFETY: promised by the caller.
    let result: c_long = unsafe { system::control(option, second, third, fourth, fifth) };
    if result == 0 && option == PR_SET_VMA && second == PR_SET_VMA_ANON_NAME && fifth != 0 {
        // SAFETY: the kernel has just read this text.
        let name = unsafe { CStr::from_ptr(fifth as *const c_char) };
        areas::named(name.to_bytes(), third as usize, fourth as usize);
    }
    result as c_int
}
