//! Snapshots of real memory: the JSON object that `perforate snapshot … --json` prints.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::lenient::known_names;
use crate::{MemoryMap, RecordsError, read_json};

/// Orders of free blocks: 4KB to 4MB.
pub const FREE_ORDERS: usize = 11;

/// A snapshot of a machine or of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "snapshot", rename_all = "snake_case")]
pub enum Snapshot {
    /// A machine's memory.
    Host(Box<HostRecord>),
    /// A process's memory.
    Process(Box<ProcessRecord>),
}

/// Reads one snapshot as JSON.
///
/// # Errors
/// If it is none.
pub fn read_snapshot(text: &str) -> Result<Snapshot, RecordsError> {
    read_json(text).map_err(|error| RecordsError::Record { line: 1, cause: error.to_string() })
}

/// A machine's memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HostRecord {
    /// Release of the kernel.
    pub kernel: String,
    /// Seconds since 1970; 0 where it was made of copies.
    pub taken_unix_seconds: u64,
    /// Files that were read.
    pub sources: Vec<String>,
    /// What could not be read and what that means.
    pub missing: Vec<String>,
    /// What is taken to be so.
    pub assumptions: Vec<String>,
    /// Zones with memory, as the kernel describes them.
    pub zones: Vec<SnapshotZone>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Frames by state; absent where they are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<BTreeMap<String, u64>>,
    /// Frames that page tables map.
    pub mapped_frames: Option<u64>,
    /// Frames that more than one entry maps.
    pub shared_frames: Option<u64>,
    /// Free memory by order of blocks.
    pub orders: Vec<SnapshotOrder>,
    /// Policy for perforated pages that `blocks` are judged by.
    pub policy: String,
    /// 2MB blocks by what they can become.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Survey>,
    /// Bytes of each request below.
    pub request_bytes: u64,
    /// What a program that asks for memory would get (P §III.C).
    pub requests: Vec<SnapshotRequest>,
    /// What lies where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_map: Option<MemoryMap>,
    /// Version of the program.
    pub version: String,
}

/// A zone as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotZone {
    /// Node of memory.
    pub node: u64,
    /// `DMA`, `DMA32`, `Normal`, `Movable` or `Device`.
    pub name: String,
    /// First frame.
    pub start_frame: u64,
    /// Frames from there to the last, those without memory included.
    pub spanned_frames: u64,
    /// Frames with memory.
    pub present_frames: u64,
    /// Frames that the buddy allocator has at its disposal.
    pub managed_frames: u64,
    /// Free frames in per-CPU lists: free, and in no list of free blocks.
    pub per_cpu_frames: u64,
    /// Free blocks of each order (`/proc/buddyinfo`).
    pub free_blocks: [u64; FREE_ORDERS],
    /// The same by type of pageblock (`/proc/pagetypeinfo`), if known.
    pub free_blocks_by_type: Vec<FreeBlocksByType>,
    /// Pageblocks by type, if known.
    pub pageblocks: Vec<PageblockCount>,
}

/// Free blocks of one migrate type.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct FreeBlocksByType {
    /// Linux's name.
    pub migrate_type: String,
    /// Free blocks of each order.
    pub free_blocks: [u64; FREE_ORDERS],
}

/// How many pageblocks are of one type.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct PageblockCount {
    /// Linux's name.
    pub migrate_type: String,
    /// Pageblocks of it.
    pub blocks: u64,
}

/// Free memory, seen by an allocation of 2^order frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotOrder {
    /// The order.
    pub order: u32,
    /// Free blocks of it as the kernel counted them.
    pub counted: u64,
    /// Free blocks of it that the state of the frames gives, if that is known.
    pub placed: Option<u64>,
    /// Share of free memory that lies in smaller pieces (Linux: unusable index).
    pub unusable_index: f64,
    /// Why it would fail (Linux: fragmentation index); absent where it would not.
    pub fragmentation_index: Option<f64>,
}

/// One way to serve a request, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotRequest {
    /// The case in words.
    pub case: String,
    /// Whether 2MB pages may have holes.
    pub perforates: bool,
    /// What the paper found in its case of the same kind, if it has one.
    pub paper: String,
    /// What of the request was in 2MB pages; absent where memory did not suffice.
    pub shares: Option<RequestShares>,
}

/// Shares of a request by the pages that it is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestShares {
    /// In ordinary 2MB pages.
    pub large: f64,
    /// In perforated pages.
    pub perforated: f64,
}

/// What a 2MB block can become, the easiest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockReach {
    /// All of it is free.
    Whole,
    /// Nothing stays in it: whole once what is movable has moved (compaction) or, if it is page
    /// cache, was dropped.
    Compactable,
    /// The policy accepts it as a perforated page as it is: all that is not free are holes.
    PerforableNow,
    /// The policy accepts it as a perforated page once what is movable has moved.
    Perforable,
    /// The policy does not accept it, and nothing stays once slab caches in it are freed.
    Reclaimable,
    /// A 2MB page of a program, or a page of hugetlbfs.
    Large,
    /// Too much stays in it, or nothing is known of it.
    Neither,
    /// There is no memory.
    Absent,
}

/// How many 2MB blocks can become what.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Survey {
    /// Blocks by what they can become; each once.
    #[serde(deserialize_with = "known_names")]
    pub blocks: BTreeMap<BlockReach, u64>,
    /// Blocks with memory.
    pub memory_blocks: u64,
    /// Of the compactable ones those for which there is room: each takes 512 free frames outside
    /// whole blocks, its own included.
    pub compactable_with_room: u64,
    /// Of the compactable ones those without anything but free frames and page cache: dropping it
    /// makes them whole without a copy.
    pub whole_without_page_cache: u64,
    /// Blocks the policy accepts as perforated pages as they are, those among them that could be
    /// whole if something moved.
    pub perforable_as_they_are: u64,
    /// Holes of the perforable blocks, by how many frames stay: up to 1, 2, 4, … 512.
    pub holes: [u64; 10],
}

impl Survey {
    /// Blocks that can become this.
    pub fn count(&self, reach: BlockReach) -> u64 {
        self.blocks.get(&reach).copied().unwrap_or(0)
    }
}

/// A process's memory at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessRecord {
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
    pub version: String,
}

/// One mapping.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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
