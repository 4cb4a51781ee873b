//! Fills: the ways of lines into caches, in order of time.

use super::*;
use crate::agenda::{Agenda, Event, List, Thread, UNKNOWN, Waiter};

/// Mark of a party that waits for a line and asks for it only after another will have asked.
const LATER: u32 = 0;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// No access has asked for the line in time.
    #[default]
    Wanted,
    /// The line has been asked for.
    OnItsWay,
    /// The line arrives at [`Fill::ready`].
    Timed,
}

/// Way of one line into one cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fill {
    pub(super) state: State,
    pub(super) origin: Origin,
    /// A prefetcher asked for the line before the access that missed it, which has yet to come.
    pub(super) is_prefetched: bool,
    /// It asks for an MSHR, or has one: not if its cache asks at once.
    pub(super) uses_mshr: bool,
    /// Level that has the line, once known.
    from: u8,
    level: u16,
    ready: u64,
    pub(super) line: u64,
    /// Line in the level below.
    pub(super) below: Data,
    /// Time at which the fill got its MSHR; before that, earliest time at which one will be asked for.
    since: u64,
    /// Time until which the line waited for an MSHR of any level; 0 without a wait.
    waited_until: u64,
    /// Line that is written to memory when this one takes its place.
    pub(super) writes: Option<u64>,
    /// First party that waits for the line, its thread, and the time from which it has use for the line.
    waiter: Waiter,
    waiter_thread: Thread,
    waiter_from: u64,
    /// All other parties that wait.
    waiters: List,
}

impl Fill {
    /// Appends a party that waits and has no use for the line before `from`.
    #[inline]
    fn wait(&mut self, agenda: &mut Agenda, waiter: Waiter, from: u64) {
        if self.waiter == Waiter::Nobody {
            (self.waiter, self.waiter_thread, self.waiter_from) = (waiter, agenda.thread, from);
        } else {
            agenda.wait(&mut self.waiters, waiter, from);
        }
    }

    /// Appends a party that asks at `from`, after another has asked.
    fn wait_for_another(&mut self, agenda: &mut Agenda, waiter: Waiter, from: u64) {
        agenda.wait_for_task(&mut self.waiters, waiter, from, LATER);
    }

    pub(super) fn new(level: usize, line: u64, origin: Origin) -> Self {
        let level = level as u16;
        Self { origin, level, ready: UNKNOWN, since: UNKNOWN, line, ..Self::default() }
    }

    /// True if the line is in the cache now.
    #[inline]
    pub(super) fn has_arrived(&self, now: u64) -> bool {
        self.ready <= now
    }
}

/// Service of an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    /// Level that had the line.
    pub(crate) from: usize,
    /// Time until which the access waited for MSHRs of any level; 0 without a wait.
    pub(crate) waited_until: u64,
}

impl Hierarchy {
    /// Number of the next fill.
    #[inline]
    pub(crate) fn next_fill(&self) -> u32 {
        self.fills.next()
    }

    /// Instructions in flight refer to no fill before this one.
    pub(crate) fn keep_fills_from(&mut self, floor: u32) {
        self.floor = floor;
    }

    #[inline]
    pub(super) fn add_fill(&mut self, fill: Fill) -> u32 {
        // A line on its way that is older than the floor is a prefetch, or read in the background.
        while self.fills.is_short_of(self.floor, 1)
            || self.fills.oldest(1).any(|fill| fill.state == State::OnItsWay)
        {
            self.fills.grow();
        }
        self.fills.push(fill)
    }

    /// Access to a located line at `time`, now or later. Returns the time of its end if that is known; otherwise
    /// `waiter` learns it later. `line` is the number of the line.
    #[inline]
    pub(crate) fn access(
        &mut self,
        agenda: &mut Agenda,
        level: usize,
        (data, line): (Data, u64),
        time: u64,
        waiter: Waiter,
    ) -> Option<u64> {
        let found = time + self.levels[level].latency;
        if data.is_first_use {
            agenda.schedule(time, Event::FirstUse { level: level as u16, line });
        }
        if data.fill == NONE {
            return Some(found);
        }
        self.access_fill(agenda, data.fill, found, waiter)
    }

    /// As [`Self::access`], for a line that may yet have to come; its look-up ends at `found`.
    fn access_fill(
        &mut self,
        agenda: &mut Agenda,
        id: u32,
        found: u64,
        waiter: Waiter,
    ) -> Option<u64> {
        let fill = &mut self.fills[id];
        let at = &mut self.levels[usize::from(fill.level)];
        if std::mem::take(&mut fill.is_prefetched) {
            let first_use = Event::FirstUse { level: fill.level, line: fill.line };
            agenda.schedule(found - at.latency, first_use);
        }
        match fill.state {
            State::Timed => {
                at.statistics.merges += u64::from(fill.ready > found - at.latency);
                return Some(found.max(fill.ready));
            }
            State::OnItsWay => {
                at.statistics.merges += 1;
                self.bring_forward(agenda, id, found);
            }
            State::Wanted if at.asks_at_once => {
                fill.state = State::OnItsWay;
                if let Some(ready) = self.read_below(agenda, id, found) {
                    return Some(found.max(ready));
                }
            }
            State::Wanted if fill.since <= found && self.merges_without_event => {
                // Another access asks first.
                fill.wait_for_another(agenda, waiter, found);
                return None;
            }
            State::Wanted => {
                fill.since = found;
                agenda.schedule(found, Event::Miss { fill: id, waiter });
                return None;
            }
        }
        self.fills[id].wait(agenda, waiter, found);
        None
    }

    /// A line on its way is asked for at `asked`. If that is earlier than the request so far, the request moves
    /// forward; the event of the later one finds it done.
    fn bring_forward(&mut self, agenda: &mut Agenda, id: u32, asked: u64) {
        let fill = &mut self.fills[id];
        let at = &self.levels[usize::from(fill.level)];
        let (asked, data) = (asked.max(agenda.now), fill.below);
        if !at.asks_at_once || fill.state != State::OnItsWay || asked >= fill.since {
            return;
        }
        fill.since = asked;
        if at.below == MEMORY {
            return agenda.schedule(asked, Event::Memory { fill: id });
        }
        let found = asked + self.levels[at.below].latency;
        if self.fills[data.fill].state == State::Wanted {
            agenda.schedule(found, Event::Miss { fill: data.fill, waiter: Waiter::Nobody });
        } else {
            self.bring_forward(agenda, data.fill, found);
        }
    }

    /// A look-up has ended at a line that had not come when the access began.
    #[inline]
    pub(crate) fn miss(&mut self, agenda: &mut Agenda, id: u32, waiter: Waiter) {
        let now = agenda.now;
        let fill = &mut self.fills[id];
        let level = usize::from(fill.level);
        let at = &mut self.levels[level];
        if std::mem::take(&mut fill.is_prefetched) {
            agenda.schedule(now, Event::FirstUse { level: fill.level, line: fill.line });
        }
        match fill.state {
            State::Timed => {
                at.statistics.merges += u64::from(fill.ready > now);
                agenda.tell(waiter, fill.ready.max(now));
            }
            State::OnItsWay => {
                at.statistics.merges += 1;
                fill.wait(agenda, waiter, now);
            }
            State::Wanted => {
                fill.wait(agenda, waiter, now);
                (fill.state, fill.uses_mshr) = (State::OnItsWay, true);
                let (line, is_programs) = (fill.line, fill.origin == Origin::Program);
                if at.mshrs.request(now, id) {
                    self.read_below(agenda, id, now);
                } else {
                    self.set_alarm(agenda, level);
                }
                if is_programs && self.levels[level].watcher.is_active() {
                    self.prefetch(agenda, level, line);
                }
            }
        }
    }

    /// A fill has its MSHR at `time`: asks for its line below, level by level. Returns the arrival of the line if
    /// that is known.
    pub(super) fn read_below(&mut self, agenda: &mut Agenda, id: u32, time: u64) -> Option<u64> {
        let (mut reader, mut time) = (id, time);
        loop {
            let fill = &mut self.fills[reader];
            fill.since = time;
            let below = self.levels[usize::from(fill.level)].below;
            if below == MEMORY {
                fill.since = time.max(agenda.now);
                agenda.schedule(fill.since, Event::Memory { fill: reader });
                return None;
            }
            let (data, found) = (fill.below, time + self.levels[below].latency);
            if data.fill != NONE {
                let waited_for = &mut self.fills[data.fill];
                if waited_for.state == State::Wanted && self.levels[below].asks_at_once {
                    waited_for.state = State::OnItsWay;
                    waited_for.wait(agenda, Waiter::Fill(reader), found);
                    (reader, time) = (data.fill, found);
                    continue;
                }
            }
            let line = (data, self.fills[reader].line);
            let done = self.access(agenda, below, line, time, Waiter::Fill(reader))?;
            self.served(agenda, reader, done);
            return Some(self.fills[id].ready);
        }
    }

    /// A line is read from memory now.
    #[inline]
    pub(crate) fn read_memory(&mut self, agenda: &mut Agenda, id: u32) {
        let fill = &self.fills[id];
        if fill.state == State::OnItsWay && fill.since == agenda.now {
            let done = self.dram.read(fill.line, agenda.now);
            self.served(agenda, id, done);
        }
    }

    /// The level below has the line of a fill at `done`. So it comes into all caches above that wait for it.
    pub(crate) fn served(&mut self, agenda: &mut Agenda, mut id: u32, mut done: u64) {
        loop {
            let fill = &self.fills[id];
            let (level, since) = (usize::from(fill.level), fill.since);
            let below = self.levels[level].below;
            let served = if below == MEMORY {
                Served { from: MEMORY, waited_until: 0 }
            } else {
                self.served_how(below, fill.below, since, done)
            };
            let (fill, at) = (&mut self.fills[id], &mut self.levels[level]);
            let ready = done + at.response;
            fill.ready = ready;
            fill.state = State::Timed;
            fill.from = served.from as u8;
            fill.waited_until = fill.waited_until.max(served.waited_until);
            at.statistics.mshr_cycles += ready - since;
            if let Some(line) = fill.writes {
                self.dram.write(line, ready, agenda.now);
            }
            let waiter = std::mem::take(&mut fill.waiter);
            let (thread, from) = (fill.waiter_thread, fill.waiter_from);
            if !fill.waiters.is_empty() {
                at.statistics.merges += agenda.tell_all(&mut fill.waiters, ready);
            }
            if fill.uses_mshr {
                at.mshrs.release(ready);
                self.set_alarm(agenda, level);
            }
            let time = from.max(ready);
            match waiter {
                Waiter::Nobody => return,
                Waiter::Fill(above) => (id, done) = (above, time),
                _ => return agenda.tell_thread(thread, waiter, time),
            }
        }
    }

    fn set_alarm(&mut self, agenda: &mut Agenda, level: usize) {
        if let Some(time) = self.levels[level].mshrs.alarm() {
            agenda.schedule(time, Event::Mshr { level: level as u16 });
        }
    }

    /// MSHRs may have become free.
    pub(crate) fn mshr_free(&mut self, agenda: &mut Agenda, level: usize) {
        while let Some(id) = self.levels[level].mshrs.next(agenda.now) {
            self.fills[id].waited_until = agenda.now;
            self.read_below(agenda, id, agenda.now);
        }
        self.set_alarm(agenda, level);
    }

    /// Service of an access to `level` that began at `start` and had its line at `done`.
    #[inline]
    pub(crate) fn served_how(&self, level: usize, data: Data, start: u64, done: u64) -> Served {
        if data.fill == NONE || done <= start + self.levels[level].latency {
            return Served { from: level, waited_until: 0 };
        }
        let fill = &self.fills[data.fill];
        if fill.ready < done {
            return Served { from: level, waited_until: 0 };
        }
        Served { from: fill.from.into(), waited_until: fill.waited_until }
    }
}
