//! Versions of the C library's functions that give advice. They make the same system calls, set errno in
//! the same way, and return the same values.

use core::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use super::areas;
use super::items::PAGE_BYTES;
use super::system::{
    self, EFAULT, ENOMEM, FAILED, MADV_DONTNEED, MADV_POPULATE_READ, MADV_POPULATE_WRITE,
    MAP_ANONYMOUS, MAP_FIXED, MAP_NORESERVE, MAP_POPULATE, MAP_PRIVATE, PR_SET_VMA,
    PR_SET_VMA_ANON_NAME, READ_WRITE, set_break, set_error,
};

/// Size of a 2MB page in bytes.
const LARGE_BYTES: usize = 2 << 20;

#[link(name = "c")]
unsafe extern "C" {
    /// End of the heap as the C library's sbrk knows it.
    #[link_name = "__curbrk"]
    static mut CURRENT_BREAK: *mut c_void;
}

/// Address of the heap's first byte.
static HEAP_START: AtomicUsize = AtomicUsize::new(0);
/// End of the heap as the program knows it.
static HEAP_END: AtomicUsize = AtomicUsize::new(0);
/// End of the heap as the kernel knows it: the same, or the next multiple of 2MB.
static MAPPED_END: AtomicUsize = AtomicUsize::new(0);

/// Stores where the heap lies before the first call of [`brk`], and advises the heap there is.
pub fn heap_is_at(start: usize, end: usize) {
    HEAP_START.store(start, Ordering::Release);
    HEAP_END.store(end, Ordering::Release);
    MAPPED_END.store(end, Ordering::Release);
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
    let is_aligned = address.is_null() && areas::aligns_shared(bytes, flags);
    let place = if is_aligned { aligned_place(bytes) } else { None };
    let (start, fixed) = place.map_or((address as usize, 0), |place| (place, MAP_FIXED));
    // Memory is made resident after the advice on it.
    let populates = flags & MAP_POPULATE != 0 && areas::is_loud();
    let flags = if populates { flags & !MAP_POPULATE } else { flags };
    // SAFETY: promised by the caller, or memory that was just reserved.
    let found = unsafe { system::map(start, bytes, protection, flags | fixed, file, offset) };
    if found != FAILED {
        areas::mapped(found, bytes, flags);
    }
    if found != FAILED && populates {
        let can_write = protection & READ_WRITE == READ_WRITE;
        let advice = if can_write { MADV_POPULATE_WRITE } else { MADV_POPULATE_READ };
        // SAFETY: the advice changes no contents. As with MAP_POPULATE, errors are not told.
        unsafe { system::advise(found, bytes.next_multiple_of(PAGE_BYTES), advice) };
    }
    found as *mut c_void
}

/// Reserves addresses of which the first is a multiple of 2MB. The kernel makes large pages of shared memory
/// only where addresses and offsets in the file are multiples of 2MB together.
fn aligned_place(bytes: usize) -> Option<usize> {
    let reserved = bytes.checked_add(LARGE_BYTES)?;
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    // SAFETY: the memory is new, and nothing uses what is unmapped.
    unsafe {
        let start = system::map(0, reserved, 0, flags, -1, 0);
        if start == FAILED {
            return None;
        }
        let place = start.next_multiple_of(LARGE_BYTES);
        let end = (place + bytes).next_multiple_of(PAGE_BYTES);
        if place > start {
            system::unmap(start, place - start);
        }
        if start + reserved > end {
            system::unmap(end, start + reserved - end);
        }
        Some(place)
    }
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
    let wanted = address as usize;
    let before = HEAP_END.load(Ordering::Acquire);
    // A first touch gets a 2MB page only if all 2MB are mapped, and malloc extends the heap in smaller steps.
    // So the kernel's end of an advised heap is rounded up, as with glibc.malloc.hugetlb=1.
    let rounded = if areas::advises_heap() { wanted.next_multiple_of(LARGE_BYTES) } else { wanted };
    let mut mapped = if wanted == 0 { 0 } else { set_break(rounded) };
    if mapped < wanted {
        mapped = set_break(wanted);
    }
    let is_done = wanted != 0 && mapped >= wanted && wanted >= HEAP_START.load(Ordering::Acquire);
    // SAFETY: the C library changes the variable in this function only, and callers of brk that are not
    // serialised have no defined result.
    unsafe { CURRENT_BREAK = (if is_done { wanted } else { before }) as *mut c_void };
    if !is_done {
        if wanted != 0 {
            set_error(ENOMEM);
        }
        return if wanted == 0 { 0 } else { -1 };
    }
    HEAP_END.store(wanted, Ordering::Release);
    let from = wanted.next_multiple_of(PAGE_BYTES);
    let to = before.next_multiple_of(PAGE_BYTES).min(mapped);
    if from < to {
        // Memory that the program gave back is zero when it is in the heap again.
        // SAFETY: nothing uses the contents.
        unsafe { system::advise(from, to - from, MADV_DONTNEED) };
    }
    let mapped_before = MAPPED_END.swap(mapped, Ordering::AcqRel);
    areas::heap_resized(HEAP_START.load(Ordering::Acquire), mapped_before, mapped);
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
