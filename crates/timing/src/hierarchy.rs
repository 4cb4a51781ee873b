//! The caches and main memory as one.
//!
//! An access has two halves. [`Hierarchy::locate`] is called in program order: it decides what each
//! cache holds, and which lines have to be brought. [`Hierarchy::access`] is called in order of
//! time: it decides when the lines arrive. A line that one access misses and a later one hits is
//! brought by whichever comes first in time.
//!
//! Several cores share the last-level cache and memory; each has the other caches for itself, and
//! stores are kept coherent ([`coherence`]).

mod coherence;

use crate::agenda::{Agenda, Event, List, UNKNOWN, Waiter, Waiters};
use crate::cache::{Cache, Line};
use crate::config::{CacheConfig, TimingConfig, WalkerAttachment};
use crate::dram::{Dram, DramStatistics};
use crate::pipeline::Factor;
use crate::pool::Pool;
use crate::prefetch::Watcher;
use crate::reuse::{Numbered, Numbers, Uses};

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
/// Main memory, in statistics by level.
pub(crate) const MEMORY: usize = 5;
/// Levels that can serve an access: caches and main memory. Those of another core than the first have
/// the same numbers, so many further for each core before it; all have the first core's [`LLC`] and
/// [`MEMORY`].
pub(crate) const LEVELS: usize = 6;

/// Which of the caches this is, whichever core's.
#[inline]
pub(crate) const fn kind(level: usize) -> usize {
    level % LEVELS
}

/// The caches that a core asks itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnLevels {
    pub(crate) l1i: usize,
    pub(crate) l1d: usize,
    /// That which its page walkers read.
    pub(crate) walker: usize,
}

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
    /// Cycles that MSHRs were taken, summed over them.
    pub(crate) mshr_cycles: u64,
    /// Lines that another core's store took away.
    pub(crate) invalidations: u64,
}

impl CacheStatistics {
    fn add(&mut self, more: &Self) {
        for (own, more) in self.hits.iter_mut().zip(more.hits) {
            *own += more;
        }
        for (own, more) in self.misses.iter_mut().zip(more.misses) {
            *own += more;
        }
        self.merges += more.merges;
        self.write_backs += more.write_backs;
        self.useful_prefetches += more.useful_prefetches;
        self.mshr_cycles += more.mshr_cycles;
        self.invalidations += more.invalidations;
    }

    /// Forgets what is counted when it happens, and keeps what is counted in program order.
    fn reset_times(&mut self) {
        (self.merges, self.mshr_cycles) = (0, 0);
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

/// What is counted in all caches and in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemoryCounts {
    pub(crate) caches: [CacheStatistics; CACHES],
    pub(crate) dram: DramStatistics,
}

/// A line on its way into a cache. The number is used again when the line is there and nobody asks
/// for it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FillId(pub(crate) u32);

impl FillId {
    /// No fill: the line is there.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// Where an access finds a line: in its cache, or on its way into it. It is used for one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    fill: FillId,
    /// When the line was known to arrive.
    ready: u64,
    /// A prefetcher brought it, and this is its first use: the line's number.
    first_use: Option<u64>,
    /// The level that is to serve it: that from which it comes if it is on its way.
    from: u8,
}

impl Data {
    /// The line is there.
    const fn here(level: usize) -> Self {
        Self { fill: FillId::NONE, ready: 0, first_use: None, from: level as u8 }
    }

    /// Whether the line is there now, so that an access takes the cache's latency.
    #[inline]
    pub(crate) fn is_here(&self, now: u64) -> bool {
        self.fill == FillId::NONE && self.ready <= now && self.first_use.is_none()
    }
}

/// How an access got its line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    /// The level that had it.
    pub(crate) from: usize,
    /// Until when it waited for MSHRs, on any level; 0 if it did not.
    pub(crate) waited_until: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody has asked for the line in time.
    Wanted,
    /// It has been asked for.
    OnItsWay,
    /// It arrives at [`Fill::ready`].
    Timed,
}

/// The way of one line into one cache.
#[derive(Clone, Debug)]
struct Fill {
    level: usize,
    line: u64,
    state: State,
    ready: u64,
    origin: Origin,
    /// Where the level below has it.
    below: Data,
    /// When it was given its MSHR.
    since: u64,
    served: Served,
    /// A line that has to be written to memory as this one takes its place.
    writes: Option<u64>,
    waiters: List,
    /// A prefetcher asked for it before the access that missed it did, which has yet to come.
    is_prefetched: bool,
    uses: Uses,
}

impl Numbered for Fill {
    fn uses(&mut self) -> &mut Uses {
        &mut self.uses
    }

    fn done(&self) -> u64 {
        self.ready
    }
}

#[derive(Clone, Debug)]
struct Level {
    cache: Cache,
    latency: u64,
    response: u64,
    /// The level below, or [`MEMORY`].
    below: usize,
    mshrs: Pool<FillId>,
    watcher: Watcher,
    statistics: CacheStatistics,
}

#[derive(Clone, Debug)]
pub(crate) struct Hierarchy {
    levels: Vec<Level>,
    has: [bool; CACHES],
    cores: usize,
    /// The cache that page walkers of the first core read.
    walker_level: usize,
    dram: Dram,
    fills: Vec<Fill>,
    numbers: Numbers,
}

impl Level {
    fn new(config: &CacheConfig, below: usize) -> Self {
        Self {
            cache: Cache::new(config),
            latency: config.latency_cycles.into(),
            response: config.response_cycles.into(),
            below,
            mshrs: Pool::new(config.mshrs),
            watcher: Watcher::new(config.prefetcher),
            statistics: CacheStatistics::default(),
        }
    }
}

/// Where a line was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located {
    pub(crate) data: Data,
    /// The level that serves it.
    pub(crate) from: usize,
}

impl Hierarchy {
    /// Of a machine with so many cores.
    pub(crate) fn new(config: &TimingConfig, cores: usize) -> Self {
        let caches = &config.cache;
        let attached = match config.walker.attach {
            WalkerAttachment::L1d => L1D,
            WalkerAttachment::L2 => L2,
            WalkerAttachment::Llc => LLC,
        };
        let below_l2 = if caches.llc.is_some() { LLC } else { MEMORY };
        // What is absent is never reached; a small cache keeps its place.
        let llc = caches.llc.as_ref().unwrap_or(&caches.l1i);
        let walker = caches.walker.as_ref().unwrap_or(&caches.l1i);
        let of_core = |core: usize| {
            let first = core * LEVELS;
            let own = |level| if level == LLC { LLC } else { first + level };
            // Memory has a place among the caches, and only the first core's LLC is used.
            let unused = if core == 0 { llc } else { &caches.l1i };
            [
                Level::new(&caches.l1i, own(L2)),
                Level::new(&caches.l1d, own(L2)),
                Level::new(&caches.l2, below_l2),
                Level::new(unused, MEMORY),
                Level::new(walker, own(attached)),
                Level::new(&caches.l1i, MEMORY),
            ]
        };
        Self {
            levels: (0..cores).flat_map(of_core).collect(),
            cores,
            has: [true, true, true, caches.llc.is_some(), caches.walker.is_some()],
            walker_level: if caches.walker.is_some() { WALKER_CACHE } else { attached },
            dram: Dram::new(&config.dram, config.core.frequency_ghz),
            fills: Vec::new(),
            numbers: Numbers::default(),
        }
    }

    /// The same without a cache, for whoever asks only where caches are.
    pub(crate) fn without_lines(&self) -> Self {
        Self {
            levels: Vec::new(),
            dram: self.dram.clone(),
            fills: Vec::new(),
            numbers: Numbers::default(),
            ..*self
        }
    }

    /// The caches that a core asks itself.
    pub(crate) fn own_levels(&self, core: usize) -> OwnLevels {
        let own = |level| if level == LLC { LLC } else { core * LEVELS + level };
        OwnLevels { l1i: own(L1I), l1d: own(L1D), walker: own(self.walker_level) }
    }

    /// The caches of this kind, one for each core that has its own.
    fn of_kind(&self, which: usize) -> impl Iterator<Item = &Level> {
        let cores = if which == LLC { 1 } else { self.cores };
        self.levels.iter().skip(which).step_by(LEVELS).take(cores)
    }

    pub(crate) fn latency(&self, level: usize) -> u64 {
        self.levels[level].latency
    }

    /// Looks a line up in program order. A miss puts it into the cache, and into those below that
    /// lack it; when it arrives is decided by the accesses.
    #[inline]
    pub(crate) fn locate(
        &mut self,
        level: usize,
        line: u64,
        write: bool,
        origin: Origin,
        now: u64,
    ) -> Located {
        let at = &mut self.levels[level];
        let Some(found) = at.cache.find(line) else {
            return self.locate_below(level, line, write, origin, now);
        };
        at.statistics.hits[origin as usize] += 1;
        if write {
            found.mark_dirty();
        }
        let mut data = Data::here(level);
        if origin == Origin::Program && at.watcher.is_active() && found.take_prefetched() {
            at.statistics.useful_prefetches += 1;
            data.first_use = Some(line);
        }
        let id = found.fill();
        if id != FillId::NONE {
            match self.fills.get_mut(id.0 as usize) {
                Some(fill) if (fill.level, fill.line) == (level, line) && fill.ready > now => {
                    data.ready = fill.ready;
                    data.from = fill.below.from;
                    if fill.state != State::Timed {
                        data.fill = id;
                        fill.uses.expected += 1;
                    }
                }
                _ => found.mark_arrived(),
            }
        }
        Located { data, from: level }
    }

    #[inline(never)]
    fn locate_below(
        &mut self,
        level: usize,
        line: u64,
        write: bool,
        origin: Origin,
        now: u64,
    ) -> Located {
        self.levels[level].statistics.misses[origin as usize] += 1;
        let below = self.levels[level].below;
        if self.cores > 1 && kind(level) == L2 {
            self.fetch_from_others(level / LEVELS, line, now);
        }
        let found = if below == MEMORY {
            Located { data: Data::here(MEMORY), from: MEMORY }
        } else {
            self.locate(below, line, false, origin, now)
        };
        let id = self.new_fill(level, line, origin, found.data, now);
        let prefetched = origin == Origin::Prefetcher;
        let writes = self.insert(level, line, Line::new(id, write, prefetched));
        self.fills[id.0 as usize].writes = writes;
        let data = Data { fill: id, ready: UNKNOWN, first_use: None, from: found.data.from };
        Located { data, from: found.from }
    }

    fn new_fill(
        &mut self,
        level: usize,
        line: u64,
        origin: Origin,
        below: Data,
        now: u64,
    ) -> FillId {
        let fill = Fill {
            level,
            line,
            state: State::Wanted,
            ready: UNKNOWN,
            origin,
            below,
            since: 0,
            served: Served { from: below.from.into(), waited_until: 0 },
            writes: None,
            waiters: List::default(),
            is_prefetched: false,
            uses: Uses::ONE,
        };
        if let Some(number) = self.numbers.take(&mut self.fills, now) {
            self.fills[number as usize] = fill;
            return FillId(number);
        }
        self.fills.push(fill);
        FillId((self.fills.len() - 1) as u32)
    }

    /// One access fewer will come for this fill.
    #[inline]
    fn came(&mut self, id: FillId) {
        self.numbers.came(&mut self.fills, id.0);
    }

    /// Puts a line into a cache; returns what has to be written to memory for it.
    fn insert(&mut self, level: usize, line: u64, entry: Line) -> Option<u64> {
        let victim = self.levels[level].cache.insert(line, entry)?;
        self.forget(level, victim.number, victim.fill);
        if !victim.dirty {
            return None;
        }
        self.levels[level].statistics.write_backs += 1;
        self.write_back(self.levels[level].below, victim.number)
    }

    /// A line has been pushed out. If it was on its way and nobody asks for it, nobody ever will.
    fn forget(&mut self, level: usize, line: u64, id: FillId) {
        let Some(fill) = self.fills.get_mut(id.0 as usize) else { return };
        let is_its = (fill.level, fill.line) == (level, line);
        if is_its && fill.uses.expected == 0 && fill.state == State::Wanted {
            fill.state = State::Timed;
            fill.ready = 0;
            let below = fill.below;
            self.numbers.retire(&mut self.fills, id.0);
            self.dismiss(below);
        }
    }

    /// An access that was told of a line does not come.
    pub(crate) fn dismiss(&mut self, data: Data) {
        if data.fill != FillId::NONE {
            self.came(data.fill);
        }
    }

    fn write_back(&mut self, level: usize, line: u64) -> Option<u64> {
        if level == MEMORY {
            return Some(line);
        }
        if let Some(found) = self.levels[level].cache.find(line) {
            found.mark_dirty();
            return None;
        }
        // A whole line needs no fetch.
        self.insert(level, line, Line::new(FillId::NONE, true, false))
    }

    /// An access to a located line at `time`, now or later. Returns when it is done if that is known;
    /// otherwise `waiter` will be told.
    #[inline]
    pub(crate) fn access(
        &mut self,
        agenda: &mut Agenda,
        waiters: &mut Waiters,
        level: usize,
        data: Data,
        time: u64,
        waiter: Waiter,
    ) -> Option<u64> {
        let at = &mut self.levels[level];
        let found = time + at.latency;
        if let Some(line) = data.first_use {
            agenda.schedule(time, Event::FirstUse { level: level as u8, line });
        }
        if data.fill == FillId::NONE {
            at.statistics.merges += u64::from(data.ready > time);
            return Some(found.max(data.ready));
        }
        let fill = &mut self.fills[data.fill.0 as usize];
        if std::mem::take(&mut fill.is_prefetched) {
            agenda.schedule(time, Event::FirstUse { level: level as u8, line: fill.line });
        }
        match fill.state {
            State::Timed => {
                at.statistics.merges += u64::from(fill.ready > time);
                let done = found.max(fill.ready);
                self.came(data.fill);
                return Some(done);
            }
            State::OnItsWay => {
                at.statistics.merges += 1;
                waiters.add(&mut fill.waiters, waiter, found);
                self.came(data.fill);
            }
            State::Wanted => agenda.schedule(found, Event::Miss { fill: data.fill, waiter }),
        }
        None
    }

    /// A look-up has ended at a line that had yet to come.
    #[inline(always)]
    pub(crate) fn miss(
        &mut self,
        agenda: &mut Agenda,
        waiters: &mut Waiters,
        id: FillId,
        waiter: Waiter,
    ) {
        let fill = &mut self.fills[id.0 as usize];
        if std::mem::take(&mut fill.is_prefetched) {
            let first_use = Event::FirstUse { level: fill.level as u8, line: fill.line };
            agenda.schedule(agenda.now, first_use);
        }
        let statistics = &mut self.levels[fill.level].statistics;
        match fill.state {
            State::Timed => {
                statistics.merges += u64::from(fill.ready > agenda.now);
                agenda.tell(waiter, fill.ready.max(agenda.now));
            }
            State::OnItsWay => {
                statistics.merges += 1;
                waiters.add(&mut fill.waiters, waiter, agenda.now);
            }
            State::Wanted => {
                waiters.add(&mut fill.waiters, waiter, agenda.now);
                self.ask_below(agenda, waiters, id);
            }
        }
        self.came(id);
    }

    fn ask_below(&mut self, agenda: &mut Agenda, waiters: &mut Waiters, id: FillId) {
        let fill = &mut self.fills[id.0 as usize];
        fill.state = State::OnItsWay;
        let (level, line, origin) = (fill.level, fill.line, fill.origin);
        if self.levels[level].mshrs.request(agenda.now, id) {
            self.read_below(agenda, waiters, id);
        } else {
            self.set_alarm(agenda, level);
        }
        if origin == Origin::Program && self.levels[level].watcher.is_active() {
            self.prefetch(agenda, waiters, level, line);
        }
    }

    /// The fill has its MSHR.
    fn read_below(&mut self, agenda: &mut Agenda, waiters: &mut Waiters, id: FillId) {
        self.fills[id.0 as usize].since = agenda.now;
        let Fill { level, line, below: data, .. } = self.fills[id.0 as usize];
        let below = self.levels[level].below;
        let done = if below == MEMORY {
            Some(self.dram.read(line, agenda.now))
        } else {
            self.access(agenda, waiters, below, data, agenda.now, Waiter::Fill(id))
        };
        if let Some(done) = done {
            self.served(agenda, waiters, id, done);
        }
    }

    /// The level below has a fill's line at `done`.
    pub(crate) fn served(
        &mut self,
        agenda: &mut Agenda,
        waiters: &mut Waiters,
        id: FillId,
        done: u64,
    ) {
        let Fill { level, below: data, since, .. } = self.fills[id.0 as usize];
        let below = self.levels[level].below;
        let served = if below == MEMORY {
            Served { from: MEMORY, waited_until: 0 }
        } else {
            self.served_how(below, data, since, done)
        };
        let fill = &mut self.fills[id.0 as usize];
        let at = &mut self.levels[fill.level];
        fill.ready = done + at.response;
        fill.state = State::Timed;
        fill.served.from = served.from;
        fill.served.waited_until = served.waited_until.max(fill.served.waited_until);
        at.mshrs.release(fill.ready);
        at.statistics.mshr_cycles += fill.ready - fill.since;
        if let Some(line) = fill.writes {
            self.dram.write(line, fill.ready, agenda.now);
        }
        let (level, ready) = (fill.level, fill.ready);
        agenda.tell_all(waiters, &mut fill.waiters, ready);
        self.numbers.retire(&mut self.fills, id.0);
        self.set_alarm(agenda, level);
    }

    fn set_alarm(&mut self, agenda: &mut Agenda, level: usize) {
        if let Some(time) = self.levels[level].mshrs.alarm() {
            agenda.schedule(time, Event::Mshr { level: level as u8 });
        }
    }

    /// MSHRs may have become free.
    pub(crate) fn mshr_free(&mut self, agenda: &mut Agenda, waiters: &mut Waiters, level: usize) {
        while let Some(id) = self.levels[level].mshrs.next(agenda.now) {
            self.fills[id.0 as usize].served.waited_until = agenda.now;
            self.read_below(agenda, waiters, id);
        }
        self.set_alarm(agenda, level);
    }

    /// A line that is missed, or was prefetched and is used for the first time, may be followed by
    /// others. Prefetches take an MSHR that is free at once, or are dropped.
    #[cold]
    pub(crate) fn prefetch(
        &mut self,
        agenda: &mut Agenda,
        waiters: &mut Waiters,
        level: usize,
        line: u64,
    ) {
        let candidates = self.levels[level].watcher.observe(line);
        for &number in candidates.as_slice() {
            let at = &mut self.levels[level];
            if !at.mshrs.is_free(agenda.now) {
                return;
            }
            let id = match at.cache.peek(number) {
                None => {
                    let found = self.locate(level, number, false, Origin::Prefetcher, agenda.now);
                    self.came(found.data.fill);
                    found.data.fill
                }
                Some(present) => present.fill(),
            };
            let Some(fill) = self.fills.get_mut(id.0 as usize) else { continue };
            if (fill.level, fill.line, fill.state) != (level, number, State::Wanted) {
                continue;
            }
            if fill.origin == Origin::Program {
                // The program is about to miss it: now it will not.
                fill.is_prefetched = true;
                let statistics = &mut self.levels[level].statistics;
                // It may have been counted before measuring began.
                let misses = &mut statistics.misses[Origin::Program as usize];
                *misses = misses.saturating_sub(1);
                statistics.hits[Origin::Program as usize] += 1;
                statistics.misses[Origin::Prefetcher as usize] += 1;
                statistics.useful_prefetches += 1;
            }
            fill.state = State::OnItsWay;
            self.levels[level].mshrs.request(agenda.now, id);
            self.read_below(agenda, waiters, id);
        }
    }

    /// An access outside time: it leaves in the caches what it would have brought, at once.
    pub(crate) fn warm(&mut self, level: usize, line: u64, write: bool, origin: Origin) {
        let at = &mut self.levels[level];
        let has_prefetcher = origin == Origin::Program && at.watcher.is_active();
        if let Some(found) = at.cache.find(line) {
            if write {
                found.mark_dirty();
            }
            if has_prefetcher && found.take_prefetched() {
                self.warm_prefetch(level, line);
            }
            return;
        }
        let below = at.below;
        if below != MEMORY {
            self.warm(below, line, false, origin);
        }
        let is_prefetched = origin == Origin::Prefetcher;
        self.insert(level, line, Line::new(FillId::NONE, write, is_prefetched));
        if has_prefetcher {
            self.warm_prefetch(level, line);
        }
    }

    /// Outside time there is an MSHR for every prefetch.
    #[cold]
    fn warm_prefetch(&mut self, level: usize, line: u64) {
        let candidates = self.levels[level].watcher.observe(line);
        for &number in candidates.as_slice() {
            if self.levels[level].cache.peek(number).is_none() {
                self.warm(level, number, false, Origin::Prefetcher);
            }
        }
    }

    /// How an access to `level` was served that began at `start` and had its line at `done`.
    #[inline]
    pub(crate) fn served_how(&self, level: usize, data: Data, start: u64, done: u64) -> Served {
        if done <= start + self.levels[level].latency {
            return Served { from: level, waited_until: 0 };
        }
        let fill = self.fills.get(data.fill.0 as usize).filter(|fill| fill.ready == done);
        fill.map_or(Served { from: data.from.into(), waited_until: 0 }, |fill| fill.served)
    }

    /// What happened in the caches of this kind, if there are any.
    pub(crate) fn statistics(&self, which: usize) -> Option<CacheStatistics> {
        self.has[which].then(|| self.sum_of(which))
    }

    /// What happened in the caches of this kind, of all cores.
    fn sum_of(&self, which: usize) -> CacheStatistics {
        let mut sum = CacheStatistics::default();
        self.of_kind(which).for_each(|level| sum.add(&level.statistics));
        sum
    }

    /// Their MSHRs.
    pub(crate) fn mshrs(&self, which: usize) -> u64 {
        self.of_kind(which).map(|level| level.mshrs.units()).sum()
    }

    pub(crate) fn dram(&self) -> &Dram {
        &self.dram
    }

    /// All that is counted.
    pub(crate) fn counts(&self) -> MemoryCounts {
        let caches = std::array::from_fn(|which| self.sum_of(which));
        MemoryCounts { caches, dram: self.dram.statistics }
    }

    /// Has this counted instead, as if the first core had done it all.
    pub(crate) fn set_counts(&mut self, counts: &MemoryCounts) {
        for (place, level) in self.levels.iter_mut().enumerate() {
            level.statistics = counts.caches.get(place).copied().unwrap_or_default();
        }
        self.dram.statistics = counts.dram;
    }

    /// Forgets what is counted when it happens, and keeps what is counted in program order.
    pub(crate) fn reset_times(&mut self) {
        for level in &mut self.levels {
            level.statistics.reset_times();
        }
        self.dram.statistics = Default::default();
    }

    pub(crate) fn reset_statistics(&mut self) {
        self.set_counts(&MemoryCounts::default());
    }
}
