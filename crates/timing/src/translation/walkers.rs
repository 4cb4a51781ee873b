//! Page walkers, given to the translation that asks first.

use crate::agenda::{Agenda, Event, UNKNOWN, Waiter};
use crate::pool::Pool;

/// Page walkers of a core, and the translations that wait for one.
#[derive(Clone, Debug)]
pub(super) struct Walkers {
    pool: Pool<u32>,
    /// The only walker is given to the first in the queue when its release becomes known, which may be earlier
    /// than the release.
    is_granted_ahead: bool,
    /// Release of the only walker; [`UNKNOWN`] while it is taken. Only used if it is granted ahead.
    free_from: u64,
}

impl Walkers {
    pub(super) fn new(walkers: u32, granted_ahead: bool) -> Self {
        let is_granted_ahead = granted_ahead && walkers == 1;
        Self { pool: Pool::new(walkers), is_granted_ahead, free_from: 0 }
    }

    pub(super) fn count(&self) -> u64 {
        self.pool.units()
    }

    /// A translation asks for a walker now. Returns the time from which it has one, if that is known; otherwise
    /// the translation waits in the queue.
    #[inline]
    pub(super) fn ask(&mut self, agenda: &mut Agenda, walk: u32) -> Option<u64> {
        let now = agenda.now;
        if self.is_granted_ahead {
            if self.free_from != UNKNOWN {
                return Some(std::mem::replace(&mut self.free_from, UNKNOWN).max(now));
            }
            self.pool.enqueue(walk);
        } else if self.pool.request(now, walk) {
            return Some(now);
        } else {
            self.set_alarm(agenda);
        }
        None
    }

    /// A walker is released at `time`, now or later.
    #[inline]
    pub(super) fn release(&mut self, agenda: &mut Agenda, time: u64) {
        if self.is_granted_ahead {
            match self.pool.dequeue() {
                Some(walk) => agenda.tell(Waiter::Walker(walk), time),
                None => self.free_from = time,
            }
        } else {
            self.pool.release(time);
            self.set_alarm(agenda);
        }
    }

    /// Walkers may have become free.
    pub(super) fn grant(&mut self, agenda: &mut Agenda) {
        while let Some(walk) = self.pool.next(agenda.now) {
            agenda.tell(Waiter::Walker(walk), agenda.now);
        }
        self.set_alarm(agenda);
    }

    /// Takes a translation out of the queue; returns true if it was there.
    pub(super) fn withdraw(&mut self, walk: u32) -> bool {
        self.pool.withdraw(&walk)
    }

    fn set_alarm(&mut self, agenda: &mut Agenda) {
        if let Some(time) = self.pool.alarm() {
            agenda.schedule(time, Event::WalkerFree);
        }
    }
}
