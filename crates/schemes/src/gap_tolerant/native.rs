//! A TLB of gap-tolerant entries beside the second-level TLB: native support (G §3.7), which the
//! paper leaves as an alternative to 4KB entries.
//!
//! An entry holds what an entry of the walk cache holds, prefix sums included, and translates a whole
//! superpage. The first level keeps its 4KB entries: finding a B-block takes longer than it has. Pages
//! of superpages have no entries in the second-level TLB then.

use perforate_mmu::{
    BesideCounters, BesideL2, BesideUse, Reach, SetAssociative, TlbGeometry, WalkRequest, Walker,
};
use perforate_types::{
    Action, Counters, Purpose, Shootdown, SpaceId, Steps, Unit, VirtualPage, figures,
};

use super::GapTolerantRadix;
use super::entry::LoadedEntry;

/// What was done with the TLB.
pub(super) struct Uses {
    translations: u64,
    fills: u64,
}

figures! {
    pub(super) static NATIVE_TLB: Uses, "Gap-tolerant entries" {
        /// First-level misses that the TLB of gap-tolerant entries translated (native support).
        gap_tolerant_tlb_translations, Count, Listed: |it| it.translations;
        /// Gap-tolerant entries filled into that TLB.
        gap_tolerant_tlb_fills, Count, Listed: |it| it.fills;
    }
}

/// Gap-tolerant entries by address space and number; the least recently used of a set is replaced.
pub(super) struct NativeTlb {
    entries: SetAssociative<LoadedEntry>,
    /// 4KB pages of an entry.
    entry_pages: u64,
    /// The entry that the last walk went through.
    walked: Option<LoadedEntry>,
    fills: u64,
}

const fn key(space: SpaceId, number: u64) -> u64 {
    number << 16 | space.0 as u64
}

impl NativeTlb {
    /// An empty one for entries of so many 4KB pages.
    pub(super) fn new(geometry: TlbGeometry, entry_pages: u64) -> Self {
        Self { entries: SetAssociative::new(geometry), entry_pages, walked: None, fills: 0 }
    }

    /// What selects the set of the entry that covers a page, and its key.
    fn place(&self, space: SpaceId, page: VirtualPage) -> (u64, u64) {
        let number = page.number() / self.entry_pages;
        (number, key(space, number))
    }

    /// A walk begins, or has gone through this entry.
    pub(super) fn walks(&mut self, through: Option<LoadedEntry>) {
        self.walked = through;
    }

    /// The entry that covers a page, and its slot; that is a use of it.
    pub(super) fn look_up(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
    ) -> Option<(u32, LoadedEntry)> {
        let (index, key) = self.place(space, page);
        let slot = self.entries.look_up(index, key)?;
        Some((slot as u32, self.entries.value(slot)))
    }

    /// The same without effect.
    fn find(&self, space: SpaceId, page: VirtualPage) -> Option<LoadedEntry> {
        let (index, key) = self.place(space, page);
        let slot = self.entries.find_key(index, key)?;
        Some(self.entries.value(slot))
    }

    /// Holds the entry that the last walk went through, if it went through one.
    fn fill(&mut self, space: SpaceId, page: VirtualPage) -> Option<u32> {
        let loaded = self.walked.take()?;
        let (index, key) = self.place(space, page);
        self.fills += 1;
        Some(self.entries.insert(index, key, loaded) as u32)
    }

    /// The entry that covers a page is dirty now.
    pub(super) fn mark_dirty(&mut self, space: SpaceId, page: VirtualPage) {
        let (index, key) = self.place(space, page);
        if let Some(slot) = self.entries.find_key(index, key) {
            self.entries.value_mut(slot).mark_dirty();
        }
    }

    /// Forgets every entry with a page that the shootdown names.
    fn invalidate(&mut self, shootdown: Shootdown) {
        let Some(pages) = shootdown.pages() else { return };
        let space = shootdown.space();
        let numbers = pages.start / self.entry_pages..=(pages.end - 1) / self.entry_pages;
        let is_dead = |key: u64| key as u16 == space.0 && numbers.contains(&(key >> 16));
        self.entries.invalidate_if(is_dead);
    }

    fn flush(&mut self) {
        self.entries.invalidate_if(|_| true);
    }
}

/// Asked only where there is such a TLB.
const IS_NATIVE: &str = "the scheme has a TLB of gap-tolerant entries";

impl GapTolerantRadix {
    fn native(&self) -> &NativeTlb {
        self.native.as_ref().expect(IS_NATIVE)
    }

    fn native_mut(&mut self) -> &mut NativeTlb {
        self.native.as_mut().expect(IS_NATIVE)
    }
}

impl BesideL2 for GapTolerantRadix {
    fn name(&self) -> &'static str {
        "TLB of gap-tolerant entries"
    }

    fn used(&self) -> BesideUse {
        BesideUse { looked_up: true, filled: true, replaces_l2: true, ..BesideUse::default() }
    }

    fn find(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        let loaded = self.native().find(space, page)?;
        Some(self.reach_of(page, &loaded))
    }

    fn look_up(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        purpose: Purpose,
        steps: &mut Steps,
    ) -> Option<Reach> {
        let unit = Unit::beside_l2(purpose);
        let Some((slot, loaded)) = self.native_mut().look_up(space, page) else {
            steps.then(purpose, Action::Miss { unit });
            return None;
        };
        steps.then(purpose, Action::Hit { unit, slot });
        steps.then(purpose, Action::Select);
        Some(self.reach_of(page, &loaded))
    }

    fn slots(&self) -> usize {
        self.native().entries.slots()
    }

    /// The walk has brought the entry: there is nothing to be read.
    fn fill(&mut self, request: WalkRequest, _: &Reach, walker: &mut Walker<'_>) {
        if let Some(slot) = self.native_mut().fill(request.space, request.page) {
            let unit = walker.unit_beside();
            walker.note(Purpose::Page, Action::Fill { unit, slot });
        }
    }

    fn invalidate(&mut self, shootdown: Shootdown) {
        self.native_mut().invalidate(shootdown);
    }

    fn flush(&mut self) {
        self.native_mut().flush();
    }

    fn record(&self, counted: &BesideCounters, out: &mut Counters) {
        let (translations, fills) = (counted.translations, self.native().fills);
        out.record(NATIVE_TLB, &Uses { translations, fills });
    }

    fn reset_counters(&mut self) {
        self.native_mut().fills = 0;
    }
}
