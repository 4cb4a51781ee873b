//! Scheduler (issue queue): instructions that wait for their operands.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::near::{NEAR, place};

/// Scheduler entries, each held by an instruction from dispatch to issue. Issue is out of order.
#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    /// Number of entries; `usize::MAX` for no limit.
    entries: usize,
    /// Dispatched instructions whose issue cycle is not known yet.
    waiting: usize,
    /// Issue cycles of the dispatched instructions where known and after the dispatch cycle. Past ones are
    /// dropped when an entry is needed.
    issues: Times,
}

impl Scheduler {
    pub(crate) fn new(entries: Option<u32>) -> Self {
        let entries = entries.map_or(usize::MAX, |entries| entries as usize);
        Self { entries, waiting: 0, issues: Times::default() }
    }

    /// True if the number of entries is limited, so that dispatch may have to wait for one.
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.entries != usize::MAX
    }

    /// True if all entries are in use, counting those whose instruction may have issued by now.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.free() == 0
    }

    /// True if `count` more instructions may wait for an issue cycle that is not known.
    #[inline]
    pub(crate) fn has_room(&self, count: usize) -> bool {
        self.waiting.saturating_add(count) <= self.entries
    }

    /// Number of entries that are not in use, counting those whose instruction may have issued by now as used.
    #[inline]
    pub(crate) fn free(&self) -> usize {
        self.entries - self.waiting - self.issues.count
    }

    /// First cycle from `time` on at which an entry is free. [`Err`] if that depends on issue cycles not
    /// known yet, with the cycle at which to ask again, if one is known. Calls must come with non-decreasing
    /// `time`.
    pub(crate) fn free_at(&mut self, time: u64, now: u64) -> Result<u64, Option<u64>> {
        let mut free = time;
        while self.is_full() {
            self.issues.pass(free);
            if !self.is_full() {
                break;
            }
            match self.issues.first() {
                // An instruction that still waits issues no earlier than now.
                Some(issue) if issue <= now => free = issue,
                later => return Err(later),
            }
        }
        Ok(free)
    }

    /// Allocates an entry for an instruction whose issue cycle is not known yet.
    #[inline]
    pub(crate) fn take(&mut self) {
        self.waiting += 1;
    }

    /// Sets the issue cycle of an instruction that [`Self::take`] allocated an entry for; it was dispatched
    /// at `dispatch`.
    #[inline]
    pub(crate) fn issue(&mut self, time: u64, dispatch: u64) {
        self.waiting -= 1;
        self.pass(time, dispatch);
    }

    /// Allocates an entry from cycle `dispatch` on for an instruction that will issue at cycle `time`.
    #[inline]
    pub(crate) fn pass(&mut self, time: u64, dispatch: u64) {
        if time > dispatch {
            self.issues.add(time, dispatch);
        }
    }
}

/// Multiset of cycles; those that have passed are dropped on demand.
#[derive(Clone, Debug)]
struct Times {
    /// Count of each of the next [`NEAR`] cycles, at index [`place`] of the cycle.
    counts: Box<[u32; NEAR as usize]>,
    /// Cycles [`NEAR`] or more ahead.
    far: BinaryHeap<Reverse<u64>>,
    /// Cycle up to which all have been dropped.
    passed: u64,
    count: usize,
}

impl Default for Times {
    fn default() -> Self {
        Self { counts: Box::new([0; NEAR as usize]), far: BinaryHeap::new(), passed: 0, count: 0 }
    }
}

impl Times {
    /// Adds a cycle. If that is far ahead, the cycles up to `now` are dropped first.
    #[inline(always)]
    fn add(&mut self, time: u64, now: u64) {
        // Cycles that have passed are as far.
        if time.wrapping_sub(self.passed + 1) >= NEAR - 1 {
            return self.add_far(time, now);
        }
        self.count += 1;
        self.counts[place(time)] += 1;
    }

    #[cold]
    #[inline(never)]
    fn add_far(&mut self, time: u64, now: u64) {
        self.pass(now);
        if time >= self.passed + NEAR {
            self.count += 1;
            self.far.push(Reverse(time));
        } else if time > self.passed {
            self.add(time, now);
        }
    }

    fn first(&self) -> Option<u64> {
        if self.count == self.far.len() {
            return Some(self.far.peek()?.0);
        }
        (self.passed + 1..self.passed + NEAR).find(|&time| self.counts[place(time)] != 0)
    }

    /// Drops the cycles at these indices of `counts`.
    #[inline]
    fn drop_near(&mut self, places: Range<usize>) {
        let dropped: u32 = self.counts[places].iter_mut().map(std::mem::take).sum();
        self.count -= dropped as usize;
    }

    /// Drops the cycles up to and including `until`.
    fn pass(&mut self, until: u64) {
        let cycles = until.saturating_sub(self.passed).min(NEAR) as usize;
        if self.count > self.far.len() {
            let first = place(self.passed + 1);
            let end = first + cycles;
            self.drop_near(first..end.min(NEAR as usize));
            if end > NEAR as usize {
                self.drop_near(0..end - NEAR as usize);
            }
        }
        self.passed = self.passed.max(until);
        while let Some(&Reverse(time)) = self.far.peek()
            && time < self.passed + NEAR
        {
            self.far.pop();
            self.count -= 1;
            self.add(time, until);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// As a list from which those that have passed are taken.
        #[test]
        fn times_pass_as_from_a_list(
            steps in prop::collection::vec((0u64..3000, 0u64..4, 0u64..1500), 1..100),
        ) {
            let (mut times, mut expected): (Times, Vec<u64>) = Default::default();
            let mut now = 0;
            for (ahead, like, further) in steps {
                for _ in 0..like {
                    times.add(now + ahead, now);
                    expected.push(now + ahead);
                }
                now += further;
                times.pass(now);
                expected.retain(|&time| time > now);
                prop_assert_eq!(times.count, expected.len());
                prop_assert_eq!(times.first(), expected.iter().min().copied());
            }
        }
    }

    #[test]
    fn entries_are_free_when_their_instruction_issues() {
        let mut scheduler = Scheduler::new(Some(2));
        for _ in 0..2 {
            assert_eq!(scheduler.free_at(5, 0), Ok(5));
            scheduler.take();
        }
        assert_eq!(scheduler.free_at(5, 0), Err(None), "nothing is known of either");
        scheduler.issue(30, 5);
        assert_eq!(scheduler.free_at(5, 10), Err(Some(30)), "the other may be earlier");
        assert_eq!(scheduler.free_at(5, 30), Ok(30));
        scheduler.take();
        assert_eq!(scheduler.free_at(30, 30), Err(None));
        scheduler.issue(5, 5);
        assert_eq!(scheduler.free_at(30, 30), Ok(30));
    }
}
