//! C library functions, and raw system calls that bypass the library's hooks.

use core::ffi::{c_char, c_int, c_long, c_ulong, c_void};

/// System call numbers (Linux on x86-64).
const MMAP: c_long = 9;
const MPROTECT: c_long = 10;
const MUNMAP: c_long = 11;
const BRK: c_long = 12;
const MREMAP: c_long = 25;
const MADVISE: c_long = 28;
const PRCTL: c_long = 157;

/// Protection PROT_READ | PROT_WRITE.
pub const READ_WRITE: c_int = 3;
/// Protection PROT_READ | PROT_EXEC.
pub const READ_EXECUTE: c_int = 5;
/// Protection PROT_READ | PROT_WRITE | PROT_EXEC.
pub const READ_WRITE_EXECUTE: c_int = 7;
pub const MAP_SHARED: c_int = 1;
pub const MAP_SHARED_VALIDATE: c_int = 3;
pub const MAP_PRIVATE: c_int = 2;
pub const MAP_FIXED: c_int = 0x10;
pub const MAP_ANONYMOUS: c_int = 0x20;
pub const MAP_POPULATE: c_int = 0x8000;
pub const MAP_NORESERVE: c_int = 0x4000;
pub const MAP_HUGETLB: c_int = 0x4_0000;
pub const MAP_FIXED_NOREPLACE: c_int = 0x10_0000;
/// Flags of mmap calls that a pool can serve.
pub const POOLED_FLAGS: c_int =
    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_NORESERVE | MAP_STACK;
const MAP_STACK: c_int = 0x2_0000;

pub const MADV_DONTNEED: c_int = 4;
pub const MADV_HUGEPAGE: c_int = 14;
pub const MADV_NOHUGEPAGE: c_int = 15;
pub const MADV_POPULATE_READ: c_int = 22;
pub const MADV_POPULATE_WRITE: c_int = 23;
pub const MADV_COLLAPSE: c_int = 25;

pub const MREMAP_MAYMOVE: c_int = 1;
pub const MREMAP_FIXED: c_int = 2;

pub const ENOMEM: c_int = 12;
pub const EFAULT: c_int = 14;
pub const EINVAL: c_int = 22;

/// Operation of prctl that sets a process's use of transparent large pages, and the flag that keeps them
/// for memory with advice (Linux 6.18).
pub const PR_SET_THP_DISABLE: c_int = 41;
pub const PR_THP_DISABLE_EXCEPT_ADVISED: c_ulong = 2;
/// Operation of prctl that names anonymous memory.
pub const PR_SET_VMA: c_int = 0x5356_4d41;
pub const PR_SET_VMA_ANON_NAME: c_ulong = 0;

/// MAP_FAILED, the result of mmap and mremap on failure.
pub const FAILED: usize = usize::MAX;

#[link(name = "c")]
unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn __errno_location() -> *mut c_int;
    pub fn abort() -> !;
    pub fn getenv(name: *const c_char) -> *mut c_char;
    pub fn unsetenv(name: *const c_char) -> c_int;
    pub fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    pub fn close(file: c_int) -> c_int;
    pub fn read(file: c_int, to: *mut c_void, bytes: usize) -> isize;
    pub fn sched_yield() -> c_int;
    pub fn getpid() -> c_int;
    pub fn mallopt(parameter: c_int, value: c_int) -> c_int;
    pub fn malloc(bytes: usize) -> *mut c_void;
    pub fn realloc(memory: *mut c_void, bytes: usize) -> *mut c_void;
    pub fn free(memory: *mut c_void);
    pub fn malloc_usable_size(memory: *mut c_void) -> usize;
    pub fn pthread_atfork(
        before: Option<extern "C" fn()>,
        in_parent: Option<extern "C" fn()>,
        in_child: Option<extern "C" fn()>,
    ) -> c_int;
}

/// Sets errno, as a failing function of the C library does.
pub fn set_error(number: c_int) {
    // SAFETY: the C library returns a valid address.
    unsafe { __errno_location().write(number) };
}

/// Value of errno, after a system call of this module that failed.
pub fn error() -> c_int {
    // SAFETY: the C library returns a valid address.
    unsafe { __errno_location().read() }
}

/// brk as a system call. Returns the end of the heap, which is below `address` on failure.
pub fn set_break(address: usize) -> usize {
    // SAFETY: the caller is the C library's brk, whose caller frees memory that it does not use.
    unsafe { syscall(BRK, address) as usize }
}

/// prctl as a system call. Returns -1 and sets errno on failure.
///
/// # Safety
/// As for prctl.
pub unsafe fn control(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_long {
    // SAFETY: promised by the caller.
    unsafe { syscall(PRCTL, option, second, third, fourth, fifth) }
}

/// mmap as a system call. Returns [`FAILED`] and sets errno on failure.
///
/// # Safety
/// As for mmap: a fixed mapping replaces the memory at its address.
pub unsafe fn map(
    address: usize,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> usize {
    // SAFETY: promised by the caller.
    unsafe { syscall(MMAP, address, bytes, protection, flags, file, offset) as usize }
}

/// munmap as a system call. Returns false and sets errno on failure.
///
/// # Safety
/// Nothing uses the memory after the call.
pub unsafe fn unmap(address: usize, bytes: usize) -> bool {
    // SAFETY: promised by the caller.
    unsafe { syscall(MUNMAP, address, bytes) == 0 }
}

/// mprotect as a system call. Returns false and sets errno on failure.
///
/// # Safety
/// Later accesses to the memory respect the protection.
pub unsafe fn protect(address: usize, bytes: usize, protection: c_int) -> bool {
    // SAFETY: promised by the caller.
    unsafe { syscall(MPROTECT, address, bytes, protection) == 0 }
}

/// madvise as a system call. Returns false and sets errno on failure.
///
/// # Safety
/// With MADV_DONTNEED, nothing uses the memory's contents.
pub unsafe fn advise(address: usize, bytes: usize, advice: c_int) -> bool {
    // SAFETY: promised by the caller.
    unsafe { syscall(MADVISE, address, bytes, advice) == 0 }
}

/// mremap as a system call. Returns [`FAILED`] and sets errno on failure.
///
/// # Safety
/// As for mremap: the memory may move.
pub unsafe fn remap(from: usize, old: usize, new: usize, flags: c_int, to: usize) -> usize {
    // SAFETY: promised by the caller.
    unsafe { syscall(MREMAP, from, old, new, flags, to) as usize }
}
