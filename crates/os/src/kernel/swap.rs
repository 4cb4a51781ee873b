//! Swap: writes private anonymous memory to swap space by 2MB regions, and reads it back page by
//! page.

use perforate_types::{AccessKind, HoleSet, SpaceId};

use super::reclaim;
use super::{Core, SpaceRegion, single_page};
use crate::space::{
    Area, Departure, Mapping, REGION_PAGES, page_at, pages_of, regions_of, subpages_of,
};
use crate::{OsError, Victim};

impl Core {
    /// Swaps out the next 2MB region, in clock order, that has pages to swap. Regions that the
    /// policy wants to keep are taken only if there is no other. Returns false if nothing was
    /// swapped out.
    pub(super) fn swap_out_next(&mut self, avoid: Option<SpaceRegion>) -> bool {
        let mut spares = false;
        let takes = |core: &Core, place| {
            let takes = reclaims(core, place);
            spares |= !takes;
            takes
        };
        self.swap_out_round(avoid, takes) || (spares && self.swap_out_round(avoid, |_, _| true))
    }

    /// Swaps out the first 2MB region for which `takes` is true, in one round of the clock algorithm over all
    /// address spaces. Returns false if there is none.
    fn swap_out_round(
        &mut self,
        avoid: Option<SpaceRegion>,
        mut takes: impl FnMut(&Core, SpaceRegion) -> bool,
    ) -> bool {
        let start = self.reclaim.hand;
        let mut wrapped = false;
        while self.memory.swap.free_slots() > 0 {
            let Some(place) = self.next_region(self.reclaim.hand) else {
                if wrapped {
                    return false;
                }
                wrapped = true;
                self.reclaim.hand = SpaceRegion::default();
                continue;
            };
            if wrapped && place >= start {
                return false;
            }
            self.reclaim.hand = (place.0, place.1 + 1);
            if Some(place) != avoid && takes(self, place) && write_out(self, place) {
                return true;
            }
        }
        false
    }
}

/// True if the policy lets reclaim take the pages of a 2MB region.
fn reclaims(core: &Core, (id, number): SpaceRegion) -> bool {
    let Ok(space) = core.space(id) else { return true };
    let first = space.areas.parts(pages_of(number)).next();
    let area = first.and_then(|part| space.areas.find(part.start));
    let is_small = matches!(space.region(number).map(|it| &it.mapping), Some(Mapping::Pages(_)));
    let holes = space.holed(number).map_or(0, |holed| holed.holes.count() as u64);
    let pages = match is_small {
        true => space.mapped_pages(number).count() as u64,
        false => REGION_PAGES - holes,
    };
    let victim = Victim { area: area.as_ref(), number, pages, is_large: !is_small, holes };
    core.policy.reclaims(&victim)
}

/// Writes the reclaimable pages of a 2MB region to swap, up to the number of free slots. Returns true if any
/// page was written.
pub(super) fn write_out(core: &mut Core, (id, number): SpaceRegion) -> bool {
    if write_extents_out(core, (id, number)) {
        return true;
    }
    reclaim::break_up(core, (id, number));
    let room = usize::try_from(core.memory.swap.free_slots()).unwrap_or(usize::MAX);
    let pages: HoleSet = reclaim::reclaimable(core, id, number).iter().take(room).collect();
    if !reclaim::take_out(core, id, number, &pages) {
        return false;
    }
    set_swapped(core, id, pages.iter().map(|index| page_at(number, index)));
    true
}

/// Swaps out extents (mappings in one piece) of other sizes than 2MB that overlap the 2MB region, if all
/// their pages can be taken. Returns true if there were any. Extents are taken whole, because breaking one up
/// needs a frame for a page-table node, and memory may have none left.
fn write_extents_out(core: &mut Core, (id, number): SpaceRegion) -> bool {
    let Ok(space) = core.space(id) else { return false };
    let mut is_any = false;
    for first in space.wide_within(&pages_of(number)) {
        let Ok(space) = core.space(id) else { return is_any };
        let extent = space.extent(first);
        let (pages, mechanism) = (first..first + extent.pages(), extent.mechanism());
        let can_go = |number: u64| {
            let reclaimable = reclaim::reclaimable(core, id, number);
            subpages_of(&pages, number).iter().all(|index| reclaimable.contains(index))
        };
        let has_room = core.memory.swap.free_slots() >= extent.pages();
        if extent.stays_whole() || !has_room || !regions_of(&pages).all(can_go) {
            continue;
        }
        let Ok(space) = &mut core.space_mut(id) else { return is_any };
        if space.leave_overlay(&pages, Departure::Remapped).is_err() {
            continue;
        }
        mechanism.unmap(space, first).release(space.memory);
        set_swapped(core, id, pages);
        is_any = true;
    }
    is_any
}

/// Records that the content of unmapped pages is in swap. There must be enough free slots.
fn set_swapped(core: &mut Core, id: SpaceId, pages: impl Iterator<Item = u64>) {
    let Ok(space) = &mut core.space_mut(id) else { return };
    for page in pages {
        let slot = space.memory.swap.take().expect("there was room");
        space.set_swapped(page, slot);
        space.ledger.done.pages_swapped_out += 1;
    }
}

/// Reads `page` from swap, as a 4KB page or as an allocated hole. Returns false if it is not in
/// swap.
#[inline]
pub(super) fn read_in(
    core: &mut Core,
    id: SpaceId,
    page: u64,
    area: Area,
    kind: AccessKind,
) -> Result<bool, OsError> {
    if !core.space(id)?.is_swapped(page) {
        return Ok(false);
    }
    read(core, id, page, area, kind).map(|()| true)
}

fn read(
    core: &mut Core,
    id: SpaceId,
    page: u64,
    area: Area,
    kind: AccessKind,
) -> Result<(), OsError> {
    core.ledger.clears = false;
    let permissions = area.attributes.effective();
    match core.space(id)?.find(page) {
        Some(_) => single_page::fill_hole(core, id, page, permissions)?,
        None => single_page::map(core, id, page, permissions)?,
    }
    let is_shared = end(core, id, page)?;
    // A write to a page in a shared slot counts as copy on write, as it would if the page were in
    // memory.
    if is_shared && kind == AccessKind::Write {
        core.contents.write(id, page);
    }
    Ok(())
}

/// Removes the swap record of a page whose content is in memory again. Returns true if another address space
/// still uses the page's swap slot.
pub(super) fn end(core: &mut Core, id: SpaceId, page: u64) -> Result<bool, OsError> {
    let space = &mut core.space_mut(id)?;
    let slot = space.take_swapped(page);
    space.ledger.done.pages_swapped_in += 1;
    Ok(space.memory.swap.release(slot))
}

/// Reads all swapped pages of a 2MB region back, before the region is promoted or shared.
pub(super) fn read_region_in(core: &mut Core, id: SpaceId, number: u64) -> Result<(), OsError> {
    for index in core.space(id)?.swapped_pages(number).iter() {
        let page = page_at(number, index);
        let Some(area) = core.space(id)?.areas.find(page) else { continue };
        read_in(core, id, page, area, AccessKind::Read)?;
    }
    Ok(())
}
