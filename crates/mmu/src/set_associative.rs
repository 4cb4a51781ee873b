//! A set-associative array with least-recently-used replacement.

use crate::TlbGeometry;

/// Key of an empty place. No translation has it: page numbers use fewer than 64 bits.
const EMPTY: u64 = u64::MAX;

/// Values by 64-bit key; a place is named by its slot, `set × ways + way`.
pub(crate) struct SetAssociative<V> {
    keys: Vec<u64>,
    /// When a place was used last, by `clock`; 0 for an empty place.
    last_used: Vec<u32>,
    values: Vec<V>,
    ways: usize,
    set_mask: u64,
    /// Where the last look-up found its key; most first-level look-ups repeat the one before.
    latest: usize,
    clock: u32,
    live: usize,
}

impl<V: Copy + Default> SetAssociative<V> {
    pub(crate) fn new(geometry: TlbGeometry) -> Self {
        Self {
            keys: vec![EMPTY; geometry.entries],
            last_used: vec![0; geometry.entries],
            values: vec![V::default(); geometry.entries],
            ways: geometry.ways,
            set_mask: geometry.sets() as u64 - 1,
            latest: 0,
            clock: 0,
            live: 0,
        }
    }

    #[inline]
    pub(crate) fn entries(&self) -> usize {
        self.keys.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    #[inline]
    fn set_start(&self, index: u64) -> usize {
        (index & self.set_mask) as usize * self.ways
    }

    #[inline]
    fn find(&self, index: u64, key: u64) -> Option<usize> {
        let start = self.set_start(index);
        // All ways are compared: where the key is found cannot be foretold.
        let mut found = usize::MAX;
        for (way, &place) in self.keys[start..start + self.ways].iter().enumerate() {
            found = if place == key { way } else { found };
        }
        (found != usize::MAX).then(|| start + found)
    }

    /// Marks a place used.
    #[inline]
    fn touch(&mut self, slot: usize) {
        if self.clock == u32::MAX {
            self.restart_clock();
        }
        self.clock += 1;
        self.last_used[slot] = self.clock;
    }

    /// Numbers the times of use anew, in the same order.
    #[cold]
    fn restart_clock(&mut self) {
        let mut slots: Vec<usize> = (0..self.entries()).collect();
        slots.sort_by_key(|&slot| self.last_used[slot]);
        self.clock = 0;
        for slot in slots {
            if self.keys[slot] != EMPTY {
                self.clock += 1;
                self.last_used[slot] = self.clock;
            }
        }
    }

    /// Finds `key` in the set that `index` selects and marks it used.
    #[inline]
    pub(crate) fn look_up(&mut self, index: u64, key: u64) -> Option<usize> {
        let repeated = self.keys[self.latest] == key;
        let slot = if repeated { self.latest } else { self.find(index, key)? };
        self.latest = slot;
        self.touch(slot);
        Some(slot)
    }

    #[inline]
    pub(crate) fn value(&self, slot: usize) -> &V {
        &self.values[slot]
    }

    #[inline]
    pub(crate) fn value_mut(&mut self, slot: usize) -> &mut V {
        &mut self.values[slot]
    }

    /// Puts `key` in place of itself, an empty place, or the least recently used entry.
    pub(crate) fn insert(&mut self, index: u64, key: u64, value: V) -> usize {
        let slot = self.find(index, key);
        let slot = slot.unwrap_or_else(|| self.victim(self.set_start(index)));
        self.put(slot, key, value);
        slot
    }

    /// Like [`Self::insert`], where `key` is known to be absent.
    #[inline]
    pub(crate) fn insert_absent(&mut self, index: u64, key: u64, value: V) -> usize {
        debug_assert!(self.find(index, key).is_none());
        let slot = self.victim(self.set_start(index));
        self.put(slot, key, value);
        slot
    }

    #[inline]
    fn put(&mut self, slot: usize, key: u64, value: V) {
        self.live += usize::from(self.keys[slot] == EMPTY);
        self.touch(slot);
        self.keys[slot] = key;
        self.values[slot] = value;
    }

    /// Empty places have `last_used` 0 and so go first. Time and way are compared as one number.
    #[inline]
    fn victim(&self, start: usize) -> usize {
        let places = &self.last_used[start..start + self.ways];
        let aged = places.iter().enumerate().map(|(way, &used)| u64::from(used) << 32 | way as u64);
        start + aged.min().map_or(0, |oldest| oldest as u32 as usize)
    }

    pub(crate) fn invalidate(&mut self, index: u64, key: u64) {
        if let Some(slot) = self.find(index, key) {
            self.clear_slot(slot);
        }
    }

    /// Empties every place whose key and value satisfy `dead`.
    pub(crate) fn invalidate_if(&mut self, dead: impl Fn(u64, &V) -> bool) {
        for slot in 0..self.keys.len() {
            if self.keys[slot] != EMPTY && dead(self.keys[slot], &self.values[slot]) {
                self.clear_slot(slot);
            }
        }
    }

    fn clear_slot(&mut self, slot: usize) {
        self.keys[slot] = EMPTY;
        self.last_used[slot] = 0;
        self.live -= 1;
    }

    /// Keys and values of the live entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &V)> {
        self.keys.iter().zip(&self.values).filter(|(key, _)| **key != EMPTY).map(|(k, v)| (*k, v))
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
    fn the_order_of_use_outlives_the_clock() {
        let mut array = SetAssociative::new(TlbGeometry { entries: 3, ways: 3 });
        array.clock = u32::MAX - 3;
        array.insert(0, 10, 'a');
        array.insert(0, 11, 'b');
        array.insert(0, 12, 'c');
        assert!(array.look_up(0, 10).is_some(), "the clock starts anew here");
        assert_eq!(array.clock, 4);
        array.insert(0, 13, 'd');
        assert!(array.look_up(0, 11).is_none(), "11 was used least recently");
        array.insert(0, 14, 'e');
        assert!(array.look_up(0, 12).is_none());
        assert!(array.look_up(0, 10).is_some());
    }
}
