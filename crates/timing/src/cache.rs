//! The lines of one cache: what is there, since when, and what leaves.

use crate::LINE_BYTES;
use crate::config::CacheConfig;
use crate::split::Divisor;

const DIRTY: u64 = 1;
const PREFETCHED: u64 = 2;
const LATENCY_SHIFT: u32 = 2;
const LATENCY_LIMIT: u64 = 0x3fff;
const READY_SHIFT: u32 = 16;

/// No line: no tag is as large, see [`Cache::place`].
const EMPTY: u32 = u32::MAX;

/// What is known of a line besides its address: the cycle its fill arrives (48 bits), the cycles
/// the fill took (14 bits) and two flags.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line(u64);

impl Line {
    pub(crate) fn mark_dirty(&mut self) {
        self.0 |= DIRTY;
    }

    /// Whether a prefetch brought this line and nobody has used it; from now on it is used.
    #[inline]
    pub(crate) fn take_prefetched(&mut self) -> bool {
        let prefetched = self.0 & PREFETCHED != 0;
        self.0 &= !PREFETCHED;
        prefetched
    }

    /// When an access at `now` has the data, if the line is still on its way; `now` otherwise.
    ///
    /// An access that comes before the fill began (it is later in program order, but earlier in
    /// time) would have started the fill itself: the fill moves forward.
    #[inline]
    pub(crate) fn arrival(&mut self, now: u64) -> u64 {
        let ready = self.0 >> READY_SHIFT;
        if ready <= now { now } else { self.move_forward(ready, now) }
    }

    fn move_forward(&mut self, ready: u64, now: u64) -> u64 {
        let latency = (self.0 >> LATENCY_SHIFT) & LATENCY_LIMIT;
        let arrival = ready.min(now + latency);
        self.0 -= (ready - arrival) << READY_SHIFT;
        arrival
    }
}

/// A line to put into a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    /// Line number (address ÷ 64).
    pub(crate) number: u64,
    /// Cycle the data arrive.
    pub(crate) ready: u64,
    /// Cycles from look-up to arrival.
    pub(crate) latency: u64,
    pub(crate) dirty: bool,
    pub(crate) prefetched: bool,
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
            lines: vec![Line::default(); count as usize],
            ways: config.ways as usize,
            sets: Divisor::new(count / u64::from(config.ways)),
        }
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

    /// Whether the line is there, without using it.
    pub(crate) fn contains(&self, number: u64) -> bool {
        let (first, tag) = self.place(number);
        self.tags[first..first + self.ways].contains(&tag)
    }

    /// Puts a line in place of the least recently used; returns that line's number if it is dirty.
    pub(crate) fn insert(&mut self, fill: Fill) -> Option<u64> {
        let (first, tag) = self.place(fill.number);
        let last = self.ways - 1;
        let tags = &mut self.tags[first..=first + last];
        let lines = &mut self.lines[first..=first + last];
        let (victim_tag, victim) = (tags[last], lines[last]);
        move_back(tags, last);
        move_back(lines, last);
        let latency = fill.latency.min(LATENCY_LIMIT) << LATENCY_SHIFT;
        let flags = u64::from(fill.dirty) * DIRTY + u64::from(fill.prefetched) * PREFETCHED;
        tags[0] = tag;
        lines[0] = Line(fill.ready << READY_SHIFT | latency | flags);
        let set = (first / self.ways) as u64;
        (victim.0 & DIRTY != 0).then(|| self.sets.join(u64::from(victim_tag), set))
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

    fn fill(number: u64, ready: u64, dirty: bool) -> Fill {
        Fill { number, ready, latency: 100, dirty, prefetched: false }
    }

    fn two_ways(sets: u64) -> Cache {
        Cache::new(&CacheConfig {
            size_bytes: sets * 2 * LINE_BYTES,
            ways: 2,
            latency_cycles: 4,
            mshrs: 1,
            prefetcher: Prefetcher::None,
        })
    }

    #[test]
    fn the_least_recently_used_line_leaves_and_only_dirty_ones_are_written_back() {
        // Three sets: modulo indexing; lines 0, 3, 6, 9 share set 0.
        let mut cache = two_ways(3);
        assert_eq!(cache.insert(fill(0, 0, true)), None);
        assert_eq!(cache.insert(fill(3, 0, false)), None);
        assert!(cache.find(0).is_some());
        assert_eq!(cache.insert(fill(6, 0, false)), None, "line 3 was clean");
        assert!(cache.contains(0) && !cache.contains(3));
        assert_eq!(cache.insert(fill(9, 0, false)), Some(0));
        assert!(cache.contains(6) && cache.contains(9));
    }

    #[test]
    fn a_line_in_flight_arrives_when_its_fill_does() {
        let mut cache = two_ways(1);
        cache.insert(fill(7, 500, false));
        let line = cache.find(7).unwrap();
        assert_eq!(line.arrival(500), 500);
        assert_eq!(line.arrival(499), 500);
        assert_eq!(line.arrival(400), 500, "the fill began at 400");
        // Asked for at 50, the fill of 100 cycles arrives at 150 instead, for everybody.
        assert_eq!(line.arrival(50), 150);
        assert_eq!(line.arrival(149), 150);
    }
}
