//! What can be made of a memory: 2MB blocks that are whole, could be, or could be perforated.

use std::collections::BTreeMap;

use perforate_types::HoleSet;
use serde::Serialize;

use super::{BlockStates, FrameState, Occupancy};
use crate::{BlockUse, Policy};

/// What a 2MB block can become, the easiest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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

impl BlockReach {
    /// All of them, in order.
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

/// How many 2MB blocks can become what.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Survey {
    /// Blocks by what they can become; each once.
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

impl Occupancy {
    /// Looks at every block with a policy's eyes.
    pub fn survey(&self, policy: &dyn Policy) -> Survey {
        let mut survey = Survey::default();
        let mut room_frames = 0;
        for (_, blocks, states) in self.block_runs() {
            let there = states.frames(|state| state != FrameState::Absent);
            let in_use = states.frames(|state| !state.is_free());
            let reach = reach(&states, &there, policy);
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

/// What would be holes after compaction. Slabs stay.
fn fixed(states: &BlockStates<'_>) -> HoleSet {
    states.frames(|state| !state.is_free() && !state.is_movable())
}

/// Whether a block becomes a perforated page with these holes.
fn accepts(policy: &dyn Policy, holes: &HoleSet) -> bool {
    matches!(policy.use_block(holes), BlockUse::WithHoles(_))
}

fn reach(states: &BlockStates<'_>, there: &HoleSet, policy: &dyn Policy) -> BlockReach {
    let any = |wanted: fn(FrameState) -> bool| !states.frames(wanted).is_empty();
    if there.is_empty() {
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
    // Without memory behind it a hole is as good as one with somebody else's data.
    if accepts(policy, &states.frames(|state| !state.is_free())) {
        return BlockReach::PerforableNow;
    }
    if accepts(policy, &fixed) {
        return BlockReach::Perforable;
    }
    let slab = states.frames(|state| state == FrameState::Reclaimable);
    if slab == fixed { BlockReach::Reclaimable } else { BlockReach::Neither }
}
