//! Number of further 2MB regions that could be mapped large if the kernel had perforated pages.

use std::collections::BTreeSet;
use std::path::Path;

use perforate_os::{Occupancy, OsError, Policy};
use perforate_records::BlockReach;
use serde::Serialize;

use crate::HostError;
use crate::benchmark::AnonymousMemory;
use crate::snapshot::{HostFiles, read_host};

/// The 2MB blocks of the machine's memory by their possible use, with our 4KB pages moved away, and
/// the 2MB regions of the request that are in 4KB pages, of which blocks are the limit: a region's old
/// frames make room for the contents of its new block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outlook {
    /// Blocks with memory.
    pub blocks: u64,
    /// Blocks that are one 2MB page.
    pub blocks_large: u64,
    /// Blocks that are free but for our 4KB pages.
    pub blocks_free: u64,
    /// Blocks that are free after movable frames are moved.
    pub blocks_whole_if_moved: u64,
    /// Blocks that the policy perforates after movable frames are moved; the rest become holes.
    pub blocks_perforated_if_moved: u64,
    /// Blocks with too many immovable frames for the policy.
    pub blocks_too_fragmented: u64,
    /// Blocks that the policy perforates with nothing moved but our 4KB pages.
    pub blocks_perforated_at_once: u64,
    /// Blocks that contain our 4KB pages.
    pub blocks_with_ours: u64,
    /// Regions in 4KB pages.
    pub regions_in_small_pages: u64,
    /// Regions for which compaction could make whole blocks.
    pub regions_whole_if_moved: u64,
    /// Regions that could be perforated after movable frames are moved.
    pub regions_perforated_if_moved: u64,
    /// Regions that could be perforated with only our own pages moved.
    pub regions_perforated_at_once: u64,
    /// Assumptions about frames whose use the kernel does not tell.
    pub assumptions: Vec<String>,
}

impl Outlook {
    /// This machine's memory at this moment; `ours` is the memory of the request.
    pub(super) fn now(
        ours: &AnonymousMemory,
        policy: &dyn Policy,
        regions: u64,
    ) -> Result<Self, HostError> {
        let frames = ours.frames();
        let frames = frames.map_err(HostError::system("/proc/self/pagemap"))?;
        // Shared frames need not be counted.
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
        // Free, ours (1224–1423), and 112 frames of others that can be moved: 22 % in two regions.
        push(&[(Free, 200), (Movable, 200 + 112)]);
        // 10 frames stay and 500 can be moved.
        push(&[(Free, 2), (Movable, 500), (Unmovable, 10)]);
        // 128 frames stay: 25 % is not less than 25 %.
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
