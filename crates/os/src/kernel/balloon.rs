//! The balloon driver of a guest: it takes memory from the guest so that the hypervisor can give it
//! to others. What becomes of the frames under the guest is the host's business: it drops them
//! from the guest's memory (MADV_DONTNEED), which splits or punches its 2MB pages.

use perforate_types::{Frame, Update};

use super::Core;
use super::reclaim::Reclaim;
use crate::memory::FRAME_BYTES;
use crate::{OsError, OtherUse};

/// The balloon takes up to this many more frames and returns them. It reclaims memory as
/// programs do, and stops where there is none left.
pub(super) fn inflate(
    core: &mut Core,
    reclaim: &mut Reclaim,
    frames: u64,
    updates: &mut Vec<Update>,
) -> Vec<Frame> {
    let mut taken = Vec::new();
    for _ in 0..frames {
        reclaim.relieve(core, None, updates);
        let Ok(number) = core.memory.add_other(OtherUse::Balloon, 1, 0) else { break };
        taken.extend(core.memory.other_frame(number));
    }
    taken
}

/// Self-ballooning (D §IV): the balloon takes `frames` frames, wherever they are, and as many are
/// added in one run at the end of memory. Returns the frames that the balloon took.
pub(super) fn exchange(
    core: &mut Core,
    reclaim: &mut Reclaim,
    frames: u64,
    updates: &mut Vec<Update>,
) -> Result<Vec<Frame>, OsError> {
    let left_bytes = core.memory.addable_frames() * FRAME_BYTES;
    if frames * FRAME_BYTES > left_bytes {
        return Err(OsError::NoRoomToAdd { asked_bytes: frames * FRAME_BYTES, left_bytes });
    }
    let first = core.memory.next_other();
    core.note_peak();
    let taken = inflate(core, reclaim, frames, updates);
    super::demotion::conclude(core, updates);
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
