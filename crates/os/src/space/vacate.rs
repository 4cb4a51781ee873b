//! Replacement of mapped pages by a run of contiguous frames, to which their data move.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{SpaceMut, first_of, page_at, pages_of};
use crate::OsError;

impl SpaceMut<'_> {
    /// Prepares the mapping of `pages` to a run of contiguous frames: breaks up extents (such as 2MB pages)
    /// that extend beyond `pages`, or that contain a page in `left_out`, which the run will not map. Of the
    /// whole change, only this step can fail. After a failure, everything is translated as before.
    ///
    /// # Errors
    /// If memory for tables runs out.
    pub fn prepare_run(
        &mut self,
        pages: &Range<u64>,
        left_out: &BTreeSet<u64>,
    ) -> Result<(), OsError> {
        let must_break = |range: &Range<u64>| {
            range.start < pages.start
                || pages.end < range.end
                || left_out.range(range.clone()).next().is_some()
        };
        for first in self.wide_within(pages) {
            if self.has_wide(first) && must_break(&(first..first + self.extent(first).pages())) {
                self.mechanism(first).break_up(self, first)?;
            }
        }
        for number in self.regions_within(pages) {
            if must_break(&pages_of(number)) && self.has_extent(number) {
                self.mechanism(first_of(number)).break_up(self, first_of(number))?;
            }
        }
        Ok(())
    }

    /// Unmaps the pages that [`Self::prepare_run`] prepared, except those in `left_out`, and releases their
    /// frames and swap slots. The caller then maps them to the run. Returns the number of pages whose
    /// contents the caller must count as copied from memory, and the number read from swap.
    pub fn vacate_for_run(&mut self, pages: &Range<u64>, left_out: &BTreeSet<u64>) -> (u64, u64) {
        let before = self.usage().mapped_pages();
        for first in self.wide_within(pages) {
            self.mechanism(first).unmap(self, first).release(self.memory);
        }
        let stays = |page: u64| !pages.contains(&page) || left_out.contains(&page);
        for number in self.regions_within(pages) {
            if self.has_extent(number) {
                let first = first_of(number);
                self.mechanism(first).unmap(self, first).release(self.memory);
                continue;
            }
            for index in self.mapped_pages(number).iter() {
                let page = page_at(number, index);
                if !stays(page) {
                    let frame = self.unmap_page(page);
                    self.memory.release(frame);
                }
            }
            self.close_pages_if_empty(number);
        }
        let moved = before - self.usage().mapped_pages();
        let mut swapped = 0;
        let mut start = pages.start;
        for end in left_out.iter().copied().chain([pages.end]) {
            swapped += self.forget_reclaimed(&(start..end));
            start = end + 1;
        }
        (moved, swapped)
    }
}
