//! Inside a perforated page: filter, bitmap, in-place and hole translations (P §IV.D).

use perforate_types::{Action, Frame, PageSize, Purpose, Steps, Unit, VirtualPage};

use super::{Case, Found, Mmu, PageFault, Request};
use crate::l2_tlb::{EntryKind, L2Entry, SUBPAGES_PER_BITMAP_ENTRY};
use crate::{PerforatedVariant, Sabotage};

impl Mmu {
    /// Cases 2–6: inside a perforated page.
    #[inline(always)]
    pub(super) fn through_perforated(
        &mut self,
        request: Request,
        entry: L2Entry,
        slot: Option<u32>,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        let index = request.page.index_in(PageSize::Size2M);
        if self.variant == PerforatedVariant::Filtered && !self.filter_bit(entry, index) {
            return self.generate(request, entry, slot, Case::Filtered, steps);
        }
        let (hole, read) = self.is_hole(request, entry, index, steps);
        if hole && self.sabotage != Some(Sabotage::IgnoreShadow) {
            let case = if read { Case::ReadHole } else { Case::BitmapHole };
            return self.through_hole(request, case, steps);
        }
        let case = if read { Case::ReadInPlace } else { Case::BitmapInPlace };
        self.generate(request, entry, slot, case, steps)
    }

    fn filter_bit(&self, entry: L2Entry, index: usize) -> bool {
        let neighbour = usize::from(self.sabotage == Some(Sabotage::WrongFilterBit));
        entry.filter() >> ((index / 64) ^ neighbour) & 1 != 0
    }

    /// Asks the bitmap; also tells whether it had to be read from memory.
    #[inline(always)]
    fn is_hole(
        &mut self,
        request: Request,
        entry: L2Entry,
        index: usize,
        steps: &mut Steps,
    ) -> (bool, bool) {
        let bit = index as u64 % SUBPAGES_PER_BITMAP_ENTRY;
        if let Some((slot, bits)) = self.l2.look_up_bitmap(self.space, request.page) {
            steps.then(Purpose::Bitmap, Action::Hit { unit: Unit::L2Tlb, slot });
            return (bits >> bit & 1 != 0, false);
        }
        steps.then(Purpose::Bitmap, Action::Miss { unit: Unit::L2Tlb });
        if self.variant == PerforatedVariant::Naive {
            self.load_bitmap(request, entry.frame(), steps);
        } else {
            let address = self.dimension.bitmap_line(entry.frame());
            steps.then(Purpose::Bitmap, Action::Read { address });
            self.fill_bitmap(request.page, entry.frame(), steps);
        }
        let bits = self.bitmap_bits(entry.frame(), index);
        (bits >> bit & 1 != 0, true)
    }

    /// The 32 bits of bitmap around sub-page `index` of `block`, from simulated memory.
    fn bitmap_bits(&self, block: Frame, index: usize) -> u32 {
        let address = self.dimension.bitmap_line(block).add(index as u64 / 64 * 8);
        let word = self.dimension.memory().word(address);
        (word >> (index as u64 % 64 / SUBPAGES_PER_BITMAP_ENTRY * SUBPAGES_PER_BITMAP_ENTRY)) as u32
    }

    fn fill_bitmap(&mut self, page: VirtualPage, block: Frame, steps: &mut Steps) {
        let bits = self.bitmap_bits(block, page.index_in(PageSize::Size2M));
        let entry = L2Entry::bitmap(bits);
        if let Some(slot) = self.l2.fill(self.space, page, entry) {
            steps.beside(Purpose::Bitmap, Action::Fill { unit: Unit::L2Tlb, slot });
        }
    }

    /// Loads all 16 bitmap entries of the page with one read (the naive variant).
    pub(super) fn load_bitmap(&mut self, request: Request, block: Frame, steps: &mut Steps) {
        let first = request.page.align_down(PageSize::Size2M);
        let address = self.dimension.bitmap_line(block);
        steps.then(Purpose::Bitmap, Action::Read { address });
        for entry in 0..PageSize::Size2M.pages() / SUBPAGES_PER_BITMAP_ENTRY {
            self.fill_bitmap(first.add(entry * SUBPAGES_PER_BITMAP_ENTRY), block, steps);
        }
    }

    /// A sub-page that is no hole: its 4KB translation goes into the first level only.
    #[inline(always)]
    fn generate(
        &mut self,
        request: Request,
        entry: L2Entry,
        slot: Option<u32>,
        case: Case,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        self.allow(request, entry.allows())?;
        let allows = self.dirtied(request, entry.allows(), slot);
        let frame = entry.frame().add(request.page.index_in(PageSize::Size2M) as u64);
        let slot = self.fill_l1(request, PageSize::Size4K, frame, allows, steps);
        Ok(Found { frame, slot, case })
    }

    /// A hole: its 4KB translation is found through the shadow entry and goes into both levels.
    #[inline(always)]
    fn through_hole(
        &mut self,
        request: Request,
        case: Case,
        steps: &mut Steps,
    ) -> Result<Found, PageFault> {
        let reach =
            self.dimension.walk_hole(self.walk_request(request), &mut self.caches, steps)?;
        let entry = self.entry(EntryKind::Hole, &reach);
        self.allow(request, entry.allows())?;
        let slot = self.fill_l2(request, Purpose::Hole, entry, steps);
        let allows = self.dirtied(request, entry.allows(), slot);
        let slot = self.fill_l1(request, PageSize::Size4K, entry.frame(), allows, steps);
        Ok(Found { frame: entry.frame(), slot, case })
    }
}
