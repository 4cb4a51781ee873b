//! Snapshot of a real machine's memory: a description, and the state of its frames.

use perforate_records::{FREE_ORDERS, SnapshotZone};
use serde::{Deserialize, Serialize};

use super::{Occupancy, ZoneRange};
use crate::{Buddy, FreeMemory, OsError};

const _: () = assert!(FREE_ORDERS == Buddy::MAX_ORDER as usize + 1);

/// Snapshot of a real machine's physical memory at one moment.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct HostSnapshot {
    /// Description of the machine, and of the files from which the snapshot was made.
    pub about: SnapshotAbout,
    /// State of every frame; `None` if the machine's kernel did not reveal the states.
    pub occupancy: Option<Occupancy>,
}

/// Origin of a snapshot, and counters that the machine's kernel reported.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotAbout {
    /// Release of the kernel, as `uname -r` prints it.
    pub kernel: String,
    /// Time of the snapshot in seconds since 1970 (UTC).
    pub taken_unix_seconds: u64,
    /// Files of the machine, such as those in `/proc`, from which the snapshot was made.
    pub sources: Vec<String>,
    /// Files that could not be read for the snapshot, and the consequence; one line each.
    pub missing: Vec<String>,
    /// Assumptions about the machine that were made for the snapshot, one line each.
    pub assumptions: Vec<String>,
    /// Zones of the machine's memory, lowest first.
    pub zones: Vec<SnapshotZone>,
    /// Number of frames that a program's page table maps, if known.
    pub mapped_frames: Option<u64>,
    /// Number of frames that more than one program's page-table entry maps, if known.
    pub shared_frames: Option<u64>,
    /// Size of the swap space in bytes, used or not; 0 if unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub swap_bytes: u64,
    /// True if the kernel merges same pages (`/sys/kernel/mm/ksm/run` is 1).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub merges_pages: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Names that Linux gives to memory zones.
const ZONE_NAMES: [&str; 6] = ["DMA", "DMA32", "Normal", "HighMem", "Movable", "Device"];
/// Upper bound of a count of free blocks in a valid snapshot: more than any machine has.
const MOST_FREE: u64 = 1 << 40;
/// Alignment of zones in frames: a free block of the largest order.
const ZONE_ALIGNMENT: u64 = 1 << Buddy::MAX_ORDER;

impl HostSnapshot {
    /// Creates a snapshot with the state of the frames and an empty description.
    pub fn of(occupancy: Occupancy) -> Self {
        Self { about: SnapshotAbout::default(), occupancy: Some(occupancy) }
    }

    /// Number of free blocks of each order, as the machine's kernel counted them (`/proc/buddyinfo`).
    pub fn counted_free(&self) -> FreeMemory {
        let mut blocks = [0_u64; FREE_ORDERS];
        for zone in &self.about.zones {
            for (sum, count) in blocks.iter_mut().zip(zone.free_blocks) {
                *sum = (*sum + count.min(MOST_FREE)).min(MOST_FREE);
            }
        }
        FreeMemory { blocks }
    }

    /// Memory zones of the simulated machine: every zone with memory, from its first frame (rounded down to
    /// 4MB) to the start of the next zone. A single zone if none is known.
    pub fn zone_ranges(&self) -> Vec<ZoneRange> {
        let Some(occupancy) = &self.occupancy else { return Vec::new() };
        let end = occupancy.blocks() * 512;
        let mut starts: Vec<(u64, &'static str)> = self
            .about
            .zones
            .iter()
            .filter(|zone| zone.present_frames > 0)
            .filter_map(|zone| {
                let name = ZONE_NAMES.iter().find(|name| **name == zone.name)?;
                Some((zone.start_frame / ZONE_ALIGNMENT * ZONE_ALIGNMENT, *name))
            })
            .filter(|&(start, _)| start < end)
            .collect();
        starts.sort_unstable_by_key(|&(start, _)| start);
        starts.dedup_by_key(|&mut (start, _)| start);
        match starts.first_mut() {
            Some(first) => first.0 = 0,
            None => starts.push((0, "Normal")),
        }
        let ends = starts.iter().skip(1).map(|&(start, _)| start).chain([end]);
        let zones = starts.iter().zip(ends);
        zones.map(|(&(start, name), end)| ZoneRange { name, frames: start..end }).collect()
    }

    /// Number of free blocks of each order, computed from the state of the frames; `None` if the
    /// states are unknown.
    pub fn placed_free(&self) -> Option<FreeMemory> {
        let breaks: Vec<u64> = self.zone_ranges().iter().map(|zone| zone.frames.start).collect();
        self.occupancy.as_ref().map(|occupancy| occupancy.free_memory(&breaks))
    }

    /// The state of every frame.
    ///
    /// # Errors
    /// If the states are unknown.
    pub fn frames(&self) -> Result<&Occupancy, OsError> {
        self.occupancy.as_ref().ok_or_else(|| OsError::InvalidSnapshot {
            place: "frames".into(),
            problem:
                "it was taken without the right to read kpageflags: how many blocks are free is \
                      known, and not which; take it as root"
                    .into(),
        })
    }
}
