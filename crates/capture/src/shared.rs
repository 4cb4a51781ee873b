//! The recorder's end of the memory it shares with the plugin.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::Ordering;

use crate::CaptureError;
use crate::layout::{
    DICTIONARY_OFFSET, Header, MAGIC, RING_RECORDS, RingHeader, TOTAL_BYTES, ring_header_offset,
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

impl SharedMemory {
    /// New shared memory, all zeros apart from the magic number.
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
        // SAFETY: ring headers lie inside the mapping; their words are atomics or never written.
        unsafe { self.start.add(ring_header_offset(ring)).cast::<RingHeader>().as_ref() }
    }

    /// Moves what is in `ring` to the end of `records`; returns how many records that were.
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

    /// The part of the dictionary that is complete.
    pub fn dictionary(&self) -> &[u8] {
        let bytes = self.header().dictionary_bytes.load(Ordering::Acquire) as usize;
        let bytes = bytes.min(crate::layout::DICTIONARY_BYTES);
        // SAFETY: the dictionary lies inside the mapping and its complete part never changes.
        unsafe { slice::from_raw_parts(self.start.add(DICTIONARY_OFFSET).as_ptr(), bytes) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        self.header().closed.store(1, Ordering::Release);
        // SAFETY: nothing borrows the mapping any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), TOTAL_BYTES) };
    }
}
