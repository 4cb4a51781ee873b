//! Figures of the timing model by name.

use perforate_types::{Counters, Purpose, Unit};

use crate::branch::BranchPredictor;
use crate::hierarchy::{CacheStatistics, Hierarchy, L1D, L1I, L2, LLC, MEMORY, Origin};
use crate::pipeline::CoreStatistics;
use crate::translation::{SHARES, TranslationStatistics};

/// Names of the shares of translation time besides reads, in order of index.
const SHARE_NAMES: [&str; SHARES - Purpose::COUNT] = [
    "l2_tlb",
    "bitmap_lookup",
    "walk_cache",
    "nested_tlb",
    "segment_check",
    "selection",
    "walker_queue",
    "fill_wait",
];

/// Name of the time of reads of this purpose; none for those that nothing is read for, or nothing
/// that an access waits for.
fn read_name(purpose: Purpose) -> Option<String> {
    let (dimension, id) = match purpose.id().strip_prefix("host_") {
        Some(id) => ("host_", id),
        None => ("", purpose.id()),
    };
    match id {
        "page" | "own_table" => None,
        "bitmap" => Some(format!("{dimension}bitmap_read")),
        level if level.starts_with("level") => Some(format!("{dimension}walk_{level}")),
        _ => Some(format!("{dimension}{id}")),
    }
}

const CACHE_NAMES: [(usize, &str); 4] = [(L1I, "l1i"), (L1D, "l1d"), (L2, "l2"), (LLC, "llc")];

/// Accesses to each structure by translations beyond the first-level TLB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TranslationAccesses {
    /// Look-ups and fills, by [`Unit`]; look-ups of the first level are not among them.
    pub units: [u64; Unit::COUNT],
    /// Checks of direct segments.
    pub segment_checks: u64,
    /// B-blocks found in selection bitmaps of gap-tolerant entries.
    pub selections: u64,
    /// Walker reads that the first-level data cache served.
    pub reads_from_l1d: u64,
    /// Walker reads that the second-level cache served.
    pub reads_from_l2: u64,
    /// Walker reads that the last-level cache served.
    pub reads_from_llc: u64,
    /// Walker reads that memory served.
    pub reads_from_memory: u64,
}

impl TranslationAccesses {
    pub(crate) fn of(statistics: &TranslationStatistics) -> Self {
        let reads = statistics.reads_by_level;
        Self {
            units: statistics.unit_accesses,
            segment_checks: statistics.checks,
            selections: statistics.selections,
            reads_from_l1d: reads[L1D],
            reads_from_l2: reads[L2],
            reads_from_llc: reads[LLC],
            reads_from_memory: reads[MEMORY],
        }
    }
}

fn ratio(out: &mut Counters, name: impl Into<String>, numerator: u64, denominator: u64) {
    out.ratio(name, numerator as f64, denominator as f64);
}

/// Events per thousand instructions.
fn per_kilo(out: &mut Counters, name: impl Into<String>, events: u64, instructions: u64) {
    out.ratio(name, events as f64 * 1000.0, instructions as f64);
}

pub(crate) fn core(statistics: &CoreStatistics, cycles: u64, out: &mut Counters) {
    out.count("instructions", statistics.instructions);
    out.count("cycles", cycles);
    ratio(out, "ipc", statistics.instructions, cycles);
    out.count("loads", statistics.loads);
    out.count("stores", statistics.stores);
    out.count("forwarded_loads", statistics.forwarded_loads);
    out.count("fetch_stall_cycles", statistics.fetch_stall_cycles);
    ratio(out, "load_average_cycles", statistics.load_cycles, statistics.loads);
    let translation = statistics.load_translation_cycles;
    ratio(out, "load_translation_average_cycles", translation, statistics.loads);
}

pub(crate) fn branches(predictor: &BranchPredictor, instructions: u64, out: &mut Counters) {
    out.count("branches", predictor.branches);
    out.count("branch_mispredictions", predictor.mispredictions);
    per_kilo(out, "branch_mispredictions_mpki", predictor.mispredictions, instructions);
}

pub(crate) fn translation(statistics: &TranslationStatistics, out: &mut Counters) {
    out.count("walk_cycles", statistics.walker_cycles);
    out.count("translations_beyond_l1_tlb", statistics.translations);
    out.count("translation_cycles", statistics.cycles);
    let reads = Purpose::ALL.into_iter().map(read_name);
    let names = reads.chain(SHARE_NAMES.into_iter().map(|name| Some(name.to_owned())));
    for (name, cycles) in names.zip(statistics.shares) {
        if let Some(name) = name {
            out.count(format!("translation_cycles_{name}"), cycles);
        }
    }
    let by_level = statistics.reads_by_level;
    out.count("walker_reads", by_level.iter().sum());
    out.count("walker_reads_from_l1d", by_level[L1D]);
    out.count("walker_reads_from_l2", by_level[L2]);
    out.count("walker_reads_from_llc", by_level[LLC]);
    out.count("walker_reads_from_memory", by_level[MEMORY]);
}

pub(crate) fn memory(memory: &Hierarchy, instructions: u64, out: &mut Counters) {
    for (level, name) in CACHE_NAMES {
        if let Some(statistics) = memory.statistics(level) {
            cache(name, statistics, instructions, out);
        }
    }
    let dram = &memory.dram().statistics;
    out.count("dram_reads", dram.reads);
    out.count("dram_writes", dram.writes);
    out.count("dram_row_hits", dram.row_hits);
    out.count("dram_row_conflicts", dram.row_conflicts);
    ratio(out, "dram_read_average_cycles", dram.read_cycles, dram.reads);
}

fn cache(name: &str, statistics: &CacheStatistics, instructions: u64, out: &mut Counters) {
    let CacheStatistics { hits, misses, .. } = statistics;
    let program = Origin::Program as usize;
    let walker = Origin::Walker as usize;
    out.count(format!("{name}_accesses"), hits[program] + misses[program]);
    out.count(format!("{name}_misses"), misses[program]);
    per_kilo(out, format!("{name}_mpki"), misses[program], instructions);
    out.count(format!("{name}_merged_accesses"), statistics.merges);
    out.count(format!("{name}_write_backs"), statistics.write_backs);
    if name == "l1i" {
        return;
    }
    out.count(format!("{name}_walker_accesses"), hits[walker] + misses[walker]);
    out.count(format!("{name}_walker_misses"), misses[walker]);
    out.count(format!("{name}_prefetches"), misses[Origin::Prefetcher as usize]);
    out.count(format!("{name}_useful_prefetches"), statistics.useful_prefetches);
}
