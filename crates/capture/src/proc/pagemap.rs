//! Which pages of a process are in memory, and in which frames: `/proc/PID/pagemap` (Linux:
//! Documentation/admin-guide/mm/pagemap.rst).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use super::{PAGE_BYTES, Table};

/// The entry of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageEntry(pub(crate) u64);

impl PageEntry {
    pub(crate) const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const FRAME: u64 = (1 << 55) - 1;

    /// Whether the page is in memory.
    pub(crate) fn is_present(self) -> bool {
        self.0 & Self::PRESENT != 0
    }

    /// Whether the page is in memory or swapped out.
    pub(crate) fn exists(self) -> bool {
        self.0 & (Self::PRESENT | Self::SWAPPED) != 0
    }

    /// The frame of a page that is in memory; 0 for those who may not know it (who lack
    /// CAP_SYS_ADMIN).
    pub(crate) fn frame(self) -> u64 {
        self.0 & Self::FRAME
    }
}

/// The pages of a process.
pub(crate) struct PageMap(Table);

impl PageMap {
    /// Opens it.
    pub(crate) fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        File::open(path).map(Self::of)
    }

    /// The pages that a file tells of.
    pub(crate) fn of(file: File) -> Self {
        Self(Table::of(file))
    }

    /// Calls `act` with the pages in a range of addresses, in order.
    ///
    /// # Errors
    /// As [`Table::each`].
    pub(crate) fn each(
        &self,
        addresses: &Range<u64>,
        mut act: impl FnMut(u64, PageEntry),
    ) -> io::Result<()> {
        let pages = addresses.start / PAGE_BYTES..addresses.end / PAGE_BYTES;
        self.0.each(pages, |page, entry| act(page, PageEntry(entry)))
    }

    /// Runs of pages in a range of addresses that are as wanted, as addresses. Pages that cannot be
    /// asked for are not.
    pub(crate) fn runs(
        &self,
        addresses: &Range<u64>,
        wanted: impl Fn(PageEntry) -> bool,
    ) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        let found = self.each(addresses, |page, entry| {
            if !wanted(entry) {
                return;
            }
            let start = page * PAGE_BYTES;
            match runs.last_mut() {
                Some(run) if run.end == start => run.end += PAGE_BYTES,
                _ => runs.push(start..start + PAGE_BYTES),
            }
        });
        // The process may be gone, or the range lie outside of what processes have.
        drop(found);
        runs
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // One run of pages.
mod tests {
    use super::*;

    #[test]
    fn bits_of_entries() {
        let known = PageEntry(PageEntry::PRESENT | 1 << 55 | 9);
        assert_eq!((known.is_present(), known.exists(), known.frame()), (true, true, 9));
        let swapped = PageEntry(1 << 62 | 5);
        assert_eq!((swapped.is_present(), swapped.exists()), (false, true));
        let other = PageEntry(1 << 61);
        assert_eq!((other.is_present(), other.exists()), (false, false), "of a file");
    }

    #[test]
    fn touched_pages_of_this_process_exist() {
        let pages = PageMap::open("/proc/self/pagemap").unwrap();
        let memory = vec![1u8; 16 * PAGE_BYTES as usize];
        let first = (memory.as_ptr() as u64).next_multiple_of(PAGE_BYTES);
        let range = first..first + 15 * PAGE_BYTES;
        assert_eq!(pages.runs(&range, PageEntry::exists), vec![range]);
        assert_eq!(pages.runs(&(0..PAGE_BYTES), PageEntry::exists), [], "page 0");
        let outside = u64::MAX - 10 * PAGE_BYTES..u64::MAX;
        assert_eq!(pages.runs(&outside, |_| true), [], "no process has these addresses");
    }
}
