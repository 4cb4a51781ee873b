//! Snapshots of real memory: the JSON object that `perforate snapshot … --json` prints.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::lenient::known_names;
use crate::{MemoryMap, RecordsError, read_json};

/// Number of orders of free blocks in the buddy allocator, from 4KB (order 0) to 4MB (order 10).
pub const FREE_ORDERS: usize = 11;

/// A snapshot of the memory of a machine or of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "snapshot", rename_all = "snake_case")]
pub enum Snapshot {
    /// Snapshot of a machine's physical memory.
    Host(Box<HostRecord>),
    /// Snapshot of a process's memory.
    Process(Box<ProcessRecord>),
}

/// Reads one snapshot as JSON.
///
/// # Errors
/// If the text is not a snapshot.
pub fn read_snapshot(text: &str) -> Result<Snapshot, RecordsError> {
    read_json(text).map_err(|error| RecordsError::Record { line: 1, cause: error.to_string() })
}

/// Snapshot of a machine's memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HostRecord {
    /// Release of the Linux kernel.
    pub kernel: String,
    /// Time of the snapshot in seconds since 1970; 0 if it was read from copied files.
    pub taken_unix_seconds: u64,
    /// Files of `/proc` that were read.
    pub sources: Vec<String>,
    /// Files that could not be read, each with the consequence for the record.
    pub missing: Vec<String>,
    /// Assumptions about facts that the kernel does not report.
    pub assumptions: Vec<String>,
    /// Memory zones that have frames, as the kernel describes them.
    pub zones: Vec<SnapshotZone>,
    /// Size of the machine's memory in bytes.
    pub memory_bytes: u64,
    /// Number of 4KB frames by state (such as `free` or `movable`); `None` if the states are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<BTreeMap<String, u64>>,
    /// Number of 4KB frames that page tables map; `None` if unknown.
    pub mapped_frames: Option<u64>,
    /// Number of 4KB frames that more than one page-table entry maps; `None` if unknown.
    pub shared_frames: Option<u64>,
    /// Free memory by order of block, from order 0.
    pub orders: Vec<SnapshotOrder>,
    /// Policy for perforated pages by which `blocks` was classified.
    pub policy: String,
    /// Possible uses of the machine's 2MB blocks; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Survey>,
    /// Size in bytes of each simulated request for memory in `requests`.
    pub request_bytes: u64,
    /// Results of the experiment of P §III.C on this memory, in which a program touches `request_bytes`: one
    /// for each case of page sizes and compaction.
    pub requests: Vec<SnapshotRequest>,
    /// Map of physical memory; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_map: Option<MemoryMap>,
    /// Version of the program that took the snapshot.
    pub version: String,
}

/// A memory zone as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotZone {
    /// Number of the NUMA node that the zone belongs to.
    pub node: u64,
    /// Name of the zone: `DMA`, `DMA32`, `Normal`, `Movable` or `Device`.
    pub name: String,
    /// Frame number of the zone's first 4KB frame.
    pub start_frame: u64,
    /// Number of frames from `start_frame` to the end of the zone, including frames without memory.
    pub spanned_frames: u64,
    /// Number of frames of the zone that have memory.
    pub present_frames: u64,
    /// Number of frames of the zone that the buddy allocator manages.
    pub managed_frames: u64,
    /// Number of free frames in per-CPU lists, which `free_blocks` does not count.
    pub per_cpu_frames: u64,
    /// Number of free blocks of each order in the zone (`/proc/buddyinfo`).
    pub free_blocks: [u64; FREE_ORDERS],
    /// Number of free blocks by migrate type (`/proc/pagetypeinfo`); empty if unknown.
    pub free_blocks_by_type: Vec<FreeBlocksByType>,
    /// Number of pageblocks by migrate type; empty if unknown.
    pub pageblocks: Vec<PageblockCount>,
}

/// Number of free blocks of one migrate type in a zone.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct FreeBlocksByType {
    /// Migrate type as Linux calls it, such as `Movable`.
    pub migrate_type: String,
    /// Number of free blocks of each order.
    pub free_blocks: [u64; FREE_ORDERS],
}

/// Number of pageblocks of one migrate type in a zone.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct PageblockCount {
    /// Migrate type as Linux calls it, such as `Movable`.
    pub migrate_type: String,
    /// Number of pageblocks of this type.
    pub blocks: u64,
}

/// Free memory from the point of view of an allocation of 2^order frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotOrder {
    /// Order of the allocation, which needs 2^order frames.
    pub order: u32,
    /// Number of free blocks of this order in the kernel's statistics.
    pub counted: u64,
    /// Number of free blocks of this order according to the states of the frames; `None` if unknown.
    pub placed: Option<u64>,
    /// Share of free memory, 0–1, that is in blocks smaller than the allocation (Linux: unusable index).
    pub unusable_index: f64,
    /// Reason why the allocation fails, from 0 (too little free memory) to 1 (free memory is fragmented).
    /// `None` if it would succeed (Linux: fragmentation index).
    pub fragmentation_index: Option<f64>,
}

/// A simulated request for memory, under one assumption about compaction and page sizes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotRequest {
    /// Description of the simulated request: with which page sizes it is served, and after which preparation.
    pub case: String,
    /// True if the simulated request is served with perforated pages as well.
    pub perforates: bool,
    /// Shares of the kinds of pages that the paper reports for this case; empty if it reports none.
    pub paper: String,
    /// Shares of the requested memory by kind of page; `None` if memory ran out.
    pub shares: Option<RequestShares>,
}

/// Shares of the requested memory, 0–1, by the kind of page that backs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestShares {
    /// Share of the requested memory in ordinary 2MB pages.
    pub large: f64,
    /// Share of the requested memory in perforated 2MB pages.
    pub perforated: f64,
}

/// Way in which a 2MB block of physical memory can become a large page. The first variants need the least
/// effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockReach {
    /// All frames of the block are free.
    Whole,
    /// All used frames of the block are movable or page cache. The block becomes free by compaction, or by
    /// dropping the page cache.
    Compactable,
    /// The policy for perforated pages accepts the block now, with all frames in use as holes.
    PerforableNow,
    /// The policy for perforated pages accepts the block after compaction.
    Perforable,
    /// The policy for perforated pages rejects the block, but compaction frees it if its slab caches are
    /// freed too.
    Reclaimable,
    /// The block is in use as a large page of a program or of hugetlbfs.
    Large,
    /// Too many frames of the block cannot move, or the states of its frames are unknown.
    Neither,
    /// The physical addresses of the block have no memory.
    Absent,
}

/// Statistics of 2MB blocks of physical memory, by possible use.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Survey {
    /// Number of 2MB blocks by possible use; each block counts once.
    #[serde(deserialize_with = "known_names")]
    pub blocks: BTreeMap<BlockReach, u64>,
    /// Number of 2MB blocks that have memory.
    pub memory_blocks: u64,
    /// Number of compactable 2MB blocks that compaction can free. The free frames of all blocks that are not
    /// entirely free must suffice for them, at 512 frames per block.
    pub compactable_with_room: u64,
    /// Number of compactable 2MB blocks with only free frames and page cache. Dropping the page cache frees
    /// them without copying.
    pub whole_without_page_cache: u64,
    /// Number of 2MB blocks that the policy accepts as perforated pages without compaction. They include
    /// blocks that are counted as `Compactable`.
    pub perforable_as_they_are: u64,
    /// Number of perforable 2MB blocks by their number of frames that cannot move: 0–1, 2, 3–4, 5–8, …
    /// 257–512.
    pub holes: [u64; 10],
}

impl Survey {
    /// Returns the number of blocks with this possible use.
    pub fn count(&self, reach: BlockReach) -> u64 {
        self.blocks.get(&reach).copied().unwrap_or(0)
    }
}

/// Snapshot of a process's memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessRecord {
    /// Process ID of the process (PID).
    pub pid: u32,
    /// Name of the program (`/proc/PID/comm`).
    pub program: String,
    /// Files that could not be read, each with the consequence for the record.
    pub missing: Vec<String>,
    /// Remarks for readers of the snapshot.
    pub notes: Vec<String>,
    /// All mappings of the process, in ascending order of address.
    pub areas: Vec<ProcessArea>,
    /// Sizes of all mappings together.
    pub totals: ProcessTotals,
    /// Statistics of the contents of the process's pages; `None` if the pages were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<ProcessContents>,
    /// Statistics of the contents of the guest's memory if the process runs a virtual machine, otherwise
    /// `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest_contents: Option<ProcessContents>,
    /// Version of the program that took the snapshot.
    pub version: String,
}

/// One memory mapping of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessArea {
    /// First virtual address of the mapping, in hexadecimal.
    pub start: String,
    /// Virtual address after the last one of the mapping, in hexadecimal.
    pub end: String,
    /// Permissions of the mapping in the format of `/proc/PID/maps`.
    pub permissions: String,
    /// Name of the mapped file, or a name such as `[heap]`; empty for other mappings.
    pub name: String,
    /// Sizes of this mapping.
    #[serde(flatten)]
    pub totals: ProcessTotals,
}

/// Sizes of one mapping or of all mappings, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessTotals {
    /// Size of the mapped virtual address ranges.
    pub mapped_bytes: u64,
    /// Size of the resident memory (RSS).
    pub resident_bytes: u64,
    /// Size of the anonymous part of the resident memory.
    pub anonymous_bytes: u64,
    /// Size of the memory that is swapped out.
    pub swapped_bytes: u64,
    /// Size of the memory that page-table entries of 2MB or more map, as the kernel reports it.
    pub large_bytes: u64,
    /// Resident memory in bytes, by the size of the largest aligned run of consecutive frames that contains
    /// the page. `None` if frame numbers are hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<BTreeMap<String, u64>>,
    /// Size of the memory in large folios; `None` if the flags of frames cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folio_bytes: Option<u64>,
    /// Size of the memory merged by KSM; `None` if the flags of frames cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_bytes: Option<u64>,
}

/// Number of pages by content: only zeros, duplicate or unique.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessContents {
    /// Number of pages whose contents were read.
    pub pages_read: u64,
    /// Number of resident pages that could not be read.
    pub pages_unreadable: u64,
    /// Number of pages that contain only zeros.
    pub zero_pages: u64,
    /// Number of pages, not only zeros, whose content equals that of another page.
    pub duplicate_pages: u64,
    /// Number of distinct contents among the duplicate pages.
    pub distinct_duplicates: u64,
    /// Number of pages that share the most frequent content other than zeros.
    pub most_copies: u64,
    /// Number of page frames that become free if pages of equal content are merged.
    pub savable_pages: u64,
    /// Sampling period of page contents: copies were counted for one content in this many. Above 1, the
    /// numbers of duplicate pages are estimates.
    pub sampled_one_in: u64,
    /// Shares of zero and duplicate pages in the syntax of the simulator's option `--contents`.
    pub spec: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_told_by_their_kind_and_may_lack_fields() {
        let Snapshot::Process(process) =
            read_snapshot(r#"{"snapshot":"process","pid":7}"#).unwrap()
        else {
            panic!("a process")
        };
        assert_eq!(
            (process.pid, process.areas.len(), process.totals.sizes.is_none()),
            (7, 0, true)
        );
        let text = r#"{"snapshot":"host","blocks":{"blocks":{"whole":3,"perforable_now":2,"new":9},"memory_blocks":8},
            "zones":[{"free_blocks":[1,0,0,0,0,0,0,0,0,2,3]}],"requests":[{"shares":null},{"shares":{"large":0.5}}]}"#;
        let Snapshot::Host(host) = read_snapshot(text).unwrap() else { panic!("a host") };
        let blocks = host.blocks.unwrap();
        let counts = [BlockReach::Whole, BlockReach::PerforableNow, BlockReach::Large]
            .map(|reach| blocks.count(reach));
        assert_eq!((counts, blocks.memory_blocks, blocks.blocks.len()), ([3, 2, 0], 8, 2));
        assert_eq!(host.zones[0].free_blocks[10], 3);
        let shares: Vec<_> = host
            .requests
            .iter()
            .map(|request| request.shares.map(|it| (it.large, it.perforated)))
            .collect();
        assert_eq!(shares, [None, Some((0.5, 0.0))]);
        let error = read_snapshot("{}").unwrap_err().to_string();
        assert!(error.starts_with("line 1: "), "{error}");
    }

    #[test]
    fn snapshots_are_written_without_what_is_not_known() {
        let fields = |snapshot: &Snapshot| {
            let value = serde_json::to_value(snapshot).unwrap();
            value.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        let host = fields(&Snapshot::Host(Box::default()));
        assert!(host.contains(&"mapped_frames".into()) && host.contains(&"snapshot".into()));
        for unknown in ["frames", "blocks", "memory_map"] {
            assert!(!host.contains(&unknown.into()), "{unknown}");
        }
        let process = fields(&Snapshot::Process(Box::default()));
        assert!(
            !process.contains(&"contents".into()) && !process.contains(&"guest_contents".into())
        );
        let area = serde_json::to_value(ProcessArea::default()).unwrap();
        assert!(
            area["mapped_bytes"] == 0
                && area.get("sizes").is_none()
                && area.get("totals").is_none()
        );
        let names = [
            BlockReach::Whole,
            BlockReach::Compactable,
            BlockReach::PerforableNow,
            BlockReach::Perforable,
            BlockReach::Reclaimable,
            BlockReach::Large,
            BlockReach::Neither,
            BlockReach::Absent,
        ];
        assert!(names.is_sorted(), "the least effort first");
        let names = names.map(crate::word).join(" ");
        assert_eq!(
            names,
            "whole compactable perforable_now perforable reclaimable large neither absent"
        );
        assert_eq!(FREE_ORDERS, 11);
    }
}
