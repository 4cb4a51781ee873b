//! The policy "layout": page sizes are prescribed by address.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use perforate_types::PageSize;

use super::Policy;

/// Layout of page sizes: intervals of addresses with pages of 2MB or 1GB. All other addresses have 4KB
/// pages. The policy [`LaidOut`] hands its layout to the kernel in [`Policy::rules`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageLayout {
    /// Intervals of 4KB page numbers with their page sizes, sorted and disjoint.
    intervals: Arc<[(Range<u64>, PageSize)]>,
}

impl PageLayout {
    /// Creates a layout from ranges of byte addresses with their page sizes.
    ///
    /// # Panics
    /// If ranges overlap, or a range does not begin and end at a multiple of its page size.
    pub fn new(ranges: impl IntoIterator<Item = (Range<u64>, PageSize)>) -> Self {
        let pages = |bytes: u64| bytes >> PageSize::Size4K.shift();
        let mut intervals: Vec<(Range<u64>, PageSize)> = ranges
            .into_iter()
            .map(|(range, size)| {
                let ends = [range.start, range.end];
                assert!(ends.iter().all(|end| end.is_multiple_of(size.bytes())), "{range:x?}");
                (pages(range.start)..pages(range.end), size)
            })
            .collect();
        intervals.sort_by_key(|(pages, _)| pages.start);
        let apart = |pair: &[(Range<u64>, PageSize)]| pair[0].0.end <= pair[1].0.start;
        assert!(intervals.windows(2).all(apart), "intervals overlap");
        Self { intervals: intervals.into() }
    }

    /// Page size that the layout prescribes for the 4KB page number `page`.
    pub fn size_at(&self, page: u64) -> PageSize {
        let after = self.intervals.partition_point(|(pages, _)| pages.start <= page);
        let before = self.intervals[..after].last().filter(|(pages, _)| page < pages.end);
        before.map_or(PageSize::Size4K, |(_, size)| *size)
    }
}

/// Policy that maps the page sizes of a layout (page sizes by address). Large pages come from memory that is
/// reserved for them, as in hugetlbfs, and nothing is promoted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaidOut {
    /// Page sizes by address.
    pub layout: PageLayout,
    /// Name of the layout in results; empty if the layout has none.
    pub name: String,
}

impl Policy for LaidOut {
    fn name(&self) -> &'static str {
        "layout"
    }

    fn describe(&self) -> String {
        match self.name.as_str() {
            "" => self.name().into(),
            name => format!("{}:{name}", self.name()),
        }
    }

    fn rules(&self) -> Vec<&dyn Any> {
        vec![&self.layout]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_by_address() {
        let layout = PageLayout::new([
            (4 << 30..5 << 30, PageSize::Size1G),
            (2 << 20..6 << 20, PageSize::Size2M),
        ]);
        for (page, size) in [
            (0, PageSize::Size4K),
            (511, PageSize::Size4K),
            (512, PageSize::Size2M),
            (1535, PageSize::Size2M),
            (1536, PageSize::Size4K),
            (1 << 20, PageSize::Size1G),
            ((5 << 18) - 1, PageSize::Size1G),
            (5 << 18, PageSize::Size4K),
        ] {
            assert_eq!(layout.size_at(page), size, "{page}");
        }
        assert_eq!(PageLayout::default().size_at(7), PageSize::Size4K);
    }

    #[test]
    fn intervals_are_whole_pages_and_apart() {
        let large = PageSize::Size2M;
        let beside = PageLayout::new([(2 << 20..4 << 20, large), (0..2 << 20, large)]);
        assert_eq!([0, 511, 512, 1023].map(|page| beside.size_at(page)), [large; 4]);
        for wrong in [
            vec![(0..3 << 20, large)],
            vec![(1 << 20..4 << 20, large)],
            vec![(0..4 << 20, large), (2 << 20..6 << 20, large)],
        ] {
            assert!(std::panic::catch_unwind(|| PageLayout::new(wrong)).is_err());
        }
    }
}
