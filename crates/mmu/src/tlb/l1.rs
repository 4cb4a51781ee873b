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
    arrays: Vec<Array>,
    slots: usize,
    /// Result of the previous hit or fill, with the key of the 4KB page that was accessed. Most
    /// accesses are to the page of the previous one, whose entry is most recently used already. Any
    /// other change of the TLB clears this copy.
    latest: (u64, L1Hit),
}

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

impl L1Tlb {
    pub(crate) fn new(geometries: [(PageSize, Option<TlbGeometry>); 3]) -> Self {
        let mut tlb = Self { arrays: Vec::new(), slots: 0, latest: (NONE, L1Hit::default()) };
        for (size, geometry) in geometries {
            if let Some(geometry) = geometry {
                let entries = SetAssociative::<L1Entry>::new(geometry);
                let first_slot = tlb.slots;
                tlb.slots += entries.slots();
                tlb.arrays.push(Array { size, first_slot, entries });
            }
        }
        tlb
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    #[inline]
    pub(crate) fn look_up(&mut self, space: SpaceId, page: VirtualPage) -> Option<L1Hit> {
        let wanted = key(space, page.number());
        if self.latest.0 == wanted {
            return Some(self.latest.1);
        }
        for array in &mut self.arrays {
            if array.entries.is_empty() {
                continue;
            }
            let number = number(page, array.size);
            if let Some(slot) = array.entries.look_up(number, key(space, number)) {
                let entry = array.entries.value(slot);
                let hit = L1Hit {
                    frame: entry.frame().add(page.index_in(array.size) as u64),
                    slot: (array.first_slot + slot) as u32,
                    allows: entry.allows(),
                };
                self.latest = (wanted, hit);
                return Some(hit);
            }
        }
        None
    }

    /// Fills the translation of `page` into the array for `size`, or for the largest smaller size
    /// that has an array. `frame` is the first frame of the page of `size`. The preceding look-up
    /// must have missed. Returns the slot.
    pub(crate) fn fill(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        size: PageSize,
        frame: Frame,
        allows: u8,
    ) -> u32 {
        let array = self
            .arrays
            .iter_mut()
            .rev()
            .find(|array| array.size <= size)
            .expect("there is always a 4KB array");
        let page_in_array = page.align_down(array.size);
        let offset = page_in_array.number() - page.align_down(size).number();
        let number = number(page, array.size);
        let entry = L1Entry::new(frame.add(offset), allows);
        let slot = array.entries.insert_absent(number, key(space, number), entry);
        let slot = (array.first_slot + slot) as u32;
        let frame = entry.frame().add(page.index_in(array.size) as u64);
        self.latest = (key(space, page.number()), L1Hit { frame, slot, allows });
        slot
    }

    /// Sets the dirty bit in the entry of `page`, if there is one.
    pub(crate) fn mark_dirty(&mut self, space: SpaceId, page: VirtualPage) {
        self.latest.0 = NONE;
        for array in &mut self.arrays {
            let number = number(page, array.size);
            if let Some(slot) = array.entries.look_up(number, key(space, number)) {
                array.entries.value_mut(slot).0 |= u64::from(allow::DIRTY);
            }
        }
    }

    /// Invalidates the 4KB entry of `page`; larger entries stay.
    pub(crate) fn invalidate_page(&mut self, space: SpaceId, page: VirtualPage) {
        self.latest.0 = NONE;
        for array in &mut self.arrays {
            if array.size == PageSize::Size4K {
                let number = number(page, array.size);
                array.entries.invalidate(number, key(space, number));
            }
        }
    }

    /// Invalidates every translation that overlaps a range of 4KB pages.
    pub(crate) fn invalidate_range(&mut self, space: SpaceId, pages: &Range<u64>) {
        self.latest.0 = NONE;
        for array in &mut self.arrays {
            let first = pages.start / array.size.pages();
            let last = (pages.end - 1) / array.size.pages();
            array.entries.invalidate_if(|place| {
                place as u16 == space.0 && (first..=last).contains(&(place >> 16))
            });
        }
    }

    pub(crate) fn invalidate_space(&mut self, space: SpaceId) {
        self.latest.0 = NONE;
        for array in &mut self.arrays {
            array.entries.invalidate_if(|place| place as u16 == space.0);
        }
    }

    /// Appends all entries of the TLB to `out`.
    pub(crate) fn inspect(&self, (core, unit): (usize, Unit), out: &mut Vec<CachedEntry>) {
        for (index, array) in self.arrays.iter().enumerate() {
            for (slot, key, entry) in array.entries.iter_slots() {
                let (set, way) = array.entries.place(slot);
                let pages = array.size.pages();
                let kind = match array.size {
                    PageSize::Size4K => EntryKind::Page4K,
                    PageSize::Size2M => EntryKind::Page2M,
                    PageSize::Size1G => EntryKind::Page1G,
                };
                let (frame, allows) = (entry.frame(), entry.allows());
                out.push(CachedEntry {
                    core,
                    unit,
                    slot: (array.first_slot + slot) as u32,
                    place: (index, set, way),
                    space: SpaceId(key as u16),
                    is_guest_physical: false,
                    first: VirtualPage::new((key >> 16) * pages),
                    pages,
                    content: CachedContent::Page { kind, frame, allows, filter: 0 },
                });
            }
        }
    }

    pub(crate) fn flush(&mut self) {
        self.latest.0 = NONE;
        self.arrays.iter_mut().for_each(|array| array.entries.invalidate_if(|_| true));
    }
}
