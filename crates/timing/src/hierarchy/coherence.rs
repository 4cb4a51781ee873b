//! Coherence of the cores' private caches: a line that is dirty in one core's caches is in no other core's.
//!
//! Write-invalidate, as in MESI, with the clean and dirty states that the caches have anyway: a dirty line is
//! in one core only, a clean one may be in several. Ownership changes in the order in which instructions
//! reach the simulator. Coherence messages have no latency of their own. A store that takes a line from other
//! cores reads it from the last-level cache anew, and so does a load of a line that another core has written:
//! that is the cost of coherence.

use super::*;

/// Kinds of private data cache, the larger first.
const DATA_CACHES: [usize; 2] = [L2, L1D];

impl Hierarchy {
    /// True if there are several cores, so that coherence has to be kept.
    pub(crate) fn has_others(&self) -> bool {
        self.cores > 1
    }

    fn others(&self, core: usize) -> impl Iterator<Item = usize> + use<> {
        (0..self.cores).filter(move |&other| other != core)
    }

    /// Invalidates a line in all other cores, because this core is about to write it. If another core had it,
    /// this core's own clean copy is dropped as well, so that the store reads it anew.
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

    /// Called when the cache `level` misses a line. If it is an L2 and another core has the line dirty, that
    /// core writes it back to the level that all cores share.
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

    /// Invalidates a line in a cache, and writes it back if dirty; returns true if the cache had it.
    fn take_away(&mut self, level: usize, line: u64, now: u64) -> bool {
        let Some(is_dirty) = self.levels[level].cache.remove(line) else { return false };
        self.levels[level].statistics.invalidations += 1;
        if is_dirty {
            self.write_to_shared(level / LEVELS, line, now);
        }
        true
    }

    /// Writes a line of a core's private caches back to the level that all cores share.
    fn write_to_shared(&mut self, core: usize, line: u64, now: u64) {
        let l2 = core * LEVELS + L2;
        self.levels[l2].statistics.write_backs += 1;
        if let Some(written) = self.write_back(self.levels[l2].below, line) {
            self.dram.write(written, now, now);
        }
    }
}
