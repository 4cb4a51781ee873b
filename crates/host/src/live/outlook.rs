//! Number of further 2MB regions that could be mapped large if the kernel supported perforated pages.

use std::collections::BTreeSet;
use std::path::Path;

use perforate_os::{BlockReach, Occupancy, OsError, Policy};
use serde::Serialize;

use crate::HostError;
use crate::benchmark::AnonymousMemory;
use crate::snapshot::{HostFiles, read_host};

/// Classes of the machine's 2MB blocks, with the request's own 4KB pages moved away, and of the
/// request's 2MB regions in 4KB pages. Only blocks are the limit for regions: a region's old frames
/// make room for the contents of its new block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outlook {
    /// All blocks with memory.
    pub blocks: u64,
    /// Blocks that are mapped as one 2MB page.
    pub blocks_large: u64,
    /// Blocks that are free except for the request's 4KB pages.
    pub blocks_free: u64,
    /// Blocks that become free if movable frames are moved.
    pub blocks_whole_if_moved: u64,
    /// Blocks that the policy perforates if movable frames are moved; immovable frames become holes.
    pub blocks_perforated_if_moved: u64,
    /// Blocks with too many immovable frames for the policy.
    pub blocks_too_fragmented: u64,
    /// Blocks that the policy perforates if only the request's 4KB pages are moved.
    pub blocks_perforated_at_once: u64,
    /// Blocks that contain 4KB pages of the request.
    pub blocks_with_ours: u64,
    /// Regions of the request that are in 4KB pages.
    pub regions_in_small_pages: u64,
    /// Regions for which compaction could make free blocks.
    pub regions_whole_if_moved: u64,
    /// Regions that could be perforated if movable frames are moved.
    pub regions_perforated_if_moved: u64,
    /// Regions that could be perforated if only the request's 4KB pages are moved.
    pub regions_perforated_at_once: u64,
    /// Assumptions about frames whose use the kernel does not report.
    pub assumptions: Vec<String>,
}

impl Outlook {
    /// Surveys this machine's memory at this moment; `ours` is the memory of the request.
    pub(super) fn now(
        ours: &AnonymousMemory,
        policy: &dyn Policy,
        regions: u64,
    ) -> Result<Self, HostError> {
        let frames = ours.frames();
        let frames = frames.map_err(HostError::system("/proc/self/pagemap"))?;
        // Counts of shared frames are not needed.
        let files = HostFiles { counts: None, ..HostFiles::open(Path::new("/proc")) };
        let host = read_host(files, &mut |_, _| {})?;
        let ours = frames.into_iter().flatten().collect();
        let found = Self::of(host.frames()?, &ours, policy, regions)?;
        Ok(Self { assumptions: host.about.assumptions, ..found })
    }

    fn of(
        memory: &Occupancy,
        ours: &BTreeSet<u64>,
        policy: &dyn Policy,
        regions: u64,
    ) -> Result<Self, OsError> {
        let (others, blocks_with_ours) = memory.without(ours)?;
        let survey = others.survey(policy);
        let count = |reach| survey.count(reach);
        let (blocks_free, compactable) = (count(BlockReach::Whole), count(BlockReach::Compactable));
        let perforated = count(BlockReach::PerforableNow) + count(BlockReach::Perforable);
        Ok(Self {
            blocks: survey.memory_blocks,
            blocks_large: count(BlockReach::Large),
            blocks_free,
            blocks_whole_if_moved: compactable,
            blocks_perforated_if_moved: perforated,
            blocks_too_fragmented: count(BlockReach::Neither) + count(BlockReach::Reclaimable),
            blocks_perforated_at_once: survey.perforable_as_they_are,
            blocks_with_ours,
            regions_in_small_pages: regions,
            regions_whole_if_moved: regions.min(blocks_free + compactable),
            regions_perforated_if_moved: regions.min(perforated),
            regions_perforated_at_once: regions.min(survey.perforable_as_they_are),
            assumptions: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use perforate_os::FrameState::{Free, Large, Movable, Unmovable};
    use perforate_os::OccupancyBuilder;
    use perforate_schemes::perforated::{Perforated, PerforationOptions};

    use super::*;

    /// The policy of P §III.C on one block of each kind.
    #[test]
    fn blocks_of_every_kind() {
        let mut memory = OccupancyBuilder::default();
        let mut push = |runs: &[(perforate_os::FrameState, u64)]| {
            runs.iter().for_each(|&(state, frames)| memory.push_run(state, frames).unwrap());
        };
        push(&[(Large, 512)]);
        push(&[(Free, 512)]);
        // Free, ours (1224–1423), and 112 movable frames of other programs: 22 % in two regions.
        push(&[(Free, 200), (Movable, 200 + 112)]);
        // 10 immovable frames and 500 movable frames.
        push(&[(Free, 2), (Movable, 500), (Unmovable, 10)]);
        // 128 immovable frames: 25 % is not less than 25 %.
        push(&[(Unmovable, 128), (Free, 384)]);
        // 5 frames in 5 regions: one region too many.
        (0..5).for_each(|_| push(&[(Unmovable, 1), (Movable, 63)]));
        push(&[(Movable, 192)]);
        let memory = memory.finish().unwrap();
        let policy = Perforated::new(PerforationOptions::SELECTIVE).unwrap();
        let ours = (1224..1424).chain([7]).collect();
        let outlook = Outlook::of(&memory, &ours, &policy, 3).unwrap();
        let expected = Outlook {
            blocks: 6,
            blocks_large: 1,
            blocks_free: 1,
            blocks_whole_if_moved: 1,
            blocks_perforated_if_moved: 1,
            blocks_too_fragmented: 2,
            blocks_perforated_at_once: 1,
            blocks_with_ours: 1,
            regions_in_small_pages: 3,
            regions_whole_if_moved: 2,
            regions_perforated_if_moved: 1,
            regions_perforated_at_once: 1,
            assumptions: Vec::new(),
        };
        assert_eq!(outlook, expected);
        let none = Outlook::of(&memory, &ours, &policy, 0).unwrap();
        assert_eq!(none.regions_whole_if_moved, 0);
    }
}
