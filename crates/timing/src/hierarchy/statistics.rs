//! Counts of caches and memory.

use super::{CACHES, Origin};
use crate::dram::DramStatistics;
use crate::pipeline::Factor;

/// Counts of one cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CacheStatistics {
    /// Hits by [`Origin`] of the access.
    pub(crate) hits: [u64; 3],
    /// Misses by [`Origin`] of the access.
    pub(crate) misses: [u64; 3],
    pub(crate) merges: u64,
    pub(crate) write_backs: u64,
    pub(crate) useful_prefetches: u64,
    /// Cycles during which MSHRs are occupied, summed over MSHRs.
    pub(crate) mshr_cycles: u64,
    /// Lines invalidated by a store of another core.
    pub(crate) invalidations: u64,
}

impl CacheStatistics {
    pub(super) fn add(&mut self, more: &Self) {
        let sum = |own: &mut [u64; 3], more: &[u64; 3]| {
            own.iter_mut().zip(more).for_each(|(own, more)| *own += more);
        };
        sum(&mut self.hits, &more.hits);
        sum(&mut self.misses, &more.misses);
        self.merges += more.merges;
        self.write_backs += more.write_backs;
        self.useful_prefetches += more.useful_prefetches;
        self.mshr_cycles += more.mshr_cycles;
        self.invalidations += more.invalidations;
    }

    /// Sets the counts that depend on timing (merges, MSHR cycles) to 0; keeps those made in program order
    /// (hits, misses).
    pub(super) fn reset_times(&mut self) {
        (self.merges, self.mshr_cycles) = (0, 0);
    }

    /// Recounts a program miss as a hit on a prefetched line: in time, the prefetch came before the access.
    pub(super) fn turn_miss_into_prefetch(&mut self) {
        // The miss may have been counted before measuring began.
        let misses = &mut self.misses[Origin::Program as usize];
        *misses = misses.saturating_sub(1);
        self.hits[Origin::Program as usize] += 1;
        self.misses[Origin::Prefetcher as usize] += 1;
        self.useful_prefetches += 1;
    }

    pub(crate) fn scale(&mut self, factor: &Factor) {
        let Self {
            hits,
            misses,
            merges,
            write_backs,
            useful_prefetches,
            mshr_cycles,
            invalidations,
        } = self;
        factor.scale(hits.iter_mut().chain(misses));
        factor.scale([merges, write_backs, useful_prefetches, mshr_cycles, invalidations]);
    }
}

/// Counts of all caches, by kind of cache, and of memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemoryCounts {
    pub(crate) caches: [CacheStatistics; CACHES],
    pub(crate) dram: DramStatistics,
}
