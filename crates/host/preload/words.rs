//! Words of the report.

use core::sync::atomic::Ordering;

use super::report::word;

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

impl Word {
    /// Stores a value in the word; does nothing without a report file.
    pub fn set(self, value: usize) {
        if let Some(word) = word(self as usize) {
            word.store(value as u64, Ordering::Release);
        }
    }

    /// Adds to the word; does nothing without a report file.
    pub fn add(self, value: usize) {
        if let Some(word) = word(self as usize) {
            word.fetch_add(value as u64, Ordering::AcqRel);
        }
    }
}
