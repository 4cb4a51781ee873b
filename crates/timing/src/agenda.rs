//! Agenda: the queue of simulation events in order of time, lists of parties that wait for a time to become
//! known, and parties whose time is known but who have not been told yet.
//!
//! A request for a shared resource (MSHR, page walker, DRAM bank) is an event. Events are handled in order of
//! time, so that the earliest request gets the resource. Events of one cycle are handled by kind, and those
//! of one kind by number (of fill, walk or access), which is program order. A time that depends on no shared
//! resource is computed at once, without an event.
//!
//! All hardware threads of a machine have one agenda. An event or waiter belongs to the thread that was being
//! simulated when it was added ([`Agenda::thread`]).

use crate::calendar::Calendar;
use crate::ring::NONE;

/// Placeholder for a cycle that is not known yet.
pub(crate) const UNKNOWN: u64 = u64::MAX;

/// Number of a hardware thread, counted over all cores.
pub(crate) type Thread = u8;

/// Simulation event that is due at a certain cycle. Events due in one cycle are handled in the order of these
/// variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A TLB shootdown of thread `sender` arrives; its handler keeps the interrupted thread busy for
    /// `cycles`.
    Interrupt { sender: Thread, cycles: u32 },
    /// A scheduler entry becomes free: dispatch is tried again.
    Dispatch,
    /// A page walker becomes free, for the first translation in the queue.
    WalkerFree,
    /// An MSHR of this cache level becomes free, for the first fill in the queue.
    Mshr { level: u16 },
    /// An access requests translation number `walk`. With `lends_walker`, the requester is itself a walk and
    /// lends its page walker.
    Translate { walk: u32, lends_walker: bool },
    /// Translation number `walk` requests a page walker.
    Walker { walk: u32 },
    /// A cache look-up misses, or hits a line still in flight: number `fill` brings the line, and `waiter`
    /// waits for it.
    Miss { fill: u32, waiter: Waiter },
    /// First demand access to a prefetched line.
    FirstUse { level: u16, line: u64 },
    /// A load has its physical address and checks whether the older store to the same address has written the
    /// cache yet.
    Forward { access: u32 },
    /// DRAM reads the line of this fill.
    Memory { fill: u32 },
}

impl Event {
    /// Sort key among the events of one cycle: kind, then number of the walk, fill or access.
    #[inline]
    pub(crate) fn order(&self) -> u64 {
        let (kind, number) = match *self {
            Self::Interrupt { sender, .. } => (0, sender.into()),
            Self::Dispatch => (1, 0),
            Self::WalkerFree => (2, 0),
            Self::Mshr { level } => (3, level.into()),
            Self::Translate { walk, .. } => (4, walk),
            Self::Walker { walk } => (5, walk),
            Self::Miss { fill, .. } => (6, fill),
            Self::FirstUse { line, .. } => (7, line as u32),
            Self::Forward { access } => (8, access),
            Self::Memory { fill } => (9, fill),
        };
        kind << 32 | u64::from(number)
    }
}

/// Party that waits for a cycle to become known, with the number of its fill, walk, access or store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Waiter {
    #[default]
    Nobody,
    /// Cache fill that waits for its line from the next level.
    Fill(u32),
    /// Task (look-up, check or read) number `task` of translation `walk`; it waits for its line or TLB entry.
    Step { walk: u32, task: u16 },
    /// Translation that waits for a page walker.
    Walker(u32),
    /// Front end that waits for the translation or the line of the next code line.
    Fetch,
    /// Load or store that waits for its translation.
    Translated(u32),
    /// Load or store on a wrong path, which waits for its translation.
    Ahead(u32),
    /// Load on a wrong path that waits for the cache line of its data.
    LineAhead(u32),
    /// Load that waits for a cache line of its data.
    Line(u32),
    /// Load that waits for the data of an older store (store-to-load forwarding).
    Forwarded(u32),
    /// Retired store that waits for a line to write.
    Written(u32),
}

/// A waiter, and the cycle that it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wakeup {
    pub(crate) thread: Thread,
    pub(crate) waiter: Waiter,
    pub(crate) time: u64,
}

/// Event queue and waiting lists of all hardware threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agenda {
    events: Calendar,
    /// Current cycle: that of the event handled last.
    pub(crate) now: u64,
    /// Thread being simulated; it owns the events and waiters added now.
    pub(crate) thread: Thread,
    /// Messages to waiters whose cycle is known. The order of delivery changes no result.
    wakeups: Vec<Wakeup>,
    entries: Vec<Entry>,
    /// Index in `entries` of the first unused entry; unused entries form a linked list.
    free: u32,
}

/// Linked list of the parties that wait for one thing (a fill, a translation), in order of arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl List {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

/// A waiter in a [`List`].
#[derive(Clone, Copy, Debug)]
struct Entry {
    waiter: Waiter,
    thread: Thread,
    /// Task of the translation that is waited for, as all tasks of a translation share a list; [`NONE`] in
    /// other lists.
    task: u32,
    next: u32,
    /// Cycle before which the waiter cannot use the result.
    from: u64,
}

impl Agenda {
    /// Adds an event of the current thread at cycle `time`, or now if that has passed.
    #[inline]
    pub(crate) fn schedule(&mut self, time: u64, event: Event) {
        self.schedule_for(self.thread, time, event);
    }

    /// Like [`Self::schedule`], for an event of any thread.
    #[inline]
    pub(crate) fn schedule_for(&mut self, thread: Thread, time: u64, event: Event) {
        self.events.add(self.now, time.max(self.now), (thread, event));
    }

    /// Removes the next event, advances `now` to its cycle, and returns it with its thread.
    ///
    /// # Panics
    /// Without events.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> (Thread, Event) {
        self.now = self.events.arrive(self.now).expect("something waits for an event");
        self.events.take(self.now)
    }

    /// Cycle of the next event; `None` without events.
    pub(crate) fn next_time(&self) -> Option<u64> {
        self.events.next_time(self.now)
    }

    /// True if no event is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Queues the message to a waiter of the current thread that its cycle is `time`.
    #[inline]
    pub(crate) fn tell(&mut self, waiter: Waiter, time: u64) {
        self.tell_thread(self.thread, waiter, time);
    }

    /// Like [`Self::tell`], for a waiter of any thread.
    #[inline]
    pub(crate) fn tell_thread(&mut self, thread: Thread, waiter: Waiter, time: u64) {
        self.wakeups.push(Wakeup { thread, waiter, time });
    }

    /// Removes one message to a waiter from the queue, to be delivered.
    #[inline]
    pub(crate) fn next_wakeup(&mut self) -> Option<Wakeup> {
        self.wakeups.pop()
    }

    /// True if messages to waiters are still to be delivered.
    #[inline]
    pub(crate) fn has_wakeup(&self) -> bool {
        !self.wakeups.is_empty()
    }

    /// Appends a waiter to a list; it will be told no cycle before `from`.
    #[inline]
    pub(crate) fn wait(&mut self, list: &mut List, waiter: Waiter, from: u64) {
        self.wait_for_task(list, waiter, from, NONE);
    }

    /// Like [`Self::wait`], for a waiter that needs only task number `task` of the translation whose list
    /// this is.
    #[inline]
    pub(crate) fn wait_for_task(&mut self, list: &mut List, waiter: Waiter, from: u64, task: u32) {
        if waiter == Waiter::Nobody {
            return;
        }
        let entry = Entry { waiter, thread: self.thread, task, next: NONE, from };
        let place = self.free;
        if let Some(unused) = self.entries.get_mut(place as usize) {
            self.free = unused.next;
            *unused = entry;
        } else {
            self.entries.push(entry);
            self.free = self.entries.len() as u32;
        }
        if list.first == NONE {
            list.first = place;
        } else {
            self.entries[list.last as usize].next = place;
        }
        list.last = place;
    }

    /// Empties a list: tells each waiter `time`, or its own `from` if that is later. Returns how many waiters
    /// added by [`Self::wait_for_task`] could have used the result before `time`.
    #[inline(never)]
    pub(crate) fn tell_all(&mut self, list: &mut List, time: u64) -> u64 {
        let (mut place, mut delayed) = (std::mem::take(list).first, 0);
        while place != NONE {
            let Entry { task, from, .. } = self.entries[place as usize];
            delayed += u64::from(task != NONE && from < time);
            place = self.tell_entry(place, time);
        }
        delayed
    }

    /// Tells `time` to the waiters for this task and removes them from the list.
    pub(crate) fn tell_task(&mut self, list: &mut List, task: u32, time: u64) {
        let mut place = std::mem::take(list).first;
        while place != NONE {
            if self.entries[place as usize].task == task {
                place = self.tell_entry(place, time);
                continue;
            }
            let next = std::mem::replace(&mut self.entries[place as usize].next, NONE);
            if list.first == NONE {
                list.first = place;
            } else {
                self.entries[list.last as usize].next = place;
            }
            list.last = place;
            place = next;
        }
    }

    /// Tells the waiter in entry `place` its cycle and frees the entry; returns the index of the next in its
    /// list.
    #[inline]
    fn tell_entry(&mut self, place: u32, time: u64) -> u32 {
        let Entry { waiter, thread, next, from, .. } = self.entries[place as usize];
        self.entries[place as usize].next = self.free;
        self.free = place;
        self.wakeups.push(Wakeup { thread, waiter, time: from.max(time) });
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_cycle_come_by_kind_and_in_program_order() {
        let mut agenda = Agenda::default();
        let miss = |fill| Event::Miss { fill, waiter: Waiter::Nobody };
        let walker = Event::Walker { walk: 9 };
        for (time, event) in
            [(30, miss(8)), (10, miss(1)), (30, walker), (30, miss(7)), (20, miss(3))]
        {
            agenda.schedule(time, event);
        }
        let mut seen = Vec::new();
        while !agenda.is_empty() {
            let (_, event) = agenda.next();
            seen.push((agenda.now, event));
        }
        assert_eq!(
            seen,
            [(10, miss(1)), (20, miss(3)), (30, walker), (30, miss(7)), (30, miss(8))]
        );
    }

    /// Of one cycle each kind of event comes before the next, whatever the numbers and the order of arrival.
    #[test]
    fn events_of_one_cycle_come_in_the_order_of_their_kinds() {
        let kinds = |number: u32| {
            [
                Event::Interrupt { sender: number as Thread, cycles: 5 },
                Event::Dispatch,
                Event::WalkerFree,
                Event::Mshr { level: number as u16 },
                Event::Translate { walk: number, lends_walker: false },
                Event::Walker { walk: number },
                Event::Miss { fill: number, waiter: Waiter::Nobody },
                Event::FirstUse { level: 1, line: number.into() },
                Event::Forward { access: number },
                Event::Memory { fill: number },
            ]
        };
        let (later, earlier) = (kinds(9), kinds(3));
        for (place, pair) in later.windows(2).enumerate() {
            assert!(pair[0].order() < earlier[place + 1].order(), "{pair:?}");
        }
        for (one, other) in earlier.iter().zip(&later) {
            let has_number = !matches!(one, Event::Dispatch | Event::WalkerFree);
            assert_eq!(one.order() < other.order(), has_number, "{one:?}");
        }
    }

    #[test]
    fn waiters_are_told_no_time_before_their_own() {
        let mut agenda = Agenda::default();
        let (mut one, mut other) = (List::default(), List::default());
        agenda.wait(&mut one, Waiter::Line(1), 0);
        agenda.wait_for_task(&mut other, Waiter::Line(2), 0, 5);
        agenda.wait_for_task(&mut other, Waiter::Line(4), 0, 6);
        agenda.wait(&mut one, Waiter::Line(3), 70);
        let wakeup = |access, time| Some(Wakeup { thread: 0, waiter: Waiter::Line(access), time });
        agenda.tell_all(&mut one, 50);
        assert!(one.is_empty() && !other.is_empty());
        assert_eq!([agenda.next_wakeup(), agenda.next_wakeup()], [wakeup(3, 70), wakeup(1, 50)]);
        agenda.tell_task(&mut other, 6, 80);
        assert_eq!((agenda.next_wakeup(), agenda.has_wakeup()), (wakeup(4, 80), false));
        agenda.wait(&mut other, Waiter::Line(5), 0);
        agenda.tell_task(&mut other, 5, 90);
        assert_eq!(agenda.next_wakeup(), wakeup(2, 90));
        agenda.wait(&mut one, Waiter::Line(6), 0);
        agenda.wait(&mut one, Waiter::Line(7), 0);
        assert_eq!(agenda.entries.len(), 4, "entries are used again");
    }
}
