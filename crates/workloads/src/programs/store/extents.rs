//! Free extents: runs of pages.

use std::collections::{BTreeMap, BTreeSet};

/// Extent: a contiguous range of pages of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Address of the extent's first byte.
    pub(super) start: u64,
    /// Length of the extent in bytes, a multiple of the page size.
    pub(super) length: u64,
}

impl Extent {
    /// Address after the extent's last byte.
    pub(super) fn end(self) -> u64 {
        self.start + self.length
    }
}

/// Set of free extents; adjacent extents are merged.
#[derive(Default)]
pub(super) struct FreeExtents {
    /// Length in bytes of each free extent, by its start address.
    by_start: BTreeMap<u64, u64>,
    /// Free extents as pairs of length and start, in this order.
    by_length: BTreeSet<(u64, u64)>,
}

impl FreeExtents {
    /// Adds an extent, which must not overlap others, and merges it with adjacent extents.
    pub(super) fn add(&mut self, extent: Extent) {
        let mut merged = extent;
        if let Some((&start, &length)) = self.by_start.range(..extent.start).next_back()
            && start + length == extent.start
        {
            self.remove(Extent { start, length });
            merged = Extent { start, length: length + extent.length };
        }
        if let Some(&length) = self.by_start.get(&extent.end()) {
            self.remove(Extent { start: extent.end(), length });
            merged.length += length;
        }
        self.by_start.insert(merged.start, merged.length);
        self.by_length.insert((merged.length, merged.start));
    }

    /// Takes `length` bytes from the start of the shortest free extent that is long enough; among equals, the
    /// one at the lowest address. `None` if no extent is long enough.
    pub(super) fn take(&mut self, length: u64) -> Option<Extent> {
        let &(found, start) = self.by_length.range((length, 0)..).next()?;
        self.remove(Extent { start, length: found });
        if found > length {
            self.add(Extent { start: start + length, length: found - length });
        }
        Some(Extent { start, length })
    }

    /// Removes all free extents and returns them in order of address.
    pub(super) fn drain(&mut self) -> Vec<Extent> {
        self.by_length.clear();
        let all = std::mem::take(&mut self.by_start).into_iter();
        all.map(|(start, length)| Extent { start, length }).collect()
    }

    fn remove(&mut self, extent: Extent) {
        self.by_start.remove(&extent.start);
        self.by_length.remove(&(extent.length, extent.start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, length: u64) -> Extent {
        Extent { start, length }
    }

    #[test]
    fn the_shortest_that_fits_is_cut_and_neighbours_merge() {
        let mut free = FreeExtents::default();
        free.add(extent(100, 50));
        free.add(extent(300, 20));
        free.add(extent(500, 30));
        assert_eq!(free.take(20), Some(extent(300, 20)));
        assert_eq!(free.take(25), Some(extent(500, 25)));
        assert_eq!(free.take(51), None);
        free.add(extent(150, 350)); // 100..150 and 150..500; 525..530 remains separate
        free.add(extent(500, 25));
        assert_eq!(free.drain(), [extent(100, 430)]);
        assert_eq!(free.take(1), None);
    }
}
