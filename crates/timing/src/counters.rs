//! Counters that the timing model reports: names, labels, and how they follow from its counts.

use perforate_types::{
    Counter, CounterUnit, Counters, Figure, Part, Prominence, Purpose, Unit, figures, registered,
    spaced,
};

use crate::branch::BranchCounts;
use crate::critical_path::{CAUSES, Cause};
use crate::dram::DramStatistics;
use crate::hierarchy::{
    CacheStatistics, Hierarchy, L1D, L1I, L2, LLC, MEMORY, Origin, WALKER_CACHE,
};
use crate::pipeline::CoreStatistics;
use crate::translation::{Share, TranslationStatistics};

/// Accesses to TLBs, walk caches and memory by translations that miss the first-level TLB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TranslationAccesses {
    /// Look-ups in, and fills of, each [`Unit`]; look-ups in the first-level TLB are not counted.
    pub units: [u64; Unit::COUNT],
    /// Checks of an address against a direct segment.
    pub segment_checks: u64,
    /// B-blocks found in selection bitmaps of gap-tolerant entries.
    pub selections: u64,
    /// Walker reads that hit in the cache that only page walkers use.
    pub reads_from_walker_cache: u64,
    /// Walker reads that hit in the first-level data cache.
    pub reads_from_l1d: u64,
    /// Walker reads that hit in the second-level cache.
    pub reads_from_l2: u64,
    /// Walker reads that hit in the last-level cache.
    pub reads_from_llc: u64,
    /// Walker reads from main memory.
    pub reads_from_memory: u64,
}

impl TranslationAccesses {
    pub(crate) fn of(statistics: &TranslationStatistics) -> Self {
        let reads = statistics.reads_by_level;
        Self {
            units: statistics.unit_accesses,
            segment_checks: statistics.checks,
            selections: statistics.selections,
            reads_from_walker_cache: reads[WALKER_CACHE],
            reads_from_l1d: reads[L1D],
            reads_from_l2: reads[L2],
            reads_from_llc: reads[LLC],
            reads_from_memory: reads[MEMORY],
        }
    }
}

/// Part of the translation cycles: its [`Share`], name in counters, label, and the key of its colour in
/// reports.
struct Time {
    share: usize,
    name: &'static str,
    label: &'static str,
    colour: &'static str,
}

/// Makes the part for a kind of look-up or wait.
const fn of(share: Share, name: &'static str, label: &'static str, colour: &'static str) -> Time {
    Time { share: share as usize, name, label, colour }
}

/// Makes the part for walker reads of one purpose.
const fn reads(purpose: Purpose, name: &'static str, label: &'static str) -> Time {
    Time { share: purpose as usize, name, label, colour: purpose.colour() }
}

/// All parts of the translation cycles, in the order in which charts stack them. Reads of a mechanism's own
/// tables are missing, as no access waits for them.
const TIMES: [Time; 24] = [
    of(Share::L2Tlb, "l2_tlb", "L2 TLB", "tlb"),
    of(Share::WalkCache, "walk_cache", "walk cache", "walk-cache"),
    reads(Purpose::Level5, "walk_level5", "level 5"),
    reads(Purpose::Level4, "walk_level4", "level 4"),
    reads(Purpose::Level3, "walk_level3", "level 3"),
    reads(Purpose::Level2, "walk_level2", "level 2"),
    reads(Purpose::Level1, "walk_level1", "level 1"),
    of(Share::BitmapLookup, "bitmap_lookup", "bitmap look-up", "bitmap-lookup"),
    reads(Purpose::Bitmap, "bitmap_read", "bitmap read"),
    reads(Purpose::Shadow, "shadow", "shadow"),
    reads(Purpose::Hole, "hole", "hole"),
    of(Share::SegmentCheck, "segment_check", "segment check", "segment"),
    of(Share::Selection, "selection", "B-block selection", "selection"),
    of(Share::NestedTlb, "nested_tlb", "nested TLB", "nested-tlb"),
    reads(Purpose::HostLevel5, "host_walk_level5", "host level 5"),
    reads(Purpose::HostLevel4, "host_walk_level4", "host level 4"),
    reads(Purpose::HostLevel3, "host_walk_level3", "host level 3"),
    reads(Purpose::HostLevel2, "host_walk_level2", "host level 2"),
    reads(Purpose::HostLevel1, "host_walk_level1", "host level 1"),
    reads(Purpose::HostBitmap, "host_bitmap_read", "host bitmap read"),
    reads(Purpose::HostShadow, "host_shadow", "host shadow"),
    reads(Purpose::HostHole, "host_hole", "host hole"),
    of(Share::WalkerQueue, "walker_queue", "waiting for a walker", "queue"),
    of(Share::FillWait, "fill_wait", "waiting for a fill", "wait"),
];

impl Time {
    fn id(&self) -> String {
        format!("translation_cycles_{}", self.name)
    }

    /// True if the cycles are those of reads, and the label does not end with "read" itself.
    fn is_read(&self) -> bool {
        self.share < Purpose::COUNT && !self.label.ends_with("read")
    }

    /// Label, worded as part of a sentence.
    fn described(&self) -> String {
        format!("{}{}", if self.is_read() { "reads of " } else { "" }, self.label)
    }

    fn counter(&self) -> Counter {
        let meaning = format!("Of the translation cycles: {}.", self.described());
        let whole = ("translation_cycles", "Translation cycles");
        part_of_cycles(whole, self.name, self.label, self.colour, meaning)
    }

    fn piece(&self) -> Piece {
        let meaning = format!("{}: translation.", self.described());
        let Self { share, name, label, colour } = *self;
        let label = if self.is_read() { format!("{label} reads") } else { label.into() };
        Piece { cause: Cause::share(share), name, label, colour, meaning }
    }
}

/// Makes the counter of a part of the cycles that counter `whole` sums up, under its heading in reports.
fn part_of_cycles(
    (whole, group): (&'static str, &'static str),
    name: &'static str,
    label: &str,
    colour: &'static str,
    meaning: String,
) -> Counter {
    Counter {
        id: format!("{whole}_{name}").into(),
        label: format!("{}: {label}", spaced(whole)).into(),
        unit: CounterUnit::Cycles,
        group,
        meaning: meaning.into(),
        prominence: Prominence::Listed,
        part: Some(Part {
            whole,
            key: name.into(),
            label: label.to_owned().into(),
            colour: colour.into(),
        }),
    }
}

/// Part of the cycle stack, with its cause.
struct Piece {
    cause: Cause,
    name: &'static str,
    label: String,
    colour: &'static str,
    meaning: String,
}

/// Common prefix of the names of the cycle stack's counters.
const STACK: &str = "stack_cycles";

/// Parts of the cycle stack, in the order in which charts stack them.
fn pieces() -> Vec<Piece> {
    let piece = |cause, name, label: &str, colour, meaning: &str| {
        let (label, meaning) = (label.into(), meaning.into());
        Piece { cause, name, label, colour, meaning }
    };
    let mut pieces = vec![
        piece(Cause::BASE, "base", "base", "core", "operations and the width of the core."),
        piece(Cause::BRANCH, "branch", "branches", "branch", "mispredicted branches."),
        piece(Cause::L1D, "l1", "L1 caches", "cache1", "what the first-level caches have."),
        piece(Cause::L2, "l2", "L2 cache", "cache2", "what the second-level cache has."),
        piece(Cause::LLC, "llc", "LLC", "cache3", "what the last-level cache has."),
        piece(Cause::MEMORY, "memory", "memory", "cache4", "what memory has."),
        piece(Cause::MSHR, "mshr", "waiting for an MSHR", "mshr", "loads that wait for an MSHR."),
        piece(
            Cause::STORE_QUEUE,
            "store_queue",
            "store queue full",
            "stores",
            "no room in the store queue.",
        ),
    ];
    pieces.push(piece(
        Cause::SHOOTDOWN,
        "shootdown",
        "shootdowns",
        "shootdown",
        "waiting for answers to shootdowns, and answering them, on several cores.",
    ));
    pieces.push(piece(Cause::IDLE, "idle", "idle", "idle", "cores that have nothing to run."));
    pieces.extend(TIMES.iter().map(Time::piece));
    pieces.push(piece(
        Cause::WALK_MSHR,
        "walk_mshr",
        "walks waiting for an MSHR",
        "walk-mshr",
        "page walks that wait for an MSHR: translation.",
    ));
    pieces
}

impl Piece {
    fn counter(&self) -> Counter {
        let meaning = format!("Of the cycles, by the critical path: {}", self.meaning);
        part_of_cycles((STACK, "Cycle stack"), self.name, &self.label, self.colour, meaning)
    }
}

/// Adds to `out` the cycle stack of the run: cycles by cause, see `critical_path`; and `translation`, the sum
/// of its translation parts.
pub(crate) fn cycle_stack(cycles: &[u64; CAUSES], translation: u64, out: &mut Counters) {
    out.record(STALLS, &translation);
    for piece in pieces() {
        // Of a store that had no data nothing more was found.
        let forwarded =
            if piece.cause == Cause::BASE { cycles[Cause::FORWARDED.index()] } else { 0 };
        out.set(format!("{STACK}_{}", piece.name), cycles[piece.cause.index()] + forwarded);
    }
}

/// Kind of cache, with the prefix of its counters' names.
struct Cache {
    level: usize,
    name: &'static str,
    label: &'static str,
    /// True if page walkers and prefetchers use the cache, too, so that their accesses are counted.
    is_shared: bool,
}

const CACHES: [Cache; 4] = [
    Cache { level: L1I, name: "l1i", label: "L1I", is_shared: false },
    Cache { level: L1D, name: "l1d", label: "L1D", is_shared: true },
    Cache { level: L2, name: "l2", label: "L2 cache", is_shared: true },
    Cache { level: LLC, name: "llc", label: "LLC", is_shared: true },
];

impl Cache {
    fn figures(&self) -> impl Iterator<Item = &'static Figure<CacheInterval>> + use<> {
        let shared = if self.is_shared { SHARED_CACHE } else { &[] };
        CACHE.iter().chain(shared)
    }

    fn id(&self, figure: &Figure<CacheInterval>) -> String {
        format!("{}_{}", self.name, figure.id)
    }

    fn counter(&self, figure: &Figure<CacheInterval>) -> Counter {
        let counter = figure.counter();
        let meaning = format!("{}: {}", self.label, counter.meaning);
        let label = format!("{} {}", self.label, counter.label);
        Counter {
            id: self.id(figure).into(),
            label: label.into(),
            meaning: meaning.into(),
            ..counter
        }
    }
}

/// Counts of a core over an interval of the run, with its instructions and cycles.
struct CoreInterval {
    counts: CoreStatistics,
    cycles: u64,
}

/// Counts of branches over an interval of the run.
struct Branches {
    seen: u64,
    mispredicted: u64,
    instructions: u64,
}

/// Counts of a cache over an interval of the run.
struct CacheInterval {
    counts: CacheStatistics,
    instructions: u64,
    cycles: u64,
    mshrs: u64,
}

/// Busy cycles of page walkers and DRAM buses over an interval of the run.
struct Occupancy {
    cycles: u64,
    walker_cycles: u64,
    walkers: u64,
    bus_cycles: u64,
    channels: u64,
}

/// Numerator and denominator of a rate of events per 1,000 instructions.
fn per_kilo(events: u64, instructions: u64) -> (f64, f64) {
    (events as f64 * 1000.0, instructions as f64)
}

const PROGRAM: usize = Origin::Program as usize;
const WALKER: usize = Origin::Walker as usize;
const PREFETCHER: usize = Origin::Prefetcher as usize;

figures! {
    static CORE: CoreInterval, "Run" {
        /// Instructions measured, without the warm-up.
        instructions, Count, Listed: |it| it.counts.instructions;
        /// Cycles of the measured instructions in the steady state, without the operating system's
        /// work.
        cycles, Cycles, Listed: |it| it.cycles;
        /// Instructions per cycle.
        ipc, "IPC", Ratio, Listed: |it| (it.counts.instructions, it.cycles);
        /// Loads that the timing model executed.
        loads, Count, Listed: |it| it.counts.loads;
        /// Stores that the timing model executed.
        stores, Count, Listed: |it| it.counts.stores;
        /// Loads that took their data from an older store (store-to-load forwarding).
        forwarded_loads, Count, Listed: |it| it.counts.forwarded_loads;
        /// Cycles in which the front end waited for code.
        fetch_stall_cycles, Cycles, Listed: |it| it.counts.fetch_stall_cycles;
        /// Mean latency of a load.
        load_average_cycles, Cycles, Listed: |it| (it.counts.load_cycles, it.counts.loads);
        /// Mean latency of address translation per load, a part of `load_average_cycles`.
        load_translation_average_cycles, Cycles, Listed:
            |it| (it.counts.load_translation_cycles, it.counts.loads);
    }

    static BRANCHES: Branches, "Run" {
        /// Branches, if the trace marks them.
        branches, Count, Listed: |it| it.seen;
        /// Branches that were mispredicted.
        branch_mispredictions, Count, Listed: |it| it.mispredicted;
        /// Mispredicted branches per 1,000 instructions.
        branch_mispredictions_mpki, PerKiloInstruction, Listed:
            |it| per_kilo(it.mispredicted, it.instructions);
    }

    static TRANSLATION: TranslationStatistics, "Page walks" {
        /// Cycles in which page walkers were busy, summed over walkers.
        walk_cycles, Cycles, Table: |it| it.walker_cycles;
        /// Cycles in which at least one page walker of a core was busy, summed over cores.
        walk_active_cycles, Cycles, Listed: |it| it.walk_active_cycles;
        /// Translations that missed in the first-level TLB.
        translations_beyond_l1_tlb, Count, Listed: |it| it.translations;
        /// Latencies of translations that missed in the first-level TLB, summed. They overlap with
        /// other work and with each other.
        translation_cycles, Cycles, Listed: |it| it.cycles;
    }

    static WALKER_READS: TranslationStatistics, "Page walks" {
        /// Reads by page walkers, including those of hole bitmaps.
        walker_reads, Count, Listed: |it| it.reads_by_level.iter().sum::<u64>();
        /// Reads by page walkers that hit in the cache that only the walkers use.
        walker_reads_from_walker_cache, Count, Listed: |it| it.reads_by_level[WALKER_CACHE];
        /// Reads by page walkers that hit in the first-level data cache.
        walker_reads_from_l1d, Count, Listed: |it| it.reads_by_level[L1D];
        /// Reads by page walkers that hit in the second-level cache.
        walker_reads_from_l2, Count, Listed: |it| it.reads_by_level[L2];
        /// Reads by page walkers that hit in the last-level cache.
        walker_reads_from_llc, Count, Listed: |it| it.reads_by_level[LLC];
        /// Reads by page walkers that were served by main memory.
        walker_reads_from_memory, Count, Listed: |it| it.reads_by_level[MEMORY];
    }

    static CACHE: CacheInterval, "Caches and memory" {
        /// Accesses by the program.
        accesses, Count, Listed: |it| it.counts.hits[PROGRAM] + it.counts.misses[PROGRAM];
        /// Accesses by the program that missed.
        misses, Count, Listed: |it| it.counts.misses[PROGRAM];
        /// Misses of the program per 1,000 instructions.
        mpki, "MPKI", PerKiloInstruction, Listed:
            |it| per_kilo(it.counts.misses[PROGRAM], it.instructions);
        /// Accesses to a line that was already being fetched.
        merged_accesses, Count, Listed: |it| it.counts.merges;
        /// Dirty lines written back.
        write_backs, Count, Listed: |it| it.counts.write_backs;
        /// Lines invalidated by a store of another core.
        invalidated_lines, Count, Listed: |it| it.counts.invalidations;
        /// Share of time in which an MSHR is in use, averaged over all MSHRs.
        mshrs_busy, "MSHRs busy", Share, Listed:
            |it| (it.counts.mshr_cycles, it.mshrs * it.cycles);
    }

    static STALLS: u64, "Cycle stack" {
        /// Cycles in which the run waited for address translation: the sum of the parts of the
        /// cycle stack that are translation. Translation that is hidden behind something longer
        /// does not count.
        translation_stall_cycles, "cycles of waiting for translation", Cycles, Table: |it| *it;
    }

    static OCCUPANCY: Occupancy, "Cycle stack" {
        /// Share of time in which a page walker is busy, averaged over all walkers.
        page_walkers_busy, Share, Main: |it| (it.walker_cycles, it.walkers * it.cycles);
        /// Share of time in which the bus of a memory channel is busy, averaged over all channels.
        dram_busy, "DRAM busy", Share, Listed: |it| (it.bus_cycles, it.channels * it.cycles);
    }

    static SHARED_CACHE: CacheInterval, "Caches and memory" {
        /// Accesses by page walkers.
        walker_accesses, Count, Listed: |it| it.counts.hits[WALKER] + it.counts.misses[WALKER];
        /// Accesses by page walkers that missed.
        walker_misses, Count, Listed: |it| it.counts.misses[WALKER];
        /// Lines fetched by the prefetcher.
        prefetches, Count, Listed: |it| it.counts.misses[PREFETCHER];
        /// Prefetched lines that were accessed.
        useful_prefetches, Count, Listed: |it| it.counts.useful_prefetches;
    }

    static DRAM: DramStatistics, "Caches and memory" {
        /// Lines read from memory.
        dram_reads, "DRAM reads", Count, Listed: |it| it.reads;
        /// Lines written to memory.
        dram_writes, "DRAM writes", Count, Listed: |it| it.writes;
        /// DRAM accesses that found their row open.
        dram_row_hits, "DRAM row hits", Count, Listed: |it| it.row_hits;
        /// DRAM accesses that found another row open.
        dram_row_conflicts, "DRAM row conflicts", Count, Listed: |it| it.row_conflicts;
        /// Mean latency of a DRAM read.
        dram_read_average_cycles, "mean cycles of a DRAM read", Cycles, Listed:
            |it| (it.read_cycles, it.reads);
    }
}

pub(crate) fn core(statistics: &CoreStatistics, cycles: u64, out: &mut Counters) {
    out.record(CORE, &CoreInterval { counts: *statistics, cycles });
}

pub(crate) fn branches(counts: &BranchCounts, instructions: u64, out: &mut Counters) {
    let BranchCounts { branches: seen, mispredictions: mispredicted } = *counts;
    out.record(BRANCHES, &Branches { seen, mispredicted, instructions });
}

pub(crate) fn translation(statistics: &TranslationStatistics, out: &mut Counters) {
    out.record(TRANSLATION, statistics);
    out.record(WALKER_READS, statistics);
    for time in &TIMES {
        out.set(time.id(), statistics.shares[time.share]);
    }
}

pub(crate) fn memory(memory: &Hierarchy, instructions: u64, cycles: u64, out: &mut Counters) {
    for cache in &CACHES {
        let Some(statistics) = memory.statistics(cache.level) else { continue };
        let mshrs = memory.mshrs(cache.level);
        let interval = CacheInterval { counts: statistics, instructions, cycles, mshrs };
        for figure in cache.figures() {
            out.set(cache.id(figure), (figure.value)(&interval));
        }
    }
    out.record(DRAM, &memory.dram().statistics);
}

/// Adds the occupancy of page walkers and DRAM to `out`; `walker_cycles` are the busy cycles summed over
/// walkers.
pub(crate) fn occupancy(
    (walker_cycles, walkers): (u64, u64),
    memory: &Hierarchy,
    cycles: u64,
    out: &mut Counters,
) {
    let dram = memory.dram();
    let occupancy = Occupancy {
        cycles,
        walker_cycles,
        walkers,
        bus_cycles: dram.bus_cycles(),
        channels: dram.channels(),
    };
    out.record(OCCUPANCY, &occupancy);
}

/// All counters of the core, its caches and memory, in the order in which reports show them.
pub fn counters() -> Vec<Counter> {
    let times = TIMES.iter().map(Time::counter);
    let caches =
        CACHES.iter().flat_map(|cache| cache.figures().map(|figure| cache.counter(figure)));
    [
        registered(CORE),
        registered(BRANCHES),
        registered(STALLS),
        pieces().iter().map(Piece::counter).collect(),
        registered(OCCUPANCY),
        registered(TRANSLATION),
        times.collect(),
        registered(WALKER_READS),
        caches.collect(),
        registered(DRAM),
    ]
    .concat()
}
