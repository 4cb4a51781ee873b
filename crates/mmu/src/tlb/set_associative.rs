//! A set-associative array with least-recently-used replacement.

use std::ops::Range;

use crate::TlbGeometry;

/// Key of an empty slot. Page numbers use fewer than 64 bits, so no translation has this key.
const EMPTY: u64 = u64::MAX;

/// Number of slots compared together, in straight-line code. A set consists of whole groups. If the
/// associativity is not a multiple of the group size, the last slots of a set stay empty.
const GROUP: usize = 4;

/// Increment of the LRU clock, whose lower bits hold the way. The clock overflows after 2⁴⁸ uses,
/// which would take weeks of simulation.
const TICK: u64 = 1 << 16;

/// A set-associative array of values with 64-bit keys. The caller gives an index, whose lowest bits
/// select the set. Slot numbers count the slots of all sets, including those that stay empty.
#[derive(Clone)]
pub struct SetAssociative<V> {
    groups: Vec<Group<V>>,
    groups_per_set: usize,
    set_mask: u64,
    clock: u64,
    entries: usize,
    live: usize,
}

/// Group of [`GROUP`] slots of the same set, which are compared together.
#[derive(Clone, Copy)]
struct Group<V> {
    keys: [u64; GROUP],
    /// LRU clock at each slot's last use (0 for an empty slot), plus the slot's way. So the minimum
    /// in a set gives the way to replace. Slots that must stay empty have the maximum.
    last_used: [u64; GROUP],
    values: [V; GROUP],
}

impl<V: Copy + Default> SetAssociative<V> {
    /// Creates an empty array. The number of sets must be a power of two.
    pub fn new(geometry: TlbGeometry) -> Self {
        let groups_per_set = geometry.ways.div_ceil(GROUP);
        let group = |index: usize| Group {
            keys: [EMPTY; GROUP],
            last_used: std::array::from_fn(|place| {
                let way = index % groups_per_set * GROUP + place;
                if way < geometry.ways { way as u64 } else { u64::MAX }
            }),
            values: [V::default(); GROUP],
        };
        Self {
            groups: (0..geometry.sets() * groups_per_set).map(group).collect(),
            groups_per_set,
            set_mask: geometry.sets() as u64 - 1,
            clock: 0,
            entries: geometry.entries,
            live: 0,
        }
    }

    /// Memory of the simulating computer for an array of this geometry, in bytes.
    pub fn host_bytes(geometry: TlbGeometry) -> u64 {
        let groups = geometry.entries / geometry.ways.max(1) * geometry.ways.div_ceil(GROUP);
        (groups as u64).saturating_mul(size_of::<Group<V>>() as u64)
    }

    /// Number of entries that the array can hold.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Number of slots, including those that always stay empty. All slot numbers are below it.
    #[inline]
    pub fn slots(&self) -> usize {
        self.groups.len() * GROUP
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Indices of the groups in the set that `index` selects.
    #[inline]
    fn set(&self, index: u64) -> Range<usize> {
        let start = (index & self.set_mask) as usize * self.groups_per_set;
        start..start + self.groups_per_set
    }

    /// Finds the slot of `key` in the set that `index` selects; `None` if absent. LRU state does
    /// not change.
    #[inline]
    pub fn find_key(&self, index: u64, key: u64) -> Option<usize> {
        self.find(index, |other| other == key)
    }

    /// Finds the slot whose key satisfies `is_wanted`. Compares all ways without early exit,
    /// because the matching way is unpredictable and a mispredicted branch would cost more.
    #[inline]
    fn find(&self, index: u64, is_wanted: impl Fn(u64) -> bool) -> Option<usize> {
        let set = self.set(index);
        let mut slot = set.start * GROUP;
        let mut found = usize::MAX;
        for group in &self.groups[set] {
            for (place, &other) in group.keys.iter().enumerate() {
                found = if is_wanted(other) { slot + place } else { found };
            }
            slot += GROUP;
        }
        (found != usize::MAX).then_some(found)
    }

    /// Marks a slot most recently used.
    #[inline]
    pub(crate) fn touch(&mut self, slot: usize) {
        self.clock += TICK;
        let used = &mut self.groups[slot / GROUP].last_used[slot % GROUP];
        *used = self.clock | (*used & (TICK - 1));
    }

    /// Finds `key` in the set that `index` selects and marks it most recently used.
    #[inline]
    pub fn look_up(&mut self, index: u64, key: u64) -> Option<usize> {
        let slot = self.find_key(index, key)?;
        self.touch(slot);
        Some(slot)
    }

    /// Like [`Self::look_up`], but compares the slot `likely` first, because comparing a large set
    /// takes long.
    #[inline]
    pub(crate) fn look_up_near(&mut self, likely: usize, index: u64, key: u64) -> Option<usize> {
        if self.key(likely) != key {
            return self.look_up(index, key);
        }
        self.touch(likely);
        Some(likely)
    }

    /// Like [`Self::look_up_near`], for two keys of which at most one is present. The set is
    /// searched once for both.
    #[inline]
    pub(crate) fn look_up_either(
        &mut self,
        likely: usize,
        index: u64,
        [first, second]: [u64; 2],
    ) -> Option<usize> {
        let is_wanted = |key: u64| (key == first) | (key == second);
        let slot = if is_wanted(self.key(likely)) { likely } else { self.find(index, is_wanted)? };
        self.touch(slot);
        Some(slot)
    }

    #[inline]
    pub(crate) fn key(&self, slot: usize) -> u64 {
        self.groups[slot / GROUP].keys[slot % GROUP]
    }

    /// Value stored in `slot`.
    #[inline]
    pub fn value(&self, slot: usize) -> V {
        self.groups[slot / GROUP].values[slot % GROUP]
    }

    /// Value stored in `slot`, mutable.
    #[inline]
    pub fn value_mut(&mut self, slot: usize) -> &mut V {
        &mut self.groups[slot / GROUP].values[slot % GROUP]
    }

    /// Inserts `key` and returns its slot. Replaces the entry with the same key, otherwise an empty
    /// slot, otherwise the least recently used entry of the set.
    pub fn insert(&mut self, index: u64, key: u64, value: V) -> usize {
        let slot = self.find_key(index, key).unwrap_or_else(|| self.victim(index));
        self.put(slot, key, value);
        slot
    }

    /// Like [`Self::insert`], for a key that must be absent.
    #[inline]
    pub(crate) fn insert_absent(&mut self, index: u64, key: u64, value: V) -> usize {
        debug_assert!(self.find_key(index, key).is_none());
        let slot = self.victim(index);
        self.put(slot, key, value);
        slot
    }

    /// Like [`Self::insert_absent`], restricted to these ways, counted from 0.
    pub(crate) fn insert_absent_among(
        &mut self,
        ways: &Range<usize>,
        index: u64,
        key: u64,
        value: V,
    ) -> usize {
        debug_assert!(self.find_key(index, key).is_none());
        let slot = self.victim_among(ways, index);
        self.put(slot, key, value);
        slot
    }

    #[inline]
    pub(crate) fn put(&mut self, slot: usize, key: u64, value: V) {
        self.clock += TICK;
        let group = &mut self.groups[slot / GROUP];
        let place = slot % GROUP;
        self.live += usize::from(group.keys[place] == EMPTY);
        group.keys[place] = key;
        group.values[place] = value;
        let used = &mut group.last_used[place];
        *used = self.clock | (*used & (TICK - 1));
    }

    /// Returns the slot to replace in the set that `index` selects: an empty slot if there is one,
    /// otherwise the least recently used.
    #[inline]
    fn victim(&self, index: u64) -> usize {
        let set = self.set(index);
        let first = set.start * GROUP;
        let mut oldest = u64::MAX;
        for Group { last_used: [a, b, c, d], .. } in &self.groups[set] {
            oldest = oldest.min(*a.min(b).min(c.min(d)));
        }
        first + (oldest & (TICK - 1)) as usize
    }

    /// Like [`Self::victim`], restricted to these ways of the set.
    fn victim_among(&self, ways: &Range<usize>, index: u64) -> usize {
        let first = self.set(index).start;
        let groups = first + ways.start / GROUP..first + ways.end.div_ceil(GROUP);
        let uses = self.groups[groups].iter().flat_map(|group| group.last_used);
        let is_among = |used: &u64| ways.contains(&((used & (TICK - 1)) as usize));
        let oldest = uses.filter(is_among).min().expect("there is a way");
        first * GROUP + (oldest & (TICK - 1)) as usize
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

    pub(crate) fn clear_slot(&mut self, slot: usize) {
        let group = &mut self.groups[slot / GROUP];
        group.keys[slot % GROUP] = EMPTY;
        group.last_used[slot % GROUP] &= TICK - 1;
        self.live -= 1;
    }

    /// Keys and values of the occupied slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, V)> {
        self.iter_slots().map(|(_, key, value)| (key, value))
    }

    /// Slots, keys and values of the occupied slots, in order of slots.
    pub(crate) fn iter_slots(&self) -> impl Iterator<Item = (usize, u64, V)> {
        let places = self.groups.iter().flat_map(|group| group.keys.iter().zip(&group.values));
        let live = places.enumerate().filter(|(_, (key, _))| **key != EMPTY);
        live.map(|(slot, (key, value))| (slot, *key, *value))
    }

    /// Number of the slot's set, and way in the set.
    pub(crate) fn place(&self, slot: usize) -> (usize, usize) {
        let slots_per_set = self.groups_per_set * GROUP;
        (slot / slots_per_set, slot % slots_per_set)
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
}
