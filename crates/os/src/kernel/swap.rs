//! Swap: private anonymous memory goes to swap space, 2MB region by 2MB region, and comes back page
//! by page.

use perforate_types::{AccessKind, HoleSet, SpaceId, Update};

use super::reclaim::{self, Reclaim};
use super::{Core, SpaceRegion, single_page};
use crate::space::{
    Area, Departure, Mapping, REGION_PAGES, page_at, pages_of, regions_of, subpages_of,
};
use crate::{OsError, Victim};

impl Reclaim {
    /// Swaps out the next region of the clock in which there is anything to swap and that the policy
    /// does not spare; if it spares all, one of them.
    pub(super) fn swap_out_next(
        &mut self,
        core: &mut Core,
        avoid: Option<SpaceRegion>,
        updates: &mut Vec<Update>,
    ) -> bool {
        let mut spares = false;
        let takes = |core: &Core, place| {
            let takes = reclaims(core, place);
            spares |= !takes;
            takes
        };
        self.swap_out_round(core, avoid, takes, updates)
            || (spares && self.swap_out_round(core, avoid, |_, _| true, updates))
    }

    /// The same for the first region of a round that is to be taken.
    fn swap_out_round(
        &mut self,
        core: &mut Core,
        avoid: Option<SpaceRegion>,
        mut takes: impl FnMut(&Core, SpaceRegion) -> bool,
        updates: &mut Vec<Update>,
    ) -> bool {
        let start = self.hand;
        let mut wrapped = false;
        while core.memory.swap.free_slots() > 0 {
            let Some(place) = core.next_region(self.hand) else {
                if wrapped {
                    return false;
                }
                wrapped = true;
                self.hand = SpaceRegion::default();
                continue;
            };
            if wrapped && place >= start {
                return false;
            }
            self.hand = (place.0, place.1 + 1);
            if Some(place) != avoid && takes(core, place) && write_out(core, place, updates) {
                return true;
            }
        }
        false
    }
}

/// Whether the policy lets reclaim take a region.
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

/// Writes what can be reclaimed of a region to swap, as much as there is room for.
pub(super) fn write_out(
    core: &mut Core,
    (id, number): SpaceRegion,
    updates: &mut Vec<Update>,
) -> bool {
    if write_extents_out(core, (id, number), updates) {
        return true;
    }
    reclaim::break_up(core, (id, number), updates);
    let room = usize::try_from(core.memory.swap.free_slots()).unwrap_or(usize::MAX);
    let pages: HoleSet = reclaim::reclaimable(core, id, number).iter().take(room).collect();
    if !reclaim::take_out(core, id, number, &pages, updates) {
        return false;
    }
    set_swapped(core, id, pages.iter().map(|index| page_at(number, index)), updates);
    true
}

/// Swaps out the extents of other sizes than 2MB in a region of which all pages can go; returns
/// whether there were any. As they go as a whole it takes no frame for a node: memory may have
/// none left.
fn write_extents_out(
    core: &mut Core,
    (id, number): SpaceRegion,
    updates: &mut Vec<Update>,
) -> bool {
    let Ok(space) = core.space(id) else { return false };
    let mut is_any = false;
    for first in space.wide_within(&pages_of(number)) {
        let Ok(space) = core.space(id) else { return is_any };
        let extent = space.extent(first);
        let (pages, mechanism) = (first..first + extent.pages(), extent.mechanism());
        let goes = |number: u64| {
            let reclaimable = reclaim::reclaimable(core, id, number);
            subpages_of(&pages, number).iter().all(|index| reclaimable.contains(index))
        };
        let has_room = core.memory.swap.free_slots() >= extent.pages();
        if extent.stays_whole() || !has_room || !regions_of(&pages).all(goes) {
            continue;
        }
        let Ok((space, mut effects)) = core.parts(id, updates) else { return is_any };
        if space.leave_overlay(&pages, Departure::Remapped, &mut effects).is_err() {
            continue;
        }
        mechanism.unmap(space, first, &mut effects).release(effects.memory);
        set_swapped(core, id, pages, updates);
        is_any = true;
    }
    is_any
}

/// The content of these pages, for which there is room and which are mapped no more, is in swap.
fn set_swapped(
    core: &mut Core,
    id: SpaceId,
    pages: impl Iterator<Item = u64>,
    updates: &mut Vec<Update>,
) {
    let Ok((space, effects)) = core.parts(id, updates) else { return };
    for page in pages {
        let slot = effects.memory.swap.take().expect("there was room");
        space.set_swapped(page, slot);
        effects.ledger.done.pages_swapped_out += 1;
    }
}

/// Brings `page` in from swap if it is there, as a 4KB page or as an allocated hole; returns
/// whether it was.
#[inline]
pub(super) fn read_in(
    core: &mut Core,
    id: SpaceId,
    page: u64,
    area: Area,
    kind: AccessKind,
    updates: &mut Vec<Update>,
) -> Result<bool, OsError> {
    if !core.space(id)?.is_swapped(page) {
        return Ok(false);
    }
    read(core, id, page, area, kind, updates).map(|()| true)
}

fn read(
    core: &mut Core,
    id: SpaceId,
    page: u64,
    area: Area,
    kind: AccessKind,
    updates: &mut Vec<Update>,
) -> Result<(), OsError> {
    core.ledger.clears = false;
    let permissions = area.attributes.effective();
    match core.space(id)?.find(page) {
        Some(_) => single_page::fill_hole(core, id, page, permissions, updates)?,
        None => single_page::map(core, id, page, permissions, updates)?,
    }
    let is_shared = end(core, id, page, updates)?;
    // What would have been a copy on write had the page stayed.
    if is_shared && kind == AccessKind::Write {
        core.contents.write(id, page);
    }
    Ok(())
}

/// The content of a swapped page is in memory again; returns whether its slot is kept by
/// another address space.
pub(super) fn end(
    core: &mut Core,
    id: SpaceId,
    page: u64,
    updates: &mut Vec<Update>,
) -> Result<bool, OsError> {
    let (space, effects) = core.parts(id, updates)?;
    let slot = space.take_swapped(page);
    effects.ledger.done.pages_swapped_in += 1;
    Ok(effects.memory.swap.release(slot))
}

/// Brings in all of a region that is swapped, before others share it.
pub(super) fn read_region_in(
    core: &mut Core,
    id: SpaceId,
    number: u64,
    updates: &mut Vec<Update>,
) -> Result<(), OsError> {
    for index in core.space(id)?.swapped_pages(number).iter() {
        let page = page_at(number, index);
        let Some(area) = core.space(id)?.areas.find(page) else { continue };
        read_in(core, id, page, area, AccessKind::Read, updates)?;
    }
    Ok(())
}
