//! Agenda: events in order of time, parties that wait for a time, and parties that are yet to be told one.
//!
//! A request for a shared part (MSHR, page walker, memory bank) is an event. Events are handled in order of
//! time, so that a part goes to the request that comes first. Events of one cycle are handled by kind, and those
//! of one kind in program order: the numbers of fills, walks and accesses follow the program. A time that
//! depends on no shared part needs no event.
//!
//! All hardware threads of a machine have one agenda. Events and waiters belong to the thread at work when they
//! are added ([`Agenda::thread`]).

use crate::calendar::Calendar;
use crate::ring::NONE;

/// Time that is not known yet.
pub(crate) const UNKNOWN: u64 = u64::MAX;

/// Number of a hardware thread.
pub(crate) type Thread = u8;

/// Event at a certain time. Events of one cycle are handled in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A shootdown of `sender` arrives; the answer takes `cycles`.
    Interrupt { sender: Thread, cycles: u32 },
    /// An entry of the scheduler is free.
    Dispatch,
    /// A page walker is free.
    WalkerFree,
    /// An MSHR of this level is free.
    Mshr { level: u16 },
    /// A translation is asked for.
    Translate { walk: u32, lends_walker: bool },
    /// A translation asks for a page walker.
    Walker { walk: u32 },
    /// A look-up ends at a line that is not in the cache yet.
    Miss { fill: u32, waiter: Waiter },
    /// First use of a line that a prefetcher brought.
    FirstUse { level: u16, line: u64 },
    /// A load is translated and checks if the store before it has written its data.
    Forward { access: u32 },
    /// A line is read from memory.
    Memory { fill: u32 },
}

impl Event {
    /// Order among the events of one cycle: by kind, then by number.
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

/// Party that waits for a time to become known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Waiter {
    #[default]
    Nobody,
    /// Fill of a cache, for its line in the level below.
    Fill(u32),
    /// Translation, for the task of this index.
    Step { walk: u32, task: u16 },
    /// Translation, for a page walker.
    Walker(u32),
    /// Front end, for the code of the next instruction.
    Fetch,
    /// Load or store, for its translation.
    Translated(u32),
    /// Load, for a line of its data.
    Line(u32),
    /// Load, for the data of a store before it.
    Forwarded(u32),
    /// Store, for a line that it writes.
    Written(u32),
}

/// A waiter and the time that it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) thread: Thread,
    pub(crate) waiter: Waiter,
    pub(crate) time: u64,
}

/// Agenda of all hardware threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agenda {
    events: Calendar,
    /// Time of the last event. Later events are not earlier.
    pub(crate) now: u64,
    /// Thread that is at work.
    pub(crate) thread: Thread,
    /// Waiters yet to be told. The order among waiters makes no difference to any time.
    news: Vec<News>,
    entries: Vec<Entry>,
    /// First entry that is unused.
    free: u32,
}

/// Waiters for one thing, in order of arrival.
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

/// A waiter in a list.
#[derive(Clone, Copy, Debug)]
struct Entry {
    waiter: Waiter,
    thread: Thread,
    /// Translations have a list for all tasks: the task waited for.
    task: u32,
    next: u32,
    /// Earliest time of use for the waiter.
    from: u64,
}

impl Agenda {
    /// Adds an event at `time`, or now if that has passed.
    #[inline]
    pub(crate) fn schedule(&mut self, time: u64, event: Event) {
        self.schedule_for(self.thread, time, event);
    }

    /// Adds an event of another thread.
    #[inline]
    pub(crate) fn schedule_for(&mut self, thread: Thread, time: u64, event: Event) {
        self.events.add(self.now, time.max(self.now), (thread, event));
    }

    /// Goes on to the next event; returns it with its thread.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<(Thread, Event)> {
        let (time, event) = self.events.next(self.now)?;
        self.now = time;
        Some(event)
    }

    /// Time of the next event.
    pub(crate) fn next_time(&self) -> Option<u64> {
        self.events.next_time(self.now)
    }

    /// True if there is no event.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Tells a waiter of the thread at work that its time is `time`.
    #[inline]
    pub(crate) fn tell(&mut self, waiter: Waiter, time: u64) {
        self.tell_thread(self.thread, waiter, time);
    }

    /// Tells a waiter of any thread.
    #[inline]
    pub(crate) fn tell_thread(&mut self, thread: Thread, waiter: Waiter, time: u64) {
        self.news.push(News { thread, waiter, time });
    }

    /// Takes one of the waiters that are yet to be told.
    #[inline]
    pub(crate) fn next_news(&mut self) -> Option<News> {
        self.news.pop()
    }

    /// True if waiters are yet to be told.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Appends a waiter that has no use for its time before `from`.
    #[inline]
    pub(crate) fn wait(&mut self, list: &mut List, waiter: Waiter, from: u64) {
        self.wait_for_task(list, waiter, from, NONE);
    }

    /// Appends a waiter for a task of a translation.
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

    /// Tells all waiters of a list that their time is `time`, or the time from which they have use for it. Returns
    /// the number of those for a task that had use for it earlier.
    #[inline]
    pub(crate) fn tell_all(&mut self, list: &mut List, time: u64) -> u64 {
        let (mut place, mut delayed) = (std::mem::take(list).first, 0);
        while place != NONE {
            let Entry { task, from, .. } = self.entries[place as usize];
            delayed += u64::from(task != NONE && from < time);
            place = self.tell_entry(place, time);
        }
        delayed
    }

    /// Tells the waiters for one task.
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

    /// Tells the waiter at `place` and frees its entry; returns the next of its list.
    #[inline]
    fn tell_entry(&mut self, place: u32, time: u64) -> u32 {
        let Entry { waiter, thread, next, from, .. } = self.entries[place as usize];
        self.entries[place as usize].next = self.free;
        self.free = place;
        self.news.push(News { thread, waiter, time: from.max(time) });
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
        while let Some((0, event)) = agenda.next() {
            seen.push((agenda.now, event));
        }
        assert_eq!(
            seen,
            [(10, miss(1)), (20, miss(3)), (30, walker), (30, miss(7)), (30, miss(8))]
        );
    }

    #[test]
    fn waiters_are_told_no_time_before_their_own() {
        let mut agenda = Agenda::default();
        let (mut one, mut other) = (List::default(), List::default());
        agenda.wait(&mut one, Waiter::Line(1), 0);
        agenda.wait_for_task(&mut other, Waiter::Line(2), 0, 5);
        agenda.wait_for_task(&mut other, Waiter::Line(4), 0, 6);
        agenda.wait(&mut one, Waiter::Line(3), 70);
        let news = |access, time| Some(News { thread: 0, waiter: Waiter::Line(access), time });
        agenda.tell_all(&mut one, 50);
        assert!(one.is_empty() && !other.is_empty());
        assert_eq!([agenda.next_news(), agenda.next_news()], [news(3, 70), news(1, 50)]);
        agenda.tell_task(&mut other, 6, 80);
        assert_eq!((agenda.next_news(), agenda.has_news()), (news(4, 80), false));
        agenda.wait(&mut other, Waiter::Line(5), 0);
        agenda.tell_task(&mut other, 5, 90);
        assert_eq!(agenda.next_news(), news(2, 90));
        agenda.wait(&mut one, Waiter::Line(6), 0);
        agenda.wait(&mut one, Waiter::Line(7), 0);
        assert_eq!(agenda.entries.len(), 4, "entries are used again");
    }
}
