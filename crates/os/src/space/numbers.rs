//! Numbers of pages, 2MB regions (address ÷ 2MB) and gigabytes (address ÷ 1GB).

use std::ops::Range;

use perforate_types::{HoleSet, PageSize, VirtualPage};

/// Number of 4KB pages in a 2MB region.
pub const REGION_PAGES: u64 = PageSize::Size2M.pages();
/// Number of 4KB pages in a 1GB page.
pub(crate) const GIGABYTE_PAGES: u64 = PageSize::Size1G.pages();
/// Number of 2MB regions in a 1GB page.
pub(crate) const GIGABYTE_REGIONS: u64 = GIGABYTE_PAGES / REGION_PAGES;
/// All pages of the 64-bit address space.
pub const ALL_PAGES: Range<u64> = 0..1 << 52;

/// Number of pages in either half of the canonical 48-bit address space.
const HALF_PAGES: u64 = 1 << 35;

/// True if a page lies in the canonical 48-bit address space that four levels translate.
pub(crate) fn is_canonical(page: u64) -> bool {
    page < HALF_PAGES || (ALL_PAGES.end - HALF_PAGES..ALL_PAGES.end).contains(&page)
}

/// Number of the 2MB region that contains `page`.
pub const fn region_of(page: u64) -> u64 {
    page / REGION_PAGES
}

/// Index of `page` in its 2MB region, 0 to 511.
pub const fn index_of(page: u64) -> usize {
    (page % REGION_PAGES) as usize
}

/// First page of the 2MB region `number`.
pub const fn first_page(number: u64) -> VirtualPage {
    VirtualPage::new(number * REGION_PAGES)
}

/// Number of the first page of the 2MB region `number`.
pub const fn first_of(number: u64) -> u64 {
    number * REGION_PAGES
}

/// Number of the page with the given index in the 2MB region `number`.
pub const fn page_at(number: u64, index: usize) -> u64 {
    number * REGION_PAGES + index as u64
}

/// Page numbers of the 2MB region `number`.
pub const fn pages_of(number: u64) -> Range<u64> {
    number * REGION_PAGES..(number + 1) * REGION_PAGES
}

/// Numbers of the 2MB regions that overlap `pages`.
pub const fn regions_of(pages: &Range<u64>) -> Range<u64> {
    let first = region_of(pages.start);
    // An empty range in the middle of a region overlaps no region.
    if pages.start >= pages.end {
        return first..first;
    }
    first..pages.end.div_ceil(REGION_PAGES)
}

/// Indices of the sub-pages of 2MB region `number` that lie in `pages`.
pub fn subpages_of(pages: &Range<u64>, number: u64) -> HoleSet {
    let Range { start: first, end } = pages_of(number);
    let start = pages.start.clamp(first, end) - first;
    let end = pages.end.clamp(first, end) - first;
    HoleSet::of_range(start as usize..end as usize)
}

/// Number of the gigabyte that contains `page`.
pub(crate) const fn gigabyte_of(page: u64) -> u64 {
    page / GIGABYTE_PAGES
}

/// Number of the first page of gigabyte `number` (address ÷ 1GB).
pub(crate) const fn first_of_gigabyte(number: u64) -> u64 {
    number * GIGABYTE_PAGES
}

/// Page numbers of gigabyte `number` (address ÷ 1GB).
pub(crate) const fn pages_of_gigabyte(number: u64) -> Range<u64> {
    number * GIGABYTE_PAGES..(number + 1) * GIGABYTE_PAGES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_halves_of_the_address_space_end_where_they_should() {
        let half = 1 << 35;
        for (page, expected) in [
            (0, true),
            (half - 1, true),
            (half, false),
            ((1 << 52) - half - 1, false),
            ((1 << 52) - half, true),
            ((1 << 52) - 1, true),
            (1 << 52, false),
        ] {
            assert_eq!(is_canonical(page), expected, "{page:#x}");
        }
    }

    #[test]
    fn numbers_and_ranges_agree_at_their_edges() {
        for (pages, regions) in
            [(0..1, 0..1), (511..513, 0..2), (512..1024, 1..2), (512..1025, 1..3), (700..700, 1..1)]
        {
            assert_eq!(regions_of(&pages), regions, "{pages:?}");
        }
        for (pages, number, expected) in [
            (0..2000, 1, HoleSet::FULL),
            (600..700, 1, (88..188).collect()),
            (512..513, 1, [0].into_iter().collect()),
            (1023..5000, 1, [511].into_iter().collect()),
            (0..512, 1, HoleSet::EMPTY),
            (1024..5000, 1, HoleSet::EMPTY),
        ] {
            assert_eq!(subpages_of(&pages, number), expected, "{pages:?}");
        }
        assert_eq!(
            [511, 512, 1023].map(|page| (region_of(page), index_of(page))),
            [(0, 511), (1, 0), (1, 511),]
        );
        assert_eq!((first_of(3), page_at(3, 7), pages_of(3)), (1536, 1543, 1536..2048));
        assert_eq!(first_page(3), VirtualPage::new(1536));
        assert_eq!([(1 << 18) - 1, 1 << 18].map(gigabyte_of), [0, 1]);
        assert_eq!(pages_of_gigabyte(2), 2 << 18..3 << 18);
        assert_eq!((first_of_gigabyte(2), GIGABYTE_REGIONS), (2 << 18, 512));
    }
}
