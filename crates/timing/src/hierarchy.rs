//! The caches and main memory as one: an access goes in with a time and comes out with a time.

use crate::cache::{Cache, Fill, Line};
use crate::config::{CacheConfig, TimingConfig, WalkerAttachment};
use crate::dram::Dram;
use crate::interval::Pool;
use crate::prefetch::Watcher;

/// Index of the first-level instruction cache.
pub(crate) const L1I: usize = 0;
/// Index of the first-level data cache.
pub(crate) const L1D: usize = 1;
/// Index of the second-level cache.
pub(crate) const L2: usize = 2;
/// Index of the last-level cache, or of main memory where there is no such cache.
pub(crate) const LLC: usize = 3;
/// Levels that can serve an access: four caches and main memory.
pub(crate) const LEVELS: usize = 5;
/// Main memory, in statistics by level.
pub(crate) const MEMORY: usize = 4;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The program: a load, a store, a fetch.
    Program,
    /// A page walker.
    Walker,
    /// A prefetcher.
    Prefetcher,
}

/// What happened in one cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CacheStatistics {
    pub(crate) hits: [u64; 3],
    pub(crate) misses: [u64; 3],
    pub(crate) merges: u64,
    pub(crate) write_backs: u64,
    pub(crate) useful_prefetches: u64,
}

#[derive(Clone, Debug)]
struct Level {
    cache: Cache,
    latency: u64,
    mshrs: Pool,
    watcher: Watcher,
    statistics: CacheStatistics,
}

/// When an access is done, and which level had the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) done: u64,
    pub(crate) from: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Hierarchy {
    /// L1I, L1D, L2 and, if there is one, LLC.
    levels: Vec<Level>,
    dram: Dram,
    /// No later access comes before this cycle.
    pub(crate) horizon: u64,
}

impl Level {
    /// A cache above one, or main memory, that takes at least `shortest_below` cycles.
    fn new(config: &CacheConfig, shortest_below: u64) -> Self {
        Self {
            cache: Cache::new(config),
            latency: config.latency_cycles.into(),
            mshrs: Pool::new(config.mshrs, shortest_below),
            watcher: Watcher::new(config.prefetcher),
            statistics: CacheStatistics::default(),
        }
    }

    /// When a hit looked up at `now` has its data: a fill in flight is waited for.
    #[inline]
    fn hit(line: &mut Line, latency: u64, merges: &mut u64, now: u64) -> u64 {
        let arrival = line.arrival(now);
        *merges += u64::from(arrival > now);
        arrival.max(now + latency)
    }
}

impl Hierarchy {
    pub(crate) fn new(config: &TimingConfig) -> Self {
        let caches = &config.cache;
        let dram = Dram::new(&config.dram, config.core.frequency_ghz);
        let l2_cycles = caches.l2.latency_cycles.into();
        let memory_cycles = dram.shortest_read();
        let below_l2 = caches.llc.as_ref().map_or(memory_cycles, |llc| llc.latency_cycles.into());
        let mut levels = vec![
            Level::new(&caches.l1i, l2_cycles),
            Level::new(&caches.l1d, l2_cycles),
            Level::new(&caches.l2, below_l2),
        ];
        levels.extend(caches.llc.as_ref().map(|llc| Level::new(llc, memory_cycles)));
        Self { levels, dram, horizon: 0 }
    }

    pub(crate) fn latency(&self, level: usize) -> u64 {
        self.levels[level].latency
    }

    /// The level a walker reads at.
    pub(crate) fn walker_level(attach: WalkerAttachment) -> usize {
        match attach {
            WalkerAttachment::L1d => L1D,
            WalkerAttachment::L2 => L2,
            WalkerAttachment::Llc => LLC,
        }
    }

    /// Looks a line up in the cache `level` at `now`; a miss goes further down.
    #[inline]
    pub(crate) fn access(
        &mut self,
        level: usize,
        line: u64,
        now: u64,
        write: bool,
        origin: Origin,
    ) -> Served {
        let at = &mut self.levels[level];
        let Some(found) = at.cache.find(line) else {
            return self.miss(level, line, now, write, origin);
        };
        if write {
            found.mark_dirty();
        }
        let done = Level::hit(found, at.latency, &mut at.statistics.merges, now);
        at.statistics.hits[origin as usize] += 1;
        if at.watcher.is_active() && origin == Origin::Program && found.take_prefetched() {
            at.statistics.useful_prefetches += 1;
            self.prefetch(level, line, now);
        }
        Served { done, from: level }
    }

    #[inline(never)]
    fn miss(&mut self, level: usize, line: u64, now: u64, write: bool, origin: Origin) -> Served {
        let at = &mut self.levels[level];
        at.statistics.misses[origin as usize] += 1;
        let latency = at.latency;
        let detected = now + latency;
        let offer = at.mshrs.offer(detected);
        let below = self.below(level, line, offer.start, origin);
        let delay = self.levels[level].mshrs.book(offer, detected, below.done, self.horizon);
        let done = below.done + delay;
        // Without the time spent waiting for an MSHR: what an earlier access would have taken.
        let fill_cycles = below.done - offer.start + latency;
        let prefetched = false;
        self.fill(
            level,
            Fill { number: line, ready: done, latency: fill_cycles, dirty: write, prefetched },
        );
        if origin == Origin::Program && self.levels[level].watcher.is_active() {
            self.prefetch(level, line, now);
        }
        Served { done, from: below.from }
    }

    /// The next level down: both first-level caches lie above the L2.
    fn next(level: usize) -> usize {
        (level + 1).max(L2)
    }

    fn below(&mut self, level: usize, line: u64, now: u64, origin: Origin) -> Served {
        let next = Self::next(level);
        if next < self.levels.len() {
            return self.access(next, line, now, false, origin);
        }
        Served { done: self.dram.read(line, now, self.horizon), from: MEMORY }
    }

    /// Puts a line into a cache; what it displaces is written back when the fill arrives.
    fn fill(&mut self, level: usize, fill: Fill) {
        let at = &mut self.levels[level];
        if let Some(victim) = at.cache.insert(fill) {
            at.statistics.write_backs += 1;
            self.write_back(Self::next(level), victim, fill.ready);
        }
    }

    fn write_back(&mut self, level: usize, line: u64, now: u64) {
        let Some(at) = self.levels.get_mut(level) else {
            return self.dram.write(line, now, self.horizon);
        };
        if let Some(found) = at.cache.find(line) {
            found.mark_dirty();
        } else {
            // A whole line needs no fetch.
            let fill =
                Fill { number: line, ready: now, latency: 0, dirty: true, prefetched: false };
            self.fill(level, fill);
        }
    }

    /// Prefetches take an MSHR that is free at once, or are dropped.
    #[cold]
    fn prefetch(&mut self, level: usize, line: u64, now: u64) {
        let candidates = self.levels[level].watcher.observe(line);
        for &number in candidates.as_slice() {
            let at = &mut self.levels[level];
            if at.cache.contains(number) {
                continue;
            }
            let detected = now + at.latency;
            let offer = at.mshrs.offer(detected);
            if offer.start > detected {
                return;
            }
            at.statistics.misses[Origin::Prefetcher as usize] += 1;
            let latency = at.latency;
            let below = self.below(level, number, offer.start, Origin::Prefetcher);
            let delay = self.levels[level].mshrs.book(offer, detected, below.done, self.horizon);
            let ready = below.done + delay;
            let fill_cycles = below.done - offer.start + latency;
            self.fill(
                level,
                Fill { number, ready, latency: fill_cycles, dirty: false, prefetched: true },
            );
        }
    }

    pub(crate) fn statistics(&self, level: usize) -> Option<&CacheStatistics> {
        self.levels.get(level).map(|level| &level.statistics)
    }

    pub(crate) fn dram(&self) -> &Dram {
        &self.dram
    }

    pub(crate) fn reset_statistics(&mut self) {
        for level in &mut self.levels {
            level.statistics = CacheStatistics::default();
        }
        self.dram.statistics = Default::default();
    }
}
