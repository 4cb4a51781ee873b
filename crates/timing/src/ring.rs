//! Records by sequence number.
//!
//! Fills, walks, accesses and stores are numbered in program order. The record of number *n* lies at *n*
//! modulo the length of its ring, and stays until the number *n* + length is given. Nothing is moved or freed.

use std::ops::{Index, IndexMut};

/// Number of no record.
pub(crate) const NONE: u32 = u32::MAX;

/// The latest records of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Ring<T> {
    places: Box<[T]>,
    /// Number of the next record; numbers wrap around after 2³².
    next: u32,
}

impl<T: Copy + Default> Ring<T> {
    /// A ring with at least `records` places.
    pub(crate) fn new(records: usize) -> Self {
        let length = records.next_power_of_two();
        Self { places: vec![T::default(); length].into_boxed_slice(), next: 0 }
    }

    /// Number that the next record gets.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// True if `number` was given in the latest half of the ring: its record stays for another half. False for
    /// [`NONE`].
    #[inline]
    pub(crate) fn has(&self, number: u32) -> bool {
        let is_late =
            (self.next.wrapping_sub(number).wrapping_sub(1) as usize) < self.places.len() / 2;
        is_late && number != NONE
    }

    /// True if the records from `floor` on and so many more take over half of the ring. Then the ring has to grow,
    /// as each of them may refer to a record that is half a ring older.
    #[inline]
    pub(crate) fn is_short_of(&self, floor: u32, records: usize) -> bool {
        self.next.wrapping_sub(floor) as usize + records > self.places.len() / 2
    }

    /// Records that the next so many pushes overwrite.
    #[inline]
    pub(crate) fn oldest(&self, records: usize) -> impl Iterator<Item = &T> {
        (0..records as u32).map(|record| &self[self.next.wrapping_add(record)])
    }

    /// Adds a record; returns its number.
    #[inline]
    pub(crate) fn push(&mut self, record: T) -> u32 {
        let number = self.next;
        self[number] = record;
        self.next = Self::after(number);
        number
    }

    /// Number after another. [`NONE`] is skipped.
    #[inline]
    pub(crate) fn after(number: u32) -> u32 {
        (number + 1) % NONE
    }

    /// Doubles the length; all records stay.
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
        &self.places[number as usize & (self.places.len() - 1)]
    }
}

impl<T> IndexMut<u32> for Ring<T> {
    #[inline(always)]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.places[number as usize & (self.places.len() - 1)]
    }
}

/// The one of two numbers that was given earlier; `next` is given next.
pub(crate) fn further_back(next: u32, one: u32, other: u32) -> u32 {
    if next.wrapping_sub(one) > next.wrapping_sub(other) { one } else { other }
}

/// One item for each of the latest instructions, by their number.
#[derive(Clone, Debug)]
pub(crate) struct Lane<T>(Box<[T]>);

impl<T: Copy> Lane<T> {
    /// A lane of so many instructions, a power of two.
    pub(crate) fn new(instructions: usize, item: T) -> Self {
        assert!(instructions.is_power_of_two());
        Self(vec![item; instructions].into_boxed_slice())
    }
}

impl<T> Index<u64> for Lane<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, number: u64) -> &T {
        &self.0[number as usize & (self.0.len() - 1)]
    }
}

impl<T> IndexMut<u64> for Lane<T> {
    #[inline(always)]
    fn index_mut(&mut self, number: u64) -> &mut T {
        &mut self.0[number as usize & (self.0.len() - 1)]
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
        assert_eq!((ring[4], *ring.oldest(1).next().unwrap()), (40, 40));
        ring.grow();
        (4..12).for_each(|number| assert_eq!(ring[number], number * 10));
        assert!(!ring.is_short_of(5, 1) && ring.has(4));
        (12..20).for_each(|record| assert_eq!(ring.push(record * 10), record));
        assert_eq!((ring[4], *ring.oldest(1).next().unwrap()), (40, 40));
    }
}
