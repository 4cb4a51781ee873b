//! A set-associative array with least-recently-used replacement.

use std::ops::Range;

use super::sets::{Sets, Tag};
use crate::TlbGeometry;

/// Key of an empty slot. Page numbers use fewer than 64 bits, so no translation has this key.
const EMPTY: u64 = u64::MAX;

/// A set-associative array of values with 64-bit keys. The caller gives an index, whose lowest bits
/// select the set. Slot numbers count the slots of all sets, including those that stay empty.
#[derive(Clone)]
pub struct SetAssociative<V> {
    slots: Vec<(u64, V)>,
    sets: Sets,
    /// Slot that was used last, of any set.
    latest: usize,
    slots_per_set: usize,
    set_mask: u64,
    entries: usize,
    /// True if no entry was ever filled.
    is_unused: bool,
}

/// Hash of a key; never 0.
#[inline]
const fn tag_of(key: u64) -> Tag {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as Tag | 1
}

impl<V: Copy + Default> SetAssociative<V> {
    /// Creates an empty array. The number of sets must be a power of two.
    pub fn new(geometry: TlbGeometry) -> Self {
        let (sets, (slots_per_set, _)) = (geometry.sets(), Sets::size(geometry.ways));
        Self {
            slots: vec![(EMPTY, V::default()); sets * slots_per_set],
            sets: Sets::new(sets, geometry.ways),
            latest: 0,
            slots_per_set,
            set_mask: sets as u64 - 1,
            entries: geometry.entries,
            is_unused: true,
        }
    }

    /// Memory of the simulating computer for an array of this geometry, in bytes.
    pub fn host_bytes(geometry: TlbGeometry) -> u64 {
        let sets = geometry.entries / geometry.ways.max(1);
        let (slots, others) = Sets::size(geometry.ways);
        let per_set = (slots as u64).saturating_mul(size_of::<(u64, V)>() as u64);
        (sets as u64).saturating_mul(per_set.saturating_add(others as u64))
    }

    /// Number of entries that the array can hold.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Number of slots, including those that always stay empty. All slot numbers are below it.
    #[inline]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// True if no entry was ever filled, so that look-ups may skip the array.
    #[inline]
    pub(crate) fn is_unused(&self) -> bool {
        self.is_unused
    }

    #[inline]
    fn set(&self, index: u64) -> usize {
        (index & self.set_mask) as usize
    }

    /// Finds the slot of `key` in the set that `index` selects; `None` if absent. LRU state does
    /// not change.
    #[inline(always)]
    pub fn find_key(&self, index: u64, key: u64) -> Option<usize> {
        let set = self.set(index);
        let first = set * self.slots_per_set;
        let way = self.sets.find(set, tag_of(key), |way| self.key(first + way) == key)?;
        Some(first + way)
    }

    /// Marks a slot of the set that `index` selects as most recently used.
    #[inline(always)]
    pub(crate) fn touch(&mut self, index: u64, slot: usize) {
        let set = self.set(index);
        self.latest = slot;
        self.sets.touch(set, slot - set * self.slots_per_set);
    }

    /// Finds `key` in the set that `index` selects and marks it most recently used.
    #[inline(always)]
    pub fn look_up(&mut self, index: u64, key: u64) -> Option<usize> {
        let slot = self.find_key(index, key)?;
        self.touch(index, slot);
        Some(slot)
    }

    /// Like [`Self::look_up`], but compares the slot that was used last first.
    #[inline(always)]
    pub(crate) fn look_up_again(&mut self, index: u64, key: u64) -> Option<usize> {
        if self.key(self.latest) == key { Some(self.latest) } else { self.look_up(index, key) }
    }

    #[inline]
    pub(crate) fn key(&self, slot: usize) -> u64 {
        self.slots[slot].0
    }

    /// Value stored in `slot`.
    #[inline]
    pub fn value(&self, slot: usize) -> V {
        self.slots[slot].1
    }

    /// Value stored in `slot`, mutable.
    #[inline]
    pub fn value_mut(&mut self, slot: usize) -> &mut V {
        &mut self.slots[slot].1
    }

    /// Inserts `key` and returns its slot. Replaces the entry with the same key, otherwise an empty
    /// slot, otherwise the least recently used entry of the set.
    pub fn insert(&mut self, index: u64, key: u64, value: V) -> usize {
        match self.look_up(index, key) {
            Some(slot) => {
                self.slots[slot].1 = value;
                slot
            }
            None => self.insert_absent(index, key, value),
        }
    }

    /// Like [`Self::insert`], for a key that must be absent.
    #[inline(always)]
    pub fn insert_absent(&mut self, index: u64, key: u64, value: V) -> usize {
        debug_assert!(self.find_key(index, key).is_none());
        let set = self.set(index);
        let way = self.sets.replace_oldest(set, tag_of(key));
        self.put((set, way), (key, value))
    }

    /// Like [`Self::insert_absent`], restricted to these ways, counted from 0.
    #[inline(never)]
    pub fn insert_absent_among(
        &mut self,
        ways: &Range<usize>,
        index: u64,
        key: u64,
        value: V,
    ) -> usize {
        debug_assert!(self.find_key(index, key).is_none());
        let set = self.set(index);
        let oldest = self.sets.oldest_first(set).find(|way| ways.contains(way));
        let way = oldest.expect("there is a way");
        self.sets.touch(set, way);
        self.sets.set_tag(set, way, tag_of(key));
        self.put((set, way), (key, value))
    }

    /// Stores an entry in a way. Returns the slot.
    #[inline(always)]
    fn put(&mut self, (set, way): (usize, usize), entry: (u64, V)) -> usize {
        let slot = set * self.slots_per_set + way;
        self.slots[slot] = entry;
        (self.latest, self.is_unused) = (slot, false);
        slot
    }

    pub(crate) fn invalidate(&mut self, index: u64, key: u64) {
        if let Some(slot) = self.find_key(index, key) {
            self.clear_slot(slot);
        }
    }

    /// Empties every slot whose key satisfies `dead`.
    pub fn invalidate_if(&mut self, dead: impl Fn(u64) -> bool) {
        for slot in 0..self.slots() {
            if self.key(slot) != EMPTY && dead(self.key(slot)) {
                self.clear_slot(slot);
            }
        }
    }

    /// Empties a slot. Of the empty slots of a set, those of lower ways are filled first.
    pub(crate) fn clear_slot(&mut self, slot: usize) {
        let (set, way) = self.place(slot);
        let before = &self.slots[slot - way..slot];
        let empty = before.iter().filter(|(key, _)| *key == EMPTY).count();
        self.sets.demote(set, way, empty);
        self.sets.set_tag(set, way, 0);
        self.slots[slot].0 = EMPTY;
    }

    /// Keys and values of the occupied slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, V)> {
        self.iter_slots().map(|(_, key, value)| (key, value))
    }

    /// Slots, keys and values of the occupied slots, in order of slots.
    pub(crate) fn iter_slots(&self) -> impl Iterator<Item = (usize, u64, V)> {
        let live = self.slots.iter().enumerate().filter(|(_, (key, _))| *key != EMPTY);
        live.map(|(slot, &(key, value))| (slot, key, value))
    }

    /// Number of the slot's set, and way in the set.
    pub(crate) fn place(&self, slot: usize) -> (usize, usize) {
        (slot / self.slots_per_set, slot % self.slots_per_set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_way_of_the_set_goes() {
        let mut array = SetAssociative::new(TlbGeometry { entries: 4, ways: 2 });
        // Two sets of two ways; even indices share set 0.
        array.insert(0, 10, 'a');
        array.insert(2, 12, 'b');
        assert!(array.look_up(0, 10).is_some(), "10 is now younger than 12");
        array.insert(4, 14, 'c');
        assert!(array.look_up(2, 12).is_none());
        assert!(array.look_up(0, 10).is_some() && array.look_up(4, 14).is_some());
        array.invalidate(0, 10);
        assert!(array.look_up(0, 10).is_none());
        array.insert(6, 16, 'd');
        assert!(array.look_up(4, 14).is_some(), "the empty place is taken first");
    }

    #[test]
    fn the_least_recently_used_of_some_ways_goes() {
        // One set of six ways: 0 to 2, and 3 to 5, which do not begin where a group does.
        let mut array = SetAssociative::new(TlbGeometry { entries: 6, ways: 6 });
        for key in 0..3 {
            array.insert_absent_among(&(0..3), 0, key, key);
            array.insert_absent_among(&(3..6), 0, 10 + key, key);
        }
        assert_eq!(array.iter().count(), 6, "empty ways are taken first");
        array.look_up(0, 10);
        array.insert_absent_among(&(3..6), 0, 20, 20);
        assert!(array.find_key(0, 11).is_none(), "11 was used last before 12 and 10");
        let held = [0, 1, 2, 10, 12, 20].map(|key| array.find_key(0, key).is_some());
        assert_eq!(held, [true; 6], "0 was used longest ago, in another way");
        array.insert_absent_among(&(0..6), 0, 30, 30);
        assert!(array.find_key(0, 0).is_none(), "all ways: 0 goes");
    }

    #[test]
    fn sets_of_any_number_of_ways_hold_that_many() {
        for ways in 1..=9 {
            let mut array = SetAssociative::new(TlbGeometry { entries: 2 * ways, ways });
            for key in 0..2 * ways as u64 {
                array.insert(key, key, key);
            }
            assert_eq!(array.iter().count(), 2 * ways);
            assert!((0..2 * ways as u64).all(|key| array.look_up(key, key).is_some()));
            array.insert(100, 100, 100);
            assert!(array.look_up(0, 0).is_none(), "{ways} ways: the oldest of its set goes");
            assert_eq!(array.iter().count(), 2 * ways);
        }
    }

    /// Random operations on small and large sets, compared with the time of each slot's last use.
    #[test]
    fn the_slot_with_the_earliest_use_goes() {
        for ways in [1, 2, 5, 8, 9, 16, 17, 24, 32, 33, 40, 300] {
            let mut array = SetAssociative::new(TlbGeometry { entries: 2 * ways, ways });
            // Key and time of the last use by set and way; an empty way was used at time 0.
            let mut model = vec![vec![(EMPTY, 0); ways]; 2];
            let mut random = 1_u64;
            for now in 1..4_000 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let (key, half) = (random % (5 * ways as u64), ways / 2..ways);
                if random >> 43 & 511 == 0 {
                    let is_dead = |key: u64| random >> 60 == 0 || key % 3 == random >> 50 & 3;
                    array.invalidate_if(is_dead);
                    let dead = model.iter_mut().flatten().filter(|(key, _)| is_dead(*key));
                    dead.for_each(|slot| *slot = (EMPTY, 0));
                }
                let set = &mut model[key as usize % 2];
                let held = set.iter().position(|&(other, _)| other == key);
                match (random >> 40 & 7, held) {
                    (0, Some(way)) => set[way] = (EMPTY, 0),
                    (0 | 1, None) | (5, Some(_)) => {}
                    (2..=4, Some(way)) => set[way].1 = now,
                    (kind, _) => {
                        let among = if kind < 5 { half.clone() } else { 0..ways };
                        let oldest = among.min_by_key(|&way| set[way].1);
                        let way = held.or(oldest).unwrap();
                        set[way] = (key, now);
                    }
                }
                match (random >> 40 & 7, held) {
                    (0, _) => array.invalidate(key, key),
                    (1, None) | (5, Some(_)) => {}
                    (2..=4, Some(_)) => {
                        array.look_up(key, key);
                    }
                    (kind, None) if kind < 5 => {
                        array.insert_absent_among(&half, key, key, now);
                    }
                    _ => {
                        array.insert(key, key, now);
                    }
                }
                let held: Vec<_> =
                    array.iter_slots().map(|(slot, key, _)| (array.place(slot), key)).collect();
                let sets = model.iter().enumerate();
                let wanted = sets.flat_map(|(set, ways)| {
                    let ways = ways.iter().enumerate();
                    let live = ways.filter(|(_, (key, _))| *key != EMPTY);
                    live.map(move |(way, (key, _))| ((set, way), *key))
                });
                assert!(held.iter().copied().eq(wanted), "{ways} ways, step {now}");
            }
        }
    }
}
