//! Report to the process that started the program: words in a shared file.

use core::ffi::c_char;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::system::{FAILED, MAP_SHARED, READ_WRITE, close, map, open};

/// O_RDWR, the flag of `open` for reading and writing.
const READ_AND_WRITE: i32 = 2;
/// Length of the report file's mapping in bytes.
const FILE_BYTES: usize = 1 << 14;
/// Longest path in bytes, with its terminating zero.
const MAX_PATH: usize = 256;

static WORDS: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());

/// Maps the report file at this path, if the path is not empty.
pub fn begin(path: &[u8]) {
    let mut name = [0_u8; MAX_PATH];
    if path.is_empty() || path.len() >= MAX_PATH {
        return;
    }
    name[..path.len()].copy_from_slice(path);
    // SAFETY: the path ends with a zero; the mapping is new and stays.
    unsafe {
        let file = open(name.as_ptr().cast::<c_char>(), READ_AND_WRITE);
        if file < 0 {
            return;
        }
        let start = map(0, FILE_BYTES, READ_WRITE, MAP_SHARED, file, 0);
        close(file);
        if start != FAILED {
            WORDS.store(start as *mut AtomicU64, Ordering::Release);
        }
    }
}

/// Stops writing to the report file.
pub fn end() {
    WORDS.store(null_mut(), Ordering::Release);
}

/// Word of the report with this index; `None` without a report file, or beyond its end.
pub fn word(index: usize) -> Option<&'static AtomicU64> {
    let words = WORDS.load(Ordering::Acquire);
    let is_inside = !words.is_null() && index < FILE_BYTES / size_of::<AtomicU64>();
    // SAFETY: the word lies in the mapping, which stays.
    is_inside.then(|| unsafe { &*words.add(index) })
}
