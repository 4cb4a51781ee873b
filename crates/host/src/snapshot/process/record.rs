//! The JSON object of a process's snapshot.

use std::collections::BTreeMap;

use serde::Serialize;

/// One mapping.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessArea {
    /// First address.
    pub start: String,
    /// Address after the last.
    pub end: String,
    /// As in maps.
    pub permissions: String,
    /// The file, a name such as `[heap]`, or empty.
    pub name: String,
    /// Sizes.
    #[serde(flatten)]
    pub totals: ProcessTotals,
}

/// Sizes of an area or of all, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessTotals {
    /// Address space.
    pub mapped_bytes: u64,
    /// In memory.
    pub resident_bytes: u64,
    /// The anonymous part of it.
    pub anonymous_bytes: u64,
    /// In swap.
    pub swapped_bytes: u64,
    /// Mapped by entries of 2MB or more, by the kernel's count.
    pub large_bytes: u64,
    /// Resident memory by the size of the largest aligned run of consecutive frames around it; absent
    /// if frames are hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<BTreeMap<String, u64>>,
    /// In large folios, if flags of frames can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folio_bytes: Option<u64>,
    /// Merged by KSM, if flags of frames can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_bytes: Option<u64>,
}

/// Contents of pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessContents {
    /// Pages read.
    pub pages_read: u64,
    /// Resident pages that could not be read.
    pub pages_unreadable: u64,
    /// Pages of zeros.
    pub zero_pages: u64,
    /// Other pages that are copies.
    pub duplicate_pages: u64,
    /// Distinct contents of these.
    pub distinct_duplicates: u64,
    /// Copies of the most frequent one.
    pub most_copies: u64,
    /// Pages that merging would free.
    pub savable_pages: u64,
    /// Sampling period of contents; above 1 the figures are estimates.
    pub sampled_one_in: u64,
    /// The shares as a value of the option `--contents` of simulations.
    pub spec: String,
}

/// A process's memory at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessSnapshot {
    /// Kind of snapshot: `process`.
    pub snapshot: &'static str,
    /// Process ID.
    pub pid: u32,
    /// Its name.
    pub program: String,
    /// Files that could not be read, with the consequences.
    pub missing: Vec<String>,
    /// Other remarks.
    pub notes: Vec<String>,
    /// All mappings, lowest first.
    pub areas: Vec<ProcessArea>,
    /// Sums over all mappings.
    pub totals: ProcessTotals,
    /// Contents of the pages, if they were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<ProcessContents>,
    /// Contents of the memory of the virtual machine that the process runs, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest_contents: Option<ProcessContents>,
    /// Version of the program.
    pub version: &'static str,
}
