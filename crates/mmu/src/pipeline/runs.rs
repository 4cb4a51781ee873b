//! Filling runs of 4KB pages into the second-level TLB (TLB coalescing).

use perforate_types::{Action, Purpose, Steps, Unit};

use super::{Mmu, Request};
use crate::Sabotage;
use crate::coalescing::{Coalescing, RunRequest};
use crate::dimension::Reach;
use crate::nested::entry_of;

impl Mmu {
    /// Fills the run around a page whose walk ended in a reach of 4KB, or the page alone where that
    /// is all there is or its window holds a longer run already. Holes of perforated pages and
    /// guest-physical pages are never in runs.
    #[cold]
    #[inline(never)]
    pub(super) fn fill_coalesced(
        &mut self,
        coalescing: Coalescing,
        request: Request,
        reach: &Reach,
        steps: &mut Steps,
    ) -> Option<u32> {
        let mut wanted = RunRequest::new(self.space, request.page, reach, coalescing.pages);
        if self.sabotage == Some(Sabotage::IgnoreRunPermissions) {
            wanted.compared = 0;
        }
        let mut run = self.dimension.run_around(&wanted);
        if self.sabotage == Some(Sabotage::LengthenRuns) && run.first + run.pages < wanted.window {
            run.pages += 1;
        }
        if coalescing.holds(&run)
            && let Some(slot) = self.l2.fill_run(self.space, request.page, &run, reach.allows)
        {
            self.counters.coalesced_fills += 1;
            self.counters.coalesced_pages += run.pages;
            steps.beside(Purpose::Page, Action::Fill { unit: Unit::L2Tlb, slot });
            return Some(slot);
        }
        self.fill_l2(request, Purpose::Page, entry_of(reach), steps)
    }
}
