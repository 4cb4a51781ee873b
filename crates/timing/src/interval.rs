//! Reservations of a bus, made ahead of time.
//!
//! A read reserves the bus for after its DRAM bank access, and a write-back for when the line that evicts it
//! arrives. So the requested cycles are not in order. Therefore a bus remembers not only until when it is
//! busy, but also the gaps before that, and a request gets the first gap that is long enough. Gaps that end
//! before now are dropped.

/// Maximum number of gaps kept per bus. When there are more, the earlier half is dropped (counts as busy),
/// which bounds the work per request; the requests of one reorder buffer rarely leave as many.
const REMEMBERED: usize = 128;

/// Interval of free cycles between two reservations; the end is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    start: u64,
    end: u64,
}

/// Gaps between the reservations of one bus, in no order.
#[derive(Clone, Debug)]
struct Gaps {
    list: Vec<Gap>,
    /// Upper bound of the ends of all gaps.
    latest_end: u64,
    /// Length of the shortest request, in cycles; shorter gaps are not kept.
    shortest: u64,
}

impl Gaps {
    fn new(shortest: u64) -> Self {
        Self { list: Vec::new(), latest_end: 0, shortest: shortest.max(1) }
    }

    /// Earliest start, not before `from`, of `length` free cycles within a gap, and the index of that gap.
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

    /// Reserves the cycles `start..end` in the gap `index`, and keeps what remains of it on both sides.
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

/// Bus or other unit that serves one request at a time and is reserved ahead.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    /// Cycle from which there are no reservations.
    free: u64,
    gaps: Gaps,
}

impl Resource {
    /// Makes an unreserved resource; no request may be shorter than `shortest` cycles.
    pub(crate) fn new(shortest: u64) -> Self {
        Self { free: 0, gaps: Gaps::new(shortest) }
    }

    /// Reserves the first `length` free cycles from `from` on and returns their start. Gaps that end by
    /// `horizon` (now) may be dropped.
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
        let mut bus = Resource::new(1);
        bus.take(1000, 100, 0);
        assert_eq!(bus.take(0, 1000, 0), 0, "as long as the gap");
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

    proptest! {
        /// Each request gets the first cycles that no earlier request has, as from a list of all cycles.
        #[test]
        fn each_request_gets_the_first_free_cycles(
            shortest in 1u64..20,
            requests in prop::collection::vec((0u64..300, 20u64..40), 1..60),
        ) {
            let mut bus = Resource::new(shortest);
            let mut busy = [false; 4096];
            for (from, length) in requests {
                let is_free = |start: &u64| {
                    busy[*start as usize..][..length as usize].iter().all(|is_busy| !is_busy)
                };
                let expected = (from..).find(is_free).unwrap();
                prop_assert_eq!(bus.take(from, length, 0), expected);
                busy[expected as usize..][..length as usize].fill(true);
            }
        }
    }
}
