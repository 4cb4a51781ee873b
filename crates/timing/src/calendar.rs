//! Calendar queue: events in order of cycle, then of [`Event::order`].
//!
//! Nearly all events are due less than [`NEAR`] cycles ahead. Each of these cycles has a sorted list, so that
//! adding an event and finding the next one take few steps, however many events there are (Brown, "Calendar
//! queues", 1988). Later events are in a heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::agenda::{Event, Thread};
use crate::near::{NEAR, NearCycles, place};
use crate::ring::NONE;

/// Priority queue of events, by cycle and then by [`Event::order`].
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    /// Event list of each of the next [`NEAR`] cycles, at index [`place`] of the cycle. Only valid if `busy`
    /// has the cycle.
    days: Box<[Day; NEAR as usize]>,
    /// Set of the near cycles (less than [`NEAR`] ahead) that have events.
    busy: NearCycles,
    entries: Vec<Entry>,
    /// Index of the first unused entry; unused entries form a linked list.
    free: u32,
    /// Events [`NEAR`] or more cycles ahead: cycle, and index in `entries`.
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
    /// Next entry in the list of the same cycle, or next unused entry.
    next: u32,
    thread: Thread,
}

impl Default for Calendar {
    fn default() -> Self {
        Self {
            days: Box::new([Day { first: NONE, last: NONE }; NEAR as usize]),
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

    /// Adds an event at cycle `time`, which is not before `now`.
    pub(crate) fn add(&mut self, now: u64, time: u64, (thread, event): (Thread, Event)) {
        let place = self.free;
        let Some(entry) = self.entries.get_mut(place as usize) else {
            return self.add_to_more(now, time, (thread, event));
        };
        self.free = entry.next;
        *entry = Entry { event, next: NONE, thread };
        if time - now >= NEAR {
            self.add_far(time, place);
        } else {
            self.insert(time, place);
        }
    }

    /// Like [`Self::add`], where no entry is unused.
    #[cold]
    #[inline(never)]
    fn add_to_more(&mut self, now: u64, time: u64, event: (Thread, Event)) {
        self.entries.push(Entry { event: Event::Dispatch, next: self.free + 1, thread: 0 });
        self.add(now, time, event);
    }

    #[cold]
    #[inline(never)]
    fn add_far(&mut self, time: u64, entry: u32) {
        self.far.push(Reverse((time, entry)));
    }

    /// Inserts an entry into the list of cycle `time`, behind all entries whose order is not greater.
    #[inline]
    fn insert(&mut self, time: u64, entry: u32) {
        if !self.busy.add(time) {
            return self.insert_among(time, entry);
        }
        self.days[place(time)] = Day { first: entry, last: entry };
    }

    /// Like [`Self::insert`], for a cycle that has events already.
    #[inline(never)]
    fn insert_among(&mut self, time: u64, entry: u32) {
        let order = self.entries[entry as usize].event.order();
        let day = &mut self.days[place(time)];
        if self.entries[day.last as usize].event.order() <= order {
            self.entries[day.last as usize].next = entry;
            day.last = entry;
            return;
        }
        let mut next = day.first;
        let mut before = NONE;
        while self.entries[next as usize].event.order() <= order {
            before = next;
            next = self.entries[next as usize].next;
        }
        self.entries[entry as usize].next = next;
        if before == NONE {
            day.first = entry;
        } else {
            self.entries[before as usize].next = entry;
        }
    }

    /// Cycle of the next event, which the caller then takes; `None` without events. The caller never goes
    /// back: later calls pass that cycle or a later one as `now`.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, now: u64) -> Option<u64> {
        let time = match self.busy.first(now) {
            Some(time) if self.far.is_empty() => return Some(time),
            Some(time) => time,
            None => self.far.peek()?.0.0,
        };
        self.come_near(time);
        Some(time)
    }

    /// Cycle of the next event; `None` without events.
    pub(crate) fn next_time(&self, now: u64) -> Option<u64> {
        let far = || self.far.peek().map(|&Reverse((time, _))| time);
        self.busy.first(now).or_else(far)
    }

    /// Removes and returns the first event of cycle `time`, at which the caller has arrived.
    #[inline(always)]
    pub(crate) fn take(&mut self, time: u64) -> (Thread, Event) {
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

    /// Moves events from the heap `far` to the lists of their cycles, if these are less than [`NEAR`] cycles
    /// after `now`.
    #[inline(never)]
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
                    let next = calendar.arrive(now);
                    prop_assert_eq!(next.is_none(), expected.is_empty());
                    let Some(time) = next else { break };
                    let (_, Event::Forward { access }) = calendar.take(time) else { break };
                    prop_assert_eq!((time, access), expected.remove(0));
                    now = time;
                }
                prop_assert_eq!(calendar.is_empty(), expected.is_empty());
            }
        }
    }
}
