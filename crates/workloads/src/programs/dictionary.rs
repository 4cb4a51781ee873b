//! Workload `dict`: batches of insertions, searches and deletions in a hash table with linear probing.
//!
//! The keys are random 64-bit numbers in an array. A batch is a run of keys from a random index. One
//! batch is inserted (present keys stay), another is searched, a third is deleted. So half of the keys
//! are in the table on average; at the start, the first half of the array is. A deletion moves later
//! entries of the probe sequence into the gap.

use perforate_config::{BoundedSize, Count};
use perforate_types::{Random, scaled};

use super::{Algorithm, Data, DataSize, SLACK_BYTES};
use crate::registry::Registered;
use crate::traced::{Array, Place, Space, Tracer, Value};

data_options! { DictionaryOptions:
    /// Size of the table and the array of keys; 6.5G in paper G.
    size;
    /// Keys per batch, at most all keys (the paper gives no number).
    batch: Count<1, { 1 << 30 }> = Count::new(65_536),
}

/// Value of an empty slot of the hash table; another slot has the index of its key, plus 1.
const EMPTY: u32 = 0;
/// Size of a key in bytes.
const KEY_BYTES: u64 = 8;

pub(crate) struct Dictionary {
    /// Slots of the hash table. The simulator's copy of a slot has 1 plus the index of its key in `keys`.
    pub(super) slots: Array<u32>,
    /// Array of all keys. It has addresses only: the values are computed when they are loaded.
    keys: Place,
    pub(super) key_count: u64,
    seed: u64,
    batch: u64,
    pub(super) hits: u64,
    random: Random,
}

impl Registered for Dictionary {
    const NAME: &'static str = "dict";
    const SUMMARY: &'static str =
        "batches of insertions, searches and deletions in a hash table (dict in paper G)";
    const EXAMPLE: &'static str = "dict:size=2G,batch=10k";
    type Options = DictionaryOptions;

    fn host_bytes(options: &DictionaryOptions) -> u64 {
        options.data_bytes() / 3
    }
}

impl Algorithm for Dictionary {
    fn new(options: &DictionaryOptions, seed: u64, space: &mut Space) -> Self {
        // Five slots for four keys: the table is never full, and two fifths full on average.
        let key_count = (options.data_bytes() - SLACK_BYTES) / (9 * KEY_BYTES) * 4;
        let slots = vec![EMPTY; (key_count / 4 * 5) as usize];
        let mut dictionary = Self {
            slots: space.array(slots, KEY_BYTES),
            keys: space.place(key_count, KEY_BYTES),
            key_count,
            seed,
            batch: options.batch.get().min(key_count),
            hits: 0,
            random: Random::new(!seed),
        };
        for place in 0..key_count / 2 {
            dictionary.put(place);
        }
        dictionary
    }

    async fn repeat(&mut self, t: &mut Tracer) {
        let mut start = 0;
        loop {
            self.for_batch(t, start, Self::insert).await;
            start = self.random_place();
            self.for_batch(t, start, Self::search).await;
            start = self.random_place();
            self.for_batch(t, start, Self::delete).await;
            start = self.random_place();
            t.jump();
        }
    }
}

/// Key of a batch as the traced program has it after the load: number, hash and position.
#[derive(Clone, Copy)]
pub(super) struct Key {
    /// Index of the key in the array of keys.
    place: u64,
    key: Value<u64>,
    /// First slot of the key's probe sequence.
    home: Value<u64>,
}

impl Dictionary {
    /// Chooses a random index at which a batch begins.
    pub(super) fn random_place(&mut self) -> u64 {
        self.random.below(self.key_count)
    }

    /// Calls `act` with each key of the batch (consecutive keys) that begins at index `start`.
    pub(super) async fn for_batch(
        &mut self,
        t: &mut Tracer,
        start: u64,
        act: impl Fn(&mut Self, &mut Tracer, Key),
    ) {
        let random = t.multiply((), ());
        let mut cursor = t.integer(random, start);
        let mut left = self.batch;
        loop {
            let key = self.fetch(t, &mut cursor);
            act(self, t, key);
            left -= 1;
            t.pause().await;
            if !t.branch(left > 0, cursor) {
                break;
            }
        }
    }

    /// Loads the key at `cursor` and hashes it: the key is multiplied, and the high half of a second product
    /// is its slot.
    #[inline]
    fn fetch(&self, t: &mut Tracer, cursor: &mut Value<u64>) -> Key {
        let place = **cursor;
        let key = self.keys.load(t, *cursor, self.key(place));
        let next = t.integer(*cursor, place + 1);
        *cursor = t.integer(next, after(place, self.key_count));
        let hash = t.multiply(key, ());
        let home = t.multiply(hash, self.home(*key));
        Key { place, key, home }
    }

    /// Searches a key. Returns its slot and true, or the first empty slot and false.
    #[inline]
    fn find(&self, t: &mut Tracer, Key { key, home, .. }: Key) -> (Value<u64>, bool) {
        let mut slot = home;
        loop {
            let found = self.slots.load(t, slot);
            if t.branch(*found == EMPTY, found) {
                return (slot, false);
            }
            let is_same = self.key(u64::from(*found - 1)) == *key;
            if t.branch(is_same, (found, key)) {
                return (slot, true);
            }
            slot = self.next_slot(&mut t.inlined(), slot);
            t.jump();
        }
    }

    /// Computes the slot after `slot`, cyclically.
    #[inline]
    fn next_slot(&self, t: &mut Tracer, slot: Value<u64>) -> Value<u64> {
        let next = t.integer(slot, *slot + 1);
        t.integer(next, after(*slot, self.slot_count()))
    }

    pub(super) fn insert(&mut self, t: &mut Tracer, key: Key) {
        let (slot, is_present) = self.find(&mut t.inlined(), key);
        if !is_present {
            self.slots.store(t, slot, key.key.map(|_| key.place as u32 + 1));
        }
    }

    pub(super) fn search(&mut self, t: &mut Tracer, key: Key) {
        let (_, is_present) = self.find(&mut t.inlined(), key);
        if is_present {
            self.hits += 1;
            t.integer((), ());
        }
    }

    pub(super) fn delete(&mut self, t: &mut Tracer, key: Key) {
        let (slot, is_present) = self.find(&mut t.inlined(), key);
        if is_present {
            self.close_gap(t, slot);
        }
    }

    /// Closes the gap that a deletion leaves at `slot`: moves each entry up to the next empty slot into the
    /// gap, if the entry's probe sequence allows.
    fn close_gap(&mut self, t: &mut Tracer, slot: Value<u64>) {
        let mut gap = slot;
        let mut next = t.integer(slot, *slot);
        loop {
            next = self.next_slot(&mut t.inlined(), next);
            let found = self.slots.load(t, next);
            if t.branch(*found == EMPTY, found) {
                break;
            }
            let hash = t.multiply(found, ());
            let home = t.multiply(hash, self.home(self.key(u64::from(*found - 1))));
            let from_home = t.integer((home, next), self.distance(*home, *next));
            let from_gap = t.integer((gap, next), self.distance(*gap, *next));
            if !t.branch(*from_home < *from_gap, (from_home, from_gap)) {
                self.slots.store(t, gap, found);
                gap = t.integer(next, *next);
                t.jump();
            }
        }
        self.slots.store(t, gap, Value::constant(EMPTY));
    }

    /// Computes the key at an index of the array of keys.
    #[inline]
    pub(super) fn key(&self, place: u64) -> u64 {
        Random::new(self.seed.wrapping_add(place)).next()
    }

    /// Computes the first slot of a key's probe sequence.
    #[inline]
    fn home(&self, key: u64) -> u64 {
        scaled(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), self.slot_count())
    }

    fn slot_count(&self) -> u64 {
        self.slots.values().len() as u64
    }

    /// Inserts the key at index `place` without recording instructions, as the initialisation does.
    fn put(&mut self, place: u64) {
        let mut slot = self.home(self.key(place));
        while self.slots.values()[slot as usize] != EMPTY {
            slot = after(slot, self.slot_count());
        }
        self.slots.values_mut()[slot as usize] = place as u32 + 1;
    }

    /// Distance from slot `from` to slot `to`, cyclically.
    fn distance(&self, from: u64, to: u64) -> u64 {
        if from <= to { to - from } else { to + self.slot_count() - from }
    }
}

/// Index after `index` in an array of `count` elements, cyclically.
#[inline]
fn after(index: u64, count: u64) -> u64 {
    if index + 1 == count { 0 } else { index + 1 }
}
