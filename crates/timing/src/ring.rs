//! Ring buffers of records: the simulator's notes on each fill, walk, access and store.
//!
//! Records are numbered in program order. Record *n* lies at index *n* modulo the length of its ring, until
//! record *n* + length overwrites it. Nothing is moved or freed.

use std::ops::{Index, IndexMut};

/// Number that stands for no record.
pub(crate) const NONE: u32 = u32::MAX;

/// Ring buffer with the latest records of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Ring<T> {
    places: Box<[T]>,
    /// Length minus one; the length is a power of two.
    mask: usize,
    /// Number of the next record; numbers wrap around after 2³².
    next: u32,
}

impl<T: Copy + Default> Ring<T> {
    /// Makes a ring for at least `records` records.
    pub(crate) fn new(records: usize) -> Self {
        let length = records.next_power_of_two();
        let places = vec![T::default(); length].into_boxed_slice();
        Self { places, mask: length - 1, next: 0 }
    }

    /// Number that the next record will get.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// True if record `number` is in the newer half of the ring, so that it will not be overwritten for
    /// another half a ring. False for [`NONE`].
    #[inline]
    pub(crate) fn has(&self, number: u32) -> bool {
        let is_late =
            (self.next.wrapping_sub(number).wrapping_sub(1) as usize) < self.places.len() / 2;
        is_late && number != NONE
    }

    /// True if the records from `floor` (the oldest still needed) on, plus this many new ones, exceed half
    /// the ring. Then the ring must grow, as a needed record may refer to one that is half a ring older.
    #[inline]
    pub(crate) fn is_short_of(&self, floor: u32, records: usize) -> bool {
        self.next.wrapping_sub(floor) as usize + records > self.places.len() / 2
    }

    /// The records that the next `records` pushes will overwrite, in two slices.
    pub(crate) fn oldest(&self, records: usize) -> [&[T]; 2] {
        let (wrapped, rest) = self.places.split_at(self.next as usize & self.mask);
        let first = records.min(rest.len());
        [&rest[..first], &wrapped[..records - first]]
    }

    /// Adds a record; returns its number.
    #[inline]
    pub(crate) fn push(&mut self, record: T) -> u32 {
        let number = self.reserve();
        self[number] = record;
        number
    }

    /// Takes the next number, to whose place the caller then assigns a record.
    #[inline]
    pub(crate) fn reserve(&mut self) -> u32 {
        let number = self.next;
        self.next = Self::after(number);
        number
    }

    /// Ensures that the next `records` numbers are consecutive.
    #[inline]
    pub(crate) fn prepare(&mut self, records: u32) {
        if self.next >= NONE - records {
            self.next = 0;
        }
    }

    /// Takes the next `records` numbers, to whose places the caller has assigned records.
    #[inline]
    pub(crate) fn take(&mut self, records: u32) {
        self.next += records;
    }

    /// The number that follows `number`; skips [`NONE`].
    #[inline]
    pub(crate) fn after(number: u32) -> u32 {
        if number == NONE - 1 { 0 } else { number + 1 }
    }

    /// Doubles the length and keeps all records under their numbers.
    #[cold]
    pub(crate) fn grow(&mut self) {
        let length = self.places.len();
        let mut larger = Self::new(2 * length);
        for back in 1..=length as u32 {
            let number = self.next.wrapping_sub(back);
            larger[number] = self[number];
        }
        larger.next = self.next;
        *self = larger;
    }
}

impl<T> Index<u32> for Ring<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, number: u32) -> &T {
        &self.places[number as usize & self.mask]
    }
}

impl<T> IndexMut<u32> for Ring<T> {
    #[inline(always)]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.places[number as usize & self.mask]
    }
}

/// Returns the older of two record numbers, which may have wrapped around; `next` is the number of the next
/// record.
pub(crate) fn further_back(next: u32, one: u32, other: u32) -> u32 {
    if next.wrapping_sub(one) > next.wrapping_sub(other) { one } else { other }
}

/// Array with one item for each of the latest instructions, at the instruction number modulo the length.
#[derive(Clone, Debug)]
pub(crate) struct Lane<T> {
    items: Box<[T]>,
    /// Length minus one; the length is a power of two.
    mask: usize,
}

impl<T: Copy> Lane<T> {
    /// Makes an array for this many instructions, a power of two; each element is a copy of `item`.
    pub(crate) fn new(instructions: usize, item: T) -> Self {
        assert!(instructions.is_power_of_two());
        Self { items: vec![item; instructions].into_boxed_slice(), mask: instructions - 1 }
    }
}

impl<T> Index<u64> for Lane<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, number: u64) -> &T {
        &self.items[number as usize & self.mask]
    }
}

impl<T> IndexMut<u64> for Lane<T> {
    #[inline(always)]
    fn index_mut(&mut self, number: u64) -> &mut T {
        &mut self.items[number as usize & self.mask]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_stay_for_the_length_of_the_ring_and_through_growth() {
        let mut ring = Ring::new(5);
        (0..12).for_each(|record| assert_eq!(ring.push(record * 10), record));
        assert!(!ring.has(7) && ring.has(8) && ring.has(11) && !ring.has(12) && !ring.has(NONE));
        assert!(ring.is_short_of(8, 1) && !ring.is_short_of(8, 0) && !ring.is_short_of(9, 1));
        assert_eq!((ring[4], ring.oldest(1)[0][0]), (40, 40));
        ring.grow();
        (4..12).for_each(|number| assert_eq!(ring[number], number * 10));
        assert!(!ring.is_short_of(5, 1) && ring.has(4));
        (12..20).for_each(|record| assert_eq!(ring.push(record * 10), record));
        assert_eq!((ring[4], ring.oldest(1)[0][0]), (40, 40));
    }

    #[test]
    fn numbers_go_on_from_0_before_the_number_that_stands_for_none() {
        let mut ring = Ring::new(8);
        // Four records end just below the number that is left out; five would not.
        for (next, records, expected) in
            [(NONE - 5, 4, NONE - 5), (NONE - 4, 4, 0), (NONE - 1, 4, 0), (7, 4, 7)]
        {
            ring.next = next;
            ring.prepare(records);
            assert_eq!(ring.next(), expected, "{records} from {next}");
            ring.take(records);
            assert_eq!(ring.next(), expected + records);
        }
        ring.next = NONE - 1;
        assert_eq!((ring.push(1), ring.push(2)), (NONE - 1, 0));
        assert_eq!(further_back(3, NONE - 4, 1), NONE - 4);
        assert_eq!(further_back(3, 1, NONE - 4), NONE - 4);
        assert_eq!(further_back(9, 4, 5), 4);
    }
}
