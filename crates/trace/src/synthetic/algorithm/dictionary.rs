//! Batches of insertions, searches and deletions in a hash table with linear probing.
//!
//! The keys are random 64-bit numbers in an array. A batch is so many of them from a random place
//! on. A batch is inserted (those that are there already stay), another searched, another deleted,
//! so that half the keys are in the table on average; the program starts when the first half of the
//! array is. A deletion moves later entries of the probe sequence into the gap.

use super::array::{Array, Place, Space};
use super::code::{Block, Code, Op, compare, conditional, integer, jump, load, multiply, store};
use super::machine::Machine;
use super::source::Running;
use super::{Algorithm, SLACK_BYTES, size};
use crate::synthetic::random::{Random, scale};
use crate::synthetic::registry::{Parameter, ParameterKind, Workload};
use crate::synthetic::spec::WorkloadSpec;

pub(in crate::synthetic) const DICTIONARY: Workload = Workload {
    name: "dict",
    summary: "batches of insertions, searches and deletions in a hash table (paper G's dict)",
    parameters: &[
        size("bytes of the table and of the array of keys, 1M to 64G (paper G: 6.5G)"),
        Parameter {
            name: "batch",
            kind: ParameterKind::Between(1, 1 << 30),
            default: "65536",
            help: "keys per batch, at most all; the paper leaves it open",
        },
    ],
    host_bytes: |spec| spec.size("size") / 3,
    build: Running::<Dictionary>::boxed,
};

/// An empty slot.
const EMPTY: u32 = 0;
/// Bytes of a key.
const KEY_BYTES: u64 = 8;

const CURSOR: u8 = 10;
const KEY: u8 = 11;
const SLOT: u8 = 12;
const FOUND: u8 = 13;
const NEXT: u8 = 14;
const HOME: u8 = 15;
const HITS: u8 = 16;
const LAST: u8 = 17;
const START: u8 = 18;
const GAP: u8 = 19;

/// A batch starts at a random place.
const START_BATCH: &[Op] = &[multiply(START, &[START]), integer(CURSOR, &[START])];
/// A key is loaded and hashed: multiplied, and the high half of another product is its slot. The
/// cursor wraps at the end of the array.
const FETCH: &[Op] = &[
    load(KEY, &[CURSOR]),
    integer(CURSOR, &[CURSOR]),
    integer(CURSOR, &[CURSOR]),
    multiply(SLOT, &[KEY]),
    multiply(SLOT, &[SLOT]),
];
/// A slot; taken: it is empty.
const PROBE: &[Op] = &[load(FOUND, &[SLOT]), compare(&[FOUND]), conditional()];
/// Taken: it holds the key.
const SAME: &[Op] = &[compare(&[FOUND, KEY]), conditional()];
/// The next slot, after the last the first.
const ADVANCE: &[Op] = &[integer(SLOT, &[SLOT]), integer(SLOT, &[SLOT]), jump()];
/// Taken: another key of the batch.
const MORE: &[Op] = &[compare(&[CURSOR, LAST]), conditional()];

const BLOCKS: &[&[Op]] = &[
    // Insertion
    FETCH,
    PROBE,
    SAME,
    ADVANCE,
    &[store(&[KEY, SLOT])],
    MORE,
    // Search
    START_BATCH,
    FETCH,
    PROBE,
    SAME,
    ADVANCE,
    &[integer(HITS, &[HITS])],
    MORE,
    // Deletion
    START_BATCH,
    FETCH,
    PROBE,
    SAME,
    ADVANCE,
    // The gap is at the slot.
    &[integer(NEXT, &[SLOT])],
    // SHIFT: the slot after; taken: it is empty
    &[
        integer(NEXT, &[NEXT]),
        integer(NEXT, &[NEXT]),
        load(FOUND, &[NEXT]),
        compare(&[FOUND]),
        conditional(),
    ],
    // STAY: where its key belongs; taken: not before the gap
    &[
        multiply(HOME, &[FOUND]),
        multiply(HOME, &[HOME]),
        integer(HOME, &[HOME, NEXT]),
        integer(GAP, &[SLOT, NEXT]),
        compare(&[HOME, GAP]),
        conditional(),
    ],
    // MOVE: it moves into the gap, which is where it was now
    &[store(&[FOUND, SLOT]), integer(SLOT, &[NEXT]), jump()],
    // ERASE: the gap becomes empty
    &[store(&[SLOT])],
    MORE,
    // BEGIN: the next round of batches
    &[multiply(START, &[START]), integer(CURSOR, &[START]), jump()],
];
const INSERT: Block = 0;
const INSERT_STORE: Block = 4;
const INSERT_MORE: Block = 5;
const SEARCH_BEGIN: Block = 6;
const SEARCH: Block = 7;
const SEARCH_HIT: Block = 11;
const SEARCH_MORE: Block = 12;
const DELETE_BEGIN: Block = 13;
const DELETE: Block = 14;
const DELETE_GAP: Block = 18;
const SHIFT: Block = 19;
const STAY: Block = 20;
const MOVE: Block = 21;
const ERASE: Block = 22;
const DELETE_MORE: Block = 23;
const BEGIN: Block = 24;
/// Blocks from that which fetches a key of a batch.
const PROBE_AFTER: Block = 1;
const SAME_AFTER: Block = 2;
const ADVANCE_AFTER: Block = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Insert,
    Search,
    Delete,
}

pub(super) struct Dictionary {
    /// Slots of the table; in host memory the place of the key in `keys`, counted from 1.
    pub(super) slots: Array<u32>,
    /// All keys, computed.
    keys: Place,
    pub(super) key_count: u64,
    seed: u64,
    batch: u64,
    phase: Phase,
    /// Place of the next key of the batch, and how many are left.
    cursor: u64,
    left: u64,
    pub(super) hits: u64,
    random: Random,
}

impl Algorithm for Dictionary {
    fn new(spec: &WorkloadSpec, seed: u64, space: &mut Space) -> Self {
        // Five slots for four keys: the table is never full, and two fifths full on average.
        let key_count = (spec.size("size") - SLACK_BYTES) / (9 * KEY_BYTES) * 4;
        let slots = vec![EMPTY; (key_count / 4 * 5) as usize];
        let batch = spec.size("batch").min(key_count);
        let mut dictionary = Self {
            slots: space.array(slots, KEY_BYTES),
            keys: space.place(key_count, KEY_BYTES),
            key_count,
            seed,
            batch,
            phase: Phase::Insert,
            cursor: 0,
            left: batch,
            hits: 0,
            random: Random::new(!seed),
        };
        for place in 0..key_count / 2 {
            dictionary.put(place);
        }
        dictionary
    }

    fn code(&self) -> Code {
        Code::new(BLOCKS)
    }

    #[inline]
    fn step(&mut self, machine: &mut Machine) {
        let place = self.cursor;
        self.cursor = after(place, self.key_count);
        self.left -= 1;
        match self.phase {
            Phase::Insert => self.insert(place, machine),
            Phase::Search => self.search(place, machine),
            Phase::Delete => self.delete(place, machine),
        }
    }
}

impl Dictionary {
    /// The key at a place.
    #[inline]
    pub(super) fn key(&self, place: u64) -> u64 {
        Random::new(self.seed.wrapping_add(place)).next()
    }

    /// The slot where a key belongs.
    #[inline]
    fn home(&self, key: u64) -> u64 {
        scale(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), self.slot_count())
    }

    fn slot_count(&self) -> u64 {
        self.slots.values().len() as u64
    }

    /// Puts a key into the table without a trace, as the initialisation does.
    fn put(&mut self, place: u64) {
        let mut slot = self.home(self.key(place));
        while self.slots.values()[slot as usize] != EMPTY {
            slot = after(slot, self.slot_count());
        }
        self.slots.values_mut()[slot as usize] = place as u32 + 1;
    }

    /// Loads a key and probes for it: its slot, or the first empty one, and whether it is there.
    #[inline]
    fn find(&self, place: u64, fetch: Block, machine: &mut Machine) -> (u64, bool) {
        self.keys.read(place, machine);
        machine.run(fetch, false);
        let key = self.key(place);
        let mut slot = self.home(key);
        loop {
            let found = self.slots.load(slot, machine);
            machine.run(fetch + PROBE_AFTER, found == EMPTY);
            if found == EMPTY {
                return (slot, false);
            }
            let same = self.key(u64::from(found - 1)) == key;
            machine.run(fetch + SAME_AFTER, same);
            if same {
                return (slot, true);
            }
            machine.run(fetch + ADVANCE_AFTER, true);
            slot = after(slot, self.slot_count());
        }
    }

    fn insert(&mut self, place: u64, machine: &mut Machine) {
        let (slot, present) = self.find(place, INSERT, machine);
        if !present {
            self.slots.store(slot, place as u32 + 1, machine);
            machine.run(INSERT_STORE, false);
        }
        machine.run(INSERT_MORE, self.left > 0);
        if self.left == 0 {
            self.begin(Phase::Search, SEARCH_BEGIN, machine);
        }
    }

    fn search(&mut self, place: u64, machine: &mut Machine) {
        let (_, present) = self.find(place, SEARCH, machine);
        if present {
            self.hits += 1;
            machine.run(SEARCH_HIT, false);
        }
        machine.run(SEARCH_MORE, self.left > 0);
        if self.left == 0 {
            self.begin(Phase::Delete, DELETE_BEGIN, machine);
        }
    }

    fn delete(&mut self, place: u64, machine: &mut Machine) {
        let (slot, present) = self.find(place, DELETE, machine);
        if present {
            self.close_gap(slot, machine);
        }
        machine.run(DELETE_MORE, self.left > 0);
        if self.left == 0 {
            self.begin(Phase::Insert, BEGIN, machine);
        }
    }

    /// Begins a batch.
    fn begin(&mut self, phase: Phase, block: Block, machine: &mut Machine) {
        machine.run(block, matches!(phase, Phase::Insert));
        let start = self.random.below(self.key_count);
        (self.phase, self.cursor, self.left) = (phase, start, self.batch);
    }

    /// Moves every later entry up to the next empty slot into the gap if it may be there.
    fn close_gap(&mut self, slot: u64, machine: &mut Machine) {
        machine.run(DELETE_GAP, false);
        let (mut gap, mut next) = (slot, slot);
        loop {
            next = after(next, self.slot_count());
            let found = self.slots.load(next, machine);
            machine.run(SHIFT, found == EMPTY);
            if found == EMPTY {
                break;
            }
            let home = self.home(self.key(u64::from(found - 1)));
            let stays = self.distance(home, next) < self.distance(gap, next);
            machine.run(STAY, stays);
            if !stays {
                self.slots.store(gap, found, machine);
                machine.run(MOVE, true);
                gap = next;
            }
        }
        self.slots.store(gap, EMPTY, machine);
        machine.run(ERASE, false);
    }

    /// Slots from one to another, round the end of the table.
    fn distance(&self, from: u64, to: u64) -> u64 {
        if from <= to { to - from } else { to + self.slot_count() - from }
    }

    /// The batch that begins now, if one does: its phase and the place of its first key.
    #[cfg(test)]
    pub(super) fn begins(&self) -> Option<(Phase, u64)> {
        (self.left == self.batch).then_some((self.phase, self.cursor))
    }
}

/// The element after one in an array, after the last the first.
#[inline]
fn after(index: u64, count: u64) -> u64 {
    if index + 1 == count { 0 } else { index + 1 }
}
