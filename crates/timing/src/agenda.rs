//! What happens when: events in order of time, and who waits for what.
//!
//! Requests for shared parts (an MSHR, a page walker, a bank) are events. They are dealt with in
//! order of their time, whatever the order of the instructions that make them, so that a part is
//! given to whoever asks first. What needs no shared part gets its time without an event, as soon
//! as the time of what it waits for is known.
//!
//! All hardware threads of a machine have one agenda. Events and waiters are those of the thread that
//! is at work when they are put down ([`Agenda::thread`]), and come back with its number.

use std::collections::VecDeque;

use crate::calendar::Calendar;
use crate::hierarchy::FillId;
use crate::translation::WalkId;

/// A time that is not known yet.
pub(crate) const UNKNOWN: u64 = u64::MAX;

/// Something that happens at a certain time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A look-up has found that the line of this fill has yet to come.
    Miss { fill: FillId, waiter: Waiter },
    /// A line that a prefetcher brought is used for the first time.
    FirstUse { level: u8, line: u64 },
    /// An MSHR of this level may be free.
    Mshr { level: u8 },
    /// Somebody wants what this translation has after one of its stages.
    Translate { walk: WalkId, wanted: Wanted },
    /// A translation needs a walker.
    Walker { walk: WalkId },
    /// A walker may be free.
    WalkerFree,
    /// A load has its translation, and looks whether the store before it has written its data.
    Forward { access: u32 },
    /// An entry of the scheduler is free.
    Dispatch,
    /// A shootdown of `sender` arrives, which takes so many cycles to be answered.
    Interrupt { sender: Thread, cycles: u32 },
}

/// Number of a hardware thread.
pub(crate) type Thread = u8;

/// Who is told when a time becomes known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// Nobody.
    Nobody,
    /// The fill of a line, for the level below it.
    Fill(FillId),
    /// A translation, for the step of this number.
    Step { walk: WalkId, step: u16 },
    /// The code of the next instruction.
    Fetch,
    /// An instruction, for a register that its addresses need.
    Address(u32),
    /// An instruction, for a register that its operation needs.
    Operand(u32),
    /// A load or store, for its translation.
    Translated(u32),
    /// A load, for a line of its data.
    Line(u32),
    /// A load, for the data of a store before it.
    Forwarded(u32),
    /// A store, for a line that it writes.
    Written(u64),
}

/// What somebody wants of a translation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The stage after whose end it is there.
    pub(crate) stage: u8,
    /// Who is told, and on which thread.
    pub(crate) waiter: Waiter,
    pub(crate) thread: Thread,
    /// Who asks holds a walker and lends it, as otherwise both could wait for each other.
    pub(crate) lends_walker: bool,
}

/// Everything to come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agenda {
    events: Calendar,
    /// Time of the last event. Nothing happens earlier from here on.
    pub(crate) now: u64,
    /// The thread that is at work.
    pub(crate) thread: Thread,
    /// Times that have become known, and who has yet to be told.
    news: VecDeque<News>,
}

/// Somebody is to be told of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) thread: Thread,
    pub(crate) waiter: Waiter,
    pub(crate) time: u64,
}

impl Agenda {
    /// Puts down what happens at `time`.
    #[inline]
    pub(crate) fn schedule(&mut self, time: u64, event: Event) {
        debug_assert!(time >= self.now, "{event:?} at {time}, which is before {}", self.now);
        self.events.add(self.now, time, (self.thread, event));
    }

    /// Puts down what happens to another thread.
    pub(crate) fn schedule_for(&mut self, thread: Thread, time: u64, event: Event) {
        self.events.add(self.now, time.max(self.now), (thread, event));
    }

    /// The next event, and the thread that put it down; time goes on to it.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<(Thread, Event)> {
        let (time, event) = self.events.next(self.now)?;
        self.now = time;
        Some(event)
    }

    /// When the next event is.
    pub(crate) fn next_time(&self) -> Option<u64> {
        self.events.next_time(self.now)
    }

    /// What somebody on the thread at work waits for happens at `time`: they are told in turn.
    #[inline]
    pub(crate) fn tell(&mut self, waiter: Waiter, time: u64) {
        self.tell_thread(self.thread, waiter, time);
    }

    /// The same for somebody on any thread.
    #[inline]
    pub(crate) fn tell_thread(&mut self, thread: Thread, waiter: Waiter, time: u64) {
        if waiter != Waiter::Nobody {
            self.news.push_back(News { thread, waiter, time });
        }
    }

    /// Whether nothing is to come.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Whether somebody is to be told.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// The next who is to be told.
    #[inline]
    pub(crate) fn next_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// All who wait for something learn that it happens at `time`; none sees it before their own
    /// time.
    #[inline]
    pub(crate) fn tell_all(&mut self, waiters: &mut Waiters, list: &mut List, time: u64) {
        while let Some(Entry { waiter, thread, from, .. }) = waiters.take_first(list) {
            self.tell_thread(thread, waiter, from.max(time));
        }
    }
}

/// The lists of all who wait for something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters {
    entries: Vec<Entry>,
    free: List,
    /// The thread that is at work.
    pub(crate) thread: Thread,
}

/// Those who wait for one thing, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

const NONE: u32 = u32::MAX;

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl List {
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    waiter: Waiter,
    thread: Thread,
    /// The waiter needs it at this time; it may be there earlier.
    from: u64,
    next: u32,
}

impl Waiters {
    /// Puts somebody at the end of a list.
    #[inline]
    pub(crate) fn add(&mut self, list: &mut List, waiter: Waiter, from: u64) {
        let entry = Entry { waiter, thread: self.thread, from, next: NONE };
        let place = self.free.first;
        let place = if place == NONE {
            self.entries.push(entry);
            (self.entries.len() - 1) as u32
        } else {
            self.free.first = self.entries[place as usize].next;
            self.entries[place as usize] = entry;
            place
        };
        if list.first == NONE {
            list.first = place;
        } else {
            self.entries[list.last as usize].next = place;
        }
        list.last = place;
    }

    #[inline]
    fn take_first(&mut self, list: &mut List) -> Option<Entry> {
        if list.first == NONE {
            return None;
        }
        let place = list.first;
        let entry = self.entries[place as usize];
        list.first = entry.next;
        self.entries[place as usize].next = self.free.first;
        self.free.first = place;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_happen_in_order_of_time_and_then_of_scheduling() {
        let mut agenda = Agenda::default();
        for (time, access) in [(30, 0), (10, 1), (30, 2), (20, 3)] {
            agenda.schedule(time, Event::Forward { access });
        }
        let mut seen = Vec::new();
        while let Some((0, Event::Forward { access })) = agenda.next() {
            seen.push((agenda.now, access));
        }
        assert_eq!(seen, [(10, 1), (20, 3), (30, 0), (30, 2)]);
    }

    #[test]
    fn waiters_are_told_in_turn_and_not_before_their_own_time() {
        let (mut agenda, mut waiters) = (Agenda::default(), Waiters::default());
        let (mut one, mut other) = (List::default(), List::default());
        waiters.add(&mut one, Waiter::Line(1), 0);
        waiters.add(&mut other, Waiter::Line(2), 0);
        waiters.add(&mut one, Waiter::Line(3), 70);
        agenda.tell_all(&mut waiters, &mut one, 50);
        assert!(one.is_empty() && !other.is_empty());
        let news = |access, time| News { thread: 0, waiter: Waiter::Line(access), time };
        assert_eq!(agenda.next_news(), Some(news(1, 50)));
        assert_eq!(agenda.next_news(), Some(news(3, 70)));
        assert_eq!(agenda.next_news(), None);
        waiters.add(&mut other, Waiter::Line(4), 0);
        assert_eq!(waiters.entries.len(), 3, "places are used again");
    }
}
