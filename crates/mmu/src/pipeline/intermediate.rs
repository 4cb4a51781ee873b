//! Intermediate entries: a guest's large page over a host's 4KB pages (P §V).
//!
//! A combined entry would cover 4KB only. Instead, the second-level TLB holds the guest's large
//! page (gVA→gPA), and a second look-up finds the host's 4KB entry (gPA→hPA). The combined
//! translation is filled into the first level. Hardware without intermediate entries holds a
//! combined 4KB entry for each page.

use perforate_types::{AccessKind, Frame, GuestFrame, PageSize, Purpose, Steps};

use super::{Case, Found, Mmu, PageFault, Request};
use crate::nested::{HAS_HOLES, LocatedFor, needs_bitmap};
use crate::tlb::{EntryKind, L2Entry};
use crate::{BitmapLoading, Reach, Walker, allow};

/// Panic message: only nested translation creates intermediate entries.
const IS_NESTED: &str = "an intermediate entry leads to guest-physical memory";

impl Mmu {
    /// Returns the TLB entry of the guest's large page if the last walk found one over 4KB host
    /// pages.
    #[inline(always)]
    pub(super) fn walked_intermediate(&self) -> Option<L2Entry> {
        if !self.has_intermediate {
            return None;
        }
        let leaf = self.dimension.over_host()?.intermediate()?;
        Some(L2Entry::page(EntryKind::Intermediate, leaf.frame, leaf.allows, leaf.filter))
    }

    /// Fills the second-level TLB with the guest's large page that a walk found, and completes the
    /// access. If the sub-page needs the guest's bitmap, the access continues as after a TLB hit.
    /// Otherwise the walk has already found the frame. If the TLB cannot hold the guest's page,
    /// a combined 4KB entry is filled instead.
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
        if needs_bitmap(self.loading, entry.filter(), request.page.index_in(PageSize::Size2M)) {
            return self.translate_intermediate(request, entry, slot, true, steps);
        }
        self.check_permissions(request, reach.allows)?;
        let own = L2Entry::page(EntryKind::Page4K, reach.frame, reach.allows, 0);
        let own_slot =
            if slot.is_none() { self.fill_l2(request, Purpose::Page, own, steps) } else { None };
        let allows = self.mark_dirty_if_store(request, own, own_slot);
        let place = (PageSize::Size4K, reach.frame);
        Ok(self.fill_l1(request, place, allows, Case::Regular, steps))
    }

    /// Completes an access by an intermediate entry: looks up the guest's hole bitmap if the filter
    /// requires it, then the host's 4KB page. The 4KB translation is filled into the first level;
    /// for a hole also into the second, as in P §IV.C–D.
    pub(super) fn translate_intermediate(
        &mut self,
        request: Request,
        entry: L2Entry,
        slot: Option<u32>,
        walked: bool,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        let index = request.page.index_in(PageSize::Size2M);
        let mut case = Case::Intermediate;
        if needs_bitmap(self.loading, entry.filter(), index) {
            let (is_hole, is_read) = self.is_hole(request, entry, walked, steps)?;
            if is_hole {
                let case = if is_read { Case::ReadHole } else { Case::BitmapHole };
                return self.translate_hole(request, case, walked, steps);
            }
            case = if is_read { Case::IntermediateRead } else { Case::IntermediateBitmap };
        }
        self.check_permissions(request, entry.allows())?;
        let page = GuestFrame::new(entry.frame().add(index as u64).number());
        let host = self.dimension.host_mut().expect(IS_NESTED);
        // `locate` sets the host's dirty bit; the code after the call sets the guest's.
        let writes = request.kind == AccessKind::Write;
        let kind = if writes { AccessKind::Write } else { AccessKind::Read };
        let wanted = (page, kind);
        let located = host.locate(wanted, LocatedFor::Intermediate, &mut self.own.l2, steps);
        let located = located.map_err(PageFault::Host)?;
        let mut allows = entry.allows() & located.allows;
        self.check_permissions(request, allows)?;
        if writes && entry.allows() & allow::DIRTY == 0 {
            self.mark_dirty(request.page);
            if let Some(slot) = slot.filter(|_| entry.filter() == 0) {
                self.own.l2.mark_dirty(slot, entry);
            }
            allows |= allow::DIRTY;
        }
        let place = (PageSize::Size4K, located.frame);
        Ok(self.fill_l1(request, place, allows, case, steps))
    }

    /// Reads the guest's hole bitmap of the 2MB page that starts at guest frame `block`.
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
