//! Calendar queue: events by time, then by [`Event::order`].
//!
//! Nearly all events are at most [`NEAR`] cycles away. Each of these cycles has a sorted list, so that adding an
//! event and finding the next one take few steps, however many events there are (Brown, "Calendar queues", 1988).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::agenda::{Event, Thread};
use crate::near::{NEAR, NearCycles, place};
use crate::ring::NONE;

/// Events by time, then by order.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    /// List of each near cycle, by [`place`]. Valid if the cycle is busy.
    days: Box<[Day]>,
    /// Near cycles with events.
    busy: NearCycles,
    entries: Vec<Entry>,
    /// First entry that is unused.
    free: u32,
    /// Events further away: time, place among the entries.
    far: BinaryHeap<Reverse<(u64, u32)>>,
}

#[derive(Clone, Copy, Debug)]
struct Day {
    first: u32,
    last: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    event: Event,
    /// Next entry of the same day, or next unused entry.
    next: u32,
    thread: Thread,
}

impl Default for Calendar {
    fn default() -> Self {
        Self {
            days: vec![Day { first: NONE, last: NONE }; NEAR as usize].into(),
            busy: NearCycles::default(),
            entries: Vec::new(),
            free: 0,
            far: BinaryHeap::new(),
        }
    }
}

impl Calendar {
    pub(crate) fn is_empty(&self) -> bool {
        self.busy.is_empty() && self.far.is_empty()
    }

    /// Adds an event at `time`, which is not before `now`.
    #[inline]
    pub(crate) fn add(&mut self, now: u64, time: u64, (thread, event): (Thread, Event)) {
        let entry = Entry { event, next: NONE, thread };
        let place = self.free;
        if let Some(unused) = self.entries.get_mut(place as usize) {
            self.free = unused.next;
            *unused = entry;
        } else {
            self.entries.push(entry);
            self.free = self.entries.len() as u32;
        }
        if time - now < NEAR {
            self.insert(time, place);
        } else {
            self.far.push(Reverse((time, place)));
        }
    }

    /// Inserts an entry into the list of its day, after all that are not later in order.
    #[inline]
    fn insert(&mut self, time: u64, entry: u32) {
        let day = &mut self.days[place(time)];
        if !self.busy.has(time) {
            *day = Day { first: entry, last: entry };
            self.busy.add(time);
            return;
        }
        let order = self.entries[entry as usize].event.order();
        if self.entries[day.last as usize].event.order() <= order {
            self.entries[day.last as usize].next = entry;
            day.last = entry;
        } else {
            self.insert_within(time, entry, order);
        }
    }

    /// Inserts an entry before the last of its day.
    #[inline(never)]
    fn insert_within(&mut self, time: u64, entry: u32, order: u64) {
        let mut next = self.days[place(time)].first;
        let mut before = NONE;
        while self.entries[next as usize].event.order() <= order {
            before = next;
            next = self.entries[next as usize].next;
        }
        self.entries[entry as usize].next = next;
        if before == NONE {
            self.days[place(time)].first = entry;
        } else {
            self.entries[before as usize].next = entry;
        }
    }

    /// Takes the next event, with its time. Later calls of [`Calendar::add`] give no earlier `now`.
    #[inline]
    pub(crate) fn next(&mut self, now: u64) -> Option<(u64, (Thread, Event))> {
        let Some(time) = self.busy.first(now) else { return self.next_far() };
        if !self.far.is_empty() {
            self.come_near(time);
        }
        Some((time, self.take(time)))
    }

    /// Time of the next event.
    pub(crate) fn next_time(&self, now: u64) -> Option<u64> {
        let far = || self.far.peek().map(|&Reverse((time, _))| time);
        self.busy.first(now).or_else(far)
    }

    /// Takes the first event of a day.
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
        let Reverse((time, _)) = *self.far.peek()?;
        self.come_near(time);
        Some((time, self.take(time)))
    }

    /// Moves far events that are near from `now` on to their days.
    fn come_near(&mut self, now: u64) {
        while let Some(&Reverse((time, entry))) = self.far.peek()
            && time - now < NEAR
        {
            self.far.pop();
            self.insert(time, entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Near or far, events come as from a list sorted by time and order.
        #[test]
        fn events_come_as_from_a_sorted_list(
            steps in prop::collection::vec((0usize..4, 0u64..3), 1..200),
            delays in prop::collection::vec(
                (prop_oneof![0u64..40, 0u64..5000, 1020u64..1030], any::<u16>()),
                800,
            ),
        ) {
            let mut calendar = Calendar::default();
            let (mut now, mut expected): (u64, Vec<(u64, u32)>) = (0, Vec::new());
            let mut delays = delays.into_iter();
            for (adds, takes) in steps {
                for (delay, access) in delays.by_ref().take(adds) {
                    let access = access.into();
                    calendar.add(now, now + delay, (0, Event::Forward { access }));
                    expected.push((now + delay, access));
                }
                expected.sort();
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
