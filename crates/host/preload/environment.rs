//! Environment variables that carry the library's parameters.

use core::ffi::{CStr, c_char};

use super::system::{FAILED, MAP_ANONYMOUS, MAP_PRIVATE, READ_WRITE, getenv, map, unsetenv};

const PRELOAD: &CStr = c"LD_PRELOAD";

/// Copies the value of a variable. Programs may overwrite the memory of their environment, for example to
/// change their title. `None` if the variable is not set.
///
/// # Safety
/// No other thread changes the environment.
pub unsafe fn take(variable: &CStr) -> Option<&'static [u8]> {
    // SAFETY: promised by the caller; the new mapping has room for the text and stays.
    unsafe {
        let text = getenv(variable.as_ptr());
        if text.is_null() {
            return None;
        }
        let bytes = CStr::from_ptr(text).to_bytes();
        let length = bytes.len().max(1);
        let copy = map(0, length, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if copy == FAILED {
            return None;
        }
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), copy as *mut u8, bytes.len());
        Some(core::slice::from_raw_parts(copy as *const u8, bytes.len()))
    }
}

/// Removes a variable, and this library in LD_PRELOAD, from the environment that the program's children
/// inherit. Our library comes first in LD_PRELOAD.
///
/// # Safety
/// No other thread uses the environment.
pub unsafe fn hide(variable: &CStr) {
    // SAFETY: promised by the caller; the tail of the variable's text is moved within that text.
    unsafe {
        unsetenv(variable.as_ptr());
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

/// Parses a decimal number of at most 12 digits.
pub fn number(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || digits.len() > 12 {
        return None;
    }
    digits.iter().try_fold(0_usize, |sum, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + usize::from(digit - b'0'))
    })
}
