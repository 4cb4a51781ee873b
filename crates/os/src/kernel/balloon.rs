//! The balloon driver of a guest: it takes memory from the guest so that the hypervisor can give it
//! to others. What becomes of the frames under the guest is the host's business: it drops them
//! from the guest's memory (MADV_DONTNEED), which splits or punches its 2MB pages.

use std::ops::Range;

use perforate_types::{Frame, Update};

use super::Kernel;
use crate::memory::FRAME_BYTES;
use crate::{OsError, OtherUse};

impl Kernel {
    /// The balloon takes up to this many more frames and returns them. It reclaims memory as
    /// programs do, and stops where there is none left.
    pub fn inflate_balloon(&mut self, frames: u64, updates: &mut Vec<Update>) -> Vec<Frame> {
        self.note_peak();
        let mut taken = Vec::new();
        for _ in 0..frames {
            self.relieve(None, updates);
            let Ok(number) = self.memory.add_other(OtherUse::Balloon, 1, 0) else { break };
            taken.extend(self.memory.other_frame(number));
        }
        self.conclude(updates);
        taken
    }

    /// The balloon gives up to this many frames back to the guest, in the order in which it took
    /// them, and returns them.
    pub fn deflate_balloon(&mut self, frames: u64) -> Vec<Frame> {
        (0..frames).map_while(|_| self.memory.remove_oldest_frame(OtherUse::Balloon)).collect()
    }

    /// Memory is added at the end of the physical address space, in one free run.
    ///
    /// # Errors
    /// If there is no room for so many frames.
    pub fn hot_add(&mut self, frames: u64) -> Result<Range<Frame>, OsError> {
        let added = self.memory.hot_add(frames)?;
        Ok(Frame::new(added.start)..Frame::new(added.end))
    }

    /// Self-ballooning (D §IV): the balloon takes `frames` frames, wherever they are, and as many are
    /// added in one run at the end of memory. No data move. Returns the frames that the balloon
    /// took, which are the hypervisor's now.
    ///
    /// # Errors
    /// If there is no room to add so many, or not so much memory to be had; nothing has changed
    /// then but that memory was reclaimed.
    pub fn self_balloon(
        &mut self,
        frames: u64,
        updates: &mut Vec<Update>,
    ) -> Result<Vec<Frame>, OsError> {
        let left_bytes = self.memory.addable_frames() * FRAME_BYTES;
        if frames * FRAME_BYTES > left_bytes {
            return Err(OsError::NoRoomToAdd { asked_bytes: frames * FRAME_BYTES, left_bytes });
        }
        let first = self.memory.next_other();
        let taken = self.inflate_balloon(frames, updates);
        if (taken.len() as u64) < frames {
            for number in first..self.memory.next_other() {
                self.memory.remove_other(number);
            }
            let (asked_bytes, memory_bytes) = (frames * FRAME_BYTES, self.memory.memory_bytes());
            let free_bytes = self.memory.zones().free_frames() * FRAME_BYTES;
            let enough_bytes = memory_bytes + asked_bytes - free_bytes;
            return Err(OsError::OutOfMemory {
                asked_bytes,
                free_bytes,
                memory_bytes,
                enough_bytes,
            });
        }
        self.memory.hot_add(frames)?;
        Ok(taken)
    }

    /// Memory in the balloon, in bytes.
    pub fn balloon_bytes(&self) -> u64 {
        self.memory.other_frames(OtherUse::Balloon) * FRAME_BYTES
    }
}
