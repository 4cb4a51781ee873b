//! Contents of one cache: tags and states of the lines that are present or being filled.

use crate::LINE_BYTES;
use crate::config::CacheConfig;
use crate::ring::NONE;
use crate::split::Divisor;

const DIRTY: u32 = 1;
const PREFETCHED: u32 = 2;
const FILL_SHIFT: u32 = 2;
/// Mask of the low bits of a fill's number that a [`Line`] stores; all ones stand for no fill.
const FILL_BITS: u32 = u32::MAX >> FILL_SHIFT;

/// Tag of an invalid way: no real tag is as large, see [`Cache::place`].
const EMPTY: u32 = u32::MAX;

/// State of a line: low bits of the number of the fill that brought it, and flags for dirty and prefetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line(u32);

impl Line {
    /// Makes the state of a line that fill number `fill` brings; [`NONE`] if the line is present at once.
    pub(crate) fn new(fill: u32, dirty: bool, prefetched: bool) -> Self {
        let flags = u32::from(dirty) * DIRTY + u32::from(prefetched) * PREFETCHED;
        Self(fill << FILL_SHIFT | flags)
    }

    /// Number of the fill that brings the line; [`NONE`] if the line is present. `next` is the number of the
    /// next fill, from which the high bits follow.
    #[inline]
    pub(crate) fn fill(self, next: u32) -> u32 {
        let low_bits = self.0 >> FILL_SHIFT;
        if low_bits == FILL_BITS {
            return NONE;
        }
        next.wrapping_sub(next.wrapping_sub(low_bits) & FILL_BITS)
    }

    /// Marks the line as present, so that it refers to no fill.
    #[inline]
    pub(crate) fn mark_arrived(&mut self) {
        self.0 |= FILL_BITS << FILL_SHIFT;
    }

    #[inline]
    pub(crate) fn mark_dirty(&mut self) {
        self.0 |= DIRTY;
    }

    pub(crate) fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    /// Clears the prefetched flag; returns true if it was set, so that this is the first use of a prefetched
    /// line.
    #[inline]
    pub(crate) fn take_prefetched(&mut self) -> bool {
        let prefetched = self.0 & PREFETCHED != 0;
        self.0 &= !PREFETCHED;
        prefetched
    }
}

/// Result of an access to a cache.
pub(crate) enum LookUp<'a> {
    /// The line is present or being filled.
    Hit(&'a mut Line),
    /// The line was not there and has been inserted; the number of the evicted line if that is dirty.
    Miss(Option<u64>),
}

/// Line that is evicted.
enum Victim {
    Clean,
    /// Dirty line with this tag.
    Dirty(u32),
}

/// Set-associative lines with true least-recently-used replacement: each set is kept in order of
/// use, so that the line used last is compared first.
///
/// Tags are 32 bits wide: physical addresses below 2³² × sets × 64 bytes differ (16TB in
/// an L1 of 64 sets).
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    tags: Vec<u32>,
    lines: Vec<Line>,
    ways: usize,
    sets: Divisor,
}

impl Cache {
    pub(crate) fn new(config: &CacheConfig) -> Self {
        let count = config.size_bytes / LINE_BYTES;
        Self {
            tags: vec![EMPTY; count as usize],
            lines: vec![Line::new(NONE, false, false); count as usize],
            ways: config.ways as usize,
            sets: Divisor::new(count / u64::from(config.ways)),
        }
    }

    /// Bytes of host memory that the simulation of such a cache takes.
    pub(crate) fn host_bytes(config: &CacheConfig) -> u64 {
        config.size_bytes / LINE_BYTES * (size_of::<u32>() + size_of::<Line>()) as u64
    }

    /// Index of the set of a line number, and the tag.
    #[inline]
    fn place(&self, number: u64) -> (usize, u32) {
        let (tag, set) = self.sets.split(number);
        debug_assert!(tag < u64::from(EMPTY), "line {number:#x} is beyond the tags");
        (set as usize, tag as u32)
    }

    /// Tags and line states of a set, most recently used first.
    #[inline]
    fn set(&mut self, set: usize) -> (&mut [u32], &mut [Line]) {
        let all = set * self.ways..(set + 1) * self.ways;
        (&mut self.tags[all.clone()], &mut self.lines[all])
    }

    /// As [`Self::set`], for a number of ways known at compile time, which is faster.
    #[inline(always)]
    fn set_of<const WAYS: usize>(&mut self, set: usize) -> (&mut [u32], &mut [Line]) {
        let (tags, lines) = (self.tags.as_chunks_mut::<WAYS>().0, self.lines.as_chunks_mut().0);
        let (tags, lines): (&mut [u32; WAYS], &mut [Line; WAYS]) =
            (&mut tags[set], &mut lines[set]);
        (tags, lines)
    }

    /// Looks up the line of this number and makes it the most recently used of its set. If the cache does not
    /// have it, inserts it in state `missing` and evicts the least recently used.
    #[inline(always)]
    pub(crate) fn access(&mut self, number: u64, missing: Line) -> LookUp<'_> {
        let (set, tag) = self.place(number);
        let first = set * self.ways;
        if self.tags[first] != tag
            && let Some(victim) = self.bring_to_front(set, tag, missing)
        {
            return LookUp::Miss(match victim {
                Victim::Clean => None,
                Victim::Dirty(tag) => Some(self.sets.join(tag.into(), set as u64)),
            });
        }
        LookUp::Hit(&mut self.lines[first])
    }

    /// Like [`Self::access`], for a line that was not used last in its set. Returns the evicted line.
    #[inline(never)]
    fn bring_to_front(&mut self, set: usize, tag: u32, missing: Line) -> Option<Victim> {
        match self.ways {
            8 => bring_to_front(self.set_of::<8>(set), tag, missing),
            2 => bring_to_front(self.set_of::<2>(set), tag, missing),
            _ => self.bring_to_front_of_any(set, tag, missing),
        }
    }

    #[inline(never)]
    fn bring_to_front_of_any(&mut self, set: usize, tag: u32, missing: Line) -> Option<Victim> {
        match self.ways {
            4 => bring_to_front(self.set_of::<4>(set), tag, missing),
            16 => bring_to_front(self.set_of::<16>(set), tag, missing),
            _ => bring_to_front(self.set(set), tag, missing),
        }
    }

    /// State of a line, without changing the replacement order.
    pub(crate) fn peek(&self, number: u64) -> Option<Line> {
        let (set, tag) = self.place(number);
        let first = set * self.ways;
        let way = self.tags[first..first + self.ways].iter().position(|&other| other == tag)?;
        Some(self.lines[first + way])
    }

    /// Clears the dirty flag of a line, which is written to a level below; returns true if it was dirty.
    pub(crate) fn clean(&mut self, number: u64) -> bool {
        let (set, tag) = self.place(number);
        let (tags, lines) = self.set(set);
        let Some(way) = tags.iter().position(|&other| other == tag) else { return false };
        let was_dirty = lines[way].is_dirty();
        lines[way].0 &= !DIRTY;
        was_dirty
    }

    /// Invalidates a line; returns whether it was dirty, `None` if the cache does not have it. The next
    /// insertion into the set uses its way.
    pub(crate) fn remove(&mut self, number: u64) -> Option<bool> {
        let (set, tag) = self.place(number);
        let (tags, lines) = self.set(set);
        let way = tags.iter().position(|&other| other == tag)?;
        let line = lines[way];
        tags[way..].rotate_left(1);
        lines[way..].rotate_left(1);
        (tags[tags.len() - 1], lines[lines.len() - 1]) = (EMPTY, Line::new(NONE, false, false));
        Some(line.is_dirty())
    }
}

/// Makes a line the most recently used of a set. If the set does not have it, inserts it in state `missing`,
/// and returns the least recently used, which is evicted.
#[inline(always)]
fn bring_to_front(
    (tags, lines): (&mut [u32], &mut [Line]),
    tag: u32,
    missing: Line,
) -> Option<Victim> {
    // All ways are compared at once, as most searches find nothing.
    if tags.iter().fold(false, |found, &other| found | (other == tag)) {
        move_to_front(tags, lines, tag);
        return None;
    }
    let last = tags.len() - 1;
    let victim = if lines[last].is_dirty() { Victim::Dirty(tags[last]) } else { Victim::Clean };
    tags.copy_within(..last, 1);
    lines.copy_within(..last, 1);
    (tags[0], lines[0]) = (tag, missing);
    Some(victim)
}

/// Makes a line that the set has the most recently used.
#[inline(never)]
fn move_to_front(tags: &mut [u32], lines: &mut [Line], tag: u32) {
    let (mut carried, mut way) = ((tags[0], lines[0]), 0);
    while carried.0 != tag {
        way += 1;
        std::mem::swap(&mut carried.0, &mut tags[way]);
        std::mem::swap(&mut carried.1, &mut lines[way]);
    }
    (tags[0], lines[0]) = carried;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{MshrOrder, Prefetcher};

    #[test]
    fn a_line_that_is_taken_away_leaves_its_place_to_the_next() {
        let mut cache = two_ways(1);
        miss(&mut cache, 1, Line::new(7, true, false));
        miss(&mut cache, 2, Line::new(8, false, false));
        assert_eq!(cache.remove(3), None);
        assert_eq!(cache.remove(1), Some(true));
        assert!(cache.peek(1).is_none() && cache.peek(2).is_some());
        assert_eq!(miss(&mut cache, 3, Line::new(9, true, false)), None, "a place was empty");
        assert!(cache.clean(3) && !cache.clean(3) && !cache.clean(4));
        assert!(!cache.peek(3).unwrap().is_dirty());
    }

    /// Inserts a line that the cache does not have; returns the evicted line if that is dirty.
    fn miss(cache: &mut Cache, number: u64, line: Line) -> Option<u64> {
        match cache.access(number, line) {
            LookUp::Miss(evicted) => evicted,
            LookUp::Hit(_) => panic!("line {number} is there"),
        }
    }

    fn two_ways(sets: u64) -> Cache {
        Cache::new(&CacheConfig {
            size_bytes: sets * 2 * LINE_BYTES,
            ways: 2,
            latency_cycles: 4,
            response_cycles: 0,
            mshrs: 1,
            prefetcher: Prefetcher::None,
            mshr_order: MshrOrder::default(),
        })
    }

    #[test]
    fn the_least_recently_used_line_leaves() {
        let line = |dirty| Line::new(7, dirty, false);
        // Three sets: modulo indexing; lines 0, 3, 6, 9 share set 0.
        let mut cache = two_ways(3);
        assert_eq!(miss(&mut cache, 0, line(true)), None);
        assert_eq!(miss(&mut cache, 3, line(false)), None);
        assert!(matches!(cache.access(0, line(false)), LookUp::Hit(found) if found.is_dirty()));
        assert_eq!(miss(&mut cache, 6, line(false)), None, "line 3 is clean");
        assert!(cache.peek(0).is_some() && cache.peek(3).is_none());
        assert_eq!(miss(&mut cache, 9, line(false)), Some(0));
        assert!(cache.peek(6).is_some() && cache.peek(9).is_some());
    }

    /// A set evicts its least recently used line, whatever its number of ways.
    #[test]
    fn sets_of_any_width_keep_their_latest_lines() {
        for ways in [1, 2, 3, 4, 5, 8, 12, 16, 20] {
            let mut cache = Cache::new(&CacheConfig {
                size_bytes: 2 * u64::from(ways) * LINE_BYTES,
                ways,
                latency_cycles: 4,
                response_cycles: 0,
                mshrs: 1,
                prefetcher: Prefetcher::None,
                mshr_order: MshrOrder::default(),
            });
            let ways = u64::from(ways);
            let line = |fill: u64| Line::new(fill as u32, true, false);
            // Even lines share one set, odd ones the other.
            for number in 0..2 * ways {
                assert_eq!(miss(&mut cache, number, line(number)), None, "{ways} ways");
            }
            // The first is used once more, so that the second leaves before it, unless there is no second.
            assert!(matches!(cache.access(0, line(99)), LookUp::Hit(found) if found.fill(9) == 0));
            let order: Vec<u64> = (1..ways).chain([0]).collect();
            for (place, leaves) in order.iter().enumerate() {
                let number = 2 * (ways + place as u64);
                assert_eq!(miss(&mut cache, number, line(number)), Some(2 * leaves), "{ways} ways");
            }
            assert!((0..ways).all(|place| cache.peek(2 * place + 1).is_some()), "{ways} ways");
        }
    }

    #[test]
    fn a_line_knows_its_fill_until_it_is_there() {
        let mut line = Line::new(9, false, true);
        line.mark_dirty();
        assert_eq!([line.fill(10), line.fill(1 << 30)], [9, 9]);
        assert!(line.take_prefetched() && !line.take_prefetched());
        line.mark_arrived();
        assert_eq!(line.fill(10), NONE);
        let wrapped = Line::new((1 << 30) + 5, false, false);
        assert_eq!(
            wrapped.fill((1 << 30) + 9),
            (1 << 30) + 5,
            "of its number the low bits are kept"
        );
    }
}
