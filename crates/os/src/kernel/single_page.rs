//! Allocation of a single frame for a 4KB page or a hole.

use perforate_types::{HoleSet, Permissions, SpaceId};

use super::{Core, FirstTouch, sharing};
use crate::OsError;
use crate::space::{Present, page_at};

/// Maps an unmapped page as a 4KB page with a newly allocated frame.
pub(super) fn map(
    core: &mut Core,
    id: SpaceId,
    page: u64,
    permissions: Permissions,
) -> Result<(), OsError> {
    let space = &mut core.space_mut(id)?;
    let frame = space.memory.allocate_page()?;
    if let Err(error) = space.map_page(page, frame, permissions) {
        space.memory.free(frame, 0);
        return Err(error);
    }
    space.ledger.bring_in(FirstTouch::Page);
    Ok(())
}

/// Maps sub-pages of a 2MB region, the lowest first, each as [`map`] would. The region's level-1 node has empty entries
/// for these sub-pages. Returns the mapped ones: those before the first whose allocation would reclaim memory.
pub(super) fn map_all(
    core: &mut Core,
    id: SpaceId,
    number: u64,
    subpages: &HoleSet,
    permissions: Permissions,
) -> Result<HoleSet, OsError> {
    let mut mapped = HoleSet::EMPTY;
    let space = &mut core.space_mut(id)?;
    for run in subpages.runs() {
        let mut next = run.start;
        while next < run.end {
            let Some(frames) = space.memory.allocate_singles((run.end - next) as u64) else {
                return Ok(mapped);
            };
            let end = next + (frames.end - frames.start) as usize;
            space.map_pages(page_at(number, next), frames, permissions);
            for index in next..end {
                space.ledger.bring_in(FirstTouch::Page);
                mapped.insert(index);
            }
            next = end;
        }
    }
    Ok(mapped)
}

/// Allocates a frame for an unallocated hole. If the in-place frame is available, the hole is
/// patched instead. Does nothing if `page` is not an unallocated hole.
pub(super) fn fill_hole(
    core: &mut Core,
    id: SpaceId,
    page: u64,
    permissions: Permissions,
) -> Result<(), OsError> {
    if core.space(id)?.areas.any_shared() && sharing::join_hole(core, id, page, permissions)? {
        return Ok(());
    }
    let space = &mut core.space_mut(id)?;
    if space.find(page) != Some(Present::Vacant) {
        return Ok(());
    }
    let detacher = space.detacher(page).expect("the page was detached");
    if !detacher.fill_in_place(space, page, permissions) {
        let frame = space.memory.allocate_page()?;
        detacher.fill(space, page, frame, permissions);
    }
    space.ledger.bring_in(FirstTouch::Hole);
    Ok(())
}
