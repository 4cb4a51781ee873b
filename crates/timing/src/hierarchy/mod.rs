//! Caches and main memory.
//!
//! An access has two halves. [`Hierarchy::locate`] is called in program order: it updates the contents of
//! each cache, and determines which lines have to be filled. [`Hierarchy::access`] ([`fills`]) is called in
//! order of time: it determines when the lines arrive. If an older instruction misses a line and a younger
//! one hits it, the fill starts with whichever of the two accesses comes first in time.
//!
//! All cores share the last-level cache and memory. Each core has private caches of the other kinds, which
//! are kept coherent on stores ([`coherence`]).

mod coherence;
mod fills;
mod prefetching;
mod statistics;

use crate::cache::{Cache, Line, LookUp};
use crate::config::{
    BitmapReader, CacheConfig, MshrOrder, Prefetcher, TimingConfig, WalkerAttachment,
};
use crate::dram::Dram;
use crate::pool::Pool;
use crate::prefetch::Watcher;
use crate::ring::{NONE, Ring};
use crate::shortcuts::Shortcuts;
pub(crate) use fills::Served;
use fills::{Fill, NO_LINE, State};
pub(crate) use statistics::{CacheStatistics, MemoryCounts};

/// Index of the first-level instruction cache.
pub(crate) const L1I: usize = 0;
/// Index of the first-level data cache.
pub(crate) const L1D: usize = 1;
/// Index of the second-level cache.
pub(crate) const L2: usize = 2;
/// Index of the last-level cache.
pub(crate) const LLC: usize = 3;
/// Index of the page walkers' own cache.
pub(crate) const WALKER_CACHE: usize = 4;
const CACHES: usize = 5;
/// Index of main memory in statistics by level, and the level below the last cache.
pub(crate) const MEMORY: usize = 5;
/// Number of levels that can serve an access. The levels of core *n* have the same indices plus *n* times
/// this; all cores use the [`LLC`] and [`MEMORY`] of core 0.
pub(crate) const LEVELS: usize = 6;
/// Maximum number of parallel reads of one walk: a page-table entry and the shadow entry beside it.
pub(crate) const PARALLEL_READS: u32 = 2;
/// Initial capacity of the ring buffer of fills.
const FILLS: usize = 2048;

/// Kind of cache ([`L1I`], [`L1D`], …) of a level index of any core.
#[inline]
pub(crate) const fn kind(level: usize) -> usize {
    if level < LEVELS { level } else { level % LEVELS }
}

/// Level indices of the caches that the front end, the loads and stores, and the page walkers of a core
/// access first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnLevels {
    pub(crate) l1i: usize,
    pub(crate) l1d: usize,
    /// First cache that the page walkers access.
    pub(crate) walker: usize,
}

/// Requester of a cache access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Load, store or instruction fetch.
    #[default]
    Program,
    /// Read of a page walker.
    Walker,
    /// Request of a prefetcher.
    Prefetcher,
}

/// State of an accessed line: present in the cache, or being filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    /// Number of the fill that brings the line; [`NONE`] if the line is present.
    pub(crate) fill: u32,
    /// True for the first demand access to a prefetched line.
    is_first_use: bool,
}

impl Default for Data {
    fn default() -> Self {
        Self::HERE
    }
}

impl Data {
    /// Plain hit: the line is present, and this is not the first use of a prefetched line.
    pub(crate) const HERE: Self = Self { fill: NONE, is_first_use: false };

    /// Line that a fill brings.
    #[inline]
    const fn of(fill: u32) -> Self {
        Self { fill, is_first_use: false }
    }

    /// State of the line for accesses after this one.
    pub(crate) fn used(self) -> Self {
        Self::of(self.fill)
    }

    /// True if the access is a plain hit, which takes the latency of the cache.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        self == Self::HERE
    }
}

#[derive(Clone, Debug)]
struct Level {
    cache: Cache,
    latency: u64,
    response: u64,
    /// Index of the next level, or [`MEMORY`].
    below: usize,
    mshrs: Pool<u32>,
    mshr_order: MshrOrder,
    /// A miss is sent below at once, without an event: an MSHR is always free, and no other request can come
    /// earlier.
    asks_at_once: bool,
    watcher: Watcher,
    statistics: CacheStatistics,
}

/// All caches of a machine, and its main memory.
#[derive(Clone, Debug)]
pub(crate) struct Hierarchy {
    levels: Vec<Level>,
    has: [bool; CACHES],
    cores: usize,
    /// First cache that the page walkers access, as a level index of core 0.
    walker_level: usize,
    dram: Dram,
    /// Copy of [`Shortcuts::merged_accesses_need_no_event`] for this machine.
    merges_without_event: bool,
    /// Ring buffer of fills, numbered in program order.
    fills: Ring<Fill>,
    /// Oldest fill that an instruction in flight may refer to; older ones may be overwritten.
    floor: u32,
    /// Fill from which on the ring buffer may lack room.
    room_until: u32,
}

impl Level {
    fn new(config: &CacheConfig, below: usize, asks_at_once: bool) -> Self {
        Self {
            cache: Cache::new(config),
            latency: config.latency_cycles.into(),
            response: config.response_cycles.into(),
            below,
            mshrs: Pool::new(config.mshrs),
            mshr_order: config.mshr_order,
            asks_at_once: asks_at_once && config.prefetcher == Prefetcher::None,
            watcher: Watcher::new(config.prefetcher),
            statistics: CacheStatistics::default(),
        }
    }
}

/// Cache that `walker.attach` names: page walkers read through it, or their own cache misses to it.
fn attached(config: &TimingConfig) -> usize {
    match config.walker.attach {
        WalkerAttachment::L1d => L1D,
        WalkerAttachment::L2 => L2,
        WalkerAttachment::Llc => LLC,
    }
}

/// For each kind of cache, true if a miss can be sent below without an event ([`Level::asks_at_once`]).
fn ask_at_once(config: &TimingConfig, threads: usize) -> [bool; CACHES] {
    let caches = &config.cache;
    // The last cache before memory never runs out of MSHRs if the caches above it together have at most as many. A
    // shared cache has the configured MSHRs once for each core, so that one core decides.
    let has_enough = |level: usize, cache: &CacheConfig, above: u32| {
        let is_attached = attached(config) == level;
        let walkers = match &caches.walker {
            Some(own) if is_attached => own.mshrs,
            None if is_attached => config.walker.walkers * PARALLEL_READS,
            _ => 0,
        };
        let is_counted = !is_attached
            || caches.walker.is_some()
            || config.walker.bitmap_reader == BitmapReader::Walker;
        is_counted && above + walkers <= cache.mshrs
    };
    let l2 =
        caches.llc.is_none() && has_enough(L2, &caches.l2, caches.l1i.mshrs + caches.l1d.mshrs);
    let llc = caches.llc.as_ref().is_some_and(|llc| has_enough(LLC, llc, caches.l2.mshrs));
    // A single requester (the front end for the L1I, one page walker for the walkers' cache) waits for its reads before
    // it makes others.
    let walker = config.walker.walkers == 1
        && caches.walker.as_ref().is_some_and(|own| own.mshrs >= PARALLEL_READS);
    [threads == 1, false, l2, llc, walker]
}

impl Hierarchy {
    /// Makes empty caches for this many cores with this many threads each, and memory.
    pub(crate) fn new(
        config: &TimingConfig,
        (cores, threads): (usize, usize),
        shortcuts: Shortcuts,
    ) -> Self {
        let caches = &config.cache;
        let attached = attached(config);
        let below_l2 = if caches.llc.is_some() { LLC } else { MEMORY };
        // Caches that the machine does not have are never reached; a small cache keeps their index.
        let llc = caches
            .llc
            .as_ref()
            .map(|llc| CacheConfig { mshrs: llc.mshrs * cores as u32, ..llc.clone() });
        let llc = llc.as_ref().unwrap_or(&caches.l1i);
        let walker = caches.walker.as_ref().unwrap_or(&caches.l1i);
        let at_once = ask_at_once(config, threads)
            .map(|at_once| at_once && shortcuts.misses_need_no_mshr_event);
        let of_core = |core: usize| {
            let first = core * LEVELS;
            let own = |level| if level == LLC { LLC } else { first + level };
            // Memory has an index among the caches, and only the first core's LLC is used.
            let unused = if core == 0 { llc } else { &caches.l1i };
            [
                Level::new(&caches.l1i, own(L2), at_once[L1I]),
                Level::new(&caches.l1d, own(L2), at_once[L1D]),
                Level::new(&caches.l2, below_l2, at_once[L2]),
                Level::new(unused, MEMORY, at_once[LLC]),
                Level::new(walker, own(attached), at_once[WALKER_CACHE]),
                Level::new(&caches.l1i, MEMORY, false),
            ]
        };
        Self {
            levels: (0..cores).flat_map(of_core).collect(),
            cores,
            has: [true, true, true, caches.llc.is_some(), caches.walker.is_some()],
            walker_level: if caches.walker.is_some() { WALKER_CACHE } else { attached },
            dram: Dram::new(&config.dram, config.core.frequency_ghz),
            merges_without_event: shortcuts.merged_accesses_need_no_event,
            fills: Ring::new(FILLS),
            floor: 0,
            room_until: 0,
        }
    }

    /// Makes a stand-in without caches, held by threads that are not being simulated at the moment.
    pub(crate) fn without_lines(&self) -> Self {
        Self { levels: Vec::new(), dram: self.dram.clone(), fills: Ring::new(1), ..*self }
    }

    /// Level indices of the caches that a core accesses first.
    pub(crate) fn own_levels(&self, core: usize) -> OwnLevels {
        let own = |level| if level == LLC { LLC } else { core * LEVELS + level };
        OwnLevels { l1i: own(L1I), l1d: own(L1D), walker: own(self.walker_level) }
    }

    /// True if any cache has a prefetcher, so that cache contents depend on timing.
    pub(crate) fn has_prefetchers(&self) -> bool {
        self.levels.iter().any(|level| level.watcher.is_active())
    }

    /// Switches misses of this cache to events, as from now on it is read both by page walkers and without
    /// one, so that MSHRs may run out.
    pub(crate) fn read_without_walker(&mut self, level: usize) {
        self.levels[level].asks_at_once = false;
    }

    /// Caches of one kind: that of each core, or the one last-level cache.
    fn of_kind(&self, which: usize) -> impl Iterator<Item = &Level> {
        let cores = if which == LLC { 1 } else { self.cores };
        self.levels.iter().skip(which).step_by(LEVELS).take(cores)
    }

    /// Looks a line up and updates the replacement order, in program order. On a miss, inserts the line into
    /// this cache and all below that lack it. Returns the line's state, and the level that had it.
    #[inline(always)]
    pub(crate) fn locate(
        &mut self,
        level: usize,
        line: u64,
        write: bool,
        origin: Origin,
        now: u64,
    ) -> (Data, usize) {
        let next = self.fills.next();
        match self.look_up(level, line, write, origin, now) {
            Ok(data) => (data, level),
            Err(victim) => (Data::of(next), self.bring(level, line, origin, victim, now)),
        }
    }

    /// Looks a line up in one cache. Returns its state if it is there; otherwise inserts it, to be brought by
    /// the next fill, and returns the evicted line if that is dirty.
    #[inline(always)]
    fn look_up(
        &mut self,
        level: usize,
        line: u64,
        write: bool,
        origin: Origin,
        now: u64,
    ) -> Result<Data, Option<u64>> {
        let next = self.fills.next();
        let Level { cache, statistics, watcher, .. } = &mut self.levels[level];
        let found = match cache.access(line, Line::new(next, write, origin == Origin::Prefetcher)) {
            LookUp::Hit(found) => found,
            LookUp::Miss(victim) => {
                statistics.misses[origin as usize] += 1;
                return Err(victim);
            }
        };
        statistics.hits[origin as usize] += 1;
        if write {
            found.mark_dirty();
        }
        let is_first_use =
            origin == Origin::Program && watcher.is_active() && found.take_prefetched();
        statistics.useful_prefetches += u64::from(is_first_use);
        let mut fill = found.fill(next);
        if fill != NONE && (!self.fills.has(fill) || self.fills[fill].has_arrived(now)) {
            found.mark_arrived();
            fill = NONE;
        }
        Ok(Data { fill, is_first_use })
    }

    /// Makes the fills for a line that `level` has missed: inserts the line into the caches below that lack
    /// it. `victim` is the dirty line that it evicted. Returns the level that had the line.
    #[inline(never)]
    fn bring(
        &mut self,
        mut level: usize,
        line: u64,
        origin: Origin,
        mut victim: Option<u64>,
        now: u64,
    ) -> usize {
        loop {
            let id = self.reserve_fill();
            if self.cores > 1 {
                self.fetch_from_others(level, line, now);
            }
            let below = self.levels[level].below;
            let (mut data, mut missed) = (Data::HERE, None);
            if below != MEMORY {
                let next = self.fills.next();
                match self.look_up(below, line, false, origin, now) {
                    Ok(found) => data = found,
                    Err(dirty) => (data, missed) = (Data::of(next), Some(dirty)),
                }
            }
            self.fills[id] = Fill::new(level, (line, data), origin);
            let mut from = below;
            if let Some(dirty) = missed {
                if victim.is_none() {
                    (level, victim) = (below, dirty);
                    continue;
                }
                // The victim is written when the line has been looked up in all levels.
                from = self.bring(below, line, origin, dirty, now);
            }
            if let Some(dirty) = victim {
                self.fills[id].writes = self.write_victim(level, dirty).unwrap_or(NO_LINE);
            }
            return from;
        }
    }

    /// Writes an evicted dirty line back to the next level; returns the line that has to be written to
    /// memory, if any.
    #[cold]
    fn write_victim(&mut self, level: usize, line: u64) -> Option<u64> {
        self.levels[level].statistics.write_backs += 1;
        self.write_back(self.levels[level].below, line)
    }

    fn write_back(&mut self, level: usize, line: u64) -> Option<u64> {
        if level == MEMORY {
            return Some(line);
        }
        // What is written back is a whole line, so on a miss nothing is read from below.
        match self.levels[level].cache.access(line, Line::new(NONE, true, false)) {
            LookUp::Hit(found) => {
                found.mark_dirty();
                None
            }
            LookUp::Miss(victim) => self.write_victim(level, victim?),
        }
    }

    /// Counts of one kind of cache, summed over cores; `None` if the machine has no such cache.
    pub(crate) fn statistics(&self, which: usize) -> Option<CacheStatistics> {
        self.has[which].then(|| self.sum_of(which))
    }

    /// Counts of one kind of cache, summed over cores.
    fn sum_of(&self, which: usize) -> CacheStatistics {
        let mut sum = CacheStatistics::default();
        self.of_kind(which).for_each(|level| sum.add(&level.statistics));
        sum
    }

    /// Number of MSHRs in all caches of one kind.
    pub(crate) fn mshrs(&self, which: usize) -> u64 {
        self.of_kind(which).map(|level| level.mshrs.units()).sum()
    }

    pub(crate) fn dram(&self) -> &Dram {
        &self.dram
    }

    /// Counts of all caches, summed over cores, and of memory.
    pub(crate) fn counts(&self) -> MemoryCounts {
        let caches = std::array::from_fn(|which| self.sum_of(which));
        MemoryCounts { caches, dram: self.dram.statistics }
    }

    /// Replaces all counts; those of the other cores become 0, as if core 0 had made all accesses.
    pub(crate) fn set_counts(&mut self, counts: &MemoryCounts) {
        for (place, level) in self.levels.iter_mut().enumerate() {
            level.statistics = counts.caches.get(place).copied().unwrap_or_default();
        }
        self.dram.statistics = counts.dram;
    }

    /// Sets the counts that depend on timing (MSHR merges, MSHR cycles, DRAM) to 0; keeps those made in
    /// program order (hits, misses).
    pub(crate) fn reset_times(&mut self) {
        self.levels.iter_mut().for_each(|level| level.statistics.reset_times());
        self.dram.statistics = Default::default();
    }

    pub(crate) fn reset_statistics(&mut self) {
        self.set_counts(&MemoryCounts::default());
    }
}
