//! Pages of an address space that reclaim has taken or may take: swapped pages, and pages that the
//! program advised free (MADV_FREE).

use std::collections::BTreeMap;
use std::ops::Range;

use perforate_types::HoleSet;

use super::{AddressSpace, SpaceMut, index_of, page_at, pages_of, region_of, regions_of};

/// Pages of an address space whose content reclaim has swapped out, or may drop.
#[derive(Default)]
pub(crate) struct Reclaimed {
    /// Swap slot of every page whose content is in swap. Such a page is not mapped, or is an unallocated
    /// hole.
    swapped: BTreeMap<u64, u64>,
    /// Mapped pages that the program advised free (MADV_FREE), by 2MB region number; no set is empty.
    advised: BTreeMap<u64, HoleSet>,
}

impl Reclaimed {
    /// Swapped pages and their slots.
    pub(super) fn swapped(&self) -> &BTreeMap<u64, u64> {
        &self.swapped
    }
}

impl AddressSpace {
    /// True if the content of `page` is in swap.
    #[inline]
    pub fn is_swapped(&self, page: u64) -> bool {
        let swapped = &self.reclaimed.swapped;
        !swapped.is_empty() && swapped.contains_key(&page)
    }

    /// True if the content of any of these pages is in swap.
    #[inline]
    pub fn any_swapped(&self, pages: Range<u64>) -> bool {
        let swapped = &self.reclaimed.swapped;
        !swapped.is_empty() && swapped.range(pages).next().is_some()
    }

    /// True if an overlay, such as a direct segment, claims one of these pages, or if the content of one is in swap.
    #[inline]
    pub(crate) fn any_held_elsewhere(&self, pages: &Range<u64>) -> bool {
        self.is_claimed(pages) || self.any_swapped(pages.clone())
    }

    /// Number of pages whose content is in swap.
    pub(crate) fn swapped_count(&self) -> u64 {
        self.reclaimed.swapped.len() as u64
    }

    /// The pages among `pages` whose content is in swap.
    pub(crate) fn swapped_within(&self, pages: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        self.reclaimed.swapped.range(pages).map(|(&page, _)| page)
    }

    /// Indices of the sub-pages of 2MB region `number` whose content is in swap.
    pub(crate) fn swapped_pages(&self, number: u64) -> HoleSet {
        let pages = pages_of(number);
        self.reclaimed.swapped.range(pages).map(|(&page, _)| index_of(page)).collect()
    }

    /// Records that the content of `page`, which was unmapped, is in swap slot `slot`.
    pub(crate) fn set_swapped(&mut self, page: u64, slot: u64) {
        assert!(self.reclaimed.swapped.insert(page, slot).is_none(), "swapped twice");
    }

    /// Removes the record of a page whose content is in memory again. Returns its slot, a reference
    /// to which the caller must release.
    pub(crate) fn take_swapped(&mut self, page: u64) -> u64 {
        self.reclaimed.swapped.remove(&page).expect("swapped page")
    }

    /// mremap: moves the swap and MADV_FREE records of `pages` to the pages that begin at `to`, which have
    /// none.
    pub(crate) fn move_reclaimed(&mut self, pages: &Range<u64>, to: u64) {
        let target = |page: u64| page - pages.start + to;
        while let Some((&page, &slot)) = self.reclaimed.swapped.range(pages.clone()).next() {
            self.reclaimed.swapped.remove(&page);
            self.set_swapped(target(page), slot);
        }
        for page in self.advised_within(pages) {
            self.forget_advice(&(page..page + 1));
            let to = target(page);
            self.advise_free(region_of(to), &[index_of(to)].into_iter().collect());
        }
    }

    /// Records that the program advised these mapped pages of a 2MB region free (MADV_FREE).
    pub(crate) fn advise_free(&mut self, number: u64, pages: &HoleSet) {
        if !pages.is_empty() {
            let advised = self.reclaimed.advised.entry(number).or_default();
            *advised = advised.union(pages);
        }
    }

    /// Forgets the MADV_FREE advice on pages that were written or unmapped.
    pub(crate) fn forget_advice(&mut self, pages: &Range<u64>) {
        for page in self.advised_within(pages) {
            let number = region_of(page);
            let advised = self.reclaimed.advised.get_mut(&number).expect("advised region");
            advised.remove(index_of(page));
            if advised.is_empty() {
                self.reclaimed.advised.remove(&number);
            }
        }
    }

    fn advised_within(&self, pages: &Range<u64>) -> Vec<u64> {
        let regions = regions_of(pages);
        let advised = self.reclaimed.advised.range(regions);
        let of_region = |(&number, set): (&u64, &HoleSet)| {
            set.iter().map(move |index| page_at(number, index)).collect::<Vec<_>>()
        };
        advised.flat_map(of_region).filter(|page| pages.contains(page)).collect()
    }

    /// True if the program advised any mapped page free (MADV_FREE).
    pub(crate) fn is_advised_free(&self) -> bool {
        !self.reclaimed.advised.is_empty()
    }

    /// Removes the MADV_FREE advice on the first 2MB region that has any. Returns the number of the region
    /// and the indices of the advised pages.
    pub(crate) fn take_advised(&mut self) -> Option<(u64, HoleSet)> {
        self.reclaimed.advised.pop_first()
    }
}

impl SpaceMut<'_> {
    /// Drops the swapped contents of these pages and their MADV_FREE advice. Returns the number of pages
    /// that were in swap.
    pub(crate) fn forget_reclaimed(&mut self, pages: &Range<u64>) -> u64 {
        self.forget_advice(pages);
        let mut dropped = 0;
        while let Some((&page, &slot)) = self.reclaimed.swapped.range(pages.clone()).next() {
            self.reclaimed.swapped.remove(&page);
            self.memory.swap.release(slot);
            dropped += 1;
        }
        dropped
    }

    /// fork: lets the empty child refer to the same swap slots. The child's pages are not advised free,
    /// because their frames are shared.
    pub(crate) fn share_swapped(&mut self, child: &mut AddressSpace) {
        for &slot in self.space.reclaimed.swapped.values() {
            self.memory.swap.share(slot);
        }
        child.reclaimed.swapped = self.reclaimed.swapped.clone();
    }
}
