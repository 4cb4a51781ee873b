//! When a resource is busy.
//!
//! Instructions are timed in program order, but their times are not in order: a load at the end
//! of a dependence chain may be timed thousands of cycles ahead of the independent load after
//! it. A resource therefore remembers not only until when it is busy, but also the gaps before
//! that, and gives a request the first one that is long enough. Gaps that end before the horizon
//! (the dispatch of the oldest instruction that can still ask) are forgotten.

/// Gaps remembered per resource. When there are more, the earlier half is forgotten (counted as
/// busy), which bounds the work per request; a reorder buffer's worth rarely leaves as many.
const REMEMBERED: usize = 128;

/// Free cycles between busy ones; the end is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    start: u64,
    end: u64,
}

/// The gaps of one resource or of several like ones, in no order.
#[derive(Clone, Debug)]
struct Gaps {
    list: Vec<Gap>,
    /// No gap ends later.
    latest_end: u64,
    /// No request is shorter, so that shorter gaps are of no use.
    shortest: u64,
}

impl Gaps {
    fn new(shortest: u64) -> Self {
        Self { list: Vec::new(), latest_end: 0, shortest: shortest.max(1) }
    }

    /// Earliest start, not before `from`, of `length` free cycles, and the gap they are in.
    #[inline]
    fn first_fit(&self, from: u64, length: u64) -> Option<(u64, usize)> {
        if self.latest_end < from + length {
            return None;
        }
        let mut best = None;
        let mut earliest = u64::MAX;
        for (index, gap) in self.list.iter().enumerate() {
            // Most gaps lie in the past: nothing else is looked at in them.
            if gap.end < from + length {
                continue;
            }
            let start = gap.start.max(from);
            if start < earliest && start + length <= gap.end {
                earliest = start;
                best = Some((start, index));
                if start == from {
                    break;
                }
            }
        }
        best
    }

    /// Takes `start..end` out of the gap `index`.
    fn take(&mut self, index: usize, start: u64, end: u64) {
        let gap = self.list[index];
        match (start - gap.start >= self.shortest, gap.end - end >= self.shortest) {
            (true, true) => {
                self.list[index].end = start;
                self.list.push(Gap { start: end, end: gap.end });
            }
            (true, false) => self.list[index].end = start,
            (false, true) => self.list[index].start = end,
            (false, false) => {
                self.list.swap_remove(index);
            }
        }
    }

    #[inline]
    fn push(&mut self, start: u64, end: u64, horizon: u64) {
        if end - start < self.shortest {
            return;
        }
        if self.latest_end <= horizon {
            self.list.clear();
        } else if self.list.len() >= REMEMBERED {
            self.forget(horizon);
        }
        self.latest_end = self.latest_end.max(end);
        self.list.push(Gap { start, end });
    }

    #[cold]
    fn forget(&mut self, horizon: u64) {
        self.list.retain(|gap| gap.end > horizon);
        if self.list.len() > REMEMBERED / 2 {
            let surplus = self.list.len() - REMEMBERED / 2;
            self.list.select_nth_unstable_by_key(surplus, |gap| (gap.end, gap.start));
            self.list.drain(..surplus);
        }
    }
}

/// One resource that serves one request at a time: a bank, a bus.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    /// Free for good from here on.
    free: u64,
    gaps: Gaps,
}

impl Resource {
    /// A resource no request takes for less than `shortest` cycles.
    pub(crate) fn new(shortest: u64) -> Self {
        Self { free: 0, gaps: Gaps::new(shortest) }
    }

    /// Takes the first `length` free cycles from `from` on and returns their start.
    #[inline]
    pub(crate) fn take(&mut self, from: u64, length: u64, horizon: u64) -> u64 {
        if self.free <= from {
            self.gaps.push(self.free, from, horizon);
            self.free = from + length;
            return from;
        }
        self.take_gap(from, length)
    }

    fn take_gap(&mut self, from: u64, length: u64) -> u64 {
        if let Some((start, gap)) = self.gaps.first_fit(from, length) {
            self.gaps.take(gap, start, start + length);
            return start;
        }
        let start = self.free;
        self.free += length;
        start
    }
}

/// Several like resources, each serving one request at a time: page walkers, MSHRs.
///
/// How long a request keeps its unit is known only once it has been timed, which needs its start.
/// So a request asks for the first instant a unit is free, is timed from there, and then books.
/// Where the gap turns out too short for it, [`Pool::book`] says how much later it fits.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// When each unit is free for good.
    free: Vec<u64>,
    gaps: Gaps,
}

/// Where a request goes: behind everything booked on a unit, or into a gap.
#[derive(Clone, Copy, Debug)]
enum Place {
    Unit(usize),
    Gap(usize),
}

/// An instant at which a unit is free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) start: u64,
    place: Place,
}

impl Pool {
    /// Units no request takes for less than `shortest` cycles.
    pub(crate) fn new(units: u32, shortest: u64) -> Self {
        Self { free: vec![0; units as usize], gaps: Gaps::new(shortest) }
    }

    /// The first instant from `from` on at which a unit is free.
    #[inline]
    pub(crate) fn offer(&self, from: u64) -> Offer {
        match self.free.iter().position(|&free| free <= from) {
            Some(unit) => Offer { start: from, place: Place::Unit(unit) },
            None => self.first_fit(from, self.gaps.shortest),
        }
    }

    /// The first `length` free cycles from `from` on.
    fn first_fit(&self, from: u64, length: u64) -> Offer {
        let mut soonest = 0;
        for (unit, &free) in self.free.iter().enumerate() {
            if free < self.free[soonest] {
                soonest = unit;
            }
        }
        let start = self.free[soonest].max(from);
        match self.gaps.first_fit(from, length) {
            Some((gap_start, gap)) if gap_start < start => {
                Offer { start: gap_start, place: Place::Gap(gap) }
            }
            _ => Offer { start, place: Place::Unit(soonest) },
        }
    }

    /// Books a unit for the length of `offer.start..end`, the request having come at `from`.
    /// Returns by how many cycles it has to start later than offered: 0 unless the gap is too
    /// short.
    #[inline]
    pub(crate) fn book(&mut self, offer: Offer, from: u64, end: u64, horizon: u64) -> u64 {
        let length = (end - offer.start).max(1);
        match offer.place {
            Place::Unit(_) => self.occupy(offer, length, horizon),
            Place::Gap(gap) if offer.start + length <= self.gaps.list[gap].end => {
                self.occupy(offer, length, horizon);
            }
            Place::Gap(_) => {
                let later = self.first_fit(from, length);
                self.occupy(later, length, horizon);
                return later.start - offer.start;
            }
        }
        0
    }

    #[inline]
    fn occupy(&mut self, offer: Offer, length: u64, horizon: u64) {
        let end = offer.start + length;
        match offer.place {
            Place::Unit(unit) => {
                let free = std::mem::replace(&mut self.free[unit], end);
                self.gaps.push(free, offer.start, horizon);
            }
            Place::Gap(gap) => self.gaps.take(gap, offer.start, end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_early_request_takes_a_gap_in_front_of_a_late_one() {
        let mut bus = Resource::new(1);
        assert_eq!(bus.take(1000, 100, 0), 1000);
        assert_eq!(bus.take(0, 1001, 0), 1100, "one cycle too long for the gap");
        assert_eq!(bus.take(0, 400, 0), 0);
        assert_eq!(bus.take(0, 600, 0), 400, "fills the gap to the last cycle");
        assert_eq!(bus.gaps.list, []);
        assert_eq!(bus.take(5, 1, 0), 2101);
    }

    #[test]
    fn the_oldest_gaps_are_forgotten_first() {
        let mut bus = Resource::new(1);
        for start in (10..=2000).step_by(10) {
            bus.take(start, 5, 0);
        }
        assert!(bus.gaps.list.len() <= REMEMBERED);
        assert_eq!(bus.take(1993, 1, 0), 1995);
        let oldest = bus.take(0, 1, 0);
        assert!(oldest > 600, "{oldest}");
        let mut pruned = Resource::new(1);
        for start in (10..=2000).step_by(10) {
            pruned.take(start, 5, start.saturating_sub(15));
        }
        assert_eq!(pruned.take(1985, 1, 1985), 1985, "nothing after the horizon is forgotten");
    }

    #[test]
    fn two_units_overlap_and_a_third_request_waits() {
        let mut pool = Pool::new(2, 1);
        for (from, start, end) in [(0, 0, 50), (0, 0, 60), (0, 50, 100), (10, 60, 65)] {
            let offer = pool.offer(from);
            assert_eq!(offer.start, start);
            assert_eq!(pool.book(offer, from, end, 0), 0);
        }
        assert_eq!(pool.offer(64).start, 65);
        assert_eq!(pool.offer(65).start, 65);
    }

    #[test]
    fn a_far_gap_outlives_nearer_ones() {
        let mut pool = Pool::new(2, 1);
        for (from, horizon) in [(10_000, 0), (500, 0), (9_000, 8_000)] {
            let offer = pool.offer(from);
            pool.book(offer, from, from + 100, horizon);
        }
        // One unit is free until 10000, the other from 600 to 9000 and from 9100 on.
        assert_eq!([8_500, 8_500].map(|from| take(&mut pool, from, 600)), [8_500, 9_100]);
    }

    fn take(pool: &mut Pool, from: u64, length: u64) -> u64 {
        let offer = pool.offer(from);
        offer.start + pool.book(offer, from, offer.start + length, 8_000)
    }

    #[test]
    fn a_gap_too_short_moves_the_request_behind_it() {
        let mut pool = Pool::new(1, 1);
        let late = pool.offer(100);
        pool.book(late, 100, 200, 0);
        let early = pool.offer(40);
        assert_eq!(early.start, 40);
        // 61 cycles from 40 on would end at 101, but the unit is taken from 100 to 200.
        assert_eq!(pool.book(early, 40, 101, 0), 160);
        let early = pool.offer(40);
        assert_eq!(pool.book(early, 40, 100, 0), 0, "60 cycles fit exactly");
    }

    proptest! {
        /// However requests come, at no cycle are more of them served than there are units.
        #[test]
        fn no_cycle_is_sold_twice(
            units in 1u32..4,
            shortest in 1u64..20,
            requests in prop::collection::vec((0u64..300, 20u64..40), 1..60),
        ) {
            let mut pool = Pool::new(units, shortest);
            let mut busy = [0u32; 4096];
            for (from, length) in requests {
                let offer = pool.offer(from);
                let start = offer.start + pool.book(offer, from, offer.start + length, 0);
                prop_assert!(start >= from);
                for cycle in start..start + length {
                    busy[cycle as usize] += 1;
                    prop_assert!(busy[cycle as usize] <= units);
                }
            }
        }
    }
}
