//! The range TLB: fully associative with LRU replacement (RMM §4.1).

use perforate_types::{Shootdown, SpaceId, VirtualPage};

use super::table::RangeEntry;

/// Entry of the range TLB, with the time of its last use for LRU replacement.
#[derive(Clone, Copy)]
struct TlbEntry {
    space: SpaceId,
    range: RangeEntry,
    used: u64,
}

/// Fully associative range TLB with LRU replacement.
#[derive(Clone)]
pub(super) struct RangeTlb {
    slots: Vec<Option<TlbEntry>>,
    now: u64,
}

impl RangeTlb {
    /// Creates an empty range TLB with this number of entries.
    pub(super) fn new(entries: usize) -> Self {
        Self { slots: vec![None; entries], now: 0 }
    }

    /// Number of entries that the range TLB can hold.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Slot and range of the entry that contains a page, without side effects; `None` if it misses.
    pub(super) fn find(&self, space: SpaceId, page: VirtualPage) -> Option<(u32, RangeEntry)> {
        self.slots.iter().enumerate().find_map(|(slot, held)| {
            let held = held.as_ref()?;
            let holds = held.space == space && held.range.pages().contains(&page.number());
            holds.then_some((slot as u32, held.range))
        })
    }

    /// Marks the entry in a slot as most recently used.
    pub(super) fn touch(&mut self, slot: u32) {
        self.now += 1;
        if let Some(held) = &mut self.slots[slot as usize] {
            held.used = self.now;
        }
    }

    /// Fills a range into the slot of the least recently used entry, and invalidates older entries
    /// for parts of the range. Returns the slot.
    pub(super) fn fill(&mut self, space: SpaceId, range: RangeEntry) -> Option<u32> {
        self.forget(space, range.start, range.end);
        let oldest = |slot: &usize| self.slots[*slot].map_or(0, |held| held.used + 1);
        let slot = (0..self.slots.len()).min_by_key(oldest)?;
        self.now += 1;
        self.slots[slot] = Some(TlbEntry { space, range, used: self.now });
        Some(slot as u32)
    }

    /// Invalidates every entry whose range has a page that the shootdown covers.
    pub(super) fn invalidate(&mut self, shootdown: Shootdown) {
        if let Some(pages) = shootdown.pages() {
            self.forget(shootdown.space(), pages.start, pages.end);
        }
    }

    fn forget(&mut self, space: SpaceId, start: u64, end: u64) {
        for slot in &mut self.slots {
            let dies = |held: &TlbEntry| {
                held.space == space && held.range.start < end && start < held.range.end
            };
            slot.take_if(|held| dies(held));
        }
    }

    /// Invalidates all entries of the range TLB.
    pub(super) fn flush(&mut self) {
        self.slots.fill(None);
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::{Frame, Permissions};

    use super::*;

    /// Random fills, uses and invalidations, compared with a list of ranges in the order of their use.
    #[test]
    fn the_range_used_longest_ago_goes() {
        const ENTRIES: usize = 4;
        let mut tlb = RangeTlb::new(ENTRIES);
        let mut held: Vec<(SpaceId, u64)> = Vec::new();
        let mut random = 1_u64;
        for step in 0..5_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Eight ranges of ten pages in each of two address spaces.
            let (space, number) = (SpaceId((random & 1) as u16), random >> 1 & 7);
            let (start, page) = (number * 100, VirtualPage::new(number * 100 + random % 10));
            let place = held.iter().position(|&one| one == (space, number));
            match (random >> 8 & 7, tlb.find(space, page)) {
                (0, _) => {
                    tlb.invalidate(Shootdown::Page { space, page });
                    held.retain(|&one| one != (space, number));
                }
                (1, _) if random >> 12 & 15 == 0 => {
                    tlb.flush();
                    held.clear();
                }
                (_, Some((slot, range))) => {
                    assert_eq!((range.start, range.frame), (start, Frame::new(start)));
                    tlb.touch(slot);
                    held.remove(place.expect("the list has it"));
                    held.push((space, number));
                }
                (_, None) => {
                    assert_eq!(place, None, "step {step}");
                    let permissions = Permissions::READ;
                    let frame = Frame::new(start);
                    tlb.fill(space, RangeEntry { start, end: start + 10, frame, permissions });
                    if held.len() == ENTRIES {
                        held.remove(0);
                    }
                    held.push((space, number));
                }
            }
            for space in [SpaceId(0), SpaceId(1)] {
                for number in 0..8 {
                    let is_held = |page| tlb.find(space, VirtualPage::new(page)).is_some();
                    let expected = held.contains(&(space, number));
                    let first = number * 100;
                    assert_eq!([is_held(first), is_held(first + 9)], [expected; 2], "step {step}");
                    assert!(!is_held(first + 10));
                }
            }
        }
    }
}
