//! How many more 2MB regions could be mapped large, if the kernel knew perforated pages.

use std::collections::BTreeSet;
use std::path::Path;

use perforate_capture::native::Area;
use perforate_capture::snapshot::{HostFiles, read_host};
use perforate_os::{BlockReach, Occupancy, OsError, Policy, Survey};
use serde_json::{Value, json};

/// The blocks of a memory by what could be made of them, our 4KB pages moved out of the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// Blocks, where what our 4KB pages hold counts as free.
    pub survey: Survey,
    /// Blocks in which our 4KB pages lie.
    pub with_ours: u64,
    /// 2MB regions of the request that are in 4KB pages.
    pub regions: u64,
    /// What was taken to be so because Linux does not tell.
    pub assumptions: Vec<String>,
}

impl Outlook {
    /// This machine's memory at this moment, `area` being ours.
    pub fn now(area: &Area, policy: &dyn Policy, regions: u64) -> Result<Self, String> {
        let frames = area.frames().map_err(|error| format!("/proc/self/pagemap: {error}"))?;
        // How often frames are mapped is not asked.
        let files = HostFiles { counts: None, ..HostFiles::open(Path::new("/proc")) };
        let host = read_host(files, &mut |_, _| {}).map_err(|error| error.to_string())?;
        let memory = host.frames().map_err(|error| error.to_string())?;
        let ours = frames.into_iter().flatten().collect();
        let found = Self::of(memory, &ours, policy, regions).map_err(|error| error.to_string())?;
        Ok(Self { assumptions: host.about.assumptions, ..found })
    }

    /// Judges every block under the policy; `regions` of the request are in 4KB pages.
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

    /// Blocks that the policy perforates once what is movable in them is moved: what stays is
    /// holes.
    pub fn perforated_if_moved(&self) -> u64 {
        self.survey.count(BlockReach::PerforableNow) + self.survey.count(BlockReach::Perforable)
    }

    /// Blocks in which too much stays.
    pub fn neither(&self) -> u64 {
        self.survey.count(BlockReach::Neither) + self.survey.count(BlockReach::Reclaimable)
    }

    /// Regions of the request that could be perforated with nothing moved but our own pages. A
    /// region's frames make room for what its new block holds, so blocks are what is short.
    pub fn regions_at_once(&self) -> u64 {
        self.regions.min(self.survey.perforable_as_they_are)
    }

    /// Regions that could be perforated where movable frames are moved too.
    pub fn regions_if_moved(&self) -> u64 {
        self.regions.min(self.perforated_if_moved())
    }

    /// Regions that compaction could give whole blocks.
    pub fn regions_whole(&self) -> u64 {
        let whole = self.survey.count(BlockReach::Whole);
        self.regions.min(whole + self.survey.count(BlockReach::Compactable))
    }

    pub fn json(&self) -> Value {
        json!({
            "blocks": self.survey.memory_blocks,
            "blocks_large": self.survey.count(BlockReach::Large),
            "blocks_free": self.survey.count(BlockReach::Whole),
            "blocks_whole_if_moved": self.survey.count(BlockReach::Compactable),
            "blocks_perforated_if_moved": self.perforated_if_moved(),
            "blocks_too_fragmented": self.neither(),
            "blocks_perforated_at_once": self.survey.perforable_as_they_are,
            "blocks_with_ours": self.with_ours,
            "regions_in_small_pages": self.regions,
            "regions_whole_if_moved": self.regions_whole(),
            "regions_perforated_if_moved": self.regions_if_moved(),
            "regions_perforated_at_once": self.regions_at_once(),
            "assumptions": self.assumptions,
        })
    }
}

#[cfg(test)]
mod tests {
    use perforate_os::FrameState::{Free, Large, Movable, Unmovable};
    use perforate_os::{OccupancyBuilder, Perforated, PerforationOptions};

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
        let count = |reach| outlook.survey.count(reach);
        assert_eq!(outlook.survey.memory_blocks, 6);
        assert_eq!((count(BlockReach::Large), count(BlockReach::Whole)), (1, 1));
        assert_eq!(count(BlockReach::Compactable), 1);
        assert_eq!((outlook.perforated_if_moved(), outlook.neither()), (1, 2));
        assert_eq!((outlook.survey.perforable_as_they_are, outlook.with_ours), (1, 1));
        assert_eq!(outlook.regions_at_once(), 1);
        assert_eq!(outlook.regions_if_moved(), 1);
        assert_eq!(outlook.regions_whole(), 2);
        assert_eq!(Outlook { regions: 0, ..outlook }.regions_whole(), 0);
    }
}
