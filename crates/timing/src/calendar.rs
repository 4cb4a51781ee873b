//! Events by their time, in order.
//!
//! Nearly all of them happen within a few hundred cycles. Each of these cycles has a list of its own, so
//! that putting an event down and finding the next takes the same few steps however many there are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::agenda::{Event, Thread};
use crate::near::{NEAR, NearCycles, place};

/// Events by their time. Those of one cycle happen in the order in which they were put down.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    /// The first and the last event of each near cycle, by [`place`].
    days: Vec<Day>,
    /// Which days have events.
    busy: NearCycles,
    entries: Vec<Entry>,
    /// The first entry that is not used; the others follow.
    free: u32,
    /// Events that are further away: time, order, place among the entries.
    far: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// Events that were far away when they were put down.
    order: u64,
}

#[derive(Clone, Copy, Debug)]
struct Day {
    first: u32,
    last: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    event: Event,
    /// The next of the same day, or the next that is not used.
    next: u32,
    thread: Thread,
}

const NONE: u32 = u32::MAX;

impl Default for Calendar {
    fn default() -> Self {
        Self {
            days: vec![Day { first: NONE, last: NONE }; NEAR as usize],
            busy: NearCycles::default(),
            entries: Vec::new(),
            free: NONE,
            far: BinaryHeap::new(),
            order: 0,
        }
    }
}

impl Calendar {
    pub(crate) fn is_empty(&self) -> bool {
        self.busy.is_empty() && self.far.is_empty()
    }

    /// Puts down what happens at `time`, `now` or later.
    #[inline]
    pub(crate) fn add(&mut self, now: u64, time: u64, (thread, event): (Thread, Event)) {
        let entry = self.entry_for(thread, event);
        if time - now < NEAR {
            self.append(time, entry);
        } else {
            self.add_far(time, entry);
        }
    }

    #[inline]
    fn entry_for(&mut self, thread: Thread, event: Event) -> u32 {
        let entry = Entry { event, next: NONE, thread };
        let place = self.free;
        match self.entries.get_mut(place as usize) {
            Some(unused) => {
                self.free = unused.next;
                *unused = entry;
                place
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        }
    }

    #[cold]
    fn add_far(&mut self, time: u64, entry: u32) {
        self.order += 1;
        self.far.push(Reverse((time, self.order, entry)));
    }

    /// Puts an event at the end of its day.
    #[inline]
    fn append(&mut self, time: u64, entry: u32) {
        let day = &mut self.days[place(time)];
        if day.first == NONE {
            day.first = entry;
            self.busy.add(time);
        } else {
            self.entries[day.last as usize].next = entry;
        }
        day.last = entry;
    }

    /// The next event, and its time; from then on, no other comes earlier.
    #[inline(always)]
    pub(crate) fn next(&mut self, now: u64) -> Option<(u64, (Thread, Event))> {
        let Some(time) = self.busy.first(now) else { return self.next_far() };
        // Before anything is put down for one of the days that are near from now on.
        if !self.far.is_empty() {
            self.come_near(time);
        }
        Some((time, self.take(time)))
    }

    /// When the next event is.
    pub(crate) fn next_time(&self, now: u64) -> Option<u64> {
        let far = || self.far.peek().map(|&Reverse((time, ..))| time);
        self.busy.first(now).or_else(far)
    }

    /// The first event of a busy day.
    #[inline]
    fn take(&mut self, time: u64) -> (Thread, Event) {
        let day = &mut self.days[place(time)];
        let first = day.first;
        let Entry { event, next, thread } = self.entries[first as usize];
        day.first = next;
        if next == NONE {
            self.busy.remove(time);
        }
        self.entries[first as usize].next = self.free;
        self.free = first;
        (thread, event)
    }

    #[cold]
    fn next_far(&mut self) -> Option<(u64, (Thread, Event))> {
        let Reverse((time, ..)) = *self.far.peek()?;
        self.come_near(time);
        Some((time, self.take(time)))
    }

    /// Events that were far away are near now.
    fn come_near(&mut self, now: u64) {
        while let Some(&Reverse((time, _, entry))) = self.far.peek()
            && time - now < NEAR
        {
            self.far.pop();
            self.append(time, entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn events_happen_in_order_of_time_and_then_of_scheduling() {
        let mut calendar = Calendar::default();
        for (time, access) in [(30, 0), (10, 1), (3000, 2), (30, 3), (20, 4), (3000, 5)] {
            calendar.add(0, time, (0, Event::Forward { access }));
        }
        let (mut seen, mut now) = (Vec::new(), 0);
        while let Some((time, (0, Event::Forward { access }))) = calendar.next(now) {
            now = time;
            seen.push((time, access));
        }
        assert_eq!(seen, [(10, 1), (20, 4), (30, 0), (30, 3), (3000, 2), (3000, 5)]);
        assert!(calendar.is_empty());
        assert_eq!(calendar.entries.len(), 6);
    }

    proptest! {
        /// As a list that is sorted anew each time.
        #[test]
        fn events_come_as_from_a_sorted_list(
            steps in prop::collection::vec((0usize..4, 0u64..3), 1..200),
            delays in prop::collection::vec(prop_oneof![0u64..40, 0u64..5000, 1020u64..1030], 800),
        ) {
            let mut calendar = Calendar::default();
            let (mut now, mut expected): (u64, Vec<(u64, u32)>) = (0, Vec::new());
            let mut delays = delays.into_iter();
            let mut added = 0;
            for (adds, takes) in steps {
                for delay in delays.by_ref().take(adds) {
                    calendar.add(now, now + delay, (0, Event::Forward { access: added }));
                    expected.push((now + delay, added));
                    added += 1;
                }
                expected.sort_by_key(|(time, _)| *time);
                for _ in 0..takes {
                    prop_assert_eq!(calendar.next_time(now), expected.first().map(|it| it.0));
                    let next = calendar.next(now);
                    prop_assert_eq!(next.is_none(), expected.is_empty());
                    let Some((time, (0, Event::Forward { access }))) = next else { break };
                    prop_assert_eq!((time, access), expected.remove(0));
                    now = time;
                }
                prop_assert_eq!(calendar.is_empty(), expected.is_empty());
            }
        }
    }
}
