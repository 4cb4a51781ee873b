//! What the library tells whoever started the program: words in a shared page of a file.

use core::ffi::c_char;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::system::{FAILED, MAP_SHARED, READ_WRITE, close, map, open};

/// Opens a file for reading and writing.
const READ_AND_WRITE: i32 = 2;
/// Length of the mapping.
const PAGE_BYTES: usize = 4096;
/// Longest path, with its end.
const MAX_PATH: usize = 256;

/// Words of the report.
#[derive(Clone, Copy)]
pub enum Word {
    /// 1 once the library has begun.
    Begun,
    /// First byte of malloc's pool; 0 if malloc is not that of the C library.
    HeapStart,
    /// First byte of the pool of mappings; 0 if there was no room.
    MappedStart,
    /// Bytes of it up to the highest that was ever in use.
    MappedHighest,
    /// Bytes of mappings for which it had no room.
    MappedOutside,
    /// Calls of madvise that failed.
    Refused,
}

static WORDS: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());

/// Opens the file with this path, if there is one.
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
        let start = map(0, PAGE_BYTES, READ_WRITE, MAP_SHARED, file, 0);
        close(file);
        if start != FAILED {
            WORDS.store(start as *mut AtomicU64, Ordering::Release);
        }
    }
}

fn word(word: Word) -> Option<&'static AtomicU64> {
    let words = WORDS.load(Ordering::Acquire);
    // SAFETY: the mapping has room for all words and stays.
    (!words.is_null()).then(|| unsafe { &*words.add(word as usize) })
}

/// Sets a word.
pub fn set(which: Word, value: usize) {
    if let Some(word) = word(which) {
        word.store(value as u64, Ordering::Release);
    }
}

/// Adds to a word.
pub fn add(which: Word, value: usize) {
    if let Some(word) = word(which) {
        word.fetch_add(value as u64, Ordering::AcqRel);
    }
}
