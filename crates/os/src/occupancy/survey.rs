//! Survey of a memory: 2MB blocks that are free, can become free, or can become perforated pages.

use std::collections::BTreeMap;

use perforate_types::HoleSet;
use serde::Serialize;

use super::{BlockStates, FrameState, Occupancy};
use crate::{BlockUse, Policy};

/// Possible use of a 2MB block, easiest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockReach {
    /// All frames are free.
    Whole,
    /// No frame is fixed: the block becomes free once its movable frames were moved (compaction) or
    /// its page cache was dropped.
    Compactable,
    /// The policy accepts the block as a perforated page in its present state: all frames that are
    /// not free are holes.
    PerforableNow,
    /// The policy accepts the block as a perforated page once its movable frames were moved.
    Perforable,
    /// The policy does not accept the block, but it becomes free once its slab caches are freed.
    Reclaimable,
    /// A 2MB page of a program, or a hugetlbfs page.
    Large,
    /// Too many frames are fixed, or their state is unknown.
    Neither,
    /// No memory in the block.
    Absent,
}

impl BlockReach {
    /// All values, easiest first.
    pub const ALL: [Self; 8] = [
        Self::Whole,
        Self::Compactable,
        Self::PerforableNow,
        Self::Perforable,
        Self::Reclaimable,
        Self::Large,
        Self::Neither,
        Self::Absent,
    ];
}

/// Number of 2MB blocks for each possible use.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Survey {
    /// Number of blocks for each possible use; every block counts once.
    pub blocks: BTreeMap<BlockReach, u64>,
    /// Number of blocks with memory.
    pub memory_blocks: u64,
    /// Compactable blocks for which there is room: each takes 512 free frames outside wholly free
    /// blocks, its own free frames included.
    pub compactable_with_room: u64,
    /// Compactable blocks with only free frames and page cache: dropping the cache frees them
    /// without a copy.
    pub whole_without_page_cache: u64,
    /// Blocks that the policy accepts as perforated pages in their present state, including those
    /// that compaction could free.
    pub perforable_as_they_are: u64,
    /// Perforable blocks by their number of fixed frames: up to 1, 2, 4, … 512.
    pub holes: [u64; 10],
}

impl Survey {
    /// Number of blocks with the possible use.
    pub fn count(&self, reach: BlockReach) -> u64 {
        self.blocks.get(&reach).copied().unwrap_or(0)
    }
}

impl Occupancy {
    /// Classifies every block by the decisions of a policy.
    pub fn survey(&self, policy: &dyn Policy) -> Survey {
        let mut survey = Survey::default();
        let mut room_frames = 0;
        for (_, blocks, states) in self.block_runs() {
            let present = states.frames(|state| state != FrameState::Absent);
            let in_use = states.frames(|state| !state.is_free());
            let reach = reach(&states, &present, policy);
            if reach != BlockReach::Large && accepts(policy, &in_use) {
                survey.perforable_as_they_are += blocks;
            }
            *survey.blocks.entry(reach).or_default() += blocks;
            if reach != BlockReach::Absent {
                survey.memory_blocks += blocks;
            }
            let count = |wanted: fn(FrameState) -> bool| states.frames(wanted).count() as u64;
            if reach != BlockReach::Whole {
                room_frames += blocks * count(FrameState::is_free);
            }
            if reach == BlockReach::Compactable && count(|state| state == FrameState::Movable) == 0
            {
                survey.whole_without_page_cache += blocks;
            }
            if matches!(reach, BlockReach::PerforableNow | BlockReach::Perforable) {
                let holes = fixed(&states).count().max(1);
                survey.holes[holes.next_power_of_two().ilog2() as usize] += blocks;
            }
        }
        let compactable = survey.count(BlockReach::Compactable);
        survey.compactable_with_room = compactable.min(room_frames / 512);
        survey
    }
}

/// Frames that would be holes after compaction. Slab caches count as fixed.
fn fixed(states: &BlockStates<'_>) -> HoleSet {
    states.frames(|state| !state.is_free() && !state.is_movable())
}

/// True if the policy makes a block with these holes a perforated page.
fn accepts(policy: &dyn Policy, holes: &HoleSet) -> bool {
    matches!(policy.use_block(holes), BlockUse::WithHoles(_))
}

fn reach(states: &BlockStates<'_>, present: &HoleSet, policy: &dyn Policy) -> BlockReach {
    let any = |wanted: fn(FrameState) -> bool| !states.frames(wanted).is_empty();
    if present.is_empty() {
        return BlockReach::Absent;
    }
    let fixed = fixed(states);
    if fixed.is_empty() {
        let is_whole = states.frames(FrameState::is_free) == HoleSet::FULL;
        return if is_whole { BlockReach::Whole } else { BlockReach::Compactable };
    }
    if any(|state| matches!(state, FrameState::Large | FrameState::Huge)) {
        return BlockReach::Large;
    }
    // A hole without memory is equivalent to a hole with data of another owner.
    if accepts(policy, &states.frames(|state| !state.is_free())) {
        return BlockReach::PerforableNow;
    }
    if accepts(policy, &fixed) {
        return BlockReach::Perforable;
    }
    let slab = states.frames(|state| state == FrameState::Reclaimable);
    if slab == fixed { BlockReach::Reclaimable } else { BlockReach::Neither }
}
