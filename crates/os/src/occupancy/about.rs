//! What is known of a machine's memory besides the state of its frames.

use perforate_records::{FREE_ORDERS, SnapshotZone};
use serde::{Deserialize, Serialize};

use super::{Occupancy, ZoneRange};
use crate::{Buddy, FreeMemory, OsError};

const _: () = assert!(FREE_ORDERS == Buddy::MAX_ORDER as usize + 1);

/// A machine's memory at one moment.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct HostSnapshot {
    /// What was known besides.
    pub about: SnapshotAbout,
    /// What every frame held; `None` where the kernel did not tell.
    pub occupancy: Option<Occupancy>,
}

/// Where a snapshot comes from, and what the kernel counted by itself.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotAbout {
    /// Release of the kernel.
    pub kernel: String,
    /// Seconds since 1970.
    pub taken_unix_seconds: u64,
    /// Files that were read.
    pub sources: Vec<String>,
    /// What could not be read, and what that means; a line each.
    pub missing: Vec<String>,
    /// What had to be assumed; a line each.
    pub assumptions: Vec<String>,
    /// Zones with memory, lowest first.
    pub zones: Vec<SnapshotZone>,
    /// Frames that a page table maps, if known.
    pub mapped_frames: Option<u64>,
    /// Frames that more than one entry of page tables maps, if known.
    pub shared_frames: Option<u64>,
    /// Swap space in use or not; 0 if unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub swap_bytes: u64,
    /// Whether the kernel merges same pages (`/sys/kernel/mm/ksm/run` is 1).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub merges_pages: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The names that zones can have.
const ZONE_NAMES: [&str; 6] = ["DMA", "DMA32", "Normal", "HighMem", "Movable", "Device"];
/// More free blocks than any machine has.
const MOST_FREE: u64 = 1 << 40;
/// Zones begin where free blocks of the largest order do.
const ZONE_ALIGNMENT: u64 = 1 << Buddy::MAX_ORDER;

impl HostSnapshot {
    /// A snapshot of which nothing is known but the state of the frames.
    pub fn of(occupancy: Occupancy) -> Self {
        Self { about: SnapshotAbout::default(), occupancy: Some(occupancy) }
    }

    /// Free blocks of each order as the kernel counted them.
    pub fn counted_free(&self) -> FreeMemory {
        let mut blocks = [0_u64; FREE_ORDERS];
        for zone in &self.about.zones {
            for (sum, count) in blocks.iter_mut().zip(zone.free_blocks) {
                *sum = (*sum + count.min(MOST_FREE)).min(MOST_FREE);
            }
        }
        FreeMemory { blocks }
    }

    /// The zones of the simulated memory: those with memory, each from its first frame (rounded
    /// down to 4MB) to the next one's. One zone where none is known.
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

    /// Free blocks of each order that the state of the frames gives.
    pub fn placed_free(&self) -> Option<FreeMemory> {
        let breaks: Vec<u64> = self.zone_ranges().iter().map(|zone| zone.frames.start).collect();
        self.occupancy.as_ref().map(|occupancy| occupancy.free_memory(&breaks))
    }

    /// The state of every frame.
    ///
    /// # Errors
    /// If it is not known.
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
