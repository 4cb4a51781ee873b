//! Translation inside a perforated page: filter, bitmap, in-place and hole translations (P §IV.D).

use perforate_types::{Action, PageSize, Purpose, Steps, Unit};

use super::{Case, Found, Mmu, PageFault, Request};
use crate::nested::{HAS_HOLES, bitmap_bits};
use crate::tlb::{EntryKind, L2Entry, SUBPAGES_PER_BITMAP_ENTRY};
use crate::{BitmapLoading, Walker};

impl Mmu {
    /// Completes an access that hit the TLB entry of a perforated page, or whose walk found such a
    /// page: consults filter and bitmap, then translates in place or by a walk to the hole (cases
    /// 2–6 of P §IV.D).
    #[inline(never)]
    pub(super) fn translate_perforated(
        &mut self,
        request: Request,
        entry: L2Entry,
        slot: Option<u32>,
        walked: bool,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        let index = request.page.index_in(PageSize::Size2M);
        if self.loading == BitmapLoading::Filtered && !filter_bit(entry, index) {
            return self.generate(request, entry, slot, Case::Filtered, steps);
        }
        let (hole, read) = self.is_hole(request, entry, walked, steps)?;
        if hole {
            let case = if read { Case::ReadHole } else { Case::BitmapHole };
            return self.translate_hole(request, case, walked || read, steps);
        }
        let case = if read { Case::ReadInPlace } else { Case::BitmapInPlace };
        self.generate(request, entry, slot, case, steps)
    }

    /// Looks up the bitmap entry for the accessed sub-page of a 2MB page, and reads the bitmap from
    /// memory after a miss. Returns two flags: true if the sub-page is a hole, and true if the
    /// bitmap was read from memory.
    #[inline(always)]
    pub(super) fn is_hole(
        &mut self,
        request: Request,
        entry: L2Entry,
        walked: bool,
        steps: &mut Steps,
    ) -> Result<(bool, bool), PageFault> {
        let index = request.page.index_in(PageSize::Size2M) as u64;
        let bit = index % SUBPAGES_PER_BITMAP_ENTRY;
        if let Some((slot, bits)) = self.own.l2.look_up_bitmap(self.own.space, request.page) {
            steps.then(Purpose::Bitmap, Action::Hit { unit: Unit::L2Tlb, slot });
            return Ok((bits >> bit & 1 != 0, false));
        }
        steps.then(Purpose::Bitmap, Action::Miss { unit: Unit::L2Tlb });
        let bitmap = self.load_bitmap(request, entry, walked, steps)?;
        Ok((bitmap_bits(&bitmap, index) >> bit & 1 != 0, true))
    }

    /// Reads from memory the hole bitmap of the 2MB page that a TLB entry maps. An intermediate
    /// entry has a guest frame, so its bitmap is the guest's.
    fn read_bitmap(
        &mut self,
        request: Request,
        entry: L2Entry,
        walked: bool,
        steps: &mut Steps,
    ) -> Result<[u64; 8], PageFault> {
        if entry.kind() == EntryKind::Intermediate {
            return self.read_guest_bitmap(request, entry.frame(), steps);
        }
        let walk_request = self.walk_request(request, walked);
        let mut walker = Walker::native(&mut self.own.caches, &mut self.own.l2, steps);
        let holes = self.dimension.holes_mut().expect(HAS_HOLES);
        Ok(holes.read_bitmap(walk_request, entry.frame(), &mut walker)?)
    }

    /// Fills the second-level TLB with the bitmap entry of the page. With naive loading, fills all
    /// 16 bitmap entries of the 2MB page.
    #[inline(always)]
    fn fill_bitmaps(&mut self, request: Request, bitmap: &[u64; 8], steps: &mut Steps) {
        if self.loading != BitmapLoading::Naive {
            let index = request.page.index_in(PageSize::Size2M) as u64;
            return self.fill_bitmap(request, index, bitmap, steps);
        }
        let entries = PageSize::Size2M.pages() / SUBPAGES_PER_BITMAP_ENTRY;
        for entry in 0..entries {
            self.fill_bitmap(request, entry * SUBPAGES_PER_BITMAP_ENTRY, bitmap, steps);
        }
    }

    /// Fills the second-level TLB with the bitmap entry that covers sub-page `index`.
    fn fill_bitmap(&mut self, request: Request, index: u64, bitmap: &[u64; 8], steps: &mut Steps) {
        let page = request.page.align_down(PageSize::Size2M).add(index);
        let entry = L2Entry::bitmap(bitmap_bits(bitmap, index));
        if let Some(slot) = self.own.l2.fill(self.own.space, page, entry) {
            steps.beside(Purpose::Bitmap, Action::Fill { unit: Unit::L2Tlb, slot });
        }
    }

    /// Reads the hole bitmap from memory and fills it into the second-level TLB. Returns the
    /// bitmap.
    #[inline(always)]
    pub(super) fn load_bitmap(
        &mut self,
        request: Request,
        entry: L2Entry,
        walked: bool,
        steps: &mut Steps,
    ) -> Result<[u64; 8], PageFault> {
        let bitmap = self.read_bitmap(request, entry, walked, steps)?;
        self.fill_bitmaps(request, &bitmap, steps);
        Ok(bitmap)
    }

    /// Completes an access to a sub-page that is not a hole: computes its frame from the entry of
    /// the 2MB page, and fills the 4KB translation into the first-level TLB only.
    #[inline(always)]
    fn generate(
        &mut self,
        request: Request,
        entry: L2Entry,
        slot: Option<u32>,
        case: Case,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        self.check_permissions(request, entry.allows())?;
        let allows = self.mark_dirty_if_store(request, entry, slot);
        let frame = entry.frame().add(request.page.index_in(PageSize::Size2M) as u64);
        Ok(self.fill_l1(request, (PageSize::Size4K, frame), allows, case, steps))
    }

    /// Completes an access to a hole by a walk through the shadow entry. Fills the 4KB translation
    /// into both levels of the TLB.
    #[inline(always)]
    pub(super) fn translate_hole(
        &mut self,
        request: Request,
        case: Case,
        walked: bool,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        let walk_request = self.walk_request(request, walked);
        let mut walker = Walker::native(&mut self.own.caches, &mut self.own.l2, steps);
        let holes = self.dimension.holes_mut().expect(HAS_HOLES);
        let reach = holes.walk_hole(walk_request, &mut walker)?;
        let entry = L2Entry::page(EntryKind::Hole, reach.frame, reach.allows, 0);
        self.check_permissions(request, entry.allows())?;
        let slot = self.fill_l2(request, Purpose::Hole, entry, steps);
        let allows = self.mark_dirty_if_store(request, entry, slot);
        Ok(self.fill_l1(request, (PageSize::Size4K, entry.frame()), allows, case, steps))
    }
}

/// True if the entry's hole filter marks the 256KB region around sub-page `index`.
fn filter_bit(entry: L2Entry, index: usize) -> bool {
    entry.filter() >> (index / 64) & 1 != 0
}
