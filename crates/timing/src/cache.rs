//! Contents of one cache: lines that are there or on their way.

use crate::LINE_BYTES;
use crate::config::CacheConfig;
use crate::ring::NONE;
use crate::split::Divisor;

const DIRTY: u32 = 1;
const PREFETCHED: u32 = 2;
const FILL_SHIFT: u32 = 2;
/// Low bits of a fill's number, and the value of these for no fill.
const FILL_BITS: u32 = u32::MAX >> FILL_SHIFT;

/// No line: no tag is as large, see [`Cache::place`].
const EMPTY: u32 = u32::MAX;

/// State of a line: low bits of the number of the fill that brings or brought it, and two flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line(u32);

impl Line {
    /// A line that `fill` brings, or [`NONE`].
    pub(crate) fn new(fill: u32, dirty: bool, prefetched: bool) -> Self {
        Self(fill << FILL_SHIFT | u32::from(dirty) * DIRTY | u32::from(prefetched) * PREFETCHED)
    }

    /// Fill that brings the line, or [`NONE`]. `next` is the number of the next fill.
    #[inline]
    pub(crate) fn fill(self, next: u32) -> u32 {
        let low_bits = self.0 >> FILL_SHIFT;
        if low_bits == FILL_BITS {
            return NONE;
        }
        next.wrapping_sub(next.wrapping_sub(low_bits) & FILL_BITS)
    }

    /// The line is there.
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

    /// Marks the line used; returns true if a prefetch brought it and this is its first use.
    #[inline]
    pub(crate) fn take_prefetched(&mut self) -> bool {
        let prefetched = self.0 & PREFETCHED != 0;
        self.0 &= !PREFETCHED;
        prefetched
    }
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

    /// Bytes of this computer's memory that a cache takes.
    pub(crate) fn host_bytes(config: &CacheConfig) -> u64 {
        config.size_bytes / LINE_BYTES * (size_of::<u32>() + size_of::<Line>()) as u64
    }

    /// Set of a line, and its tag.
    #[inline]
    fn place(&self, number: u64) -> (usize, u32) {
        let (tag, set) = self.sets.split(number);
        debug_assert!(tag < u64::from(EMPTY), "line {number:#x} is beyond the tags");
        (set as usize, tag as u32)
    }

    /// Tags and lines of a set.
    #[inline]
    fn set(&mut self, set: usize) -> (&mut [u32], &mut [Line]) {
        let all = set * self.ways..(set + 1) * self.ways;
        (&mut self.tags[all.clone()], &mut self.lines[all])
    }

    /// The line of this number, which becomes the most recently used of its set.
    #[inline]
    pub(crate) fn find(&mut self, number: u64) -> Option<&mut Line> {
        let (set, tag) = self.place(number);
        let (tags, lines) = self.set(set);
        let way = tags.iter().position(|&other| other == tag)?;
        Some(move_to_front(tags, lines, way))
    }

    /// As [`Self::find`], or puts `line` in place of the least recently used line of the set; then returns the
    /// number of that line if it is dirty.
    #[inline]
    pub(crate) fn find_or_insert(
        &mut self,
        number: u64,
        line: Line,
    ) -> Result<&mut Line, Option<u64>> {
        let (set, tag) = self.place(number);
        let (ways, sets) = (self.ways, self.sets);
        let (tags, lines) = self.set(set);
        // The usual sizes of sets are known when this is compiled.
        let found = match ways {
            2 => find_or_insert_in(&mut tags[..2], &mut lines[..2], tag, line),
            4 => find_or_insert_in(&mut tags[..4], &mut lines[..4], tag, line),
            8 => find_or_insert_in(&mut tags[..8], &mut lines[..8], tag, line),
            16 => find_or_insert_in(&mut tags[..16], &mut lines[..16], tag, line),
            _ => find_or_insert_in(tags, lines, tag, line),
        };
        let is_dirty = |(_, victim): &(u32, Line)| victim.is_dirty();
        found.map_err(|victim| {
            Some(victim).filter(is_dirty).map(|(tag, _)| sets.join(tag.into(), set as u64))
        })
    }

    /// The line, without using it.
    pub(crate) fn peek(&self, number: u64) -> Option<Line> {
        let (set, tag) = self.place(number);
        let first = set * self.ways;
        let way = self.tags[first..first + self.ways].iter().position(|&other| other == tag)?;
        Some(self.lines[first + way])
    }

    /// The line was written further down; returns true if there was something to write.
    pub(crate) fn clean(&mut self, number: u64) -> bool {
        let (set, tag) = self.place(number);
        let (tags, lines) = self.set(set);
        let Some(way) = tags.iter().position(|&other| other == tag) else { return false };
        let was_dirty = lines[way].is_dirty();
        lines[way].0 &= !DIRTY;
        was_dirty
    }

    /// Takes a line away; returns true if it was dirty. Its place is the next of its set to be used.
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

    /// Puts a line into a cache that does not have it; returns as [`Self::find_or_insert`].
    pub(crate) fn insert(&mut self, number: u64, line: Line) -> Option<u64> {
        self.find_or_insert(number, line).err().flatten()
    }
}

/// Moves a line to the front of its set.
#[inline(always)]
fn move_to_front<'a>(tags: &mut [u32], lines: &'a mut [Line], way: usize) -> &'a mut Line {
    let (tag, line) = (tags[way], lines[way]);
    for place in (0..way).rev() {
        (tags[place + 1], lines[place + 1]) = (tags[place], lines[place]);
    }
    (tags[0], lines[0]) = (tag, line);
    &mut lines[0]
}

/// Finds a line in a set, or puts it in front; returns the last one, which leaves.
#[inline(always)]
fn find_or_insert_in<'a>(
    tags: &mut [u32],
    lines: &'a mut [Line],
    tag: u32,
    line: Line,
) -> Result<&'a mut Line, (u32, Line)> {
    if tags[0] == tag {
        return Ok(&mut lines[0]);
    }
    // All ways are compared at once, as most searches find nothing.
    if tags.iter().fold(false, |found, &other| found | (other == tag)) {
        let way = tags.iter().position(|&other| other == tag).unwrap_or_default();
        return Ok(move_to_front(tags, lines, way));
    }
    let last = tags.len() - 1;
    let victim = (tags[last], lines[last]);
    tags.copy_within(..last, 1);
    lines.copy_within(..last, 1);
    (tags[0], lines[0]) = (tag, line);
    Err(victim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Prefetcher;

    #[test]
    fn a_line_that_is_taken_away_leaves_its_place_to_the_next() {
        let mut cache = two_ways(1);
        cache.insert(1, Line::new(7, true, false));
        cache.insert(2, Line::new(8, false, false));
        assert_eq!(cache.remove(3), None);
        assert_eq!(cache.remove(1), Some(true));
        assert!(cache.peek(1).is_none() && cache.peek(2).is_some());
        assert_eq!(cache.insert(3, Line::new(9, true, false)), None, "a place was empty");
        assert!(cache.clean(3) && !cache.clean(3) && !cache.clean(4));
        assert!(!cache.peek(3).unwrap().is_dirty());
    }

    fn two_ways(sets: u64) -> Cache {
        Cache::new(&CacheConfig {
            size_bytes: sets * 2 * LINE_BYTES,
            ways: 2,
            latency_cycles: 4,
            response_cycles: 0,
            mshrs: 1,
            prefetcher: Prefetcher::None,
        })
    }

    #[test]
    fn the_least_recently_used_line_leaves() {
        let line = |dirty| Line::new(7, dirty, false);
        // Three sets: modulo indexing; lines 0, 3, 6, 9 share set 0.
        let mut cache = two_ways(3);
        assert_eq!(cache.insert(0, line(true)), None);
        assert_eq!(cache.insert(3, line(false)), None);
        assert!(cache.find(0).is_some());
        assert_eq!(cache.insert(6, line(false)), None, "line 3 is clean");
        assert!(cache.peek(0).is_some() && cache.peek(3).is_none());
        assert_eq!(cache.insert(9, line(false)), Some(0));
        assert!(cache.peek(6).is_some() && cache.peek(9).is_some());
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
