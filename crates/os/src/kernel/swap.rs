//! Swap: private anonymous memory goes to swap space, 2MB region by 2MB region, and comes back page
//! by page.

use perforate_types::{AccessKind, HoleSet, SpaceId, Update};

use super::{Kernel, SpaceRegion};
use crate::OsError;
use crate::space::{Area, page_at, pages_of, regions_of, subpages_of};

impl Kernel {
    /// Swaps out the next region of the clock in which there is anything to swap.
    pub(super) fn swap_out_next(
        &mut self,
        avoid: Option<SpaceRegion>,
        updates: &mut Vec<Update>,
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
            if Some(place) != avoid && self.swap_out(place, updates) {
                return true;
            }
        }
        false
    }

    /// Writes what can be reclaimed of a region to swap, as much as there is room for.
    pub(super) fn swap_out(
        &mut self,
        (id, number): SpaceRegion,
        updates: &mut Vec<Update>,
    ) -> bool {
        if self.swap_extents_out((id, number), updates) {
            return true;
        }
        self.break_up_for_reclaim((id, number), updates);
        let room = usize::try_from(self.memory.swap.free_slots()).unwrap_or(usize::MAX);
        let pages: HoleSet = self.reclaimable(id, number).iter().take(room).collect();
        if !self.take_out(id, number, &pages, updates) {
            return false;
        }
        self.set_swapped(id, pages.iter().map(|index| page_at(number, index)), updates);
        true
    }

    /// Swaps out the extents of other sizes than 2MB in a region of which all pages can go; returns
    /// whether there were any. As they go as a whole it takes no frame for a node: memory may have
    /// none left.
    fn swap_extents_out(&mut self, (id, number): SpaceRegion, updates: &mut Vec<Update>) -> bool {
        let Ok(space) = self.space(id) else { return false };
        let mut is_any = false;
        for first in space.wide_within(&pages_of(number)) {
            let Ok(space) = self.space(id) else { return is_any };
            let extent = space.extent(first);
            let (pages, mechanism) = (first..first + extent.pages(), extent.mechanism());
            let goes = |number: u64| {
                let reclaimable = self.reclaimable(id, number);
                subpages_of(&pages, number).iter().all(|index| reclaimable.contains(index))
            };
            let has_room = self.memory.swap.free_slots() >= extent.pages();
            if extent.stays_whole() || !has_room || !regions_of(&pages).all(goes) {
                continue;
            }
            let Ok((space, mut effects)) = self.parts(id, updates) else { return is_any };
            mechanism.unmap(space, first, &mut effects).release(effects.memory);
            self.set_swapped(id, pages, updates);
            is_any = true;
        }
        is_any
    }

    /// The content of these pages, for which there is room and which are mapped no more, is in swap.
    fn set_swapped(
        &mut self,
        id: SpaceId,
        pages: impl Iterator<Item = u64>,
        updates: &mut Vec<Update>,
    ) {
        let Ok((space, effects)) = self.parts(id, updates) else { return };
        for page in pages {
            let slot = effects.memory.swap.take().expect("there was room");
            space.set_swapped(page, slot);
            effects.ledger.done.pages_swapped_out += 1;
        }
    }

    /// Brings `page` in from swap if it is there, as a 4KB page or as an allocated hole; returns
    /// whether it was.
    #[inline]
    pub(super) fn swap_in(
        &mut self,
        id: SpaceId,
        page: u64,
        area: Area,
        kind: AccessKind,
        updates: &mut Vec<Update>,
    ) -> Result<bool, OsError> {
        if !self.space(id)?.is_swapped(page) {
            return Ok(false);
        }
        self.read_from_swap(id, page, area, kind, updates).map(|()| true)
    }

    fn read_from_swap(
        &mut self,
        id: SpaceId,
        page: u64,
        area: Area,
        kind: AccessKind,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        self.ledger.clears = false;
        let permissions = area.attributes.effective();
        match self.space(id)?.find(page) {
            Some(_) => self.fill_hole(id, page, permissions, updates)?,
            None => self.map_frame(id, page, permissions, updates)?,
        }
        let is_shared = self.end_swap(id, page, updates)?;
        // What would have been a copy on write had the page stayed.
        if is_shared && kind == AccessKind::Write {
            self.contents.write(id, page);
        }
        Ok(())
    }

    /// The content of a swapped page is in memory again; returns whether its slot is kept by
    /// another address space.
    pub(super) fn end_swap(
        &mut self,
        id: SpaceId,
        page: u64,
        updates: &mut Vec<Update>,
    ) -> Result<bool, OsError> {
        let (space, effects) = self.parts(id, updates)?;
        let slot = space.take_swapped(page);
        effects.ledger.done.pages_swapped_in += 1;
        Ok(effects.memory.swap.release(slot))
    }

    /// Brings in all of a region that is swapped, before others share it.
    pub(super) fn swap_region_in(
        &mut self,
        id: SpaceId,
        number: u64,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        for index in self.space(id)?.swapped_pages(number).iter() {
            let page = page_at(number, index);
            let Some(area) = self.space(id)?.areas.find(page) else { continue };
            self.swap_in(id, page, area, AccessKind::Read, updates)?;
        }
        Ok(())
    }
}
