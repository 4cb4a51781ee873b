//! Presence and frames of a process's pages: `/proc/PID/pagemap` (Linux:
//! Documentation/admin-guide/mm/pagemap.rst).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use bitflags::bitflags;

use super::{PAGE_BYTES, Table};

bitflags! {
    /// Entry of one page in `/proc/PID/pagemap`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PageEntry: u64 {
        /// Frame number of the page; valid if `PRESENT` is set.
        const FRAME = (1 << 55) - 1;
        /// Flag of a page that is swapped out.
        const SWAP = 1 << 62;
        /// Flag of a page that is in memory.
        const PRESENT = 1 << 63;
    }
}

/// True if the entry's page is in memory or swapped out.
pub fn exists(entry: PageEntry) -> bool {
    entry.intersects(PageEntry::PRESENT | PageEntry::SWAP)
}

/// Frame number of the entry's page, if it is in memory; 0 without CAP_SYS_ADMIN.
pub fn frame(entry: PageEntry) -> u64 {
    (entry & PageEntry::FRAME).bits()
}

/// Reader of a process's page map, `/proc/PID/pagemap`.
pub struct PageMap(Table);

impl PageMap {
    /// Opens the page map at this path.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        File::open(path).map(Self::new)
    }

    /// Makes a reader of the page map in an open file.
    pub fn new(file: File) -> Self {
        Self(Table::new(file))
    }

    /// Calls `act` with the page number and entry of each page in a range of addresses, in order.
    ///
    /// # Errors
    /// The errors of [`Table::for_each`].
    pub fn for_each(
        &self,
        addresses: &Range<u64>,
        mut act: impl FnMut(u64, PageEntry),
    ) -> io::Result<()> {
        let pages = addresses.start / PAGE_BYTES..addresses.end / PAGE_BYTES;
        self.0.for_each(pages, |page, entry| act(page, PageEntry::from_bits_retain(entry)))
    }

    /// Finds the pages in an address range that [exist](exists) (in memory or swapped out), as address
    /// ranges. Pages that cannot be read count as missing, because the process may have ended.
    pub fn existing_runs(&self, addresses: &Range<u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        let _ = self.for_each(addresses, |page, entry| {
            if !exists(entry) {
                return;
            }
            let start = page * PAGE_BYTES;
            match runs.last_mut() {
                Some(run) if run.end == start => run.end += PAGE_BYTES,
                _ => runs.push(start..start + PAGE_BYTES),
            }
        });
        runs
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // One run of pages.
mod tests {
    use super::*;

    #[test]
    fn bits_of_entries() {
        let known = PageEntry::from_bits_retain(1 << 63 | 1 << 55 | 9);
        assert_eq!((exists(known), frame(known)), (true, 9));
        assert!(exists(PageEntry::from_bits_retain(1 << 62 | 5)), "swapped out");
        assert!(!exists(PageEntry::from_bits_retain(1 << 61)), "of a file");
    }

    #[test]
    fn touched_pages_of_this_process_exist() {
        let pages = PageMap::open("/proc/self/pagemap").unwrap();
        let memory = vec![1u8; 16 * PAGE_BYTES as usize];
        let first = (memory.as_ptr() as u64).next_multiple_of(PAGE_BYTES);
        let range = first..first + 15 * PAGE_BYTES;
        assert_eq!(pages.existing_runs(&range), vec![range]);
        assert_eq!(pages.existing_runs(&(0..PAGE_BYTES)), [], "page 0");
        let outside = u64::MAX - 10 * PAGE_BYTES..u64::MAX;
        assert_eq!(pages.existing_runs(&outside), [], "no process has these addresses");
    }
}
