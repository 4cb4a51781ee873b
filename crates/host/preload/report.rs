//! Report to the process that started the program: words in a shared page of a file.

use core::ffi::c_char;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::system::{FAILED, MAP_SHARED, READ_WRITE, close, map, open};

/// O_RDWR, the flag of `open` for reading and writing.
const READ_AND_WRITE: i32 = 2;
/// Length of the report file's mapping in bytes.
const PAGE_BYTES: usize = 4096;
/// Longest path in bytes, with its terminating zero.
const MAX_PATH: usize = 256;

/// Words of the report. The value of a variant is the index of its word.
#[derive(Clone, Copy)]
pub enum Word {
    /// 1 once the library has begun.
    Begun,
    /// Address of malloc's pool; 0 if malloc is not the C library's.
    HeapStart,
    /// Address of the pool of anonymous mappings; 0 if there was no room.
    MappedStart,
    /// Bytes of the pool of anonymous mappings up to the highest page that was ever in use.
    MappedHighest,
    /// Bytes of anonymous mappings for which the pool had no room.
    MappedOutside,
    /// Number of madvise calls that failed.
    Refused,
}

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

/// Stores a value in a word of the report; does nothing without a report file.
pub fn set(which: Word, value: usize) {
    if let Some(word) = word(which) {
        word.store(value as u64, Ordering::Release);
    }
}

/// Adds to a word of the report; does nothing without a report file.
pub fn add(which: Word, value: usize) {
    if let Some(word) = word(which) {
        word.fetch_add(value as u64, Ordering::AcqRel);
    }
}
