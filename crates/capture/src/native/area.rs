//! Anonymous memory with a wish for or against large pages.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use crate::proc::{PageMap, Residency, text};

const PAGE_BYTES: usize = 4096;
/// Size of a large page.
const LARGE_BYTES: usize = 2 << 20;
/// Advice to make 2MB pages of a range at once (Linux 6.1; not in all versions of libc).
const MADV_COLLAPSE: libc::c_int = 25;

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
        Ok(Residency::of(&text("/proc/self/smaps")?, self.addresses()))
    }

    /// Frame of each 4KB page of the area, where there is one.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] for those who may not know frames (who lack
    /// CAP_SYS_ADMIN), or if `/proc` cannot be read.
    pub fn frames(&self) -> io::Result<Vec<Option<u64>>> {
        let mut frames = Vec::new();
        PageMap::open("/proc/self/pagemap")?.each(&self.addresses(), |_, entry| {
            frames.push(entry.is_present().then_some(entry.frame()));
        })?;
        let mut known = frames.iter().flatten().peekable();
        let is_hidden = known.peek().is_some() && known.all(|&frame| frame == 0);
        if is_hidden { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(frames) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and nobody else knows of it.
        unsafe { libc::munmap(self.reserved.as_ptr().cast(), self.reserved_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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

    /// A frame for every page that was touched, and none twice.
    #[test]
    fn touched_pages_have_frames() {
        let mut area = Area::new(2 << 20, Advice::Small).unwrap();
        area.touch(0..5 * 4096);
        match area.frames() {
            Ok(frames) => {
                assert_eq!(frames.len(), 512);
                assert!(frames[..5].iter().all(Option::is_some));
                assert_eq!(frames.iter().flatten().collect::<BTreeSet<_>>().len(), 5);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                println!("skipped: frames are hidden");
            }
            Err(error) => panic!("{error}"),
        }
    }
}
