//! When a resource is busy.
//!
//! Instructions are timed in program order, but their times are not in order: a load at the end
//! of a dependence chain may be timed thousands of cycles ahead of the independent load after
//! it. A resource therefore remembers *when* it is busy, not just until when, and gives a
//! request the first gap that is long enough. Nothing is remembered from before the dispatch of
//! the oldest instruction that can still ask.

use std::collections::VecDeque;

/// Gaps remembered per resource. Beyond that the oldest are forgotten (counted as busy), which
/// bounds the work per request; a reorder buffer's worth of requests rarely leaves as many.
const REMEMBERED: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Interval {
    start: u64,
    end: u64,
}

/// The busy times of one resource, disjoint and ordered; times in cycles, ends exclusive.
#[derive(Clone, Debug)]
pub(crate) struct Intervals {
    list: VecDeque<Interval>,
}

impl Intervals {
    pub(crate) fn new() -> Self {
        Self { list: VecDeque::with_capacity(REMEMBERED + 1) }
    }

    /// End of the last busy time.
    fn last_end(&self) -> u64 {
        self.list.back().map_or(0, |last| last.end)
    }

    /// Forgets what ended by `horizon`, before which nobody asks again.
    fn forget(&mut self, horizon: u64) {
        while self.list.front().is_some_and(|first| first.end <= horizon) {
            self.list.pop_front();
        }
    }

    /// Earliest start, not before `from`, of a gap of `length` cycles.
    #[inline]
    pub(crate) fn first_fit(&self, from: u64, length: u64) -> u64 {
        if self.last_end() <= from { from } else { self.first_gap(from, length) }
    }

    fn first_gap(&self, from: u64, length: u64) -> u64 {
        let first = self.list.partition_point(|busy| busy.end <= from);
        let mut start = from;
        for busy in self.list.range(first..) {
            if start + length <= busy.start {
                return start;
            }
            start = start.max(busy.end);
        }
        start
    }

    /// Marks `start..end` busy; the gap must be free.
    pub(crate) fn book(&mut self, start: u64, end: u64, horizon: u64) {
        self.forget(horizon);
        match self.list.back_mut() {
            Some(last) if last.end == start => last.end = end,
            Some(last) if last.end > start => self.insert(start, end),
            _ => self.list.push_back(Interval { start, end }),
        }
        if self.list.len() > REMEMBERED {
            self.forget_oldest_gap();
        }
    }

    fn insert(&mut self, start: u64, end: u64) {
        let place = self.list.partition_point(|busy| busy.end <= start);
        debug_assert!(end <= self.list[place].start, "booked a busy time");
        let joins_next = self.list[place].start == end;
        let joins_last = place > 0 && self.list[place - 1].end == start;
        match (joins_last, joins_next) {
            (true, true) => {
                self.list[place - 1].end = self.list[place].end;
                self.list.remove(place);
            }
            (true, false) => self.list[place - 1].end = end,
            (false, true) => self.list[place].start = start,
            (false, false) => self.list.insert(place, Interval { start, end }),
        }
    }

    fn forget_oldest_gap(&mut self) {
        if let Some(first) = self.list.pop_front() {
            self.list[0].start = first.start;
        }
    }
}

/// Several like resources, each serving one request at a time: page walkers, MSHRs.
///
/// How long a request keeps its unit is known only once it has been timed, which needs its start.
/// So a request asks for the first instant a unit is free, is timed from there, and then books.
/// Where the gap turns out too short for it, [`Pool::book`] says how much later it fits.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    units: Vec<Intervals>,
    horizon: u64,
}

/// A unit that is free at `start`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) start: u64,
    unit: usize,
}

impl Pool {
    pub(crate) fn new(units: u32) -> Self {
        Self { units: vec![Intervals::new(); units as usize], horizon: 0 }
    }

    /// The first instant from `from` on at which a unit is free.
    pub(crate) fn offer(&mut self, from: u64, horizon: u64) -> Offer {
        self.horizon = horizon;
        self.earliest(from, 1)
    }

    fn earliest(&self, from: u64, length: u64) -> Offer {
        let mut best = Offer { start: u64::MAX, unit: 0 };
        for (unit, busy) in self.units.iter().enumerate() {
            let start = busy.first_fit(from, length);
            if start < best.start {
                best = Offer { start, unit };
                if start == from {
                    break;
                }
            }
        }
        best
    }

    /// Books a unit for the length of `offer.start..end` and returns by how many cycles the
    /// request has to start later than offered: 0 unless a gap was too short.
    pub(crate) fn book(&mut self, offer: Offer, from: u64, end: u64) -> u64 {
        let length = (end - offer.start).max(1);
        let fits = self.units[offer.unit].first_fit(offer.start, length) == offer.start;
        let place = if fits { offer } else { self.earliest(from, length) };
        self.units[place.unit].book(place.start, place.start + length, self.horizon);
        place.start - offer.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_request_takes_a_gap_in_front_of_a_late_one() {
        let mut busy = Intervals::new();
        busy.book(1000, 1100, 0);
        assert_eq!(busy.first_fit(0, 1000), 0);
        assert_eq!(busy.first_fit(0, 1001), 1100);
        assert_eq!(busy.first_fit(1050, 1), 1100);
        busy.book(0, 400, 0);
        busy.book(400, 1000, 0);
        assert_eq!(busy.list.len(), 1, "touching busy times are one");
        assert_eq!(busy.first_fit(5, 1), 1100);
    }

    #[test]
    fn forgetting_never_frees_what_can_still_be_asked_for() {
        let mut busy = Intervals::new();
        for start in (0..1000).step_by(10) {
            busy.book(start, start + 5, 0);
        }
        assert_eq!(busy.list.len(), REMEMBERED);
        assert_eq!(busy.first_fit(993, 1), 995);
        assert_eq!(busy.first_fit(0, 1), 365, "36 oldest gaps forgotten");
    }

    #[test]
    fn two_units_overlap_and_a_third_request_waits() {
        let mut pool = Pool::new(2);
        for (from, start) in [(0, 0), (0, 0), (0, 50), (10, 60)] {
            let offer = pool.offer(from, 0);
            assert_eq!(offer.start, start);
            let end = start + if from == 10 { 5 } else { 50 + offer.unit as u64 * 10 };
            assert_eq!(pool.book(offer, from, end), 0);
        }
    }

    #[test]
    fn a_gap_too_short_moves_the_request_behind_it() {
        let mut pool = Pool::new(1);
        let late = pool.offer(100, 0);
        pool.book(late, 100, 200);
        let early = pool.offer(40, 0);
        assert_eq!(early.start, 40);
        // 61 cycles from 40 on would end at 101, but the unit is taken from 100 to 200.
        assert_eq!(pool.book(early, 40, 101), 160);
    }
}
