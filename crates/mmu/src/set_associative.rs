//! A set-associative array with least-recently-used replacement.

use crate::TlbGeometry;

/// Key of an empty place. No translation has it: page numbers use fewer than 64 bits.
const EMPTY: u64 = u64::MAX;

/// Values by 64-bit key; a place is named by its slot, `set × ways + way`.
pub(crate) struct SetAssociative<V> {
    keys: Vec<u64>,
    last_used: Vec<u64>,
    values: Vec<V>,
    ways: usize,
    set_mask: u64,
    clock: u64,
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
            clock: 0,
            live: 0,
        }
    }

    pub(crate) fn entries(&self) -> usize {
        self.keys.len()
    }

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
        let way = self.keys[start..start + self.ways].iter().position(|&place| place == key)?;
        Some(start + way)
    }

    /// Finds `key` in the set that `index` selects and marks it used.
    #[inline]
    pub(crate) fn look_up(&mut self, index: u64, key: u64) -> Option<usize> {
        let slot = self.find(index, key)?;
        self.clock += 1;
        self.last_used[slot] = self.clock;
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
        let start = self.set_start(index);
        let slot = self.find(index, key).unwrap_or_else(|| self.victim(start));
        if self.keys[slot] == EMPTY {
            self.live += 1;
        }
        self.clock += 1;
        self.keys[slot] = key;
        self.last_used[slot] = self.clock;
        self.values[slot] = value;
        slot
    }

    /// Empty places have `last_used` 0 and so go first.
    fn victim(&self, start: usize) -> usize {
        let places = &self.last_used[start..start + self.ways];
        let mut oldest = 0;
        for way in 1..places.len() {
            if places[way] < places[oldest] {
                oldest = way;
            }
        }
        start + oldest
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
}
