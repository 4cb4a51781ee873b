//! Balloon driver of a guest: takes memory from the guest, so that the hypervisor can give it to
//! other guests. The host drops the frames from the guest's memory (MADV_DONTNEED), which splits or
//! punches its 2MB pages.

use std::fmt;

use perforate_config::{Count, write};
use perforate_types::Frame;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Core;
use super::reclaim::Reclaim;
use crate::memory::{BLOCK_ORDER, FRAME_BYTES};
use crate::{OsError, OtherUse};

/// Self-ballooning for large pages (D §IV).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SelfBalloonConfig {
    /// Whole 2MB blocks that the guest is to have free: so many that are missing are made at once.
    ///
    /// D names no number; 16 are 32MB.
    pub blocks: Count<1>,
}

impl Default for SelfBalloonConfig {
    fn default() -> Self {
        Self { blocks: Count::new(16) }
    }
}

impl fmt::Display for SelfBalloonConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&write(self))
    }
}

/// Exchanges scattered frames for whole blocks, until `blocks` blocks are free or nothing is left
/// to exchange. Uses free frames and page cache, but no memory of programs. Returns the frames that
/// the balloon took.
pub(super) fn make_blocks(
    core: &mut Core,
    reclaim: &mut Reclaim,
    blocks: u64,
) -> Result<Vec<Frame>, OsError> {
    let free_blocks = core.memory.whole_free_blocks();
    let page_cache = core.memory.other_frames(OtherUse::PageCache);
    let spare = (core.free_frames() + page_cache).saturating_sub(core.memory.high_watermark());
    let scattered = spare.saturating_sub(free_blocks << BLOCK_ORDER) >> BLOCK_ORDER;
    let addable = core.memory.addable_frames() >> BLOCK_ORDER;
    match blocks.saturating_sub(free_blocks).min(scattered).min(addable) {
        0 => Ok(Vec::new()),
        missing => exchange(core, reclaim, missing << BLOCK_ORDER),
    }
}

/// Moves up to `frames` more frames into the balloon and returns them. Inflating reclaims memory as
/// programs do, and stops when no memory is left.
pub(super) fn inflate(core: &mut Core, reclaim: &mut Reclaim, frames: u64) -> Vec<Frame> {
    let mut taken = Vec::new();
    for _ in 0..frames {
        reclaim.relieve(core, None);
        let Ok(number) = core.memory.add_other(OtherUse::Balloon, 1, 0) else { break };
        taken.extend(core.memory.other_frame(number));
    }
    taken
}

/// Self-ballooning (D §IV): the balloon takes `frames` frames at any place, and as many are added
/// in one run at the end of memory. Returns the frames that the balloon took.
pub(super) fn exchange(
    core: &mut Core,
    reclaim: &mut Reclaim,
    frames: u64,
) -> Result<Vec<Frame>, OsError> {
    let left_bytes = core.memory.addable_frames() * FRAME_BYTES;
    if frames * FRAME_BYTES > left_bytes {
        return Err(OsError::NoRoomToAdd { asked_bytes: frames * FRAME_BYTES, left_bytes });
    }
    let first = core.memory.next_other();
    core.note_peak();
    let taken = inflate(core, reclaim, frames);
    super::demotion::conclude(core);
    if (taken.len() as u64) < frames {
        for number in first..core.memory.next_other() {
            core.memory.remove_other(number);
        }
        let (asked_bytes, memory_bytes) = (frames * FRAME_BYTES, core.memory.memory_bytes());
        let free_bytes = core.free_frames() * FRAME_BYTES;
        let enough_bytes = memory_bytes + asked_bytes - free_bytes;
        return Err(OsError::OutOfMemory { asked_bytes, free_bytes, memory_bytes, enough_bytes });
    }
    core.memory.hot_add(frames)?;
    Ok(taken)
}
