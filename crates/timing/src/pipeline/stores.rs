//! Stores from dispatch until their data are in the cache, and loads forwarded from them.

use super::*;
use crate::agenda::List;
use crate::hierarchy::Data;
use crate::ring::Ring;

/// Number of 8-byte granules of memory whose youngest store is remembered.
const REMEMBERED: usize = 128;
const GRANULE_SHIFT: u32 = 3;

/// Store, from when the caller hands it over until its data are in the cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Store {
    pub(super) instruction: u64,
    /// First cache line that the store writes.
    pub(super) line: Line,
    /// Cache lines that it writes after the first.
    pub(super) further: Further,
    /// Cycle at which the data to be stored are available, or [`UNKNOWN`].
    pub(super) result: u64,
    /// Loads that wait to be forwarded the data.
    pub(super) readers: List,
    /// Number of lines not written to the cache yet.
    pending: u16,
    /// Cycle of the last write so far.
    written: u64,
    /// Cycle from which its data, and those of all older stores, are in the cache: the store-queue entry is
    /// free.
    pub(super) released: u64,
    /// Instruction whose store was the last, of this and all older stores, to reach the cache; it determines
    /// `released`.
    writer: u64,
}

/// Ring buffer of stores, numbered in program order, and the youngest store to each recently written address.
#[derive(Clone, Debug)]
pub(super) struct Stores {
    all: Ring<Store>,
    /// Number of the next store to retire.
    retired: u32,
    /// Number of the next store to free its store-queue entry.
    next_released: u32,
    last_released: u64,
    /// Instruction of the store that was written last among those that have freed their entries.
    last_writer: u64,
    /// Direct-mapped table: granule number, and its youngest store.
    youngest: Box<[(u64, u32)]>,
}

impl Stores {
    /// Makes an empty set, for a store queue with this many entries.
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

    /// Youngest store to the 8-byte granule of an address, if its data are not in the cache by cycle `now`;
    /// otherwise [`NONE`].
    #[inline]
    pub(super) fn before(&self, address: u64, now: u64) -> u32 {
        let granule = address >> GRANULE_SHIFT;
        let (stored, number) = self.youngest[granule as usize % REMEMBERED];
        let is_there = stored == granule && self.all.has(number) && self.all[number].released > now;
        if is_there { number } else { NONE }
    }

    /// Instruction whose write to the cache determined when store `number` freed its store-queue entry. Known
    /// for as many released stores as the queue has entries.
    #[inline]
    pub(super) fn writer(&self, number: u32) -> u64 {
        self.all[number].writer
    }

    /// Instruction of the oldest store that is not in the cache yet.
    pub(super) fn oldest_writer(&self) -> Option<u64> {
        (self.next_released != self.all.next()).then(|| self.all[self.next_released].instruction)
    }

    /// Retires the next store in program order, and returns it.
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

    /// Notes that a line of store `number` is written at cycle `time`. Stores become visible in program order
    /// (x86-TSO), though their misses overlap. Calls `released` with the release cycle of each store-queue
    /// entry for which it is now known.
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

/// Cache line of an access: line number, and state in the L1D.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) data: Data,
}

/// Cache lines of an access after its first: consecutive elements of the ring buffer `Accesses::further`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Further {
    pub(super) first: u32,
    pub(super) count: u16,
}
