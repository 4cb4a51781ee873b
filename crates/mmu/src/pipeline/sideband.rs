//! Translation by units that are looked up in parallel with a TLB, such as range TLBs and direct
//! segments ([`crate::SidebandTlb`]).

use perforate_types::{AccessKind, PageSize, Purpose, Steps};

use super::{Case, Found, Mmu, PageFault, Request};
use crate::nested::entry_of;
use crate::{Reach, WalkRequest, Walker};

impl Mmu {
    #[inline(always)]
    pub(super) fn look_up_unit(&mut self, request: Request, steps: &mut Steps) -> Option<Reach> {
        let unit = self.dimension.sideband_tlb_mut()?;
        unit.look_up(self.own.space, request.page, Purpose::Page, steps)
    }

    /// Translates a page by the unit in parallel with a TLB, such as a range TLB, without side
    /// effects. Returns the mapping around the page; `None` for a miss.
    pub(super) fn find_in_unit(&self, request: Request) -> Option<Reach> {
        self.dimension.sideband_tlb()?.find(self.own.space, request.page)
    }

    /// Completes an access that a unit in parallel with the first-level TLB translates. No TLB is
    /// filled, and there are no steps, because the unit takes no extra time.
    pub(super) fn translate_by_unit_beside_l1(
        &mut self,
        request: Request,
        reach: &Reach,
    ) -> Result<Found, PageFault> {
        self.check_permissions(request, reach.allows)?;
        self.counters.beside_translations += 1;
        let fetch = request.kind == AccessKind::Fetch;
        let tlb = if fetch { &self.own.instruction } else { &self.own.data };
        let (frame, slot) = (reach.frame_of(request.page), tlb.slots() as u32);
        Ok(Found { frame, slot, case: Case::BesideFirstLevel })
    }

    /// True if every access looks up a unit in parallel with the first level.
    pub fn has_unit_beside_l1(&self) -> bool {
        self.unit.beside_l1
    }

    /// Completes an access that a unit in parallel with the second-level TLB translates. Only the
    /// first-level TLB is filled, with a 4KB entry (D §III.A).
    pub(super) fn translate_by_unit(
        &mut self,
        request: Request,
        reach: &Reach,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        self.check_permissions(request, reach.allows)?;
        let allows = self.mark_dirty_if_store(request, entry_of(reach), None);
        let frame = reach.frame_of(request.page);
        let place = (PageSize::Size4K, frame);
        Ok(self.fill_l1(request, place, allows, Case::Regular, steps))
    }

    /// Fills the unit in parallel with the TLB, such as a range TLB, after a walk to a page that
    /// the unit did not translate. The access does not wait for the fill.
    #[cold]
    #[inline(never)]
    pub(super) fn fill_unit(&mut self, request: WalkRequest, reach: &Reach, steps: &mut Steps) {
        let mut walker = Walker::native(&mut self.own.caches, &mut self.own.l2, steps);
        if let Some(unit) = self.dimension.sideband_tlb_mut() {
            unit.fill_in_background(request, reach, &mut walker);
        }
    }
}
