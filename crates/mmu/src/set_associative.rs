//! A set-associative array with least-recently-used replacement.

use crate::TlbGeometry;

/// Key of an empty place. No translation has it: page numbers use fewer than 64 bits.
const EMPTY: u64 = u64::MAX;

/// Values by 64-bit key; a place is named by its slot, `set × ways + way`.
pub(crate) struct SetAssociative<V> {
    keys: Vec<u64>,
    /// When a place was used last, in units of [`TICK`] (0 for an empty place), plus its way: the
    /// least of a set names the way to replace.
    last_used: Vec<u64>,
    values: Vec<V>,
    ways: usize,
    set_mask: u64,
    /// Where the last look-up found its key; most first-level look-ups repeat the one before.
    latest: usize,
    clock: u64,
    live: usize,
}

/// Steps of the clock leave the low bits for the way. 2⁴⁸ uses take weeks.
const TICK: u64 = 1 << 16;

impl<V: Copy + Default> SetAssociative<V> {
    pub(crate) fn new(geometry: TlbGeometry) -> Self {
        Self {
            keys: vec![EMPTY; geometry.entries],
            last_used: (0..geometry.entries).map(|slot| (slot % geometry.ways) as u64).collect(),
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
        self.clock += TICK;
        self.last_used[slot] = self.clock | (self.last_used[slot] & (TICK - 1));
    }

    /// Finds `key` in the set that `index` selects and marks it used.
    #[inline]
    pub(crate) fn look_up(&mut self, index: u64, key: u64) -> Option<usize> {
        let slot = self.find(index, key)?;
        self.touch(slot);
        Some(slot)
    }

    /// Like [`Self::look_up`], fast where `key` is that of the look-up before.
    #[inline]
    pub(crate) fn look_up_again(&mut self, index: u64, key: u64) -> Option<usize> {
        let repeated = self.keys[self.latest] == key;
        let slot = if repeated { self.latest } else { self.find(index, key)? };
        self.latest = slot;
        self.touch(slot);
        Some(slot)
    }

    #[inline]
    pub(crate) fn value(&self, slot: usize) -> V {
        self.values[slot]
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

    /// The place to replace: empty ones were used at time 0 and so go first.
    #[inline]
    fn victim(&self, start: usize) -> usize {
        let places = &self.last_used[start..start + self.ways];
        let oldest = places.iter().copied().min().unwrap_or_default();
        start + (oldest & (TICK - 1)) as usize
    }

    pub(crate) fn invalidate(&mut self, index: u64, key: u64) {
        if let Some(slot) = self.find(index, key) {
            self.clear_slot(slot);
        }
    }

    /// Empties every place whose key satisfies `dead`.
    pub(crate) fn invalidate_if(&mut self, dead: impl Fn(u64) -> bool) {
        for slot in 0..self.keys.len() {
            if self.keys[slot] != EMPTY && dead(self.keys[slot]) {
                self.clear_slot(slot);
            }
        }
    }

    fn clear_slot(&mut self, slot: usize) {
        self.keys[slot] = EMPTY;
        self.last_used[slot] &= TICK - 1;
        self.live -= 1;
    }

    /// Values of the live entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = V> {
        self.keys.iter().zip(&self.values).filter(|(key, _)| **key != EMPTY).map(|(_, value)| *value)
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
