//! Placement of one process's memory in its pools.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint address ranges, each with an offset that moves its addresses (added modulo 2^64). Offset
/// zero is for memory that keeps its address.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves {
    /// Ranges by start address, each with its end and its offset.
    ranges: BTreeMap<u64, (u64, u64)>,
}

/// Address range, with the offset that moves its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) range: Range<u64>,
    /// Offset to add to the range's addresses; `None` if the range is a gap between moved ranges.
    pub(super) by: Option<u64>,
}

impl Moves {
    /// Returns the range that contains this address, with its offset, or else the gap that contains the
    /// address.
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

    /// Splits an address range into parts that have one offset or lie in a gap, in ascending order.
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

    /// Inserts a range with the offset `by`, which overlaps no other range. Joins it with adjacent ranges of
    /// the same offset.
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

    /// Removes all ranges, or parts of ranges, that lie in `range`, and returns the removed parts.
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

/// Allocated parts of a pool of a program's memory, as byte offsets.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    /// Allocated parts by start, each with its end.
    used: BTreeMap<u64, u64>,
}

impl Room {
    /// Allocates the lowest free `bytes` bytes of a pool of `pool_bytes` bytes. Returns their offset, or
    /// `None` if there is no room.
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

    /// Allocates `range` if it is free and inside the pool; otherwise returns false.
    pub(super) fn extend(&mut self, range: Range<u64>, pool_bytes: u64) -> bool {
        let before = self.used.range(..range.end).next_back();
        let is_free = before.is_none_or(|(_, end)| *end <= range.start) && range.end <= pool_bytes;
        if is_free {
            self.set(range.start, range.end);
        }
        is_free
    }

    /// Marks a free part of the pool as allocated, and joins it with adjacent allocated parts.
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

    /// Frees an allocated part of the pool.
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
    use perforate_types::Random;

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
        // Adjacent ranges with the same offset are joined.
        moves.insert(5..10, 5);
        moves.insert(15..40, 7);
        assert_eq!(moves.parts(5..45)[..2], [part(5..15, Some(5)), part(15..40, Some(7))]);
        moves.insert(40..42, 7);
        assert_eq!(moves.around(20), part(15..50, Some(7)));
        moves.remove(15..42);
        // Remove from the middle of a range.
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

    /// Compares with a pool in which each byte is free or not.
    #[test]
    fn room_is_that_of_a_pool_of_single_bytes() {
        const BYTES: usize = 48;
        let (mut room, mut used) = (Room::default(), [false; BYTES]);
        let mut random = Random::new(7);
        for _ in 0..3000 {
            let (start, length) = (random.below(BYTES as u64), 1 + random.below(9));
            let end = start + length;
            let [from, to] = [start, end.min(BYTES as u64)].map(|at| at as usize);
            match random.below(3) {
                0 => {
                    let place =
                        used.windows(length as usize).position(|part| !part.contains(&true));
                    assert_eq!(room.take(length, BYTES as u64), place.map(|at| at as u64));
                    place.into_iter().for_each(|at| used[at..at + length as usize].fill(true));
                }
                1 => {
                    let is_free = end <= BYTES as u64 && !used[from..to].contains(&true);
                    assert_eq!(room.extend(start..end, BYTES as u64), is_free);
                    used[from..to].iter_mut().for_each(|byte| *byte |= is_free);
                }
                _ if !used[from..to].contains(&false) => {
                    room.free(from as u64..to as u64);
                    used[from..to].fill(false);
                }
                _ => {}
            }
            let mut runs = BTreeMap::new();
            for run in
                (0..BYTES).collect::<Vec<_>>().chunk_by(|one, other| used[*one] == used[*other])
            {
                if used[run[0]] {
                    runs.insert(run[0] as u64, (run[0] + run.len()) as u64);
                }
            }
            assert_eq!(room.used, runs);
        }
    }
}
