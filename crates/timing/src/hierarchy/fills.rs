//! Fills: each brings one line into one cache. Here they are simulated in order of time.

use std::cmp::Reverse;

use super::*;
use crate::agenda::{Agenda, Event, List, Thread, UNKNOWN, Waiter};

/// Task number that marks a waiter whose access comes after the request of the line, so that it merges with
/// the MSHR.
const LATER: u32 = 0;

/// Number of fills for which room is made at once.
const AT_ONCE: usize = 64;

/// Line number that stands for no line.
pub(super) const NO_LINE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// The miss is known in program order, but no access has requested the line yet.
    #[default]
    Wanted,
    /// The line has been requested from the next level, or waits for an MSHR.
    OnItsWay,
    /// The arrival is known: [`Fill::ready`].
    Timed,
}

/// Transfer of one line into one cache, from the miss on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fill {
    pub(super) state: State,
    pub(super) origin: Origin,
    /// A prefetcher requested the line before the demand access that missed it in program order; that access
    /// is still to come.
    pub(super) is_prefetched: bool,
    /// The fill occupies an MSHR, or waits for one; false if its cache needs no MSHR events
    /// ([`Level::asks_at_once`]).
    pub(super) uses_mshr: bool,
    /// Level that had the line; valid once the arrival is known.
    from: u8,
    level: u16,
    ready: u64,
    pub(super) line: u64,
    /// State of the line in the next level.
    pub(super) below: Data,
    /// Cycle at which the fill got its MSHR; before that, earliest cycle at which an access will request the
    /// line.
    since: u64,
    /// Cycle until which the fill waited for an MSHR, here or in a level below; 0 without a wait.
    waited_until: u64,
    /// Dirty line that is written to memory when this one evicts it, or [`NO_LINE`].
    pub(super) writes: u64,
    /// First party that waits for the line, its thread, and the cycle before which it cannot use the line.
    waiter: Waiter,
    waiter_thread: Thread,
    waiter_from: u64,
    /// All other parties that wait for the line.
    waiters: List,
}

impl Fill {
    /// Adds a party that waits for the line and cannot use it before cycle `from`.
    #[inline]
    fn wait(&mut self, agenda: &mut Agenda, waiter: Waiter, from: u64) {
        if self.waiter == Waiter::Nobody {
            (self.waiter, self.waiter_thread, self.waiter_from) = (waiter, agenda.thread, from);
        } else {
            agenda.wait(&mut self.waiters, waiter, from);
        }
    }

    /// Adds a party whose access comes at cycle `from`, when another access will have requested the line.
    fn wait_for_another(&mut self, agenda: &mut Agenda, waiter: Waiter, from: u64) {
        agenda.wait_for_task(&mut self.waiters, waiter, from, LATER);
    }

    /// Makes the fill of a line into cache `level`; `below` is the line's state in the next level.
    #[inline]
    pub(super) fn new(level: usize, (line, below): (u64, Data), origin: Origin) -> Self {
        let level = level as u16;
        let (ready, since, writes) = (UNKNOWN, UNKNOWN, NO_LINE);
        Self { origin, level, ready, since, line, below, writes, ..Self::default() }
    }

    /// True if the line is in the cache at cycle `now`.
    #[inline]
    pub(super) fn has_arrived(&self, now: u64) -> bool {
        self.ready <= now
    }
}

/// Source of an access's line, and its wait for MSHRs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    /// Level that had the line.
    pub(crate) from: usize,
    /// Cycle until which the access waited for MSHRs of any level; 0 without a wait.
    pub(crate) waited_until: u64,
}

impl Hierarchy {
    /// Number of the next fill.
    #[inline]
    pub(crate) fn next_fill(&self) -> u32 {
        self.fills.next()
    }

    /// Sets the oldest fill that an instruction in flight may refer to; the ring buffer may overwrite older
    /// ones.
    pub(crate) fn keep_fills_from(&mut self, floor: u32) {
        self.floor = floor;
    }

    /// Returns the number of the next fill, which the caller adds.
    #[inline]
    pub(super) fn reserve_fill(&mut self) -> u32 {
        if self.fills.next() == self.room_until {
            self.make_room();
        }
        self.fills.reserve()
    }

    /// Grows the ring buffer if it lacks room for the next [`AT_ONCE`] fills.
    #[inline(never)]
    fn make_room(&mut self) {
        // Prefetches and reads in the background may be on their way though they are older than the floor. They must not
        // be overwritten, so the ring grows.
        let are_on_their_way =
            |fills: &[Fill]| fills.iter().any(|fill| fill.state == State::OnItsWay);
        while self.fills.is_short_of(self.floor, AT_ONCE)
            || self.fills.oldest(AT_ONCE).into_iter().any(are_on_their_way)
        {
            self.fills.grow();
        }
        let next = self.fills.next();
        self.room_until = if next >= NONE - AT_ONCE as u32 { 0 } else { next + AT_ONCE as u32 };
    }

    /// Simulates an access to a line, looked up by [`Self::locate`] before, at cycle `time`, now or later.
    /// Returns the cycle at which the access completes, if known; otherwise `waiter` gets a message later.
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

    /// Like [`Self::access`], for the line of fill `id`, which may be in flight; the look-up ends at cycle
    /// `found`.
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
                fill.wait(agenda, waiter, found);
                if at.asks_at_once && found < fill.since {
                    self.bring_forward(agenda, id, found);
                }
            }
            State::Wanted if at.asks_at_once => {
                if fill.below.is_here() && at.below != MEMORY {
                    return Some(self.complete_at_once(id, found));
                }
                fill.state = State::OnItsWay;
                if let Some(ready) = self.read_below(agenda, id, found) {
                    return Some(found.max(ready));
                }
                self.fills[id].wait(agenda, waiter, found);
            }
            // Another access asks first.
            State::Wanted if fill.since <= found && self.merges_without_event => {
                fill.wait_for_another(agenda, waiter, found);
            }
            State::Wanted => {
                fill.since = found;
                agenda.schedule(found, Event::Miss { fill: id, waiter });
            }
        }
        None
    }

    /// Completes a fill that no party waits for, whose cache sends its misses below at once, here at cycle
    /// `asked`, and whose next level has the line: a fill of the L1I or of the walkers' own cache, which evict no
    /// dirty lines. Returns the arrival.
    #[inline(always)]
    fn complete_at_once(&mut self, id: u32, asked: u64) -> u64 {
        let fill = &mut self.fills[id];
        let at = &self.levels[usize::from(fill.level)];
        let (below, response) = (at.below, at.response);
        let ready = asked + self.levels[below].latency + response;
        (fill.state, fill.from) = (State::Timed, below as u8);
        (fill.since, fill.ready) = (asked, ready);
        debug_assert_eq!(fill.writes, NO_LINE, "no store writes to a cache of code or of walkers");
        self.levels[usize::from(fill.level)].statistics.mshr_cycles += ready - asked;
        ready
    }

    /// Moves the request of a line in flight forward to cycle `asked` if that is earlier, in all levels
    /// below; the event of the later request then has no effect.
    #[inline(never)]
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

    /// Handles the end of a look-up that missed, or hit a line in flight: requests an MSHR for the line if
    /// none has been, and makes `waiter` wait for it.
    #[inline(always)]
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

    /// Requests the line of a fill that has its MSHR at cycle `time` from the levels below, one after the
    /// other. Returns the cycle of its arrival, if known.
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
            let Fill { below: data, line, .. } = *fill;
            let at = &self.levels[below];
            let found = time + at.latency;
            if data.fill != NONE {
                let waited_for = &mut self.fills[data.fill];
                if waited_for.state == State::Wanted && at.asks_at_once {
                    waited_for.state = State::OnItsWay;
                    waited_for.wait(agenda, Waiter::Fill(reader), found);
                    (reader, time) = (data.fill, found);
                    continue;
                }
            }
            let done = self.access(agenda, below, (data, line), time, Waiter::Fill(reader))?;
            return Some(self.served(agenda, reader, done));
        }
    }

    /// Reads the line of a fill from DRAM now, unless the request was moved to an earlier cycle.
    #[inline(always)]
    pub(crate) fn read_memory(&mut self, agenda: &mut Agenda, id: u32) {
        let fill = &self.fills[id];
        if fill.state == State::OnItsWay && fill.since == agenda.now {
            let done = self.dram.read(fill.line, agenda.now);
            self.served(agenda, id, done);
        }
    }

    /// Completes a fill whose line the next level delivers at cycle `done`: sets its arrival and tells the
    /// waiters. If the first waiter is a fill of the level above, completes that too, and so on. Returns the
    /// arrival of the fill completed last.
    pub(crate) fn served(&mut self, agenda: &mut Agenda, mut id: u32, mut done: u64) -> u64 {
        let Fill { level, below: data, since, .. } = self.fills[id];
        let below = self.levels[usize::from(level)].below;
        let mut served = match below {
            MEMORY => Served { from: MEMORY, waited_until: 0 },
            _ => self.served_how(below, data, since, done),
        };
        loop {
            let fill = &mut self.fills[id];
            let level = usize::from(fill.level);
            let at = &mut self.levels[level];
            let ready = done + at.response;
            fill.ready = ready;
            fill.state = State::Timed;
            fill.from = served.from as u8;
            served.waited_until = fill.waited_until.max(served.waited_until);
            fill.waited_until = served.waited_until;
            at.statistics.mshr_cycles += ready - fill.since;
            if fill.writes != NO_LINE {
                self.dram.write(fill.writes, ready, agenda.now);
            }
            if !fill.waiters.is_empty() {
                at.statistics.merges += agenda.tell_all(&mut fill.waiters, ready);
            }
            if fill.uses_mshr {
                at.mshrs.release(ready);
                if let Some(time) = at.mshrs.alarm() {
                    agenda.schedule(time, Event::Mshr { level: level as u16 });
                }
            }
            let time = fill.waiter_from.max(ready);
            match std::mem::take(&mut fill.waiter) {
                Waiter::Nobody => return ready,
                Waiter::Fill(above) => {
                    let found = self.fills[above].since + at.latency;
                    if time <= found || ready < time {
                        served = Served { from: level, waited_until: 0 };
                    }
                    (id, done) = (above, time);
                }
                waiter => {
                    agenda.tell_thread(fill.waiter_thread, waiter, time);
                    return ready;
                }
            }
        }
    }

    fn set_alarm(&mut self, agenda: &mut Agenda, level: usize) {
        if let Some(time) = self.levels[level].mshrs.alarm() {
            agenda.schedule(time, Event::Mshr { level: level as u16 });
        }
    }

    /// Grants free MSHRs of a level to the fills that wait for one.
    #[inline(always)]
    pub(crate) fn mshr_free(&mut self, agenda: &mut Agenda, level: usize) {
        let next = self.fills.next();
        loop {
            let at = &mut self.levels[level];
            if at.mshr_order == MshrOrder::OldestFirst {
                at.mshrs.put_first(|fill| Reverse(next.wrapping_sub(*fill)));
            }
            let Some(id) = at.mshrs.next(agenda.now) else { break };
            self.fills[id].waited_until = agenda.now;
            self.read_below(agenda, id, agenda.now);
        }
        self.set_alarm(agenda, level);
    }

    /// Determines which level served an access to `level` that began at cycle `start` and had its line at
    /// `done`.
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

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    /// The caches and memory of a bundled machine.
    fn hierarchy() -> Hierarchy {
        let text = include_str!("../../../../machines/gtsm-table4.toml");
        let mut machine: toml::Table = toml::from_str(text).unwrap();
        let sections = ["core", "branch_predictor", "cache", "dram", "walker"];
        machine.retain(|key, _| sections.contains(&key));
        Hierarchy::new(&machine.try_into().unwrap(), (1, 1), Shortcuts::ALL)
    }

    fn add(memory: &mut Hierarchy, line: u64, state: State) -> u32 {
        let id = memory.reserve_fill();
        memory.fills[id] = Fill { state, ..Fill::new(0, (line, Data::default()), Origin::Program) };
        id
    }

    /// Fills that instructions in flight may refer to are there, however many others there are; older
    /// ones give way, unless their line is on its way.
    #[test]
    fn fills_are_kept_from_the_floor_on() {
        let mut memory = hierarchy();
        let first = add(&mut memory, 0, State::Timed);
        memory.keep_fills_from(first);
        for line in 1..10_000 {
            add(&mut memory, line, State::Timed);
        }
        for line in 0..10_000 {
            assert!(memory.fills.has(first + line));
            assert_eq!(memory.fills[first + line].line, u64::from(line));
        }
        let awaited = add(&mut memory, 10_000, State::OnItsWay);
        let go_on = |memory: &mut Hierarchy, lines: Range<u64>| {
            for line in lines {
                let id = add(memory, line, State::Timed);
                memory.keep_fills_from(id - 100);
            }
        };
        go_on(&mut memory, 10_001..50_000);
        assert_eq!(memory.fills[awaited].line, 10_000);
        memory.fills[awaited].state = State::Timed;
        go_on(&mut memory, 50_000..150_000);
        assert_ne!(memory.fills[awaited].line, 10_000, "its place is used again");
    }
}
