//! Anonymous memory with a wish for or against large pages.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::ptr::NonNull;

use super::smaps::{Residency, parse_smaps};

const PAGE_BYTES: usize = 4096;
/// Size of a large page.
const LARGE_BYTES: usize = 2 << 20;
/// Advice to make 2MB pages of a range at once (Linux 6.1; not in all versions of libc).
const MADV_COLLAPSE: libc::c_int = 25;
/// Bit of an entry of `/proc/PID/pagemap`: the page is in memory.
const PRESENT: u64 = 1 << 63;
/// Frame number in an entry of `/proc/PID/pagemap`; 0 for those who may not know it.
const FRAME: u64 = (1 << 55) - 1;

/// What is asked of the kernel for an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// 2MB pages (MADV_HUGEPAGE).
    Large,
    /// 4KB pages (MADV_NOHUGEPAGE).
    Small,
}

/// Anonymous private memory that begins at a 2MB boundary. Nothing of it is there before it is
/// touched; all of it goes back with this value, and at the latest with the process.
#[derive(Debug)]
pub struct Area {
    reserved: NonNull<u8>,
    reserved_bytes: usize,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is owned by the value alone, like a boxed slice.
unsafe impl Send for Area {}

impl Area {
    /// Reserves `bytes`, rounded up to whole 2MB, and says what pages are wished for.
    ///
    /// # Errors
    /// If there is no such room, or the kernel has no large pages.
    pub fn new(bytes: u64, advice: Advice) -> io::Result<Self> {
        let too_much = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes =
            usize::try_from(bytes).ok().and_then(|n| n.checked_next_multiple_of(LARGE_BYTES));
        let bytes = bytes.filter(|bytes| *bytes > 0).ok_or_else(too_much)?;
        let reserved_bytes = bytes.checked_add(LARGE_BYTES).ok_or_else(too_much)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                reserved_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let reserved = NonNull::new(address.cast::<u8>()).ok_or_else(too_much)?;
        let before = reserved.as_ptr().align_offset(LARGE_BYTES);
        // SAFETY: at most 2MB before the end of what was reserved for that purpose.
        let start = unsafe { reserved.add(before) };
        let area = Self { reserved, reserved_bytes, start, bytes };
        area.advise(match advice {
            Advice::Large => libc::MADV_HUGEPAGE,
            Advice::Small => libc::MADV_NOHUGEPAGE,
        })?;
        Ok(area)
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// First byte.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Virtual addresses of the area.
    fn addresses(&self) -> Range<u64> {
        let start = self.start.as_ptr() as u64;
        start..start + self.bytes as u64
    }

    /// Writes a word to every 4KB page that begins in this range of bytes of the area.
    pub fn touch(&mut self, range: Range<u64>) {
        let end = (range.end as usize).min(self.bytes);
        let first = (range.start as usize).min(end).next_multiple_of(PAGE_BYTES);
        for offset in (first..end).step_by(PAGE_BYTES) {
            // SAFETY: an aligned word inside the mapping, which is this value's own.
            unsafe { self.start.add(offset).cast::<u64>().write_volatile(offset as u64 + 1) };
        }
    }

    /// Asks the kernel to make 2MB pages of the area now (MADV_COLLAPSE).
    ///
    /// # Errors
    /// If the kernel does not know the advice (before Linux 6.1). A range it could not find a
    /// block for is no error.
    pub fn collapse(&mut self) -> io::Result<()> {
        match self.advise(MADV_COLLAPSE) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(error),
            _ => Ok(()),
        }
    }

    fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the range is mapped, and these kinds of advice keep what is in it.
        let result = unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, advice) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// What of the area is resident, and how much of that in 2MB pages.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn residency(&self) -> io::Result<Residency> {
        Ok(parse_smaps(&fs::read("/proc/self/smaps")?, self.addresses()))
    }

    /// Frame of each 4KB page of the area, where there is one.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] for those who may not know frames (who lack
    /// CAP_SYS_ADMIN), or if `/proc` cannot be read.
    pub fn frames(&self) -> io::Result<Vec<Option<u64>>> {
        let mut file = File::open("/proc/self/pagemap")?;
        file.seek(SeekFrom::Start(self.addresses().start / PAGE_BYTES as u64 * 8))?;
        let mut entries = vec![0; self.bytes / PAGE_BYTES * 8];
        file.read_exact(&mut entries)?;
        page_frames(&entries).ok_or_else(|| io::ErrorKind::PermissionDenied.into())
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and nobody else knows of it.
        unsafe { libc::munmap(self.reserved.as_ptr().cast(), self.reserved_bytes) };
    }
}

/// Frames from entries of `/proc/PID/pagemap`; absent if pages are there and their frames hidden.
fn page_frames(entries: &[u8]) -> Option<Vec<Option<u64>>> {
    let words = entries.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let frame = |entry: u64| (entry & PRESENT != 0).then_some(entry & FRAME);
    let frames: Vec<_> = words.map(frame).collect();
    let hidden = frames.iter().flatten().count() > 0 && frames.iter().flatten().all(|f| *f == 0);
    (!hidden).then_some(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_touched_is_there() {
        let mut area = Area::new(3 << 20, Advice::Small).unwrap();
        assert_eq!(area.bytes(), 4 << 20, "whole 2MB");
        assert_eq!(area.start().as_ptr() as usize % LARGE_BYTES, 0);
        area.touch(1..3 * 4096 + 1);
        assert_eq!(area.residency().unwrap().resident_bytes, 3 * 4096);
        area.touch(0..u64::MAX);
        let all = area.residency().unwrap();
        assert_eq!((all.resident_bytes, all.large_bytes), (4 << 20, 0));
        assert!(Area::new(u64::MAX, Advice::Large).is_err());
        assert!(Area::new(0, Advice::Large).is_err());
    }

    #[test]
    fn frames_of_pagemap_entries() {
        let bytes =
            |entries: &[u64]| entries.iter().flat_map(|e| e.to_le_bytes()).collect::<Vec<_>>();
        let known = page_frames(&bytes(&[PRESENT | 7, 0, 1 << 62 | 5, PRESENT | 1 << 55 | 9]));
        assert_eq!(known, Some(vec![Some(7), None, None, Some(9)]), "bit 55: soft-dirty");
        assert_eq!(page_frames(&bytes(&[PRESENT, PRESENT])), None);
        assert_eq!(page_frames(&bytes(&[0, 0])), Some(vec![None, None]));
    }
}
