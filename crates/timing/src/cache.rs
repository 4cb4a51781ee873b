//! The lines of one cache: what is there, since when, and what leaves.

use crate::LINE_BYTES;
use crate::config::CacheConfig;
use crate::split::Divisor;

const DIRTY: u64 = 1;
const PREFETCHED: u64 = 2;
const LATENCY_SHIFT: u32 = 2;
const LATENCY_LIMIT: u64 = 0xffff;
const NUMBER_SHIFT: u32 = 18;

/// One line: its number (46 bits of a 52-bit address) over the cycles its fill took (16 bits) and
/// two flags, and the cycle its fill arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    word: u64,
    ready: u64,
}

impl Line {
    const EMPTY: Self = Self { word: u64::MAX & !(DIRTY | PREFETCHED), ready: 0 };

    #[inline]
    fn holds(self, number: u64) -> bool {
        self.word >> NUMBER_SHIFT == number
    }

    pub(crate) fn mark_dirty(&mut self) {
        self.word |= DIRTY;
    }

    /// Whether a prefetch brought this line and nobody has used it; from now on it is used.
    #[inline]
    pub(crate) fn take_prefetched(&mut self) -> bool {
        let prefetched = self.word & PREFETCHED != 0;
        self.word &= !PREFETCHED;
        prefetched
    }

    /// When an access at `now` has the data, if the line is still on its way; `now` otherwise.
    ///
    /// An access that comes before the fill began (it is later in program order, but earlier in
    /// time) would have started the fill itself: the fill moves forward.
    #[inline]
    pub(crate) fn arrival(&mut self, now: u64) -> u64 {
        if self.ready <= now {
            return now;
        }
        let latency = (self.word >> LATENCY_SHIFT) & LATENCY_LIMIT;
        self.ready = self.ready.min(now + latency);
        self.ready
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
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    lines: Vec<Line>,
    ways: usize,
    sets: Divisor,
}

impl Cache {
    pub(crate) fn new(config: &CacheConfig) -> Self {
        let count = config.size_bytes / LINE_BYTES;
        let ways = config.ways as usize;
        Self {
            lines: vec![Line::EMPTY; count as usize],
            ways,
            sets: Divisor::new(count / u64::from(config.ways)),
        }
    }

    #[inline]
    fn set(&mut self, number: u64) -> &mut [Line] {
        let (_, set) = self.sets.split(number);
        let first = set as usize * self.ways;
        &mut self.lines[first..first + self.ways]
    }

    /// The line of this number, which is now the most recently used of its set.
    #[inline]
    pub(crate) fn find(&mut self, number: u64) -> Option<&mut Line> {
        let set = self.set(number);
        if !set[0].holds(number) {
            let way = 1 + set[1..].iter().position(|line| line.holds(number))?;
            let line = set[way];
            set.copy_within(..way, 1);
            set[0] = line;
        }
        Some(&mut set[0])
    }

    /// Whether the line is there, without using it.
    pub(crate) fn contains(&mut self, number: u64) -> bool {
        self.set(number).iter().any(|line| line.holds(number))
    }

    /// Puts a line in place of the least recently used; returns that line's number if it is dirty.
    pub(crate) fn insert(&mut self, fill: Fill) -> Option<u64> {
        let set = self.set(fill.number);
        let victim = set[set.len() - 1];
        set.copy_within(..set.len() - 1, 1);
        let latency = fill.latency.min(LATENCY_LIMIT) << LATENCY_SHIFT;
        let flags = u64::from(fill.dirty) * DIRTY + u64::from(fill.prefetched) * PREFETCHED;
        set[0] = Line { word: fill.number << NUMBER_SHIFT | latency | flags, ready: fill.ready };
        (victim.word & DIRTY != 0).then_some(victim.word >> NUMBER_SHIFT)
    }
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
