//! JSON schema of a process's snapshot.

use std::collections::BTreeMap;

use serde::Serialize;

/// Record of one mapping.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessArea {
    /// First address, in hexadecimal.
    pub start: String,
    /// Address after the last byte, in hexadecimal.
    pub end: String,
    /// Permissions as in `maps`, such as `rw-p`.
    pub permissions: String,
    /// Path of the file, a name such as `[heap]`, or empty.
    pub name: String,
    /// Sizes of the mapping.
    #[serde(flatten)]
    pub totals: ProcessTotals,
}

/// Sizes of one mapping or of all mappings, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessTotals {
    /// Size of the address ranges.
    pub mapped_bytes: u64,
    /// Resident memory, including hugetlbfs.
    pub resident_bytes: u64,
    /// Anonymous part of the resident memory.
    pub anonymous_bytes: u64,
    /// Memory that is swapped out.
    pub swapped_bytes: u64,
    /// Memory mapped by entries of 2MB or more, as the kernel counts it.
    pub large_bytes: u64,
    /// Resident memory by the size of the aligned run of consecutive frames that contains it, such as
    /// `64K`. Absent if frames are hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<BTreeMap<String, u64>>,
    /// Memory in large folios; absent if flags of frames cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folio_bytes: Option<u64>,
    /// Memory merged by KSM; absent if flags of frames cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_bytes: Option<u64>,
}

/// Statistics of page contents, in pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessContents {
    /// Pages that were read.
    pub pages_read: u64,
    /// Resident pages that could not be read.
    pub pages_unreadable: u64,
    /// Pages that contain only zeros.
    pub zero_pages: u64,
    /// Nonzero pages with the content of another page.
    pub duplicate_pages: u64,
    /// Number of distinct contents of `duplicate_pages`.
    pub distinct_duplicates: u64,
    /// Number of pages with the most frequent nonzero content.
    pub most_copies: u64,
    /// Pages that merging would free, zero pages included.
    pub savable_pages: u64,
    /// Sampling period of contents; above 1, the other figures are estimates.
    pub sampled_one_in: u64,
    /// The shares as a value of the simulations' option `--contents`.
    pub spec: String,
}

/// Snapshot of a process's memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProcessSnapshot {
    /// Kind of snapshot: `process`.
    pub snapshot: &'static str,
    /// ID of the process.
    pub pid: u32,
    /// Name of the program (`comm`).
    pub program: String,
    /// Notes on unreadable files, with the consequences.
    pub missing: Vec<String>,
    /// Further notes for the user.
    pub notes: Vec<String>,
    /// All mappings, in ascending order of address.
    pub areas: Vec<ProcessArea>,
    /// Sums over all mappings.
    pub totals: ProcessTotals,
    /// Contents of the pages; absent if they were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<ProcessContents>,
    /// Contents of the guest's memory, if the process runs a virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest_contents: Option<ProcessContents>,
    /// Version of Perforate, such as `0.1.0`.
    pub version: &'static str,
}
