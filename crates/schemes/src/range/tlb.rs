//! The range TLB: fully associative, least recently used (RMM §4.1).

use perforate_types::{Shootdown, SpaceId, VirtualPage};

use super::table::RangeEntry;

/// An entry, with the time of its last use.
#[derive(Clone, Copy)]
struct Held {
    space: SpaceId,
    range: RangeEntry,
    used: u64,
}

/// Ranges that the hardware remembers.
#[derive(Clone)]
pub(super) struct RangeTlb {
    slots: Vec<Option<Held>>,
    now: u64,
}

impl RangeTlb {
    /// An empty one.
    pub(super) fn new(entries: usize) -> Self {
        Self { slots: vec![None; entries], now: 0 }
    }

    /// Number of entries.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The slot with the range around a page, and the range. Nothing is changed by asking.
    pub(super) fn find(&self, space: SpaceId, page: VirtualPage) -> Option<(u32, RangeEntry)> {
        self.slots.iter().enumerate().find_map(|(slot, held)| {
            let held = held.as_ref()?;
            let holds = held.space == space && held.range.pages().contains(&page.number());
            holds.then_some((slot as u32, held.range))
        })
    }

    /// A look-up that found this slot.
    pub(super) fn touch(&mut self, slot: u32) {
        self.now += 1;
        if let Some(held) = &mut self.slots[slot as usize] {
            held.used = self.now;
        }
    }

    /// Holds a range, in the place of the one that was not used for longest; returns the slot. Older
    /// parts of the same range go.
    pub(super) fn fill(&mut self, space: SpaceId, range: RangeEntry) -> Option<u32> {
        self.forget(space, range.start, range.end);
        let oldest = |slot: &usize| self.slots[*slot].map_or(0, |held| held.used + 1);
        let slot = (0..self.slots.len()).min_by_key(oldest)?;
        self.now += 1;
        self.slots[slot] = Some(Held { space, range, used: self.now });
        Some(slot as u32)
    }

    /// Forgets what the shootdown says: every range with a page of it.
    pub(super) fn invalidate(&mut self, shootdown: Shootdown) {
        if let Some(pages) = shootdown.pages() {
            self.forget(shootdown.space(), pages.start, pages.end);
        }
    }

    fn forget(&mut self, space: SpaceId, start: u64, end: u64) {
        for slot in &mut self.slots {
            let dies = |held: &Held| {
                held.space == space && held.range.start < end && start < held.range.end
            };
            slot.take_if(|held| dies(held));
        }
    }

    /// Forgets everything.
    pub(super) fn flush(&mut self) {
        self.slots.fill(None);
    }
}
