//! Making room for a segment where pages are mapped: what is in them is going to lie in its run.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{AddressSpace, Effects, first_of, page_at, pages_of};
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
        for first in self.wide_within(pages) {
            if self.has_wide(first) && breaks(&(first..first + self.extent(first).pages())) {
                self.mechanism(first).break_up(self, first, effects)?;
            }
        }
        for number in self.regions_within(pages) {
            if breaks(&pages_of(number)) && self.has_extent(number) {
                self.mechanism(first_of(number)).break_up(self, first_of(number), effects)?;
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
        for first in self.wide_within(pages) {
            self.mechanism(first).unmap(self, first, effects).release(effects.memory);
        }
        let stays = |page: u64| !pages.contains(&page) || escaped.contains(&page);
        for number in self.regions_within(pages) {
            if self.has_extent(number) {
                let first = first_of(number);
                self.mechanism(first).unmap(self, first, effects).release(effects.memory);
                continue;
            }
            for index in self.mapped_pages(number).iter() {
                let page = page_at(number, index);
                if !stays(page) {
                    let frame = self.unmap_page(page, effects);
                    effects.memory.release(frame);
                }
            }
            self.close_pages_if_empty(number, effects);
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
