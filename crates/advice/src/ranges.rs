//! A map from disjoint ranges of addresses to values.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint ranges with a value each.
#[derive(Clone)]
pub(crate) struct Ranges<T>(BTreeMap<u64, (u64, T)>);

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy + PartialEq> Ranges<T> {
    /// Inserts a range that overlaps no other. Neighbours with the same value become one range.
    pub(crate) fn insert(&mut self, range: Range<u64>, value: T) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&at, &(until, other))) = self.0.range(..start).next_back()
            && until == start
            && other == value
        {
            start = at;
        }
        if let Some(&(until, other)) = self.0.get(&end)
            && other == value
        {
            self.0.remove(&end);
            end = until;
        }
        self.0.insert(start, (end, value));
    }

    /// Removes the addresses of `range`, and returns the parts that it had.
    pub(crate) fn remove(&mut self, range: &Range<u64>) -> Vec<(Range<u64>, T)> {
        let mut removed = Vec::new();
        if range.is_empty() {
            return removed;
        }
        let before = self.0.range(..range.start).next_back().map(|(&start, &it)| (start, it));
        if let Some((start, (end, value))) = before
            && end > range.start
        {
            self.0.insert(start, (range.start, value));
            removed.push((range.start..end.min(range.end), value));
            if end > range.end {
                self.0.insert(range.end, (end, value));
            }
        }
        while let Some((&start, &(end, value))) = self.0.range(range.clone()).next() {
            self.0.remove(&start);
            removed.push((start..end.min(range.end), value));
            if end > range.end {
                self.0.insert(range.end, (end, value));
            }
        }
        removed
    }

    /// Range that contains an address, with its value.
    pub(crate) fn find(&self, address: u64) -> Option<(Range<u64>, T)> {
        let (&start, &(end, value)) = self.0.range(..=address).next_back()?;
        (address < end).then_some((start..end, value))
    }

    /// First range that begins above an address, with its value.
    pub(crate) fn next_above(&self, address: u64) -> Option<(Range<u64>, T)> {
        let (&start, &(end, value)) = self.0.range(address + 1..).next()?;
        Some((start..end, value))
    }

    /// All ranges in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Range<u64>, T)> + '_ {
        self.0.iter().map(|(&start, &(end, value))| (start..end, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removal_splits_ranges_and_insertion_joins_them() {
        let mut ranges = Ranges::default();
        ranges.insert(10..20, 'a');
        ranges.insert(20..30, 'a');
        ranges.insert(40..50, 'b');
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(10..30, 'a'), (40..50, 'b')]);
        assert_eq!(ranges.remove(&(15..18)), [(15..18, 'a')]);
        assert_eq!(ranges.remove(&(25..45)), [(25..30, 'a'), (40..45, 'b')]);
        let left = [(10..15, 'a'), (18..25, 'a'), (45..50, 'b')];
        assert_eq!(ranges.iter().collect::<Vec<_>>(), left);
        assert_eq!((ranges.find(14), ranges.find(15)), (Some((10..15, 'a')), None));
        assert_eq!(ranges.next_above(18), Some((45..50, 'b')));
        ranges.insert(15..18, 'a');
        assert_eq!(ranges.find(20), Some((10..25, 'a')));
    }
}
