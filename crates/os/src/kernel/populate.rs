//! Memory populated in advance: MAP_POPULATE, MADV_POPULATE_READ, MADV_POPULATE_WRITE.

use std::ops::Range;

use perforate_types::{AccessKind, Backing, HoleSet, SpaceId};

use super::first_touch::{Backers, Touch};
use super::{Core, copy_on_write, single_page, swap};
use crate::OsError;
use crate::memory::complement;
use crate::space::{Area, Present, page_at, pages_of, region_of, regions_of, subpages_of};

/// Touches all readable pages in `pages` now; with [`AccessKind::Write`], ends copy on write of the writable
/// ones. Leaves out unallocated holes of generated fragmentation, because the program has no data there.
pub(super) fn populate(
    core: &mut Core,
    backers: &mut Backers,
    id: SpaceId,
    pages: Range<u64>,
    kind: AccessKind,
) -> Result<(), OsError> {
    for part in core.space(id)?.areas.within(pages) {
        if !part.attributes.effective().allow(AccessKind::Read) {
            continue;
        }
        // The page size depends on the whole area, not on the populated part.
        let Some(area) = core.space(id)?.areas.find(part.start) else { continue };
        let pages = part.pages();
        let writes = kind == AccessKind::Write && part.attributes.effective().write;
        for number in regions_of(&pages) {
            let unallocated = unallocated_holes(core, area, number);
            let subpages = subpages_of(&pages, number).minus(&unallocated);
            populate_region(core, backers, (id, area, number), subpages, writes)?;
        }
    }
    Ok(())
}

/// Touches sub-pages of a 2MB region. What a page in one piece maps with the first of them needs no fault and no
/// reclaim.
fn populate_region(
    core: &mut Core,
    backers: &mut Backers,
    (id, area, number): (SpaceId, Area, u64),
    mut left: HoleSet,
    writes: bool,
) -> Result<(), OsError> {
    let mut is_first = true;
    let mut is_in_extent = true;
    while let Some(index) = left.first() {
        let touch = Touch { space: id, page: page_at(number, index), area };
        core.with_reclaim((id, number), |core| populate_page(core, backers, &touch, writes))?;
        left.remove(index);
        if is_in_extent {
            let mapped = mapped_with(core, id, touch.page, &left, writes);
            core.touch_subpages(id, number, &mapped);
            left = left.minus(&mapped);
            is_in_extent = !mapped.is_empty();
        }
        if is_first
            && backers.map_singly(core, &area)
            && core.space(id)?.has_vacant_entries(number, &left)
        {
            let mapped = single_page::map_all(core, id, number, &left, touch.permissions())?;
            core.touch_subpages(id, number, &mapped);
            left = left.minus(&mapped);
        }
        is_first = false;
    }
    Ok(())
}

/// Returns the sub-pages among `left`, of the 2MB region around `page`, that lie in the extent (mapping in one piece,
/// such as a 2MB page) around `page`. Empty if there is no extent, if one of these sub-pages is vacant or, with
/// `writes`, not writable, or if memory is short.
fn mapped_with(core: &Core, id: SpaceId, page: u64, left: &HoleSet, writes: bool) -> HoleSet {
    let extent = core.space(id).ok().and_then(|space| space.extent_at(page));
    let Some((first, extent)) = extent.filter(|_| !core.memory.is_short()) else {
        return HoleSet::EMPTY;
    };
    let number = region_of(page);
    let inside = subpages_of(&(first..first + extent.pages()), number);
    let mapped = left.minus(&complement(&inside));
    let is_done = |index| match extent.find(page_at(number, index) - first) {
        Present::Vacant => false,
        present => !writes || present.permissions().write,
    };
    if mapped.iter().all(is_done) { mapped } else { HoleSet::EMPTY }
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

fn populate_page(
    core: &mut Core,
    backers: &mut Backers,
    touch: &Touch,
    writes: bool,
) -> Result<(), OsError> {
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
        Some(present) if writes && !present.permissions().write => {
            copy_on_write::make_writable(core, id, page, area.attributes)?;
        }
        Some(_) => {}
    }
    core.touch(id, page);
    Ok(())
}
