//! A map from disjoint ranges of addresses to values.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint ranges of addresses (or of page numbers) with a value each. A set of ranges has the value `()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeMap<T>(BTreeMap<u64, (u64, T)>);

impl<T> Default for RangeMap<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Clone + PartialEq> RangeMap<T> {
    /// Returns the number of ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is no range.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Inserts a range that overlaps no other. Neighbours with the same value become one range.
    pub fn insert(&mut self, range: Range<u64>, value: T) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&at, (until, other))) = self.0.range(..start).next_back()
            && *until == start
            && *other == value
        {
            start = at;
        }
        if let Some((until, other)) = self.0.get(&end)
            && *other == value
        {
            let until = *until;
            self.0.remove(&end);
            end = until;
        }
        self.0.insert(start, (end, value));
    }

    /// Sets the value of the addresses of `range`, and removes their values so far. Neighbours with the same
    /// value remain ranges of their own.
    pub fn replace(&mut self, range: Range<u64>, value: T) {
        self.remove(&range);
        if !range.is_empty() {
            self.0.insert(range.start, (range.end, value));
        }
    }

    /// Removes the addresses of `range`, and returns the parts that it had.
    pub fn remove(&mut self, range: &Range<u64>) -> Vec<(Range<u64>, T)> {
        let mut removed = Vec::new();
        if range.is_empty() {
            return removed;
        }
        for address in [range.start, range.end] {
            if let Some((_, (end, value))) = self.0.range_mut(..address).next_back()
                && *end > address
            {
                let upper = (std::mem::replace(end, address), value.clone());
                self.0.insert(address, upper);
            }
        }
        while let Some((&start, _)) = self.0.range(range.clone()).next() {
            removed.extend(self.0.remove(&start).map(|(end, value)| (start..end, value)));
        }
        removed
    }

    /// Range that contains an address, with its value.
    #[inline]
    pub fn find(&self, address: u64) -> Option<(Range<u64>, &T)> {
        let (&start, (end, value)) = self.0.range(..=address).next_back()?;
        (address < *end).then_some((start..*end, value))
    }

    /// First range that begins above an address, with its value.
    pub fn next_above(&self, address: u64) -> Option<(Range<u64>, &T)> {
        let (&start, (end, value)) = self.0.range(address.checked_add(1)?..).next()?;
        Some((start..*end, value))
    }

    /// Range that contains an address, with its value; or else the gap that contains the address, with none.
    pub fn around(&self, address: u64) -> (Range<u64>, Option<&T>) {
        let start = match self.0.range(..=address).next_back() {
            Some((&start, (end, value))) if address < *end => return (start..*end, Some(value)),
            Some((_, (end, _))) => *end,
            None => 0,
        };
        let end = self.next_above(address).map_or(u64::MAX, |(next, _)| next.start);
        (start..end, None)
    }

    /// Parts of `range` that have one value or lie in a gap, in ascending order.
    pub fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, Option<&T>)> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            (at < range.end).then(|| {
                let (own, value) = self.around(at);
                let part = at..own.end.min(range.end);
                at = part.end;
                (part, value)
            })
        })
    }

    /// Parts of `range` that have a value, in ascending order.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, &T)> {
        self.parts(range).filter_map(|(part, value)| Some((part, value?)))
    }

    /// True if a part of `range` has a value.
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        self.within(range.clone()).next().is_some()
    }

    /// All ranges in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Range<u64>, &T)> {
        self.0.iter().map(|(&start, (end, value))| (start..*end, value))
    }
}

/// Union of ranges, which may overlap.
impl FromIterator<Range<u64>> for RangeMap<()> {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut union = Self::default();
        for range in ranges {
            union.remove(&range);
            union.insert(range, ());
        }
        union
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(ranges: &RangeMap<char>) -> Vec<(Range<u64>, char)> {
        ranges.iter().map(|(range, value)| (range, *value)).collect()
    }

    #[test]
    fn removal_splits_ranges_and_insertion_joins_them() {
        let mut ranges = RangeMap::default();
        ranges.insert(10..20, 'a');
        ranges.insert(20..30, 'a');
        ranges.insert(40..50, 'b');
        assert_eq!(all(&ranges), [(10..30, 'a'), (40..50, 'b')]);
        assert_eq!(ranges.remove(&(15..18)), [(15..18, 'a')]);
        assert_eq!(ranges.remove(&(25..45)), [(25..30, 'a'), (40..45, 'b')]);
        assert_eq!(ranges.remove(&(12..12)), []);
        assert_eq!(all(&ranges), [(10..15, 'a'), (18..25, 'a'), (45..50, 'b')]);
        assert_eq!((ranges.find(14), ranges.find(15)), (Some((10..15, &'a')), None));
        assert_eq!(ranges.next_above(18), Some((45..50, &'b')));
        ranges.insert(15..18, 'a');
        assert_eq!(ranges.find(20), Some((10..25, &'a')));
        ranges.replace(20..22, 'a');
        assert_eq!(all(&ranges), [(10..20, 'a'), (20..22, 'a'), (22..25, 'a'), (45..50, 'b')]);
    }

    #[test]
    fn parts_have_a_value_or_lie_in_a_gap() {
        let mut ranges = RangeMap::default();
        ranges.insert(10..20, 'a');
        ranges.insert(20..30, 'b');
        ranges.insert(40..50, 'c');
        let parts: Vec<_> = ranges.parts(5..45).collect();
        let expected = [
            (5..10, None),
            (10..20, Some(&'a')),
            (20..30, Some(&'b')),
            (30..40, None),
            (40..45, Some(&'c')),
        ];
        assert_eq!(parts, expected);
        assert_eq!(ranges.around(60), (50..u64::MAX, None));
        assert_eq!(ranges.within(25..41).collect::<Vec<_>>(), [(25..30, &'b'), (40..41, &'c')]);
        let overlaps = [0..10, 0..11, 30..40, 49..60, 15..15].map(|range| ranges.overlaps(&range));
        assert_eq!(overlaps, [false, true, false, true, false]);
    }

    #[test]
    fn a_union_has_no_overlaps() {
        let union: RangeMap<()> = [5..9, 1..3, 8..12, 3..4, 20..20].into_iter().collect();
        assert_eq!(union.iter().map(|(range, ())| range).collect::<Vec<_>>(), [1..4, 5..12]);
    }
}
