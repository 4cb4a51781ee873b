//! Balloon driver of a guest: takes memory from the guest, so that the hypervisor can give it to
//! other guests. The host drops the frames from the guest's memory (MADV_DONTNEED), which splits or
//! punches its 2MB pages.

use std::ops::Range;

use perforate_config::Count;
use perforate_types::Frame;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kernel, demotion};
use crate::memory::{BLOCK_ORDER, FRAME_BYTES};
use crate::{OsError, OtherUse};

/// Settings of self-ballooning for 2MB pages (D §IV).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SelfBalloonConfig {
    /// Number of free 2MB blocks that the guest is to have. Missing ones are made all at once.
    ///
    /// D names no number; 16 are 32MB.
    pub blocks: Count<1>,
}

impl Default for SelfBalloonConfig {
    fn default() -> Self {
        Self { blocks: Count::new(16) }
    }
}

/// Operations on a guest by its hypervisor: taking memory away and adding it.
impl Kernel {
    /// Moves up to `frames` frames from the guest's free memory into the balloon and returns them.
    /// Inflating reclaims memory if necessary, and stops when no memory is left.
    pub fn inflate_balloon(&mut self, frames: u64) -> Vec<Frame> {
        self.core.note_peak();
        let mut taken = Vec::new();
        for _ in 0..frames {
            self.core.relieve(None);
            let Ok(number) = self.core.memory.add_other(OtherUse::Balloon, 1, 0) else { break };
            taken.extend(self.core.memory.other_frame(number));
        }
        demotion::conclude(&mut self.core);
        taken
    }

    /// Returns up to `frames` frames from the balloon to the guest, oldest first. The result lists
    /// the returned frames.
    pub fn deflate_balloon(&mut self, frames: u64) -> Vec<Frame> {
        let memory = &mut self.core.memory;
        (0..frames).map_while(|_| memory.remove_oldest_frame(OtherUse::Balloon)).collect()
    }

    /// Memory in the guest's balloon, in bytes.
    pub fn balloon_bytes(&self) -> u64 {
        self.core.memory.other_frames(OtherUse::Balloon) * FRAME_BYTES
    }

    /// Adds memory at the end of the physical address space, as one free run.
    ///
    /// # Errors
    /// If there is no room for `frames` frames.
    pub fn hot_add(&mut self, frames: u64) -> Result<Range<Frame>, OsError> {
        let added = self.core.memory.hot_add(frames)?;
        Ok(Frame::new(added.start)..Frame::new(added.end))
    }

    /// Self-ballooning (D §IV): the balloon takes `frames` scattered frames, and the hypervisor
    /// hot-adds as many at the end of memory, in one run. No data move. Returns the frames in the
    /// balloon, which now belong to the hypervisor.
    ///
    /// # Errors
    /// If there is no room to add `frames` frames, or not enough free memory. In both cases nothing
    /// changes, except that memory may have been reclaimed.
    pub fn self_balloon(&mut self, frames: u64) -> Result<Vec<Frame>, OsError> {
        let left_bytes = self.core.memory.addable_frames() * FRAME_BYTES;
        if frames * FRAME_BYTES > left_bytes {
            return Err(OsError::NoRoomToAdd { asked_bytes: frames * FRAME_BYTES, left_bytes });
        }
        let first = self.core.memory.next_other();
        let taken = self.inflate_balloon(frames);
        if (taken.len() as u64) < frames {
            for number in first..self.core.memory.next_other() {
                self.core.memory.remove_other(number);
            }
            let (asked_bytes, memory_bytes) =
                (frames * FRAME_BYTES, self.core.memory.memory_bytes());
            let free_bytes = self.core.free_frames() * FRAME_BYTES;
            let enough_bytes = memory_bytes + asked_bytes - free_bytes;
            return Err(OsError::OutOfMemory {
                asked_bytes,
                free_bytes,
                memory_bytes,
                enough_bytes,
            });
        }
        self.core.memory.hot_add(frames)?;
        Ok(taken)
    }

    /// Self-ballooning for large pages (D §IV): exchanges scattered free frames for whole 2MB
    /// blocks, until as many blocks are free as configured. Returns the frames that the balloon
    /// took, which now belong to the hypervisor.
    ///
    /// # Errors
    /// If an allocation of free frames fails.
    pub fn self_balloon_blocks(
        &mut self,
        config: SelfBalloonConfig,
    ) -> Result<Vec<Frame>, OsError> {
        let free_blocks = self.core.memory.whole_free_blocks();
        let page_cache = self.core.memory.other_frames(OtherUse::PageCache);
        let spare = (self.core.free_frames() + page_cache)
            .saturating_sub(self.core.memory.high_watermark());
        let scattered = spare.saturating_sub(free_blocks << BLOCK_ORDER) >> BLOCK_ORDER;
        let addable = self.core.memory.addable_frames() >> BLOCK_ORDER;
        match config.blocks.get().saturating_sub(free_blocks).min(scattered).min(addable) {
            0 => Ok(Vec::new()),
            missing => self.self_balloon(missing << BLOCK_ORDER),
        }
    }
}
