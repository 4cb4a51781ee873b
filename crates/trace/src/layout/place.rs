//! Where one process's memory lies in its pools.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges of addresses, apart from each other, each with a value that is added to an address to move it.
/// Zero stands for memory that stays where it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves {
    /// First address → end and what is added.
    ranges: BTreeMap<u64, (u64, u64)>,
}

/// What holds for a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) range: Range<u64>,
    /// What is added; nothing where there is no range at all.
    pub(super) by: Option<u64>,
}

impl Moves {
    /// What holds for the addresses around this one.
    pub(super) fn around(&self, address: u64) -> Move {
        let before = self.ranges.range(..=address).next_back();
        let start = match before {
            Some((&start, &(end, by))) if address < end => {
                return Move { range: start..end, by: Some(by) };
            }
            Some((_, &(end, _))) => end,
            None => 0,
        };
        let after = self.ranges.range(address..).find(|(start, _)| **start > address);
        Move { range: start..after.map_or(u64::MAX, |(start, _)| *start), by: None }
    }

    /// What holds in the parts of a range, lowest first.
    pub(super) fn parts(&self, range: Range<u64>) -> Vec<Move> {
        let mut parts = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let Move { range: own, by } = self.around(at);
            let end = own.end.min(range.end);
            parts.push(Move { range: at..end, by });
            at = end;
        }
        parts
    }

    /// Adds a range that overlaps no other, and joins it with neighbours that move as far.
    pub(super) fn insert(&mut self, range: Range<u64>, by: u64) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        if let Some((&before, &(ends, of_before))) = self.ranges.range(..start).next_back()
            && (ends, of_before) == (start, by)
        {
            start = before;
        }
        if let Some(&(ends, of_after)) = self.ranges.get(&end)
            && of_after == by
        {
            self.ranges.remove(&end);
            end = ends;
        }
        self.ranges.insert(start, (end, by));
    }

    /// Removes what lies in a range; returns it.
    pub(super) fn remove(&mut self, range: Range<u64>) -> Vec<Move> {
        let removed = self.parts(range.clone());
        let overlaps = |start: &u64, end: u64| *start < range.end && range.start < end;
        let touched: Vec<(u64, (u64, u64))> = self
            .ranges
            .range(..range.end)
            .rev()
            .map(|(start, value)| (*start, *value))
            .take_while(|(_, (end, _))| *end > range.start)
            .filter(|(start, (end, _))| overlaps(start, *end))
            .collect();
        for (start, (end, by)) in touched {
            self.ranges.remove(&start);
            self.insert(start..end.min(range.start), by);
            self.insert(start.max(range.end)..end, by);
        }
        removed.into_iter().filter(|part| part.by.is_some()).collect()
    }
}

/// Which parts of a pool are in use, as offsets in bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    /// First offset → end.
    used: BTreeMap<u64, u64>,
}

impl Room {
    /// Takes the lowest free part of a pool of `pool_bytes` that is so long.
    pub(super) fn take(&mut self, bytes: u64, pool_bytes: u64) -> Option<u64> {
        let mut at = 0;
        for (&start, &end) in &self.used {
            if start - at >= bytes {
                break;
            }
            at = end;
        }
        let end = at.checked_add(bytes).filter(|end| *end <= pool_bytes)?;
        self.set(at, end);
        Some(at)
    }

    /// Takes this part too, if it is free and in the pool.
    pub(super) fn extend(&mut self, range: Range<u64>, pool_bytes: u64) -> bool {
        let before = self.used.range(..range.end).next_back();
        let is_free = before.is_none_or(|(_, end)| *end <= range.start) && range.end <= pool_bytes;
        if is_free {
            self.set(range.start, range.end);
        }
        is_free
    }

    /// Marks a free part as used, and joins it with its neighbours.
    fn set(&mut self, mut start: u64, mut end: u64) {
        if let Some((&before, &ends)) = self.used.range(..start).next_back()
            && ends == start
        {
            self.used.remove(&before);
            start = before;
        }
        end = self.used.remove(&end).unwrap_or(end);
        self.used.insert(start, end);
    }

    /// Gives a used part back.
    pub(super) fn free(&mut self, range: Range<u64>) {
        let around = self.used.range(..=range.start).next_back().map(|(start, end)| (*start, *end));
        let Some((start, end)) = around.filter(|(_, end)| range.end <= *end) else {
            unreachable!("{range:x?} is in use");
        };
        self.used.remove(&start);
        for (start, end) in [(start, range.start), (range.end, end)] {
            if start < end {
                self.used.insert(start, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(range: Range<u64>, by: Option<u64>) -> Move {
        Move { range, by }
    }

    #[test]
    fn ranges_are_cut_where_others_are_removed() {
        let mut moves = Moves::default();
        moves.insert(10..20, 5);
        moves.insert(20..30, 0);
        moves.insert(40..50, 7);
        let expected = [
            part(5..10, None),
            part(10..20, Some(5)),
            part(20..30, Some(0)),
            part(30..40, None),
            part(40..45, Some(7)),
        ];
        assert_eq!(moves.parts(5..45), expected);
        let removed = [part(15..20, Some(5)), part(20..30, Some(0)), part(40..42, Some(7))];
        assert_eq!(moves.remove(15..42), removed);
        let expected = [
            part(0..10, None),
            part(10..15, Some(5)),
            part(15..42, None),
            part(42..50, Some(7)),
            part(50..60, None),
        ];
        assert_eq!(moves.parts(0..60), expected);
        // Neighbours that move as far are one.
        moves.insert(5..10, 5);
        moves.insert(15..40, 7);
        assert_eq!(moves.parts(5..45)[..2], [part(5..15, Some(5)), part(15..40, Some(7))]);
        moves.insert(40..42, 7);
        assert_eq!(moves.around(20), part(15..50, Some(7)));
        moves.remove(15..42);
        // A hole in the middle of one.
        assert_eq!(moves.remove(44..46), [part(44..46, Some(7))]);
        assert_eq!(moves.around(43), part(42..44, Some(7)));
        assert_eq!(moves.around(49), part(46..50, Some(7)));
        assert!(moves.remove(60..70).is_empty());
    }

    #[test]
    fn the_lowest_room_that_is_large_enough_is_taken() {
        let mut room = Room::default();
        assert_eq!(room.take(10, 100), Some(0));
        assert_eq!(room.take(20, 100), Some(10));
        assert_eq!(room.take(70, 100), Some(30));
        assert_eq!(room.take(1, 100), None, "full");
        room.free(5..15);
        assert_eq!(room.take(11, 100), None);
        assert_eq!(room.take(4, 100), Some(5));
        assert_eq!(room.take(6, 100), Some(9));
        room.free(90..100);
        assert!(room.extend(90..95, 100) && !room.extend(94..96, 100));
        assert!(!room.extend(95..101, 100) && room.extend(95..100, 100));
        room.free(0..100);
        assert_eq!(room.take(100, 100), Some(0));
    }
}
