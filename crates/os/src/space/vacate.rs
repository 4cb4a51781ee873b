//! Making room for a segment where pages are mapped: what is in them is going to lie in its run.

use std::collections::BTreeSet;
use std::ops::Range;

use perforate_types::HoleSet;

use super::{AddressSpace, Effects, Mapping, page_at, pages_of, pages_of_gigabyte};
use crate::OsError;

impl AddressSpace {
    /// Prepares `pages` for a segment: nothing larger than 4KB reaches out of them, or maps one of
    /// those that are to escape. Only this can fail of making one, and leaves everything
    /// translated as it was.
    pub(crate) fn prepare_segment(
        &mut self,
        pages: &Range<u64>,
        escaped: &BTreeSet<u64>,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let breaks = |range: &Range<u64>| {
            range.start < pages.start
                || pages.end < range.end
                || escaped.range(range.clone()).next().is_some()
        };
        for number in self.huge_within(pages) {
            if breaks(&pages_of_gigabyte(number)) {
                self.split_huge(number, effects)?;
            }
        }
        for page in self.superpages_within(pages) {
            if self.has_superpage(page) && breaks(&self.superpage_pages(page)) {
                self.demote_superpages(page, effects)?;
            }
        }
        for number in self.regions_within(pages) {
            if !breaks(&pages_of(number)) {
                continue;
            }
            match &self.region(number).expect("mapped region").mapping {
                Mapping::Pages(_) => {}
                Mapping::Large(_) => {
                    self.split_large(number, &HoleSet::FULL, effects)?;
                }
                Mapping::Perforated(_) => {
                    self.demote(number, effects)?;
                    effects.ledger.done.large_pages_split += 1;
                }
            }
        }
        Ok(())
    }

    /// Unmaps what [`Self::prepare_segment`] prepared, but for escaped pages, as its data lie in the
    /// run now. Returns how many pages had data in memory, and how many in swap.
    pub(crate) fn vacate_for_segment(
        &mut self,
        pages: &Range<u64>,
        escaped: &BTreeSet<u64>,
        effects: &mut Effects<'_>,
    ) -> (u64, u64) {
        let before = self.usage().mapped_pages();
        for number in self.huge_within(pages) {
            let block = self.unmap_huge(number, effects);
            effects.memory.release_huge(block);
        }
        for page in self.superpages_within(pages) {
            let mode = self.mode();
            self.unmap_superpage(page, effects).release(mode, effects.memory);
        }
        let stays = |page: u64| !pages.contains(&page) || escaped.contains(&page);
        for number in self.regions_within(pages) {
            match &self.region(number).expect("mapped region").mapping {
                Mapping::Large(_) => {
                    let large = self.unmap_large(number, effects);
                    effects.memory.release_block(large.block, &HoleSet::FULL);
                }
                Mapping::Perforated(_) => self.unmap_perforated(number, effects).release(effects),
                Mapping::Pages(_) => {
                    for index in self.mapped_pages(number).iter() {
                        let page = page_at(number, index);
                        if !stays(page) {
                            let frame = self.unmap_page(page, effects);
                            effects.memory.release(frame);
                        }
                    }
                    self.close_pages_if_empty(number, effects);
                }
            }
        }
        let moved = before - self.usage().mapped_pages();
        let mut swapped = 0;
        let mut start = pages.start;
        for end in escaped.iter().copied().chain([pages.end]) {
            swapped += self.forget_reclaimed(&(start..end), &mut effects.memory.swap);
            start = end + 1;
        }
        (moved, swapped)
    }
}
