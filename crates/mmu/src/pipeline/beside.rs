//! A unit beside the second-level TLB.

use perforate_types::{AccessKind, PageSize, Purpose, Steps};

use super::{Case, Found, Mmu, PageFault, Request};
use crate::nested::entry_of;
use crate::{Reach, WalkRequest, Walker};

impl Mmu {
    #[inline(always)]
    pub(super) fn look_up_unit(&mut self, request: Request, steps: &mut Steps) -> Option<Reach> {
        let unit = self.dimension.beside_l2_mut()?;
        unit.look_up(self.space, request.page, Purpose::Page, steps)
    }

    /// Whether the unit translates a page now.
    pub(super) fn unit_finds(&self, request: Request) -> bool {
        let unit = self.dimension.beside_l2();
        unit.is_some_and(|unit| unit.find(self.space, request.page).is_some())
    }

    /// Whether a unit beside the first level translates the page.
    #[inline(always)]
    pub(super) fn is_beside_l1(&self, request: Request) -> bool {
        self.unit.beside_l1 && self.unit_finds(request)
    }

    /// The TLBs are neither asked nor filled, and it takes no step.
    pub(super) fn through_unit_beside_l1(&mut self, request: Request) -> Result<Found, PageFault> {
        let unit = self.dimension.beside_l2();
        let reach = unit.and_then(|unit| unit.find(self.space, request.page));
        let reach = reach.expect("it translates the page");
        self.allow(request, reach.allows)?;
        self.counters.beside_translations += 1;
        let fetch = request.kind == AccessKind::Fetch;
        let tlb = if fetch { &self.instruction } else { &self.data };
        let (frame, slot) = (reach.frame_of(request.page), tlb.slots() as u32);
        Ok(Found { frame, slot, case: Case::BesideFirstLevel })
    }

    /// Whether every access asks a unit together with the first level.
    pub fn has_unit_beside_l1(&self) -> bool {
        self.unit.beside_l1
    }

    /// Only the first level is filled, with 4KB (D §III.A).
    pub(super) fn through_unit(
        &mut self,
        request: Request,
        reach: &Reach,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        self.allow(request, reach.allows)?;
        let allows = self.dirtied(request, entry_of(reach), None);
        let frame = reach.frame_of(request.page);
        let slot = self.fill_l1(request, PageSize::Size4K, frame, allows, steps);
        Ok(Found { frame, slot, case: Case::Regular })
    }

    /// A walk has found what the unit did not have.
    #[cold]
    #[inline(never)]
    pub(super) fn fill_unit(&mut self, request: WalkRequest, reach: &Reach, steps: &mut Steps) {
        let mut walker = Walker::native(&mut self.caches, &mut self.l2, steps);
        if let Some(unit) = self.dimension.beside_l2_mut() {
            unit.fill_in_background(request, reach, &mut walker);
        }
    }
}
