//! Stores whose data are not in the cache yet, and loads of what they write.

use super::*;
use crate::agenda::List;
use crate::hierarchy::Data;
use crate::ring::Ring;

/// Granules whose youngest store is remembered.
const REMEMBERED: usize = 128;
const GRANULE_SHIFT: u32 = 3;

/// A store from its place in the program until its data are in the cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Store {
    pub(super) instruction: u64,
    /// First line that it writes.
    pub(super) line: Line,
    /// Lines after the first.
    pub(super) further: Further,
    /// Time of the data to be written, or [`UNKNOWN`].
    pub(super) result: u64,
    /// Loads that wait for the data.
    pub(super) readers: List,
    /// Lines that are not written.
    pending: u16,
    /// Latest time of a line written so far.
    written: u64,
    /// Time from which its data, and those of all stores before it, are in the cache.
    pub(super) released: u64,
    /// Instruction of the store whose write its release waited for.
    writer: u64,
}

/// All such stores in program order.
#[derive(Clone, Debug)]
pub(super) struct Stores {
    all: Ring<Store>,
    /// Number of the next to retire.
    retired: u32,
    /// Number of the next to be released.
    next_released: u32,
    last_released: u64,
    /// Instruction of the last store that later stores waited for.
    last_writer: u64,
    /// Granule and its youngest store.
    youngest: Box<[(u64, u32)]>,
}

impl Stores {
    /// No stores, in front of a store queue of so many entries.
    pub(super) fn new(queue_entries: u32) -> Self {
        Self {
            // The critical path asks for stores as far back as the queue reaches.
            all: Ring::new(2 * (2 * queue_entries as usize).max(REMEMBERED)),
            retired: 0,
            next_released: 0,
            last_released: 0,
            last_writer: 0,
            youngest: vec![(u64::MAX, NONE); REMEMBERED].into(),
        }
    }

    /// Adds a store of `instruction` in program order; returns its number.
    #[inline]
    pub(super) fn push(
        &mut self,
        instruction: u64,
        address: u64,
        (line, further): (Line, Further),
    ) -> u32 {
        while self.all.is_short_of(self.next_released, 1) {
            self.all.grow();
        }
        let number = self.all.push(Store {
            instruction,
            line,
            further,
            result: UNKNOWN,
            pending: 1 + further.count,
            released: UNKNOWN,
            ..Store::default()
        });
        let granule = address >> GRANULE_SHIFT;
        self.youngest[granule as usize % REMEMBERED] = (granule, number);
        number
    }

    #[inline]
    pub(super) fn at(&mut self, number: u32) -> &mut Store {
        &mut self.all[number]
    }

    /// Youngest store to an address, if its data are not in the cache by `now`.
    #[inline]
    pub(super) fn before(&self, address: u64, now: u64) -> u32 {
        let granule = address >> GRANULE_SHIFT;
        let (stored, number) = self.youngest[granule as usize % REMEMBERED];
        let is_there = stored == granule && self.all.has(number) && self.all[number].released > now;
        if is_there { number } else { NONE }
    }

    /// Instruction of the store whose write the release of store `number` waited for. Known for as many released
    /// stores as the queue has entries.
    #[inline]
    pub(super) fn writer(&self, number: u32) -> u64 {
        self.all[number].writer
    }

    /// Instruction of the first store that is not written.
    pub(super) fn oldest_writer(&self) -> Option<u64> {
        (self.next_released != self.all.next()).then(|| self.all[self.next_released].instruction)
    }

    /// The next store retires.
    #[inline]
    pub(super) fn retire(&mut self) -> Store {
        let store = self.all[self.retired];
        self.retired = Ring::<Store>::after(self.retired);
        store
    }

    /// True if a store has retired.
    #[inline]
    pub(super) fn has_retired(&self, number: u32) -> bool {
        (self.retired.wrapping_sub(number) as i32) > 0
    }

    /// A line of a store is written at `time`. Stores become visible in program order (x86-TSO), though their
    /// misses overlap: calls `released` with the times of all stores now known to be.
    #[inline]
    pub(super) fn line_written(&mut self, number: u32, time: u64, mut released: impl FnMut(u64)) {
        let store = &mut self.all[number];
        store.written = store.written.max(time);
        store.pending -= 1;
        while self.next_released != self.all.next() && self.all[self.next_released].pending == 0 {
            let store = &mut self.all[self.next_released];
            if store.written >= self.last_released {
                (self.last_released, self.last_writer) = (store.written, store.instruction);
            }
            (store.released, store.writer) = (self.last_released, self.last_writer);
            self.next_released = Ring::<Store>::after(self.next_released);
            released(self.last_released);
        }
    }
}

/// Line of an access: number and place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) data: Data,
}

/// Lines of an access after the first: places in a ring.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Further {
    pub(super) first: u32,
    pub(super) count: u16,
}
