//! Touched memory by 2MB region.

use std::collections::BTreeMap;
use std::ops::Range;

use perforate_types::ProcessId;

use crate::collect::Memory;
use crate::page_id::PageId;
use crate::{Area, PageOrder};

/// Numbers of touched 4KB pages by process and 2MB region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TouchedRegions(BTreeMap<(ProcessId, u64), u16>);

impl TouchedRegions {
    /// Counts the touched pages of areas.
    pub(crate) fn new<'a>(memory: &Memory, areas: impl Iterator<Item = &'a Area>) -> Self {
        let mut regions = BTreeMap::new();
        for area in areas {
            let pages = area.bytes.start >> 12..area.bytes.end >> 12;
            for ids in memory.ids.ranges(area.process, &pages) {
                for id in memory.touched.within(ids.start as usize..ids.end as usize) {
                    let (process, page) = memory.ids.page(PageId(id as u32));
                    *regions.entry((process, page >> PageOrder::LARGE.0)).or_default() += 1;
                }
            }
        }
        Self(regions)
    }

    /// Makes the map from addresses of 2MB regions, each with its number of touched pages.
    pub fn from_regions(regions: impl IntoIterator<Item = (ProcessId, u64, u16)>) -> Self {
        let number = |address: u64| address / PageOrder::LARGE.bytes();
        let of = |(process, address, pages)| ((process, number(address)), pages);
        Self(regions.into_iter().map(of).collect())
    }

    /// Largest memory in bytes that pages of this order, of 2MB at most, add in the regions of a range of addresses:
    /// all touched pages may lie apart.
    pub fn most_added(&self, process: ProcessId, bytes: &Range<u64>, order: PageOrder) -> u64 {
        let size = PageOrder::LARGE.bytes();
        let regions = (process, bytes.start / size)..(process, bytes.end.div_ceil(size));
        let added = |pages: &u16| {
            let pages = u64::from(*pages);
            (512 - pages.min(512)).min(pages * ((1 << order.0) - 1))
        };
        self.0.range(regions).map(|(_, pages)| added(pages)).sum::<u64>() * PageOrder::BASE.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn touched_pages_may_lie_apart() {
        let process = ProcessId(1);
        let regions = [(process, 2 * MB, 10), (process, 4 * MB, 500), (ProcessId(2), 4 * MB, 1)];
        let touched = TouchedRegions::from_regions(regions);
        let added =
            |bytes: Range<u64>, order| touched.most_added(process, &bytes, PageOrder(order)) / 4096;
        assert_eq!(added(0..8 * MB, 9), 502 + 12);
        assert_eq!(added(0..8 * MB, 4), 150 + 12);
        assert_eq!(added(0..2 * MB, 9), 0);
        assert_eq!(added(3 * MB..4 * MB, 2), 30, "a part of a region counts as all of it");
        assert_eq!(added(4 * MB..4 * MB, 9), 0);
    }
}
