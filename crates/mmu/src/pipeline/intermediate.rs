//! Intermediate entries: a guest's large page over a host's 4KB pages (P §V).
//!
//! No entry can hold both steps at once there. The second-level TLB has the guest's page, gVA→gPA, and
//! finds gPA→hPA entries of 4KB by a second look-up; together they are filled into the first level.
//! Hardware without them holds an entry of 4KB for each page instead.

use perforate_types::{AccessKind, Frame, GuestFrame, PageSize, Purpose, Steps};

use super::{Case, Found, Mmu, PageFault, Request};
use crate::nested::{HAS_HOLES, LocatedFor, asks};
use crate::tlb::{EntryKind, L2Entry};
use crate::{BitmapLoading, Reach, Walker, allow};

/// Intermediate entries come of two dimensions only.
const IS_NESTED: &str = "an intermediate entry leads to guest-physical memory";

impl Mmu {
    /// The guest's page around one whose host has 4KB pages, which a walk has just found.
    #[inline(always)]
    pub(super) fn walked_intermediate(&self) -> Option<L2Entry> {
        if !self.intermediate {
            return None;
        }
        let leaf = self.dimension.over_host()?.intermediate()?;
        Some(L2Entry::page(EntryKind::Intermediate, leaf.frame, leaf.allows, leaf.filter))
    }

    /// Fills the guest's page that such a walk has found. A sub-page that its filter asks about goes the way of
    /// a hit, with the bitmap; of any other the walk has the frame already. Where the TLB has no place for the
    /// guest's page, the sub-page has an entry of 4KB.
    pub(super) fn fill_intermediate(
        &mut self,
        request: Request,
        entry: L2Entry,
        reach: &Reach,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        let slot = self.fill_l2(request, Purpose::Level2, entry, steps);
        if self.loading == BitmapLoading::Naive && entry.filter() != 0 {
            self.load_bitmap(request, entry, true, steps)?;
        }
        if asks(self.loading, entry.filter(), request.page.index_in(PageSize::Size2M)) {
            return self.through_intermediate(request, entry, slot, true, steps);
        }
        self.allow(request, reach.allows)?;
        let own = L2Entry::page(EntryKind::Page4K, reach.frame, reach.allows, 0);
        let own_slot =
            if slot.is_none() { self.fill_l2(request, Purpose::Page, own, steps) } else { None };
        let allows = self.dirtied(request, own, own_slot);
        let slot = self.fill_l1(request, PageSize::Size4K, reach.frame, allows, steps);
        Ok(Found { frame: reach.frame, slot, case: Case::Regular })
    }

    /// The guest's holes first (P §IV.C–D: a sub-page that is none goes into the first level only), then the
    /// host's 4KB page.
    pub(super) fn through_intermediate(
        &mut self,
        request: Request,
        entry: L2Entry,
        slot: Option<u32>,
        walked: bool,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        let index = request.page.index_in(PageSize::Size2M);
        let mut case = Case::Intermediate;
        if asks(self.loading, entry.filter(), index) {
            let (is_hole, is_read) = self.is_hole(request, entry, walked, steps)?;
            if is_hole {
                let case = if is_read { Case::ReadHole } else { Case::BitmapHole };
                return self.through_hole(request, case, walked, steps);
            }
            case = if is_read { Case::IntermediateRead } else { Case::IntermediateBitmap };
        }
        self.allow(request, entry.allows())?;
        let page = GuestFrame::new(entry.frame().add(index as u64).number());
        let host = self.dimension.host_mut().expect(IS_NESTED);
        // The host's dirty bit is set here, the guest's below.
        let writes = request.kind == AccessKind::Write;
        let kind = if writes { AccessKind::Write } else { AccessKind::Read };
        let wanted = (page, kind);
        let located = host.locate(wanted, LocatedFor::Intermediate, &mut self.own.l2, steps);
        let located = located.map_err(PageFault::Host)?;
        let mut allows = entry.allows() & located.allows;
        self.allow(request, allows)?;
        if writes && entry.allows() & allow::DIRTY == 0 {
            self.mark_dirty(request.page);
            if let Some(slot) = slot.filter(|_| entry.filter() == 0) {
                self.own.l2.mark_dirty(slot, entry);
            }
            allows |= allow::DIRTY;
        }
        let slot = self.fill_l1(request, PageSize::Size4K, located.frame, allows, steps);
        Ok(Found { frame: located.frame, slot, case })
    }

    /// Reads the guest's bitmap of a block of the guest, whose place an intermediate entry tells.
    pub(super) fn read_guest_bitmap(
        &mut self,
        request: Request,
        block: Frame,
        steps: &mut Steps,
    ) -> Result<[u64; 8], PageFault> {
        let walk_request = self.walk_request(request, true);
        let mut walker = Walker::native(&mut self.own.caches, &mut self.own.l2, steps);
        let over = self.dimension.over_host_mut().expect(IS_NESTED);
        let bitmap = over.read_guest_bitmap(walk_request, block, &mut walker);
        Ok(bitmap.expect(HAS_HOLES)?)
    }
}
