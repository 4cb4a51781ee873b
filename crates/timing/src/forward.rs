//! Stores whose data are not in the cache yet, and loads of what they are about to write.

use std::collections::VecDeque;

use crate::agenda::{List, UNKNOWN};
use crate::hierarchy::Data;

/// Recent stores found by address; more than any store queue holds.
const REMEMBERED: usize = 128;
const GRANULE_SHIFT: u32 = 3;

/// A store from its place in the program until its data are in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    /// Number of its instruction.
    instruction: u64,
    /// The lines it writes.
    pub(crate) line: Data,
    pub(crate) further_lines: Vec<Data>,
    /// When what it writes is known.
    pub(crate) result: u64,
    /// Loads that wait for that.
    pub(crate) readers: List,
    /// Lines that are not written.
    pub(crate) pending: usize,
    /// When those that are known are written.
    pub(crate) written: u64,
    /// When its data, and those of all stores before it, are in the cache.
    pub(crate) released: u64,
}

/// All such stores, numbered from the first on, and the youngest to each of some 8-byte granules.
#[derive(Clone, Debug)]
pub(crate) struct Stores {
    list: VecDeque<Store>,
    /// Number of the first in the list.
    first: u64,
    /// Number of the next to be released.
    next_released: u64,
    last_released: u64,
    /// Instruction of the last store that made stores behind it wait to be released.
    last_writer: u64,
    /// Instructions whose write the last released stores waited for: store number n at n modulo the
    /// length, which is a power of two.
    writers: Vec<u64>,
    youngest: Vec<(u64, u64)>,
}

impl Stores {
    /// No stores, in front of a store queue of so many entries.
    pub(crate) fn new(queue_entries: u32) -> Self {
        Self {
            list: VecDeque::new(),
            first: 0,
            next_released: 0,
            last_released: 0,
            last_writer: 0,
            writers: vec![0; (queue_entries as usize).next_power_of_two()],
            youngest: vec![(u64::MAX, 0); REMEMBERED],
        }
    }

    /// A further store in program order, of the instruction with this number; returns the store's
    /// number.
    #[inline]
    pub(crate) fn push(&mut self, instruction: u64, address: u64, line: Data, now: u64) -> u64 {
        while self.list.front().is_some_and(|store| store.released <= now) {
            self.list.pop_front();
            self.first += 1;
        }
        self.list.push_back(Store {
            instruction,
            line,
            further_lines: Vec::new(),
            result: UNKNOWN,
            readers: List::default(),
            pending: 1,
            written: 0,
            released: UNKNOWN,
        });
        let number = self.first + self.list.len() as u64 - 1;
        let granule = address >> GRANULE_SHIFT;
        self.youngest[granule as usize % REMEMBERED] = (granule, number);
        number
    }

    /// A store that is not known to have been written long ago.
    #[inline]
    pub(crate) fn get(&mut self, number: u64) -> Option<&mut Store> {
        let place = number.checked_sub(self.first)?;
        self.list.get_mut(place as usize)
    }

    /// The youngest store to an address, if its data are not in the cache by `now`.
    #[inline]
    pub(crate) fn before(&mut self, address: u64, now: u64) -> Option<u64> {
        let granule = address >> GRANULE_SHIFT;
        let (stored, number) = self.youngest[granule as usize % REMEMBERED];
        if stored != granule {
            return None;
        }
        let store = self.get(number)?;
        (store.released > now).then_some(number)
    }

    /// Number of the instruction whose write the release of a store waited for: its own, or that of a
    /// store before it. Known for as many stores as the queue has entries.
    #[inline]
    pub(crate) fn writer(&self, store: u64) -> u64 {
        self.writers[store as usize & (self.writers.len() - 1)]
    }

    /// A line of a store is written at `time`. Stores become visible in program order (x86-TSO),
    /// though their misses overlap: those now known to be, and when, go to `released`.
    #[inline]
    pub(crate) fn line_written(&mut self, number: u64, time: u64, mut released: impl FnMut(u64)) {
        let store = self.get(number).expect("it is not released before it is written");
        store.written = store.written.max(time);
        store.pending -= 1;
        while let Some(next) = self.next_released.checked_sub(self.first)
            && let Some(store) = self.list.get_mut(next as usize)
            && store.pending == 0
        {
            if store.written >= self.last_released {
                (self.last_released, self.last_writer) = (store.written, store.instruction);
            }
            store.released = self.last_released;
            let place = self.next_released as usize & (self.writers.len() - 1);
            self.writers[place] = self.last_writer;
            self.next_released += 1;
            released(self.last_released);
        }
    }
}
