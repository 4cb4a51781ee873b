//! Page walkers, granted to translations in the order of their requests.

use std::collections::VecDeque;

use crate::agenda::{Agenda, Event, UNKNOWN, Waiter};
use crate::pool::Pool;

/// Page walkers of a core, and the translations that wait for one.
#[derive(Clone, Debug)]
pub(super) struct Walkers {
    pool: Pool<u32>,
    /// True if a single walker is granted to the first in the queue as soon as its release cycle is known,
    /// which may be before that cycle.
    is_granted_ahead: bool,
    /// Cycle from which the single walker is free; [`UNKNOWN`] while occupied. Only used with
    /// `is_granted_ahead`.
    free_from: u64,
    /// Translations that request the single walker while it is occupied: request cycle (now or later) and
    /// number, sorted. Only used with `is_granted_ahead`.
    queue: VecDeque<(u64, u32)>,
    busy: BusyCycles,
}

/// Cycles in which at least one walker is busy.
#[derive(Clone, Copy, Debug, Default)]
struct BusyCycles {
    /// Walkers that are granted, and whose release cycle is not known yet.
    open: u32,
    /// While a walker is granted, the first busy cycle that has not been counted.
    from: u64,
    /// Latest release cycle known.
    to: u64,
}

impl BusyCycles {
    /// Notes that a walker is granted at cycle `time`.
    #[inline(always)]
    fn begin(&mut self, time: u64) {
        if self.open == 0 {
            self.from = self.to.max(time);
        }
        self.open += 1;
    }

    /// Notes that a walker is released at cycle `time`. Returns the busy cycles until the latest release known,
    /// except those returned before: until now a walker was granted, and from now on the last to be released is.
    #[inline(always)]
    fn end(&mut self, time: u64) -> u64 {
        self.open -= 1;
        self.to = self.to.max(time);
        self.to - std::mem::replace(&mut self.from, self.to)
    }
}

impl Walkers {
    pub(super) fn new(walkers: u32, granted_ahead: bool) -> Self {
        let is_granted_ahead = granted_ahead && walkers == 1;
        Self {
            pool: Pool::new(walkers),
            is_granted_ahead,
            free_from: 0,
            queue: VecDeque::new(),
            busy: BusyCycles::default(),
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.pool.units()
    }

    /// Announces that a translation will request a walker at cycle `time`, now or later. Returns true if that
    /// already queues it; otherwise the caller must make the request then, by an event.
    #[inline(always)]
    pub(super) fn expect(&mut self, walk: u32, time: u64) -> bool {
        let is_taken = self.is_granted_ahead && self.free_from == UNKNOWN;
        if is_taken {
            self.enqueue((time, walk));
        }
        is_taken
    }

    #[inline]
    fn enqueue(&mut self, request: (u64, u32)) {
        if self.queue.back().is_none_or(|last| *last <= request) {
            self.queue.push_back(request);
        } else {
            let place = self.queue.partition_point(|other| *other <= request);
            self.queue.insert(place, request);
        }
    }

    /// Requests a walker now. Returns the cycle from which the translation has one, if known; otherwise it
    /// waits in the queue.
    #[inline]
    pub(super) fn ask(&mut self, agenda: &mut Agenda, walk: u32) -> Option<u64> {
        let now = agenda.now;
        if self.is_granted_ahead {
            if self.free_from != UNKNOWN {
                return Some(std::mem::replace(&mut self.free_from, UNKNOWN).max(now));
            }
            self.enqueue((now, walk));
        } else if self.pool.request(now, walk) {
            return Some(now);
        } else {
            self.set_alarm(agenda);
        }
        None
    }

    /// Notes that a translation has a walker from cycle `time` on.
    #[inline(always)]
    pub(super) fn begin(&mut self, time: u64) {
        self.busy.begin(time);
    }

    /// Releases a walker at cycle `time`, now or later. Returns the cycles with at least one busy walker that
    /// have not been returned before.
    #[inline(always)]
    pub(super) fn release(&mut self, agenda: &mut Agenda, time: u64) -> u64 {
        self.make_available(agenda, time);
        self.busy.end(time)
    }

    #[inline(always)]
    fn make_available(&mut self, agenda: &mut Agenda, time: u64) {
        if !self.is_granted_ahead {
            self.pool.release(time);
            return self.set_alarm(agenda);
        }
        match self.queue.front() {
            Some(&(asked, walk)) if asked < agenda.now => {
                self.queue.pop_front();
                agenda.tell(Waiter::Walker(walk), time);
            }
            _ => {
                self.free_from = time;
                // Others may ask earlier than these.
                for (asked, walk) in self.queue.drain(..) {
                    agenda.schedule(asked, Event::Walker { walk });
                }
            }
        }
    }

    /// Grants free walkers to the translations in the queue.
    pub(super) fn grant(&mut self, agenda: &mut Agenda) {
        while let Some(walk) = self.pool.next(agenda.now) {
            agenda.tell(Waiter::Walker(walk), agenda.now);
        }
        self.set_alarm(agenda);
    }

    /// Removes a translation from the queue. `None` if it was not queued; otherwise the cycle of its request
    /// if that is still to come.
    pub(super) fn withdraw(&mut self, walk: u32, now: u64) -> Option<Option<u64>> {
        if !self.is_granted_ahead {
            return self.pool.withdraw(&walk).then_some(None);
        }
        let place = self.queue.iter().position(|&(_, other)| other == walk)?;
        let (asked, _) = self.queue.remove(place)?;
        Some((asked > now).then_some(asked))
    }

    fn set_alarm(&mut self, agenda: &mut Agenda) {
        if let Some(time) = self.pool.alarm() {
            agenda.schedule(time, Event::WalkerFree);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycles counted for walkers granted and released as listed: (true, cycle) for a grant.
    fn counted(events: &[(bool, u64)]) -> u64 {
        let mut busy = BusyCycles::default();
        let mut cycles = 0;
        for &(is_grant, time) in events {
            if is_grant {
                busy.begin(time);
            } else {
                cycles += busy.end(time);
            }
        }
        cycles
    }

    #[test]
    fn overlapping_walks_count_once() {
        let (grant, release) = (true, false);
        // One after the other, with a pause.
        assert_eq!(counted(&[(grant, 10), (release, 30), (grant, 50), (release, 60)]), 30);
        // 10 to 30 and 20 to 40.
        assert_eq!(counted(&[(grant, 10), (grant, 20), (release, 30), (release, 40)]), 30);
        // 10 to 40, known early; within it, 20 to 25; across its end, 35 to 50.
        let events =
            [(grant, 10), (release, 40), (grant, 20), (release, 25), (grant, 35), (release, 50)];
        assert_eq!(counted(&events), 40);
        // The first to end is the last to be known.
        assert_eq!(counted(&[(grant, 10), (grant, 12), (release, 40), (release, 20)]), 30);
        // Cycles of a walk that has not ended yet, as long as others have.
        assert_eq!(
            counted(&[(grant, 10), (grant, 12), (release, 20), (grant, 30), (release, 35)]),
            25
        );
    }
}
