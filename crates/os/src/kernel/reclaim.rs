//! Reclaim of program memory (Linux: `mm/vmscan.c`).
//!
//! An allocation that finds memory short drops page cache and slab by itself
//! (`memory/pressure.rs`). If that does not suffice, the kernel takes memory from programs before
//! it serves a fault or an event, until free memory reaches the high watermark. The order is:
//! reserved frames, pages that were advised free (MADV_FREE), private anonymous memory. Private
//! anonymous memory goes to swap (`swap`), if a swap space is configured.
//!
//! Choices of this model:
//! - The kernel sees no TLB and so no accessed bits. A clock chooses victims without them, 2MB
//!   region after region, address space after address space. A region is swapped out as a whole,
//!   and read back page by page, as 4KB pages.
//! - There are no dirty bits either. A page that was advised free is dropped even if it was written
//!   since, where Linux would keep it. Only a write that faults revokes the advice.
//! - Pages that several page-table entries map stay in memory, as do 1GB pages, shared and file
//!   memory.
//! - Two processes that swap the same page in after a fork get separate frames, because there is no
//!   swap cache.

use std::ops::Range;

use perforate_types::{HoleSet, SpaceId};

use super::deferral::Deferral;
use super::{Core, SpaceRegion, reservation, swap};
use crate::OsError;
use crate::space::{AddressSpace, Departure, Mapping, Present, page_at, pages_of, subpages_of};

/// State and counts of the reclaim of program memory.
#[derive(Default)]
pub(super) struct Reclaim {
    /// Clock hand: 2MB region at which the search for the next victim begins.
    pub(super) hand: SpaceRegion,
    /// Backoff of the clock algorithm: after rounds without a victim over all address spaces, searches are
    /// skipped.
    rounds: Deferral,
    /// Number of pages dropped that the program had advised free (MADV_FREE).
    pub(super) advised_pages: u64,
}

impl Core {
    /// Takes memory from programs if free memory is short. `avoid` is the 2MB region of a page that is about
    /// to be touched; it is taken last.
    #[inline]
    pub(super) fn relieve(&mut self, avoid: Option<SpaceRegion>) {
        if self.memory.is_short() {
            self.make_room(self.memory.high_watermark(), avoid);
        }
    }

    /// Takes memory from programs until `free_frames` frames are free, unless dropping page cache
    /// and slab suffices.
    #[cold]
    pub(super) fn make_room(&mut self, free_frames: u64, avoid: Option<SpaceRegion>) {
        if reservation::release(self, free_frames) && self.free_frames() >= free_frames {
            return;
        }
        let others = self.memory.reclaimable_frames();
        if self.free_frames() + others >= free_frames || !may_reclaim(self) {
            return;
        }
        if !self.reclaim.rounds.is_due() {
            return;
        }
        self.note_peak();
        if others > 0 {
            self.memory.reclaim();
        }
        while self.free_frames() < free_frames && self.reclaim_region(avoid) {}
    }

    /// Runs `act`, an operation on a page of the 2MB region `place`. If memory is short, takes memory from
    /// programs first. Repeats `act` while it fails with out-of-memory and programs still have memory to
    /// take.
    pub(super) fn with_reclaim<T>(
        &mut self,
        place: SpaceRegion,
        mut act: impl FnMut(&mut Self) -> Result<T, OsError>,
    ) -> Result<T, OsError> {
        self.relieve(Some(place));
        let mut result = act(self);
        while matches!(result, Err(OsError::OutOfMemory { .. })) && self.relieve_failure(place) {
            result = act(self);
        }
        result
    }

    /// Takes memory from programs after an operation on a page of the 2MB region `place` failed for lack of
    /// memory. Returns true if any was taken, so that the caller can retry. Retries end, because every call
    /// frees memory for good or fills the swap space.
    fn relieve_failure(&mut self, place: SpaceRegion) -> bool {
        // Free memory may lie in pieces that are too small, so more is requested.
        let wanted = self.free_frames() + self.memory.high_watermark();
        if reservation::release(self, wanted) {
            return true;
        }
        if !may_reclaim(self) {
            return false;
        }
        self.note_peak();
        self.reclaim_region(Some(place))
    }

    /// Drops the pages of one 2MB region that were advised free (MADV_FREE), or swaps one region out. Returns
    /// true if frames were freed.
    fn reclaim_region(&mut self, avoid: Option<SpaceRegion>) -> bool {
        if self.drop_advised() || self.swap_out_next(avoid) {
            self.reclaim.rounds.reset();
            return true;
        }
        // The region of the fault itself comes last: its page is not mapped yet, or will be read
        // back from swap.
        if avoid.is_some_and(|place| swap::write_out(self, place)) {
            return true;
        }
        self.reclaim.rounds.failed();
        false
    }

    /// Drops the pages of one 2MB region that were advised free (MADV_FREE). Returns true if any was dropped.
    /// The advice is forgotten even if a page stays because other pages map its frame.
    fn drop_advised(&mut self) -> bool {
        for slot in 0..self.spaces.len() {
            let id = SpaceId(slot as u16);
            while let Some((number, advised)) =
                self.spaces[slot].as_mut().and_then(|space| space.take_advised())
            {
                break_up(self, (id, number));
                let mut pages = reclaimable(self, id, number);
                pages = pages.iter().filter(|&index| advised.contains(index)).collect();
                if take_out(self, id, number, &pages) {
                    for index in pages.iter() {
                        let page = page_at(number, index);
                        self.contents.forget(id, &(page..page + 1));
                    }
                    self.reclaim.advised_pages += pages.count() as u64;
                    return true;
                }
            }
        }
        false
    }
}

/// True if programs may have memory that reclaim can take (a cheap test without a search).
fn may_reclaim(core: &Core) -> bool {
    core.memory.swap.free_slots() > 0 || core.live_spaces().any(AddressSpace::is_advised_free)
}

/// Unmaps the sub-pages `pages` of a 2MB region and frees their frames. Returns false if there are none, or
/// if unmapping failed: splitting or punching a 2MB page may need a frame.
pub(super) fn take_out(core: &mut Core, id: SpaceId, number: u64, pages: &HoleSet) -> bool {
    if pages.is_empty() {
        return false;
    }
    let Ok(space) = &mut core.space_mut(id) else { return false };
    // A larger extent that was not broken up keeps all its pages: some are shared, or no frame was
    // left for a page-table node.
    if space.region(number).is_none() {
        return false;
    }
    let stays =
        |index: usize| space.frame_of(page_at(number, index)).is_some() && !pages.contains(index);
    let whole = !(0..HoleSet::SUBPAGES).any(stays);
    let pages = if whole { HoleSet::FULL } else { *pages };
    space.leave_overlay(&pages_of(number), Departure::Remapped).is_ok()
        && space.drop_subpages(number, &pages).is_ok()
}

/// Mapped pages of a 2MB region that can be reclaimed: private anonymous memory that is not shared. Pages
/// whose permissions differ from their memory area stay, because swap would not store them. The in-place
/// sub-pages of a 2MB page are taken all or none. Pages whose frame an overlay (a direct segment) owns stay.
pub(super) fn reclaimable(core: &Core, id: SpaceId, number: u64) -> HoleSet {
    let Ok(space) = core.space(id) else { return HoleSet::EMPTY };
    let in_place_stays = match space.region(number).map(|region| &region.mapping) {
        None if !has_breakable_extent(space, number) => return HoleSet::EMPTY,
        Some(Mapping::Extent(extent)) => Some(extent.is_shared(&core.memory)),
        _ => None,
    };
    let mut pages = HoleSet::EMPTY;
    for area in space.areas.within(pages_of(number)) {
        if !area.attributes.is_private_anonymous() {
            continue;
        }
        let allowed = area.attributes.effective();
        for index in subpages_of(&area.pages(), number).iter() {
            let Some(present) = space.find(page_at(number, index)) else { continue };
            let Some(frame) = present.frame() else { continue };
            let stays = match present {
                Present::InPlace(..) => in_place_stays,
                _ => None,
            };
            let stays = stays.unwrap_or_else(|| core.memory.is_shared(frame));
            let own = present.permissions();
            let stays = stays || space.is_kept(page_at(number, index));
            if !stays && own.execute == allowed.execute && own.user == allowed.user {
                pages.insert(index);
            }
        }
    }
    pages
}

/// Breaks up an extent (mapping in one piece) that is larger than 2MB, because single pages of one of its
/// regions are to be taken. A shared extent stays, because none of its pages can be taken. Without memory for
/// a page-table node the extent stays too.
pub(super) fn break_up(core: &mut Core, (id, number): SpaceRegion) {
    let Ok(space) = &mut core.space_mut(id) else { return };
    let Some(&first) = space.wide_within(&pages_of(number)).first() else { return };
    let extent = space.extent(first);
    if !extent.stays_whole() && !extent.is_shared(space.memory) {
        // If this fails, the region has nothing to reclaim.
        let _ = space.break_up(first);
    }
}

/// MADV_FREE: marks mapped pages as free, which reclaim may then drop when memory is short. Swapped pages are
/// dropped at once, as in Linux.
pub(super) fn advise_free(core: &mut Core, id: SpaceId, pages: Range<u64>) -> Result<(), OsError> {
    let space = &mut core.space_mut(id)?;
    let areas = space.areas.within(pages);
    let mut dropped = Vec::new();
    for area in areas.iter().filter(|area| area.attributes.is_private_anonymous()) {
        let pages = area.pages();
        if space.any_swapped(pages.clone()) {
            dropped.extend(space.swapped_within(pages.clone()));
            space.forget_reclaimed(&pages);
        }
        for number in space.mapped_regions(&pages) {
            let is_mapped = |&index: &usize| space.frame_of(page_at(number, index)).is_some();
            let mapped = subpages_of(&pages, number).iter().filter(is_mapped).collect();
            space.advise_free(number, &mapped);
        }
    }
    for page in dropped {
        core.contents.forget(id, &(page..page + 1));
    }
    Ok(())
}

/// True if an extent of another size than 2MB (such as a 1GB page or a gap-tolerant superpage) maps pages of
/// the 2MB region and may be broken up.
fn has_breakable_extent(space: &AddressSpace, number: u64) -> bool {
    let extents = space.wide_within(&pages_of(number));
    extents.into_iter().any(|first| !space.extent(first).stays_whole())
}
