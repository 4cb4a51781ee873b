//! Miss-ratio curves: the JSON object that `perforate curves --json` prints.

use serde::{Deserialize, Serialize};

/// Miss-ratio curves of one workload, with the TLBs of a machine for comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MissRatioRecord {
    /// Name of the workload or trace.
    pub workload: String,
    /// Name of the machine whose TLBs are marked.
    pub machine: String,
    /// Seed of the workload's random numbers.
    pub seed: u64,
    /// Number of instructions that count.
    pub instructions: u64,
    /// Number of data accesses that count.
    pub accesses: u64,
    /// Entries of the machine's first-level data TLB for 4KB pages, whose misses `entries_for_share` are to
    /// avoid.
    pub reference_entries: u64,
    /// Number of misses of `reference_entries` entries with 4KB pages, first touches not counted.
    pub reference_misses: u64,
    /// Half of the 95 % interval of `reference_misses`; `None` if they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_half_width_95: Option<u64>,
    /// Share of `reference_misses` that [`PageSizeCurve::entries_for_share`] entries avoid.
    pub share: f64,
    /// One curve for each page size, smallest first.
    pub page_sizes: Vec<PageSizeCurve>,
    /// Notes on the curves, one sentence each.
    pub notes: Vec<String>,
    /// Version of the program that made the curves.
    pub version: String,
}

/// Misses of fully associative TLBs for one page size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PageSizeCurve {
    /// Page size in bytes.
    pub page_bytes: u64,
    /// Number of pages of which one was followed; 1 if all were.
    pub sampled_one_in: u32,
    /// Number of first accesses to pages, which miss with any number of entries.
    pub first_touches: u64,
    /// Least number of entries that avoids the record's share of the reference's misses; `None` if the sample of pages
    /// is too small to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries_for_share: Option<u64>,
    /// Entries for this page size in the machine's first-level data TLB; 0 without such entries.
    pub machine_l1_entries: u64,
    /// Entries for this page size in the machine's second-level TLB; 0 without such entries.
    pub machine_l2_entries: u64,
    /// Misses by number of entries, fewest entries first. All page sizes have the same numbers.
    pub points: Vec<MissPoint>,
}

/// Misses of a TLB with one number of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MissPoint {
    /// Number of entries of the TLB.
    pub entries: u64,
    /// Number of misses that are not first touches.
    pub misses: u64,
    /// Half of the 95 % interval of `misses`; `None` if they were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_width_95: Option<u64>,
}
