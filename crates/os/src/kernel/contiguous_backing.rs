//! Guest memory that a hypervisor backs with contiguous frames, so that a register can say where it
//! lies (P §V: a guest's hole bitmaps).

use std::ops::Range;

use perforate_types::{Frame, Permissions, SpaceId, Update};

use super::Core;
use super::compaction::Compaction;
use crate::OsError;
use crate::space::{index_of, regions_of};

/// Maps pages where nothing is mapped yet to a run of contiguous frames; returns the first frame.
pub(super) fn back(
    core: &mut Core,
    compaction: &mut Compaction,
    id: SpaceId,
    pages: Range<u64>,
    permissions: Permissions,
    updates: &mut Vec<Update>,
) -> Result<Frame, OsError> {
    let blocks = regions_of(&pages);
    let run = compaction.take_run(core, blocks.end - blocks.start, 0, false, updates)?;
    let first = run.first().number() + index_of(pages.start) as u64;
    let frames = first..first + (pages.end - pages.start);
    core.memory.free_range(run.frames().start..frames.start);
    core.memory.free_range(frames.end..run.frames().end);
    let (space, mut effects) = core.parts(id, updates)?;
    for (page, frame) in pages.zip(frames.clone()) {
        let mapped = space.map_page(page, Frame::new(frame), permissions, &mut effects);
        if let Err(error) = mapped {
            effects.memory.free_range(frame..frames.end);
            return Err(error);
        }
    }
    Ok(Frame::new(first))
}
