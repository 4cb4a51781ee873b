//! Anonymous memory with advice for or against 2MB pages.

use std::io;
use std::ops::Range;

use memmap2::{Advice, MmapMut, MmapOptions};
use perforate_record::process_memory::{PageEntry, PageMap, frame, read_text};

use crate::Residency;
use crate::layout::Intervals;

const PAGE_BYTES: usize = 4096;
/// Size of a 2MB page in bytes.
const LARGE_BYTES: usize = 2 << 20;

/// Anonymous private memory, aligned to 2MB. Pages become resident on their first touch.
#[derive(Debug)]
pub struct AnonymousMemory {
    mapping: MmapMut,
    /// Offset of the memory's first byte in `mapping`.
    start: usize,
    bytes: usize,
}

impl AnonymousMemory {
    /// Reserves `bytes` bytes of memory, rounded up to a multiple of 2MB, with MADV_HUGEPAGE if
    /// `is_large` and MADV_NOHUGEPAGE otherwise.
    ///
    /// # Errors
    /// If the address space or memory does not suffice, or the kernel refuses the advice.
    pub fn new(bytes: u64, is_large: bool) -> io::Result<Self> {
        let memory = Self::reserve(bytes)?;
        let advice = if is_large { Advice::HugePage } else { Advice::NoHugePage };
        memory.mapping.advise_range(advice, memory.start, memory.bytes)?;
        Ok(memory)
    }

    /// Like [`Self::new`], with 2MB pages in the intervals `large` of byte offsets, and 4KB pages between
    /// them.
    ///
    /// # Errors
    /// The errors of [`Self::new`].
    pub fn with_layout(bytes: u64, large: &Intervals) -> io::Result<Self> {
        let memory = Self::new(bytes, false)?;
        for part in large.within(0..memory.bytes()) {
            let (start, length) = (memory.start + part.start as usize, part.end - part.start);
            memory.mapping.advise_range(Advice::HugePage, start, length as usize)?;
        }
        Ok(memory)
    }

    fn reserve(bytes: u64) -> io::Result<Self> {
        let too_much = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes =
            usize::try_from(bytes).ok().and_then(|n| n.checked_next_multiple_of(LARGE_BYTES));
        let bytes = bytes.filter(|bytes| *bytes > 0).ok_or_else(too_much)?;
        let reserved = bytes.checked_add(LARGE_BYTES).ok_or_else(too_much)?;
        let mapping = MmapOptions::new().len(reserved).no_reserve_swap().map_anon()?;
        let start = mapping.as_ptr().align_offset(LARGE_BYTES);
        Ok(Self { mapping, start, bytes })
    }

    /// Length of the memory in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// The memory as a slice of bytes, which can be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.mapping[self.start..self.start + self.bytes]
    }

    fn addresses(&self) -> Range<u64> {
        let start = self.mapping.as_ptr() as u64 + self.start as u64;
        start..start + self.bytes as u64
    }

    /// Writes 8 bytes to each 4KB page of the memory that begins in this range of byte offsets.
    pub fn touch(&mut self, range: Range<u64>) {
        let end = (range.end as usize).min(self.bytes);
        let first = (range.start as usize).min(end).next_multiple_of(PAGE_BYTES);
        let memory = self.as_mut_slice();
        for offset in (first..end).step_by(PAGE_BYTES) {
            memory[offset..offset + 8].copy_from_slice(&(offset as u64 + 1).to_ne_bytes());
        }
    }

    /// Asks the kernel to make 2MB pages of a part of the memory now (MADV_COLLAPSE).
    ///
    /// # Errors
    /// If the kernel does not support MADV_COLLAPSE (before Linux 6.1). A lack of free 2MB blocks is
    /// not an error.
    pub fn collapse_part(&mut self, part: Range<u64>) -> io::Result<()> {
        let memory = &mut self.as_mut_slice()[part.start as usize..part.end as usize];
        let (start, length) = (memory.as_mut_ptr().cast(), memory.len());
        // SAFETY: the range is mapped, and the advice keeps its contents.
        let result = unsafe { libc::madvise(start, length, libc::MADV_COLLAPSE) };
        match (result, io::Error::last_os_error()) {
            (-1, error) if error.raw_os_error() == Some(libc::EINVAL) => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns how much of the memory is resident, and how much of that is in 2MB pages.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn residency(&self) -> io::Result<Residency> {
        Ok(Residency::of(&read_text("/proc/self/smaps")?, self.addresses()))
    }

    /// Frame numbers of the memory's 4KB pages; `None` for pages that are not resident.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] without CAP_SYS_ADMIN, or if `/proc` cannot be read.
    pub fn frames(&self) -> io::Result<Vec<Option<u64>>> {
        let mut frames = Vec::new();
        PageMap::open("/proc/self/pagemap")?.for_each(&self.addresses(), |_, entry| {
            frames.push(entry.contains(PageEntry::PRESENT).then(|| frame(entry)));
        })?;
        let mut known = frames.iter().flatten().peekable();
        let is_hidden = known.peek().is_some() && known.all(|&frame| frame == 0);
        if is_hidden { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(frames) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn only_touched_pages_are_resident() {
        let mut memory = AnonymousMemory::new(3 << 20, false).unwrap();
        assert_eq!(memory.bytes(), 4 << 20, "whole 2MB");
        assert_eq!(memory.addresses().start % LARGE_BYTES as u64, 0);
        memory.touch(1..3 * 4096 + 1);
        assert_eq!(memory.residency().unwrap().resident_bytes, 3 * 4096);
        memory.touch(0..u64::MAX);
        let all = memory.residency().unwrap();
        assert_eq!((all.resident_bytes, all.large_bytes), (4 << 20, 0));
        assert!(AnonymousMemory::new(u64::MAX, true).is_err());
        assert!(AnonymousMemory::new(0, true).is_err());
    }

    #[test]
    fn a_layout_is_obtained_where_there_are_large_pages() {
        let large = Intervals::of_pages([1, 3, 4, 9]);
        let mut memory = AnonymousMemory::with_layout(16 << 20, &large).unwrap();
        memory.touch(0..u64::MAX);
        let all = memory.residency().unwrap();
        assert_eq!(all.resident_bytes, 16 << 20);
        match crate::machine::LargePageSettings::now().get("enabled") {
            Some("madvise" | "always") => assert!(all.large_bytes <= 6 << 20, "{all:?}"),
            setting => println!("skipped: transparent_hugepage/enabled is {setting:?}"),
        }
        if all.large_bytes < 6 << 20 {
            println!("skipped: only {} bytes came in 2MB pages", all.large_bytes);
        }
    }

    #[test]
    fn touched_pages_have_distinct_frames() {
        let mut memory = AnonymousMemory::new(2 << 20, false).unwrap();
        memory.touch(0..5 * 4096);
        match memory.frames() {
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
