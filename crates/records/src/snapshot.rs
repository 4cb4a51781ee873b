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
/// If the text is not a snapshot.
pub fn read_snapshot(text: &str) -> Result<Snapshot, RecordsError> {
    read_json(text).map_err(|error| RecordsError::Record { line: 1, cause: error.to_string() })
}

/// A machine's memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HostRecord {
    /// Release of the kernel.
    pub kernel: String,
    /// Time of the snapshot in seconds since 1970; 0 if it was made from copied files.
    pub taken_unix_seconds: u64,
    /// Files of `/proc` that were read.
    pub sources: Vec<String>,
    /// Files that could not be read, with the consequences.
    pub missing: Vec<String>,
    /// Assumptions where the kernel does not say.
    pub assumptions: Vec<String>,
    /// Zones with memory, as the kernel describes them.
    pub zones: Vec<SnapshotZone>,
    /// Size of the memory.
    pub memory_bytes: u64,
    /// Number of frames by state; absent if the states are unknown.
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
    /// Simulated requests for memory (P §III.C).
    pub requests: Vec<SnapshotRequest>,
    /// Picture of the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_map: Option<MemoryMap>,
    /// Version of the program.
    pub version: String,
}

/// A zone as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotZone {
    /// NUMA node of the zone.
    pub node: u64,
    /// `DMA`, `DMA32`, `Normal`, `Movable` or `Device`.
    pub name: String,
    /// Number of the first frame.
    pub start_frame: u64,
    /// Frames from `start_frame` to the end of the zone, including frames without memory.
    pub spanned_frames: u64,
    /// Frames of the zone that have memory.
    pub present_frames: u64,
    /// Frames that the buddy allocator manages.
    pub managed_frames: u64,
    /// Free frames in per-CPU lists, which `free_blocks` does not count.
    pub per_cpu_frames: u64,
    /// Free blocks of each order (`/proc/buddyinfo`).
    pub free_blocks: [u64; FREE_ORDERS],
    /// Free blocks by migrate type (`/proc/pagetypeinfo`), if known.
    pub free_blocks_by_type: Vec<FreeBlocksByType>,
    /// Pageblocks by type, if known.
    pub pageblocks: Vec<PageblockCount>,
}

/// Free blocks of one migrate type.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct FreeBlocksByType {
    /// Migrate type as Linux calls it, such as `Movable`.
    pub migrate_type: String,
    /// Free blocks of each order.
    pub free_blocks: [u64; FREE_ORDERS],
}

/// Number of pageblocks of one migrate type.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct PageblockCount {
    /// Migrate type as Linux calls it, such as `Movable`.
    pub migrate_type: String,
    /// Number of pageblocks of this type.
    pub blocks: u64,
}

/// Free memory, seen by an allocation of 2^order frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotOrder {
    /// Order of the allocation: 2^order frames.
    pub order: u32,
    /// Free blocks of this order by the kernel's count.
    pub counted: u64,
    /// Free blocks of this order by the states of the frames, if known.
    pub placed: Option<u64>,
    /// Share of free memory that lies in smaller pieces (Linux: unusable index).
    pub unusable_index: f64,
    /// Reason for a failure, 0 (little memory) to 1 (fragmentation); absent if the allocation would
    /// succeed (Linux: fragmentation index).
    pub fragmentation_index: Option<f64>,
}

/// A request for memory that was served in one way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotRequest {
    /// Description of the case.
    pub case: String,
    /// True if 2MB pages may have holes.
    pub perforates: bool,
    /// Shares in the paper's case of the same kind; empty if the paper has none.
    pub paper: String,
    /// Shares of the request in large pages; absent if memory ran out.
    pub shares: Option<RequestShares>,
}

/// Shares of a request by the kind of page that holds it, 0–1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestShares {
    /// Share in ordinary 2MB pages.
    pub large: f64,
    /// Share in perforated pages.
    pub perforated: f64,
}

/// Possible use of a 2MB block, the easiest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockReach {
    /// All frames are free.
    Whole,
    /// All frames in use are movable or page cache: whole after compaction, or once the cache is
    /// dropped.
    Compactable,
    /// The policy accepts the block as a perforated page now, with all frames in use as holes.
    PerforableNow,
    /// The policy accepts the block as a perforated page after compaction.
    Perforable,
    /// The policy does not accept the block, which becomes whole once its slab caches are freed as well.
    Reclaimable,
    /// The block is part of a large page of a program or of hugetlbfs.
    Large,
    /// Too many frames cannot move, or the states of frames are unknown.
    Neither,
    /// The block's addresses have no memory.
    Absent,
}

/// Number of 2MB blocks by possible use.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Survey {
    /// Number of blocks by possible use; each block counts once.
    #[serde(deserialize_with = "known_names")]
    pub blocks: BTreeMap<BlockReach, u64>,
    /// Number of blocks that have memory.
    pub memory_blocks: u64,
    /// Compactable blocks that there is room to compact: each takes 512 free frames outside whole blocks,
    /// its own included.
    pub compactable_with_room: u64,
    /// Compactable blocks that hold free frames and page cache only: dropping the cache makes them whole
    /// without a copy.
    pub whole_without_page_cache: u64,
    /// Blocks that the policy accepts as perforated pages now, compactable ones included.
    pub perforable_as_they_are: u64,
    /// Number of perforable blocks by frames that cannot move: up to 1, 2, 4, … 512.
    pub holes: [u64; 10],
}

impl Survey {
    /// Number of blocks with this possible use.
    pub fn count(&self, reach: BlockReach) -> u64 {
        self.blocks.get(&reach).copied().unwrap_or(0)
    }
}

/// A process's memory at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessRecord {
    /// Process ID of the process.
    pub pid: u32,
    /// Name of the program (`/proc/PID/comm`).
    pub program: String,
    /// Files that could not be read, with the consequences.
    pub missing: Vec<String>,
    /// Remarks on what was found.
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

/// One mapping of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessArea {
    /// First address, in hexadecimal.
    pub start: String,
    /// Address after the last one, in hexadecimal.
    pub end: String,
    /// Permissions as `/proc/PID/maps` has them.
    pub permissions: String,
    /// The file, a name such as `[heap]`, or empty.
    pub name: String,
    /// Sizes of the mapping.
    #[serde(flatten)]
    pub totals: ProcessTotals,
}

/// Sizes of one mapping or of all mappings, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessTotals {
    /// Virtual address space of the mapping.
    pub mapped_bytes: u64,
    /// Resident memory (RSS).
    pub resident_bytes: u64,
    /// Anonymous part of the resident memory.
    pub anonymous_bytes: u64,
    /// Memory that is swapped out.
    pub swapped_bytes: u64,
    /// Memory mapped by entries of 2MB or more, by the kernel's count.
    pub large_bytes: u64,
    /// Resident memory by the size of the largest aligned run of consecutive frames around it; absent
    /// if frames are hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<BTreeMap<String, u64>>,
    /// Memory in large folios, if flags of frames can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folio_bytes: Option<u64>,
    /// Memory merged by KSM, if flags of frames can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_bytes: Option<u64>,
}

/// Numbers of pages by their contents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessContents {
    /// Number of pages read.
    pub pages_read: u64,
    /// Resident pages that could not be read.
    pub pages_unreadable: u64,
    /// Number of pages of zeros.
    pub zero_pages: u64,
    /// Number of other pages whose content another page has.
    pub duplicate_pages: u64,
    /// Number of distinct contents of the duplicate pages.
    pub distinct_duplicates: u64,
    /// Number of copies of the most frequent content.
    pub most_copies: u64,
    /// Pages that merging would free.
    pub savable_pages: u64,
    /// Sampling period of contents; above 1 the figures are estimates.
    pub sampled_one_in: u64,
    /// The shares as a value of the option `--contents` of simulations.
    pub spec: String,
}
