//! Survey of a memory: 2MB blocks that are free, can become free, or can become perforated pages.

use perforate_records::{BlockReach, Survey};
use perforate_types::HoleSet;

use super::{BlockStates, FrameState, Occupancy};
use crate::{BlockUse, Policy};

impl Occupancy {
    /// Classifies every 2MB block by the page that `policy` could map there (2MB, perforated, or none), and
    /// counts the blocks of each class.
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

/// Frames of a 2MB block, slab included, that stay in use after compaction: holes of a perforated page.
fn fixed(states: &BlockStates<'_>) -> HoleSet {
    states.frames(|state| !state.is_free() && !state.is_movable())
}

/// True if the policy makes a 2MB block of frames with these holes a perforated page.
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
    // A hole without memory counts like a hole with data of another owner.
    if accepts(policy, &states.frames(|state| !state.is_free())) {
        return BlockReach::PerforableNow;
    }
    if accepts(policy, &fixed) {
        return BlockReach::Perforable;
    }
    let slab = states.frames(|state| state == FrameState::Reclaimable);
    if slab == fixed { BlockReach::Reclaimable } else { BlockReach::Neither }
}
