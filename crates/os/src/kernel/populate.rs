//! Memory populated in advance: MAP_POPULATE, MADV_POPULATE_READ, MADV_POPULATE_WRITE.

use std::ops::Range;

use perforate_types::{AccessKind, Backing, HoleSet, SpaceId};

use super::first_touch::{Backers, Touch};
use super::{Core, single_page, swap};
use crate::OsError;
use crate::space::{Area, Extent, Present, page_at, pages_of, regions_of, subpages_of};

/// Linux's MADV_POPULATE_READ: faults the pages in now.
pub(super) const POPULATE_READ: i32 = 22;
/// Linux's MADV_POPULATE_WRITE. Recorded traces begin with it, for pages that existed when
/// recording began.
pub(crate) const POPULATE_WRITE: i32 = 23;

/// Touches all readable pages in `pages` now. Leaves out unallocated holes of generated fragmentation,
/// because the program has no data there.
pub(super) fn populate(
    core: &mut Core,
    backers: &mut Backers,
    id: SpaceId,
    pages: Range<u64>,
) -> Result<(), OsError> {
    for part in core.space(id)?.areas.within(pages) {
        if !part.attributes.effective().allow(AccessKind::Read) {
            continue;
        }
        // The page size depends on the whole area, not on the populated part.
        let Some(area) = core.space(id)?.areas.find(part.start) else { continue };
        let pages = part.pages();
        for number in regions_of(&pages) {
            let unallocated = unallocated_holes(core, area, number);
            let touched = subpages_of(&pages, number).minus(&unallocated);
            for (done, index) in touched.iter().enumerate() {
                let touch = Touch { space: id, page: page_at(number, index), area };
                core.with_reclaim((id, number), |core| populate_page(core, backers, &touch))?;
                if done == 0 && is_mapped_whole(core, id, number, &touched) {
                    // All sub-pages are mapped, so the rest needs no fault and no reclaim.
                    core.touch_subpages(id, number, &touched);
                    break;
                }
            }
        }
    }
    Ok(())
}

/// True if memory is not short and one mapping (such as a 2MB page) translates all these sub-pages of a
/// region.
fn is_mapped_whole(core: &Core, id: SpaceId, number: u64, subpages: &HoleSet) -> bool {
    let region = core.space(id).ok().and_then(|space| space.region(number));
    let extent = region.and_then(|region| region.mapping.extent());
    let is_vacant =
        |extent: &dyn Extent, index: usize| matches!(extent.find(index as u64), Present::Vacant);
    let is_whole = |extent| !subpages.iter().any(|index| is_vacant(extent, index));
    !core.memory.is_short() && extent.is_some_and(is_whole)
}

/// Sub-pages of a 2MB region that are unallocated holes of the option `fragmentation`, without the program's
/// data.
fn unallocated_holes(core: &Core, area: Area, number: u64) -> HoleSet {
    match core.config.fragmentation {
        Some(fragmentation)
            if !fragmentation.allocated
                && area.attributes.eligible()
                && area.spans(&pages_of(number)) =>
        {
            fragmentation.holes(core.config.seed, number).unwrap_or_default()
        }
        _ => HoleSet::EMPTY,
    }
}

fn populate_page(core: &mut Core, backers: &mut Backers, touch: &Touch) -> Result<(), OsError> {
    let &Touch { space: id, page, area } = touch;
    core.ledger.clears = area.attributes.backing != Backing::File;
    let space = &mut core.space_mut(id)?;
    if space.overlay_frame(page).is_some()
        || (space.find(page).is_none() && space.touch_overlay(page)?)
    {
        core.touch(id, page);
        return Ok(());
    }
    match core.space(id)?.find(page) {
        None | Some(Present::Vacant) if swap::read_in(core, id, page, area, AccessKind::Read)? => {}
        None => backers.back(core, touch)?,
        Some(Present::Vacant) => {
            single_page::fill_hole(core, id, page, touch.permissions())?;
        }
        Some(_) => {}
    }
    core.touch(id, page);
    Ok(())
}
