//! The balloon driver of a guest: it takes memory from the guest so that the hypervisor can give it
//! to others. What becomes of the frames under the guest is the host's business: it drops them
//! from the guest's memory (MADV_DONTNEED), which splits or punches its 2MB pages.

use perforate_types::{Frame, Update};

use super::Kernel;
use crate::OtherUse;
use crate::memory::FRAME_BYTES;

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

    /// Memory in the balloon, in bytes.
    pub fn balloon_bytes(&self) -> u64 {
        self.memory.other_frames(OtherUse::Balloon) * FRAME_BYTES
    }
}
