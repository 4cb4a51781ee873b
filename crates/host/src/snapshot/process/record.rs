//! What a snapshot of a process says: the JSON object that is printed and kept.

use std::collections::BTreeMap;

use serde::Serialize;

/// One area; sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessArea {
    /// First address.
    pub start: String,
    /// Address after the last.
    pub end: String,
    /// As in maps.
    pub permissions: String,
    /// The file, `[heap]`, or nothing.
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
    /// Of these, anonymous.
    pub anonymous_bytes: u64,
    /// In swap.
    pub swapped_bytes: u64,
    /// Mapped by entries of 2MB or more, as the kernel counts.
    pub large_bytes: u64,
    /// Resident memory by the largest aligned run of consecutive frames it lies in; absent where
    /// frames are hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<BTreeMap<String, u64>>,
    /// In large folios, if flags of frames may be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folio_bytes: Option<u64>,
    /// Merged by KSM, if flags of frames may be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_bytes: Option<u64>,
}

/// What is on the pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessContents {
    /// Pages read.
    pub pages_read: u64,
    /// Resident pages that could not be.
    pub pages_unreadable: u64,
    /// Pages of zeros.
    pub zero_pages: u64,
    /// Other pages whose content another page has too.
    pub duplicate_pages: u64,
    /// Contents of these.
    pub distinct_duplicates: u64,
    /// Copies of the most frequent of them.
    pub most_copies: u64,
    /// Pages that need no frame if every content has one.
    pub savable_pages: u64,
    /// One content in so many was kept; figures are estimates above 1.
    pub sampled_one_in: u64,
    /// The same as an option of simulations: `--contents`.
    pub spec: String,
}

/// A process's memory at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessSnapshot {
    /// `process`.
    pub snapshot: &'static str,
    /// The process.
    pub pid: u32,
    /// Its name.
    pub program: String,
    /// What could not be read, and what that means.
    pub missing: Vec<String>,
    /// What else must be known.
    pub notes: Vec<String>,
    /// All areas, lowest first.
    pub areas: Vec<ProcessArea>,
    /// All areas together.
    pub totals: ProcessTotals,
    /// What is on the pages, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<ProcessContents>,
    /// The same of the memory of the virtual machine that the process runs, if it runs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest_contents: Option<ProcessContents>,
    /// Version of the program.
    pub version: &'static str,
}
