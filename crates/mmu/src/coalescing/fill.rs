//! Fills of runs of 4KB pages into the second-level TLB.

use std::ops::Range;

use perforate_types::{SpaceId, VirtualPage};

use super::{Coalescing, RunRequest};
use crate::tlb::L2Tlb;
use crate::{Dimension, Reach};

impl Coalescing {
    /// Fills the run around a 4KB page that a walk has found. Returns the slot and the page numbers
    /// of the run. Returns `None` if the page is in no run, or if its window holds a run at least
    /// as long. Holes of perforated pages and guest-physical pages are never in runs.
    #[cold]
    #[inline(never)]
    pub(crate) fn fill(
        self,
        (space, page): (SpaceId, VirtualPage),
        reach: &Reach,
        dimension: &dyn Dimension,
        l2: &mut L2Tlb,
    ) -> Option<(u32, Range<u64>)> {
        let request = RunRequest::new(space, page, reach, self.pages);
        let run = match self.form.contiguity() {
            None => dimension.run_around(&request),
            Some(_) if dimension.is_contiguous(space, page) => request.whole_window(),
            Some(_) => return None,
        };
        if !self.holds(&run) {
            return None;
        }
        let slot = l2.fill_run(space, page, &run, reach.allows)?;
        let first = page.number() / self.pages * self.pages + run.first;
        Some((slot, first..first + run.pages))
    }
}
