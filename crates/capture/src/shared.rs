//! The recorder's end of the memory it shares with the plugins.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::Ordering;

use crate::CaptureError;
use crate::blocks::{Dictionary, ENTRY_HEADER_BYTES, entry_bytes};
use crate::layout::{
    DICTIONARY_BYTES, DICTIONARY_OFFSET, DICTIONARY_UNIT_BYTES, Header, MAGIC, RING_ENDED,
    RING_FREE, RING_RECORDS, RING_USED, RINGS, RingHeader, TOTAL_BYTES, ring_header_offset,
    ring_offset,
};

/// A file in memory, without a name, that another process of this user opens through `/proc`.
/// It is gone when the last process that uses it is.
pub struct MemoryFile(File);

impl MemoryFile {
    fn new(name: &std::ffi::CStr) -> Result<Self, CaptureError> {
        // SAFETY: `name` is a C string.
        let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            let source = std::io::Error::last_os_error();
            return Err(CaptureError::system("making a file in memory", source));
        }
        // SAFETY: the descriptor is new and ours.
        Ok(Self(unsafe { File::from_raw_fd(descriptor) }))
    }

    /// A file with this content.
    pub fn with_content(name: &std::ffi::CStr, content: &[u8]) -> Result<Self, CaptureError> {
        let mut file = Self::new(name)?;
        let written = file.0.write_all(content);
        written.map_err(|error| CaptureError::system("writing a file in memory", error))?;
        Ok(file)
    }

    /// Where another process finds it while this one lives.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}

/// The shared memory, mapped.
pub struct SharedMemory {
    file: MemoryFile,
    start: NonNull<u8>,
}

// SAFETY: the mapping belongs to no thread; all of it but the rings' records and the dictionary
// is atomics. Records of a ring are read by `drain` only, which one thread calls, and entries of
// the dictionary do not change once a record names them.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// New shared memory, all zeros apart from what says who made it.
    pub fn new() -> Result<Self, CaptureError> {
        let file = MemoryFile::new(c"perforate-records")?;
        let failed = |error| CaptureError::system("making shared memory", error);
        file.0.set_len(TOTAL_BYTES as u64).map_err(failed)?;
        // SAFETY: a new shared mapping of the whole file.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                TOTAL_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.0.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(failed(std::io::Error::last_os_error()));
        }
        let start = NonNull::new(start.cast()).expect("a mapping is never at address 0");
        let shared = Self { file, start };
        shared.header().recorder.store(std::process::id().into(), Ordering::Release);
        shared.header().magic.store(MAGIC, Ordering::Release);
        Ok(shared)
    }

    /// Where the plugin finds it.
    pub fn path(&self) -> PathBuf {
        self.file.path()
    }

    /// The header.
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping starts with a header, holds only atomics there, and lives as long
        // as `self`.
        unsafe { self.start.cast::<Header>().as_ref() }
    }

    fn ring_header(&self, ring: usize) -> &RingHeader {
        assert!(ring < RINGS);
        // SAFETY: ring headers lie inside the mapping; their words are atomics or never written.
        unsafe { self.start.add(ring_header_offset(ring)).cast::<RingHeader>().as_ref() }
    }

    /// Rings that have ever been used.
    pub fn rings(&self) -> usize {
        (self.header().rings.load(Ordering::Acquire) as usize).min(RINGS)
    }

    /// The process that uses or used a ring, if the ring is not free.
    pub fn user(&self, ring: usize) -> Option<u32> {
        let header = self.ring_header(ring);
        let is_free = header.state.load(Ordering::Acquire) == RING_FREE;
        (!is_free).then(|| header.process.load(Ordering::Acquire) as u32)
    }

    /// Whether the virtual CPU of a ring is gone.
    pub fn is_ended(&self, ring: usize) -> bool {
        self.ring_header(ring).state.load(Ordering::Acquire) == RING_ENDED
    }

    /// Says that the virtual CPU of a ring is gone: its process could not say so.
    pub fn end(&self, ring: usize) {
        let state = &self.ring_header(ring).state;
        // Fails if it has said so meanwhile.
        let (used, ended) = (RING_USED, RING_ENDED);
        let _ = state.compare_exchange(used, ended, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Lets a ring be used again.
    pub fn free(&self, ring: usize) {
        self.ring_header(ring).state.store(RING_FREE, Ordering::Release);
    }

    /// The question that a ring's virtual CPU waits with, if it does.
    pub fn question(&self, ring: usize) -> Option<u64> {
        let header = self.ring_header(ring);
        let questions = header.questions.load(Ordering::Acquire);
        let is_open = questions > header.answers.load(Ordering::Acquire);
        is_open.then(|| header.question.load(Ordering::Acquire))
    }

    /// Says that all questions of a ring's virtual CPU are answered.
    pub fn answer(&self, ring: usize) {
        let header = self.ring_header(ring);
        header.answers.store(header.questions.load(Ordering::Acquire), Ordering::Release);
    }

    /// Moves what is in `ring` to the end of `records`; returns how many records that were.
    /// Called by one thread only.
    pub fn drain(&self, ring: usize, records: &mut Vec<u64>) -> usize {
        let header = self.ring_header(ring);
        let head = header.head.load(Ordering::Acquire);
        let tail = header.tail.load(Ordering::Relaxed);
        let count = head.saturating_sub(tail).min(RING_RECORDS);
        if count == 0 {
            return 0;
        }
        let count = count as usize;
        let first = (tail % RING_RECORDS) as usize;
        let until_end = count.min(RING_RECORDS as usize - first);
        records.reserve(count);
        // SAFETY: the ring lies inside the mapping; the plugin has written the records from tail
        // to head and does not touch them before tail moves; room was reserved.
        unsafe {
            let start = self.start.add(ring_offset(ring)).cast::<u64>().as_ptr();
            let end = records.as_mut_ptr().add(records.len());
            ptr::copy_nonoverlapping(start.add(first), end, until_end);
            ptr::copy_nonoverlapping(start, end.add(until_end), count - until_end);
            records.set_len(records.len() + count);
        }
        header.tail.store(tail + count as u64, Ordering::Release);
        count
    }
}

impl Dictionary for SharedMemory {
    fn entry(&self, number: u32) -> Option<&[u8]> {
        let start = number as usize * DICTIONARY_UNIT_BYTES;
        let taken = self.header().dictionary_bytes.load(Ordering::Acquire) as usize;
        let room = taken.min(DICTIONARY_BYTES).checked_sub(start)?;
        if room < ENTRY_HEADER_BYTES {
            return None;
        }
        // SAFETY: the dictionary lies inside the mapping; an entry that a record names is whole
        // and never changes.
        let bytes = |length| unsafe {
            slice::from_raw_parts(self.start.add(DICTIONARY_OFFSET + start).as_ptr(), length)
        };
        let length = entry_bytes(bytes(ENTRY_HEADER_BYTES))?;
        (length <= room).then(|| bytes(length))
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        self.header().closed.store(1, Ordering::Release);
        // SAFETY: nothing borrows the mapping any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), TOTAL_BYTES) };
    }
}
