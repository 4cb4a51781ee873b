//! Pools of identical units that serve one request at a time each: MSHRs, page walkers.

use std::collections::VecDeque;

use crate::agenda::UNKNOWN;

/// Units that are granted first come, first served.
///
/// The cycle at which a request releases its unit may become known long after the grant: see
/// [`Pool::release`].
#[derive(Clone, Debug)]
pub(crate) struct Pool<T> {
    units: usize,
    taken: usize,
    /// Release cycles, where known, of units in use, in order.
    releases: VecDeque<u64>,
    queue: VecDeque<T>,
    /// Cycle at which the owner will next call [`Pool::next`]; [`UNKNOWN`] if none is planned.
    alarm: u64,
}

impl<T> Pool<T> {
    pub(crate) fn new(units: u32) -> Self {
        Self {
            units: units as usize,
            taken: 0,
            releases: VecDeque::with_capacity(units as usize),
            queue: VecDeque::new(),
            alarm: UNKNOWN,
        }
    }

    /// Number of units in the pool.
    pub(crate) fn units(&self) -> u64 {
        self.units as u64
    }

    /// Frees units that were released by `now`.
    #[inline]
    fn collect(&mut self, now: u64) {
        while self.releases.front().is_some_and(|&release| release <= now) {
            self.releases.pop_front();
            self.taken -= 1;
        }
    }

    /// True if a unit is free at `now`, and no earlier request waits for one.
    #[inline]
    pub(crate) fn is_free(&mut self, now: u64) -> bool {
        if self.taken == self.units {
            self.collect(now);
        }
        self.taken < self.units && self.queue.is_empty()
    }

    /// Grants a unit to `who` if one is free at `now`, and returns true; otherwise puts `who` at the end of
    /// the queue. Calls must come with non-decreasing `now`.
    #[inline]
    pub(crate) fn request(&mut self, now: u64, who: T) -> bool {
        if self.is_free(now) {
            self.taken += 1;
            return true;
        }
        self.queue.push_back(who);
        false
    }

    /// Notes that a unit in use becomes free at cycle `time`.
    #[inline]
    pub(crate) fn release(&mut self, time: u64) {
        if self.releases.back().is_none_or(|&last| last <= time) {
            self.releases.push_back(time);
        } else {
            self.release_early(time);
        }
    }

    /// Like [`Self::release`], where another unit becomes free later.
    #[inline(never)]
    fn release_early(&mut self, time: u64) {
        let place = self.releases.partition_point(|&release| release <= time);
        self.releases.insert(place, time);
    }

    /// Cycle at which the caller must call [`Pool::next`], because a request waits for a unit that is
    /// released then; `None` if no request waits, or an earlier call was already returned.
    #[inline]
    pub(crate) fn alarm(&mut self) -> Option<u64> {
        if self.queue.is_empty() {
            return None;
        }
        let first = *self.releases.front()?;
        (first < self.alarm).then(|| {
            self.alarm = first;
            first
        })
    }

    /// Moves the request with the least key to the front of the queue.
    pub(crate) fn put_first<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        if let Some(place) = (0..self.queue.len()).min_by_key(|&place| key(&self.queue[place]))
            && let Some(first) = self.queue.remove(place)
        {
            self.queue.push_front(first);
        }
    }

    /// Grants a unit that is free at `now` to the first request in the queue, and returns that request.
    pub(crate) fn next(&mut self, now: u64) -> Option<T> {
        if self.alarm <= now {
            self.alarm = UNKNOWN;
        }
        self.collect(now);
        if self.taken == self.units {
            return None;
        }
        let who = self.queue.pop_front()?;
        self.taken += 1;
        Some(who)
    }
}

impl<T: PartialEq> Pool<T> {
    /// Removes a request from the queue; returns true if it was in the queue.
    pub(crate) fn withdraw(&mut self, who: &T) -> bool {
        let place = self.queue.iter().position(|other| other == who);
        place.is_some_and(|place| self.queue.remove(place).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_units_overlap_and_a_third_request_waits_for_the_first_release() {
        let mut pool = Pool::new(2);
        assert!(pool.request(0, 'a') && pool.request(0, 'b'));
        assert!(!pool.request(10, 'c'));
        assert_eq!(pool.alarm(), None, "no release is known");
        pool.release(60);
        assert_eq!(pool.alarm(), Some(60));
        pool.release(50);
        assert_eq!((pool.alarm(), pool.alarm()), (Some(50), None));
        assert_eq!(pool.next(49), None);
        assert_eq!(pool.next(50), Some('c'));
        assert!(!pool.request(59, 'd') && pool.withdraw(&'d'));
        assert!(pool.request(60, 'e'));
    }

    proptest! {
        /// Requests are served in turn, never more at once than there are units; no request waits while a unit
        /// is free.
        #[test]
        fn no_cycle_is_sold_twice_and_none_is_wasted(
            units in 1u32..4,
            gaps in prop::collection::vec((0u64..30, 1u64..40), 1..60),
        ) {
            let mut pool: Pool<usize> = Pool::new(units);
            let mut now = 0u64;
            let (mut arrivals, mut starts): (Vec<u64>, Vec<(usize, u64)>) = Default::default();
            for (index, (gap, length)) in gaps.iter().enumerate() {
                let until = now + gap;
                while now < until {
                    now += 1;
                    while let Some(who) = pool.next(now) {
                        let length: u64 = gaps[who].1;
                        pool.release(now + length);
                        starts.push((who, now));
                    }
                }
                arrivals.push(now);
                if pool.request(now, index) {
                    pool.release(now + length);
                    starts.push((index, now));
                }
            }
            prop_assert!(starts.iter().map(|(who, _)| *who).eq(0..starts.len()), "in turn");
            let busy = |cycle| starts.iter().filter(|(who, start)| {
                (*start..start + gaps[*who].1).contains(&cycle)
            }).count() as u32;
            for &(who, start) in &starts {
                prop_assert!(busy(start) <= units);
                prop_assert!((arrivals[who]..start).all(|cycle| busy(cycle) == units));
            }
        }
    }
}
