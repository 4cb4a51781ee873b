//! Jumps from the C library's functions to this library's (x86-64).

use core::ffi::{c_int, c_ulong, c_void};

use super::functions;
use super::items::PAGE_BYTES;
use super::system::{READ_EXECUTE, READ_WRITE_EXECUTE, protect};

/// Functions of the C library. The declarations only give addresses: nothing calls them.
mod library {
    #[link(name = "c")]
    unsafe extern "C" {
        pub fn mmap();
        pub fn mremap();
        pub fn brk();
        pub fn prctl();
    }
}

/// Length in bytes of `movabs $target, %rax; jmp *%rax`. The functions that are overwritten are longer: they
/// make a system call and check its result.
const JUMP_BYTES: usize = 12;

/// Instructions that jump to an address.
fn jump_to(target: usize) -> [u8; JUMP_BYTES] {
    let mut code = [0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0];
    code[2..10].copy_from_slice(&target.to_le_bytes());
    code
}

type Mmap = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void;
type Mremap = unsafe extern "C" fn(*mut c_void, usize, usize, c_int, *mut c_void) -> *mut c_void;
type Prctl = unsafe extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int;

/// Makes the C library's functions jump to those of this library. Returns false if a function cannot be
/// written.
///
/// # Safety
/// No other thread runs.
pub unsafe fn patch() -> bool {
    let jumps = [
        (library::mmap as *const () as usize, functions::mmap as Mmap as usize),
        (library::mremap as *const () as usize, functions::mremap as Mremap as usize),
        (library::prctl as *const () as usize, functions::prctl as Prctl as usize),
        (
            library::brk as *const () as usize,
            functions::brk as unsafe extern "C" fn(*mut c_void) -> c_int as usize,
        ),
    ];
    // SAFETY: promised by the caller.
    jumps.iter().all(|(function, target)| unsafe { write(*function, jump_to(*target)) })
}

/// Overwrites the start of a function.
///
/// # Safety
/// `function` is the address of code that is longer than the new code, and no other thread runs.
unsafe fn write(function: usize, code: [u8; JUMP_BYTES]) -> bool {
    let start = function / PAGE_BYTES * PAGE_BYTES;
    let bytes = (function + JUMP_BYTES).next_multiple_of(PAGE_BYTES) - start;
    // SAFETY: promised by the caller; the pages can be executed again before anything calls the function.
    unsafe {
        if !protect(start, bytes, READ_WRITE_EXECUTE) {
            return false;
        }
        core::ptr::copy_nonoverlapping(code.as_ptr(), function as *mut u8, JUMP_BYTES);
        protect(start, bytes, READ_EXECUTE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_has_its_target() {
        let expected = [0x48, 0xb8, 8, 7, 6, 5, 4, 3, 2, 1, 0xff, 0xe0];
        assert_eq!(jump_to(0x0102_0304_0506_0708), expected);
    }
}
