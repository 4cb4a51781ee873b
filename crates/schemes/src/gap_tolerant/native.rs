//! Native TLB support (G §3.7): a TLB of gap-tolerant entries looked up in parallel with the
//! second-level TLB. The paper names it as an alternative to 4KB entries.
//!
//! An entry has the content of a walk-cache entry, including prefix sums, and translates a whole
//! superpage. The first-level TLB keeps 4KB entries, because locating a B-block takes longer than a
//! first-level look-up. Pages of superpages have no entries in the second-level TLB.

use perforate_mmu::{
    Reach, SetAssociative, SidebandCounters, SidebandTlb, SidebandUse, TlbGeometry, WalkRequest,
    Walker,
};
use perforate_types::{
    Action, Counters, Purpose, Shootdown, SpaceId, Steps, Unit, VirtualPage, figures,
};

use super::GapTolerantRadix;
use super::entry::LoadedEntry;

/// Numbers of hits in and fills of the TLB of gap-tolerant entries.
pub(super) struct Uses {
    translations: u64,
    fills: u64,
}

figures! {
    pub(super) static NATIVE_TLB: Uses, "Gap-tolerant entries" {
        /// First-level misses that hit in the TLB of gap-tolerant entries (native support).
        gap_tolerant_tlb_translations, Count, Listed: |it| it.translations;
        /// Entries filled into the TLB of gap-tolerant entries.
        gap_tolerant_tlb_fills, Count, Listed: |it| it.fills;
    }
}

/// TLB of gap-tolerant entries, with LRU replacement in each set.
#[derive(Clone)]
pub(super) struct NativeTlb {
    entries: SetAssociative<LoadedEntry>,
    /// Gap-tolerant entry that the last page walk used; `None` if it used none.
    walked: Option<LoadedEntry>,
}

/// Key of a gap-tolerant entry: its address space and its index in that address space.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) space: SpaceId,
    pub(super) number: u64,
}

impl Place {
    const fn key(self) -> u64 {
        self.number << 16 | self.space.0 as u64
    }
}

impl NativeTlb {
    /// Creates an empty TLB with the given numbers of sets and ways.
    pub(super) fn new(geometry: TlbGeometry) -> Self {
        Self { entries: SetAssociative::new(geometry), walked: None }
    }

    /// Records the gap-tolerant entry that a walk used; `None` clears the record at the start of a
    /// walk.
    pub(super) fn set_walked(&mut self, through: Option<LoadedEntry>) {
        self.walked = through;
    }

    /// Looks up a gap-tolerant entry and marks it most recently used. Returns its slot and content,
    /// or `None` for a miss.
    pub(super) fn look_up(&mut self, place: Place) -> Option<(u32, LoadedEntry)> {
        let slot = self.entries.look_up(place.number, place.key())?;
        Some((slot as u32, self.entries.value(slot)))
    }

    /// Returns a cached gap-tolerant entry without changing the order of replacement.
    fn find(&self, place: Place) -> Option<LoadedEntry> {
        let slot = self.entries.find_key(place.number, place.key())?;
        Some(self.entries.value(slot))
    }

    /// Fills the gap-tolerant entry that the last page walk used into this TLB. Returns its slot,
    /// or `None` if the walk used none.
    fn fill(&mut self, place: Place) -> Option<u32> {
        let loaded = self.walked.take()?;
        Some(self.entries.insert(place.number, place.key(), loaded) as u32)
    }

    /// Sets the dirty bit of a cached gap-tolerant entry.
    pub(super) fn mark_dirty(&mut self, place: Place) {
        if let Some(slot) = self.entries.find_key(place.number, place.key()) {
            self.entries.value_mut(slot).mark_dirty();
        }
    }

    /// Invalidates every entry that maps a page in the shootdown's range. Each entry maps
    /// `entry_pages` pages.
    fn invalidate(&mut self, shootdown: Shootdown, entry_pages: u64) {
        let Some(pages) = shootdown.pages() else { return };
        let space = shootdown.space();
        let numbers = pages.start / entry_pages..=(pages.end - 1) / entry_pages;
        let is_dead = |key: u64| key as u16 == space.0 && numbers.contains(&(key >> 16));
        self.entries.invalidate_if(is_dead);
    }

    fn flush(&mut self) {
        self.entries.invalidate_if(|_| true);
    }
}

/// Panic message of methods that the pipeline calls only if the scheme has a TLB of gap-tolerant
/// entries.
const IS_NATIVE: &str = "the scheme has a TLB of gap-tolerant entries";

impl GapTolerantRadix {
    fn native(&self) -> &NativeTlb {
        self.own.native.as_ref().expect(IS_NATIVE)
    }

    fn native_mut(&mut self) -> &mut NativeTlb {
        self.own.native.as_mut().expect(IS_NATIVE)
    }

    /// Key of the gap-tolerant entry that covers a page.
    pub(super) fn entry_place(&self, space: SpaceId, page: VirtualPage) -> Place {
        Place { space, number: self.number(space, page) }
    }
}

impl SidebandTlb for GapTolerantRadix {
    fn name(&self) -> &'static str {
        "TLB of gap-tolerant entries"
    }

    fn used(&self) -> SidebandUse {
        SidebandUse { looked_up: true, filled: true, replaces_l2: true, ..SidebandUse::default() }
    }

    fn find(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        let loaded = self.native().find(self.entry_place(space, page))?;
        Some(self.reach_of((space, page), &loaded))
    }

    fn look_up(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        purpose: Purpose,
        steps: &mut Steps,
    ) -> Option<Reach> {
        let unit = Unit::sideband_tlb(purpose);
        let place = self.entry_place(space, page);
        let Some((slot, loaded)) = self.native_mut().look_up(place) else {
            steps.then(purpose, Action::Miss { unit });
            return None;
        };
        steps.then(purpose, Action::Hit { unit, slot });
        steps.then(purpose, Action::Select);
        Some(self.reach_of((space, page), &loaded))
    }

    fn slots(&self) -> usize {
        self.native().entries.slots()
    }

    /// Fills the TLB with the gap-tolerant entry that the walk used. The walk has read the entry,
    /// so the fill needs no memory reference.
    fn fill(&mut self, request: WalkRequest, _: &Reach, walker: &mut Walker<'_>) {
        let place = self.entry_place(request.space, request.page);
        if let Some(slot) = self.native_mut().fill(place) {
            self.native_fills += 1;
            let unit = walker.unit_beside();
            walker.note(Purpose::Page, Action::Fill { unit, slot });
        }
    }

    fn invalidate(&mut self, shootdown: Shootdown) {
        let entry_pages = self.mode(shootdown.space()).entry_pages();
        self.native_mut().invalidate(shootdown, entry_pages);
    }

    fn flush(&mut self) {
        self.native_mut().flush();
    }

    fn record(&self, counted: &SidebandCounters, out: &mut Counters) {
        let (translations, fills) = (counted.translations, self.native_fills);
        out.record(NATIVE_TLB, &Uses { translations, fills });
    }

    fn reset_counters(&mut self) {
        self.native_fills = 0;
    }
}
