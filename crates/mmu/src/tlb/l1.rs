//! First-level TLB: one array per page size, looked up in parallel with the first-level cache.

use std::ops::Range;

use perforate_types::{Frame, PageSize, SpaceId, Unit, VirtualPage};

use super::{EntryKind, SetAssociative};
use crate::{CachedContent, CachedEntry, TlbGeometry, allow};

/// One translation in one word: the first frame of the page, above the 8 bits of [`allow`].
#[derive(Clone, Copy, Default)]
struct L1Entry(u64);

impl L1Entry {
    fn new(frame: Frame, allows: u8) -> Self {
        Self(frame.number() << 8 | u64::from(allows))
    }

    fn frame(self) -> Frame {
        Frame::new(self.0 >> 8)
    }

    fn allows(self) -> u8 {
        self.0 as u8
    }
}

/// Result of a first-level look-up.
#[derive(Clone, Copy, Default)]
pub(crate) struct L1Hit {
    /// Frame of the requested 4KB page.
    pub(crate) frame: Frame,
    /// Slot of the first-level TLB entry that the look-up hit.
    pub(crate) slot: u32,
    pub(crate) allows: u8,
}

#[derive(Clone)]
struct Array {
    size: PageSize,
    first_slot: usize,
    entries: SetAssociative<L1Entry>,
}

/// The arrays of one first-level TLB, one for each page size.
#[derive(Clone)]
pub(crate) struct L1Tlb {
    small: Array,
    /// The arrays of larger pages, in order of size.
    larger: Vec<Array>,
    /// Number of 4KB pages in an aligned window that one entry of `small` can hold; 0 if the TLB
    /// does not coalesce.
    window: u64,
    /// True if a window was filled since the last flush; otherwise look-ups skip them.
    has_runs: bool,
    /// Result of the previous hit or fill, with the key of the 4KB page that was accessed. Most
    /// accesses are to the page of the previous one, whose entry is most recently used already. Any
    /// other change of the TLB clears this copy.
    latest: (u64, L1Hit),
}

/// Bit of the keys of windows of 4KB pages. Page numbers have at most 45 bits.
const RUN: u64 = 1 << 63;

/// Key that no page has. It marks the copy in `latest` as cleared.
const NONE: u64 = u64::MAX;

#[inline]
fn number(page: VirtualPage, size: PageSize) -> u64 {
    page.number() >> (size.shift() - 12)
}

#[inline]
fn key(space: SpaceId, number: u64) -> u64 {
    number << 16 | u64::from(space.0)
}

impl Array {
    /// Looks up `page`, whose entry becomes the most recently used one.
    #[inline(always)]
    fn look_up(&mut self, space: SpaceId, page: VirtualPage, size: PageSize) -> Option<L1Hit> {
        let number = number(page, size);
        let slot = self.entries.look_up(number, key(space, number))?;
        let entry = self.entries.value(slot);
        Some(L1Hit {
            frame: entry.frame().add(page.index_in(size) as u64),
            slot: (self.first_slot + slot) as u32,
            allows: entry.allows(),
        })
    }

    /// Fills the translation of `page`, which must be absent. `frame` is the first frame of the
    /// page of the array's size.
    #[inline(always)]
    fn fill(
        &mut self,
        (space, page): (SpaceId, VirtualPage),
        size: PageSize,
        frame: Frame,
        allows: u8,
    ) -> L1Hit {
        let number = number(page, size);
        let entry = L1Entry::new(frame, allows);
        let slot = self.entries.insert_absent(number, key(space, number), entry);
        let frame = frame.add(page.index_in(size) as u64);
        L1Hit { frame, slot: (self.first_slot + slot) as u32, allows }
    }
}

impl L1Tlb {
    /// Creates an empty TLB from the geometry for pages of 4KB, and those for 2MB and 1GB. An entry
    /// for 4KB pages can hold an aligned window of `window` pages, unless that is 0.
    pub(crate) fn new(
        (small, larger): (TlbGeometry, [Option<TlbGeometry>; 2]),
        window: u64,
    ) -> Self {
        let entries = SetAssociative::new(small);
        let mut first_slot = entries.slots();
        let small = Array { size: PageSize::Size4K, first_slot: 0, entries };
        let larger = [PageSize::Size2M, PageSize::Size1G].into_iter().zip(larger);
        let larger = larger.filter_map(|(size, geometry)| {
            let array = Array { size, first_slot, entries: SetAssociative::new(geometry?) };
            first_slot += array.entries.slots();
            Some(array)
        });
        let (larger, latest) = (larger.collect(), (NONE, L1Hit::default()));
        Self { small, larger, window, has_runs: false, latest }
    }

    /// All arrays, in order of size.
    fn arrays(&self) -> impl Iterator<Item = &Array> {
        std::iter::once(&self.small).chain(&self.larger)
    }

    fn arrays_mut(&mut self) -> impl Iterator<Item = &mut Array> {
        std::iter::once(&mut self.small).chain(&mut self.larger)
    }

    pub(crate) fn slots(&self) -> usize {
        self.arrays().map(|array| array.entries.slots()).sum()
    }

    #[inline]
    pub(crate) fn look_up(&mut self, space: SpaceId, page: VirtualPage) -> Option<L1Hit> {
        let wanted = key(space, page.number());
        if self.latest.0 == wanted {
            return Some(self.latest.1);
        }
        let mut hit = self.small.look_up(space, page, PageSize::Size4K);
        if hit.is_none() && self.has_runs {
            hit = self.look_up_run(space, page);
        }
        if hit.is_none() {
            let larger = self.larger.iter_mut().filter(|array| !array.entries.is_unused());
            hit = larger.into_iter().find_map(|array| array.look_up(space, page, array.size));
        }
        if let Some(hit) = hit {
            self.latest = (wanted, hit);
        }
        hit
    }

    /// Set index and key of the window around `page`.
    fn place_of_run(&self, space: SpaceId, page: VirtualPage) -> (u64, u64) {
        let number = page.number() / self.window;
        (number, key(space, number) | RUN)
    }

    #[inline(never)]
    fn look_up_run(&mut self, space: SpaceId, page: VirtualPage) -> Option<L1Hit> {
        let (number, key) = self.place_of_run(space, page);
        let slot = self.small.entries.look_up(number, key)?;
        let entry = self.small.entries.value(slot);
        let frame = entry.frame().add(page.number() % self.window);
        Some(L1Hit { frame, slot: slot as u32, allows: entry.allows() })
    }

    /// Fills the window of pages around `page`, which are mapped to consecutive frames; `frame` is
    /// that of the page. The preceding look-up must have missed. Returns the slot; `None` if the
    /// TLB does not hold windows.
    pub(crate) fn fill_run(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        frame: Frame,
        allows: u8,
    ) -> Option<u32> {
        if self.window == 0 {
            return None;
        }
        let (number, key_of_run) = self.place_of_run(space, page);
        let first = Frame::new(frame.number() - page.number() % self.window);
        let entry = L1Entry::new(first, allows);
        let slot = self.small.entries.insert_absent(number, key_of_run, entry) as u32;
        self.has_runs = true;
        self.latest = (key(space, page.number()), L1Hit { frame, slot, allows });
        Some(slot)
    }

    /// Fills the translation of `page` into the array for `size`, or for the largest smaller size
    /// that has an array. `frame` is the first frame of the page of `size`. The preceding look-up
    /// must have missed. Returns the page's frame and the slot.
    #[inline(always)]
    pub(crate) fn fill(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        size: PageSize,
        frame: Frame,
        allows: u8,
    ) -> (Frame, u32) {
        if size != PageSize::Size4K {
            return self.fill_larger((space, page), size, frame, allows);
        }
        let hit = self.small.fill((space, page), size, frame, allows);
        self.latest = (key(space, page.number()), hit);
        (hit.frame, hit.slot)
    }

    #[inline(never)]
    fn fill_larger(
        &mut self,
        (space, page): (SpaceId, VirtualPage),
        size: PageSize,
        frame: Frame,
        allows: u8,
    ) -> (Frame, u32) {
        let larger = self.larger.iter_mut().rev().find(|array| array.size <= size);
        let array = larger.unwrap_or(&mut self.small);
        let offset = page.align_down(array.size).number() - page.align_down(size).number();
        let hit = array.fill((space, page), array.size, frame.add(offset), allows);
        self.latest = (key(space, page.number()), hit);
        (hit.frame, hit.slot)
    }

    /// Sets the dirty bit in the entry of `page`, if there is one.
    pub(crate) fn mark_dirty(&mut self, space: SpaceId, page: VirtualPage) {
        self.latest.0 = NONE;
        for array in self.arrays_mut() {
            let number = number(page, array.size);
            if let Some(slot) = array.entries.look_up(number, key(space, number)) {
                array.entries.value_mut(slot).0 |= u64::from(allow::DIRTY);
            }
        }
        if self.has_runs {
            let (number, key) = self.place_of_run(space, page);
            if let Some(slot) = self.small.entries.look_up(number, key) {
                self.small.entries.value_mut(slot).0 |= u64::from(allow::DIRTY);
            }
        }
    }

    /// Invalidates the 4KB entry of `page`, and that of its window; larger entries stay.
    pub(crate) fn invalidate_page(&mut self, space: SpaceId, page: VirtualPage) {
        self.latest.0 = NONE;
        self.small.entries.invalidate(page.number(), key(space, page.number()));
        if self.has_runs {
            let (number, key) = self.place_of_run(space, page);
            self.small.entries.invalidate(number, key);
        }
    }

    /// Invalidates every translation that overlaps a range of 4KB pages.
    pub(crate) fn invalidate_range(&mut self, space: SpaceId, pages: &Range<u64>) {
        self.latest.0 = NONE;
        let window = self.window;
        for array in self.arrays_mut() {
            let own = array.size.pages();
            array.entries.invalidate_if(|place| {
                let length = if place & RUN == 0 { own } else { window };
                let (first, last) = (pages.start / length, (pages.end - 1) / length);
                let number = (place & !RUN) >> 16;
                place as u16 == space.0 && (first..=last).contains(&number)
            });
        }
    }

    pub(crate) fn invalidate_space(&mut self, space: SpaceId) {
        self.latest.0 = NONE;
        for array in self.arrays_mut() {
            array.entries.invalidate_if(|place| place as u16 == space.0);
        }
    }

    /// Appends all entries of the TLB to `out`.
    pub(crate) fn inspect(&self, (core, unit): (usize, Unit), out: &mut Vec<CachedEntry>) {
        for (index, array) in self.arrays().enumerate() {
            for (slot, key, entry) in array.entries.iter_slots() {
                let (set, way) = array.entries.place(slot);
                let (kind, pages) = match array.size {
                    PageSize::Size4K if key & RUN != 0 => (EntryKind::Run, self.window),
                    PageSize::Size4K => (EntryKind::Page4K, 1),
                    PageSize::Size2M => (EntryKind::Page2M, array.size.pages()),
                    PageSize::Size1G => (EntryKind::Page1G, array.size.pages()),
                };
                let (frame, allows) = (entry.frame(), entry.allows());
                out.push(CachedEntry {
                    core,
                    unit,
                    slot: (array.first_slot + slot) as u32,
                    place: (index, set, way),
                    space: SpaceId(key as u16),
                    is_guest_physical: false,
                    first: VirtualPage::new(((key & !RUN) >> 16) * pages),
                    pages,
                    content: CachedContent::Page { kind, frame, allows, filter: 0 },
                });
            }
        }
    }

    pub(crate) fn flush(&mut self) {
        self.latest.0 = NONE;
        self.has_runs = false;
        self.arrays_mut().for_each(|array| array.entries.invalidate_if(|_| true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_room_for_the_last_frame_of_52_bits() {
        for frame in [0, 1 << 24, (1 << 40) - 1].map(Frame::new) {
            let entry = L1Entry::new(frame, 0xa5);
            assert_eq!((entry.frame(), entry.allows()), (frame, 0xa5));
        }
    }
}
