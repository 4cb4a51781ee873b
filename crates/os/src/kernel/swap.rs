//! Swap: private anonymous memory goes to swap space, 2MB region by 2MB region, and comes back page
//! by page.

use perforate_types::{AccessKind, HoleSet, SpaceId, Update};

use super::{Kernel, SpaceRegion};
use crate::OsError;
use crate::space::{Area, page_at};

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
        self.demote_for_reclaim((id, number), updates);
        let room = usize::try_from(self.memory.swap.free_slots()).unwrap_or(usize::MAX);
        let pages: HoleSet = self.reclaimable(id, number).iter().take(room).collect();
        if !self.take_out(id, number, &pages, updates) {
            return false;
        }
        let Ok((space, effects)) = self.parts(id, updates) else { return false };
        for index in pages.iter() {
            let slot = effects.memory.swap.take().expect("there was room");
            space.set_swapped(page_at(number, index), slot);
        }
        effects.ledger.done.pages_swapped_out += pages.count() as u64;
        true
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
