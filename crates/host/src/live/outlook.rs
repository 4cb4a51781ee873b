//! Number of further 2MB regions that could be mapped large if the kernel had perforated pages.

use std::collections::BTreeSet;
use std::path::Path;

use perforate_os::{BlockReach, Occupancy, OsError, Policy, Survey};
use serde::Serialize;

use crate::HostError;
use crate::benchmark::AnonymousMemory;
use crate::snapshot::{HostFiles, read_host};

/// The blocks of the machine's memory by their possible use, with our 4KB pages moved away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// The blocks; frames of our 4KB pages count as free.
    pub survey: Survey,
    /// Blocks that contain our 4KB pages.
    pub with_ours: u64,
    /// 2MB regions of the request that are in 4KB pages.
    pub regions: u64,
    /// Assumptions about frames whose use the kernel does not tell.
    pub assumptions: Vec<String>,
}

/// The outlook in JSON.
#[derive(Serialize)]
pub(super) struct Record<'a> {
    blocks: u64,
    blocks_large: u64,
    blocks_free: u64,
    blocks_whole_if_moved: u64,
    blocks_perforated_if_moved: u64,
    blocks_too_fragmented: u64,
    blocks_perforated_at_once: u64,
    blocks_with_ours: u64,
    regions_in_small_pages: u64,
    regions_whole_if_moved: u64,
    regions_perforated_if_moved: u64,
    regions_perforated_at_once: u64,
    assumptions: &'a [String],
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
        let (others, with_ours) = memory.without(ours)?;
        let survey = others.survey(policy);
        Ok(Self { survey, with_ours, regions, assumptions: Vec::new() })
    }

    /// Blocks that the policy perforates after movable frames are moved; the rest become holes.
    pub fn perforated_if_moved(&self) -> u64 {
        self.survey.count(BlockReach::PerforableNow) + self.survey.count(BlockReach::Perforable)
    }

    /// Blocks with too many immovable frames.
    pub fn too_fragmented(&self) -> u64 {
        self.survey.count(BlockReach::Neither) + self.survey.count(BlockReach::Reclaimable)
    }

    /// Regions of the request that could be perforated with only our own pages moved. A region's old
    /// frames make room for the contents of its new block, so blocks are the limit.
    pub fn regions_at_once(&self) -> u64 {
        self.regions.min(self.survey.perforable_as_they_are)
    }

    /// Regions that could be perforated with all movable frames moved.
    pub fn regions_if_moved(&self) -> u64 {
        self.regions.min(self.perforated_if_moved())
    }

    /// Regions that compaction could give whole blocks.
    pub fn regions_whole(&self) -> u64 {
        let whole = self.survey.count(BlockReach::Whole);
        self.regions.min(whole + self.survey.count(BlockReach::Compactable))
    }

    pub(super) fn record(&self) -> Record<'_> {
        Record {
            blocks: self.survey.memory_blocks,
            blocks_large: self.survey.count(BlockReach::Large),
            blocks_free: self.survey.count(BlockReach::Whole),
            blocks_whole_if_moved: self.survey.count(BlockReach::Compactable),
            blocks_perforated_if_moved: self.perforated_if_moved(),
            blocks_too_fragmented: self.too_fragmented(),
            blocks_perforated_at_once: self.survey.perforable_as_they_are,
            blocks_with_ours: self.with_ours,
            regions_in_small_pages: self.regions,
            regions_whole_if_moved: self.regions_whole(),
            regions_perforated_if_moved: self.regions_if_moved(),
            regions_perforated_at_once: self.regions_at_once(),
            assumptions: &self.assumptions,
        }
    }
}

#[cfg(test)]
mod tests {
    use perforate_os::FrameState::{Free, Large, Movable, Unmovable};
    use perforate_os::{OccupancyBuilder, parse_policy};

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
        let policy = parse_policy("perforated:max-hole-share=25%,max-filter-bits=4").unwrap();
        let ours = (1224..1424).chain([7]).collect();
        let outlook = Outlook::of(&memory, &ours, policy.as_ref(), 3).unwrap();
        let count = |reach| outlook.survey.count(reach);
        assert_eq!(outlook.survey.memory_blocks, 6);
        assert_eq!((count(BlockReach::Large), count(BlockReach::Whole)), (1, 1));
        assert_eq!(count(BlockReach::Compactable), 1);
        assert_eq!((outlook.perforated_if_moved(), outlook.too_fragmented()), (1, 2));
        assert_eq!((outlook.survey.perforable_as_they_are, outlook.with_ours), (1, 1));
        assert_eq!(outlook.regions_at_once(), 1);
        assert_eq!(outlook.regions_if_moved(), 1);
        assert_eq!(outlook.regions_whole(), 2);
        assert_eq!(Outlook { regions: 0, ..outlook }.regions_whole(), 0);
    }
}
