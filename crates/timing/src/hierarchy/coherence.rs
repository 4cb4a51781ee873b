//! Stores of several cores: a line that is dirty in a core's own caches is in no other core's.
//!
//! Write-invalidate, as in MESI, with the states that the caches have anyway: a dirty line is in one
//! core only, a clean one may be in several. Which core has what follows the order in which
//! instructions are handed over. The messages themselves take no time of their own: a store that takes
//! a line from other cores reads it from the last-level cache anew, and so does a load of what another
//! core has written; that is the time that both take.

use super::*;

/// The caches in which a core keeps data for itself, the larger first.
const DATA_CACHES: [usize; 2] = [L2, L1D];

impl Hierarchy {
    /// True if several cores have caches of their own.
    pub(crate) fn has_others(&self) -> bool {
        self.cores > 1
    }

    fn others(&self, core: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.cores).filter(move |&other| other != core)
    }

    /// A core is about to write a line: no other core keeps it. One that it had itself, clean, is read
    /// anew if others had it too.
    pub(crate) fn claim(&mut self, core: usize, line: u64, now: u64) {
        let own = &self.levels[core * LEVELS + L1D].cache;
        if own.peek(line).is_some_and(Line::is_dirty) {
            return;
        }
        let mut was_shared = false;
        for other in self.others(core) {
            for which in DATA_CACHES {
                was_shared |= self.take_away(other * LEVELS + which, line, now);
            }
        }
        if was_shared {
            for which in DATA_CACHES {
                self.take_away(core * LEVELS + which, line, now);
            }
        }
    }

    /// A cache reads a line that it lacks. If that was the last of its core's own, and another core has written the
    /// line, the data go to the level that all cores share.
    #[inline(never)]
    pub(super) fn fetch_from_others(&mut self, level: usize, line: u64, now: u64) {
        if kind(level) != L2 {
            return;
        }
        for other in self.others(level / LEVELS) {
            let mut is_dirty = false;
            for which in DATA_CACHES {
                is_dirty |= self.levels[other * LEVELS + which].cache.clean(line);
            }
            if is_dirty {
                self.write_to_shared(other, line, now);
            }
        }
    }

    /// Takes a line out of a cache; whether it was there.
    fn take_away(&mut self, level: usize, line: u64, now: u64) -> bool {
        let Some(is_dirty) = self.levels[level].cache.remove(line) else { return false };
        self.levels[level].statistics.invalidations += 1;
        if is_dirty {
            self.write_to_shared(level / LEVELS, line, now);
        }
        true
    }

    /// Writes a line of a core to the level that all share.
    fn write_to_shared(&mut self, core: usize, line: u64, now: u64) {
        let l2 = core * LEVELS + L2;
        self.levels[l2].statistics.write_backs += 1;
        if let Some(written) = self.write_back(self.levels[l2].below, line) {
            self.dram.write(written, now, now);
        }
    }
}
