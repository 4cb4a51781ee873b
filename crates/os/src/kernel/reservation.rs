//! Releases frames that are reserved for a 2MB page and not touched yet: as many as are needed if
//! memory is short, or a single frame that fails.

use perforate_types::{Frame, HoleSet, PageSize, SpaceId};

use super::Core;

/// Frees frames that perforated pages reserve for untouched sub-pages, until `free_frames` frames are free.
/// Starts at the lowest address of the first address space. Returns true if any was freed.
pub(super) fn release(core: &mut Core, free_frames: u64) -> bool {
    let mut released = 0;
    for slot in 0..core.spaces.len() {
        let id = SpaceId(slot as u16);
        let mut next = 0;
        while core.free_frames() < free_frames {
            let Ok(space) = &mut core.space_mut(id) else { break };
            let region = (space.usage().reserved > 0).then(|| space.next_region(next));
            let Some(Some(number)) = region else { break };
            let pages = space.holes.expect("only such pages reserve frames");
            released += pages.release_reserved(space, number, &HoleSet::FULL);
            next = number + 1;
        }
    }
    released > 0
}

/// Frees a frame that is reserved for a sub-page of a 2MB page. Returns false if the frame is not reserved.
pub(super) fn release_frame(core: &mut Core, frame: Frame) -> bool {
    let block = frame.align_down(PageSize::Size2M);
    let index = frame.index_in(PageSize::Size2M);
    let found = core
        .live_spaces()
        .find_map(|space| Some((space.id(), space.reserving_region(block, index)?)));
    let Some((id, number)) = found else { return false };
    let Ok(space) = &mut core.space_mut(id) else { return false };
    let pages = space.holes.expect("only such pages reserve frames");
    pages.release_reserved(space, number, &[index].into_iter().collect()) == 1
}
