//! Prefetches, and functional warming: accesses that update the caches and take no time.

use super::*;
use crate::agenda::Agenda;

impl Hierarchy {
    /// Lets the prefetcher of `level` observe a miss, or the first use of a prefetched line, and issues the
    /// prefetches that it suggests. A prefetch that finds no free MSHR is dropped.
    #[cold]
    pub(crate) fn prefetch(&mut self, agenda: &mut Agenda, level: usize, line: u64) {
        let candidates = self.levels[level].watcher.observe(line);
        for &number in candidates.as_slice() {
            let at = &mut self.levels[level];
            if !at.mshrs.is_free(agenda.now) {
                return;
            }
            let id = match at.cache.peek(number) {
                None => self.locate(level, number, false, Origin::Prefetcher, agenda.now).0.fill,
                Some(present) => present.fill(self.fills.next()),
            };
            if !self.fills.has(id) || self.fills[id].state != State::Wanted {
                continue;
            }
            let fill = &mut self.fills[id];
            (fill.state, fill.uses_mshr) = (State::OnItsWay, true);
            if fill.origin == Origin::Program {
                fill.is_prefetched = true;
                self.levels[level].statistics.turn_miss_into_prefetch();
            }
            self.levels[level].mshrs.request(agenda.now, id);
            self.read_below(agenda, id, agenda.now);
        }
    }

    /// Functional warming: makes an access that takes no time. Missing lines are in the caches at once.
    pub(crate) fn warm(&mut self, level: usize, line: u64, write: bool, origin: Origin) {
        let at = &mut self.levels[level];
        let has_prefetcher = origin == Origin::Program && at.watcher.is_active();
        match at.cache.access(line, Line::new(NONE, write, origin == Origin::Prefetcher)) {
            LookUp::Hit(found) => {
                if write {
                    found.mark_dirty();
                }
                if has_prefetcher && found.take_prefetched() {
                    self.warm_prefetch(level, line);
                }
            }
            LookUp::Miss(victim) => {
                let below = at.below;
                if below != MEMORY {
                    self.warm(below, line, false, origin);
                }
                if let Some(dirty) = victim {
                    self.write_victim(level, dirty);
                }
                if has_prefetcher {
                    self.warm_prefetch(level, line);
                }
            }
        }
    }

    /// Issues prefetches in functional warming; each is assumed to find an MSHR.
    #[cold]
    fn warm_prefetch(&mut self, level: usize, line: u64) {
        let candidates = self.levels[level].watcher.observe(line);
        for &number in candidates.as_slice() {
            if self.levels[level].cache.peek(number).is_none() {
                self.warm(level, number, false, Origin::Prefetcher);
            }
        }
    }
}
