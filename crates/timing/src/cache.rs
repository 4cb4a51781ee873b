//! The lines of one cache: what is there or on its way, and what leaves.

use crate::LINE_BYTES;
use crate::config::CacheConfig;
use crate::ring::NONE;
use crate::split::Divisor;

const DIRTY: u64 = 1;
const PREFETCHED: u64 = 2;
const FILL_SHIFT: u32 = 32;

/// No line: no tag is as large, see [`Cache::place`].
const EMPTY: u32 = u32::MAX;

/// What is known of a line besides its address: the fill that brings or brought it, and two flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line(u64);

impl Line {
    /// A line that `fill` brings.
    pub(crate) fn new(fill: u32, dirty: bool, prefetched: bool) -> Self {
        let flags = u64::from(dirty) * DIRTY + u64::from(prefetched) * PREFETCHED;
        Self(u64::from(fill) << FILL_SHIFT | flags)
    }

    /// The fill that brings it. Once the line is there its number may stand for another.
    #[inline]
    pub(crate) fn fill(self) -> u32 {
        (self.0 >> FILL_SHIFT) as u32
    }

    /// The line is there.
    #[inline]
    pub(crate) fn mark_arrived(&mut self) {
        self.0 |= u64::from(NONE) << FILL_SHIFT;
    }

    #[inline]
    pub(crate) fn mark_dirty(&mut self) {
        self.0 |= DIRTY;
    }

    pub(crate) fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    /// Whether a prefetch brought this line and nobody has used it; from now on it is used.
    #[inline]
    pub(crate) fn take_prefetched(&mut self) -> bool {
        let prefetched = self.0 & PREFETCHED != 0;
        self.0 &= !PREFETCHED;
        prefetched
    }
}

/// What a new line pushed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    /// Line number (address ÷ 64).
    pub(crate) number: u64,
    pub(crate) dirty: bool,
    /// The fill that brings it, if it had yet to come; see [`Line::fill`].
    pub(crate) fill: u32,
}

/// Set-associative lines with true least-recently-used replacement: each set is kept in order of
/// use, so that the line used last is compared first.
///
/// Tags are 32 bits wide: physical addresses below 2³² × sets × 64 bytes are told apart (16TB in
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

    /// First place of the line's set, and its tag.
    #[inline]
    fn place(&self, number: u64) -> (usize, u32) {
        let (tag, set) = self.sets.split(number);
        debug_assert!(tag < u64::from(EMPTY), "line {number:#x} is beyond the tags");
        (set as usize * self.ways, tag as u32)
    }

    /// The line of this number, which is now the most recently used of its set.
    #[inline]
    pub(crate) fn find(&mut self, number: u64) -> Option<&mut Line> {
        let (first, tag) = self.place(number);
        let tags = &mut self.tags[first..first + self.ways];
        if tags[0] == tag {
            return Some(&mut self.lines[first]);
        }
        let way = 1 + tags[1..].iter().position(|&other| other == tag)?;
        let lines = &mut self.lines[first..first + self.ways];
        let line = lines[way];
        move_back(tags, way);
        move_back(lines, way);
        tags[0] = tag;
        lines[0] = line;
        Some(&mut lines[0])
    }

    /// The line, without using it.
    pub(crate) fn peek(&self, number: u64) -> Option<Line> {
        let (first, tag) = self.place(number);
        let way = self.tags[first..first + self.ways].iter().position(|&other| other == tag)?;
        Some(self.lines[first + way])
    }

    /// Takes note that the line was written further down; whether there was something to write.
    pub(crate) fn clean(&mut self, number: u64) -> bool {
        let (first, tag) = self.place(number);
        let mut ways = self.tags[first..first + self.ways].iter();
        let Some(way) = ways.position(|&other| other == tag) else { return false };
        let line = &mut self.lines[first + way];
        let was_dirty = line.is_dirty();
        line.0 &= !DIRTY;
        was_dirty
    }

    /// Takes a line away. Its place is the next of its set to be used.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Victim> {
        let (first, tag) = self.place(number);
        let tags = &mut self.tags[first..first + self.ways];
        let way = tags.iter().position(|&other| other == tag)?;
        let lines = &mut self.lines[first..first + self.ways];
        let line = lines[way];
        tags[way..].rotate_left(1);
        lines[way..].rotate_left(1);
        tags[self.ways - 1] = EMPTY;
        lines[self.ways - 1] = Line::new(NONE, false, false);
        Some(Victim { number, dirty: line.is_dirty(), fill: line.fill() })
    }

    /// Puts a line in place of the least recently used, which it returns.
    pub(crate) fn insert(&mut self, number: u64, line: Line) -> Option<Victim> {
        let (first, tag) = self.place(number);
        let last = self.ways - 1;
        let tags = &mut self.tags[first..=first + last];
        let lines = &mut self.lines[first..=first + last];
        let (victim_tag, victim) = (tags[last], lines[last]);
        move_back(tags, last);
        move_back(lines, last);
        tags[0] = tag;
        lines[0] = line;
        let set = (first / self.ways) as u64;
        (victim_tag != EMPTY).then(|| Victim {
            number: self.sets.join(u64::from(victim_tag), set),
            dirty: victim.is_dirty(),
            fill: victim.fill(),
        })
    }
}

/// Moves the first `count` items one place back, over item `count`.
#[inline]
fn move_back<T: Copy>(items: &mut [T], count: usize) {
    items.copy_within(..count, 1);
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
        assert_eq!(cache.remove(1), Some(Victim { number: 1, dirty: true, fill: 7 }));
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
        let victim = |number, dirty| Some(Victim { number, dirty, fill: 7 });
        // Three sets: modulo indexing; lines 0, 3, 6, 9 share set 0.
        let mut cache = two_ways(3);
        assert_eq!(cache.insert(0, line(true)), None);
        assert_eq!(cache.insert(3, line(false)), None);
        assert!(cache.find(0).is_some());
        assert_eq!(cache.insert(6, line(false)), victim(3, false));
        assert!(cache.peek(0).is_some() && cache.peek(3).is_none());
        assert_eq!(cache.insert(9, line(false)), victim(0, true));
        assert!(cache.peek(6).is_some() && cache.peek(9).is_some());
    }

    #[test]
    fn a_line_knows_its_fill_until_it_is_there() {
        let mut line = Line::new(9, false, true);
        line.mark_dirty();
        assert_eq!(line.fill(), 9);
        assert!(line.take_prefetched() && !line.take_prefetched());
        line.mark_arrived();
        assert_eq!(line.fill(), NONE);
    }
}
