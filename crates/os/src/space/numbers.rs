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
