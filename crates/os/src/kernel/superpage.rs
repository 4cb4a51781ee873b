//! Gap-tolerant superpages: when they are made, and what becomes of them (G §3.8).
//!
//! Choices of ours, where G is silent:
//! - The first touch of an aligned piece of private memory maps it, 2MB at least, if its area spans
//!   the piece and slices can be had; else 4KB pages.
//! - A superpage of which a part is unmapped, protected, moved, copied on write, merged or swapped
//!   becomes 4KB pages where it lies. Nothing makes it a superpage again.
//! - One with a failing frame moves to other B-blocks if they can be had.
//! - Shared memory has 4KB pages.

use std::ops::Range;

use perforate_types::{Counters, Frame, GapTolerance, Permissions, SpaceId, Update};

use super::range::{allowed, covers};
use super::{FirstTouch, HardFault, Kernel, SpacePage, SpaceRegion};
use crate::memory::{PhysicalMemory, Selected};
use crate::space::{AddressSpace, Area, Effects, REGION_PAGES, Superpage, pages_of, regions_of};
use crate::{KernelConfig, OsError, Policy};

/// Figures of superpages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Superpages {
    /// Pages for which superpages were tried, each piece once while its process lives.
    wanted_pages: u64,
    /// Entries mapped.
    made: u64,
    /// First touches for which no slice could be had.
    failed: u64,
    /// Entries that moved to other B-blocks.
    relocated: u64,
}

/// Checks that policy and page tables fit, and has memory keep which slices can be had.
///
/// # Errors
/// If they do not, or the policy wants slices that do not exist.
pub(super) fn prepare(
    memory: &mut PhysicalMemory,
    config: &KernelConfig,
    policy: &dyn Policy,
) -> Result<(), OsError> {
    let Some(mode) = config.tables.gap_tolerance else {
        let wanted = policy.superpages().is_some();
        return if wanted { Err(OsError::NoGapTolerance) } else { Ok(()) };
    };
    if policy.maps_large() {
        let (policy, mode) = (policy.name(), mode.label());
        return Err(OsError::LargePagesWithGapTolerance { policy, mode });
    }
    let Some(rule) = policy.superpages() else { return Ok(()) };
    rule.check(mode, memory.end_frame())?;
    memory.track_slices(mode, rule, config.fragmentation.is_some());
    Ok(())
}

impl Kernel {
    /// Maps the piece around a page where nothing is mapped by superpages, if area, policy and
    /// memory allow; returns whether they did.
    pub(super) fn bring_in_superpage(
        &mut self,
        id: SpaceId,
        page: u64,
        area: &Area,
        updates: &mut Vec<Update>,
    ) -> Result<bool, OsError> {
        let mode = self.config.tables.gap_tolerance.expect("asked for such page tables only");
        let attributes = &area.attributes;
        if self.policy.superpages().is_none()
            || attributes.object.is_some()
            || !self.wants_large(attributes)
        {
            return Ok(false);
        }
        let size = mode.entry_pages().max(REGION_PAGES);
        let pages = page & !(size - 1)..(page & !(size - 1)) + size;
        if !area.spans(&pages) || !self.space(id)?.is_clear_for_superpages(&pages) {
            return Ok(false);
        }
        self.draw_slices(id, &pages)?;
        let Some(places) = self.allocate_superpages(mode, size / mode.entry_pages()) else {
            self.superpages.failed += 1;
            return Ok(false);
        };
        match self.map_superpages(id, pages.start, &places, attributes.effective(), updates) {
            // The superpages took the frames that the nodes above need: 4KB pages leave them some.
            Err(OsError::OutOfMemory { .. }) => {
                self.superpages.failed += 1;
                return Ok(false);
            }
            mapped => mapped?,
        }
        self.ledger.bring_in(FirstTouch::Superpage { pages: size });
        Ok(true)
    }

    /// Injected fragmentation is drawn for as much memory as superpages were tried for, so that they
    /// have the choice that 2MB pages have of one block for each region.
    fn draw_slices(&mut self, id: SpaceId, pages: &Range<u64>) -> Result<(), OsError> {
        let Some(fragmentation) = self.config.fragmentation else { return Ok(()) };
        let mut none = Vec::new();
        let (space, _) = self.parts(id, &mut none)?;
        if space.tried_superpages.insert(pages.start) {
            self.superpages.wanted_pages += pages.end - pages.start;
        }
        let seed = self.config.seed;
        self.memory
            .draw_slices(self.superpages.wanted_pages, |block| fragmentation.holes(seed, block));
        Ok(())
    }

    /// Frames for `count` entries, or for none.
    fn allocate_superpages(&mut self, mode: GapTolerance, count: u64) -> Option<Vec<Selected>> {
        let mut places = Vec::new();
        for _ in 0..count {
            match self.memory.allocate_superpage() {
                Some(place) => places.push(place),
                None => {
                    places.iter().for_each(|&place| self.free_superpage(mode, place));
                    return None;
                }
            }
        }
        Some(places)
    }

    fn free_superpage(&mut self, mode: GapTolerance, place: Selected) {
        for block in place.blocks(mode) {
            self.memory.free(block, mode.block_order());
        }
    }

    fn map_superpages(
        &mut self,
        id: SpaceId,
        first: u64,
        places: &[Selected],
        permissions: Permissions,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        for (index, &place) in places.iter().enumerate() {
            let (space, mut effects) = self.parts(id, updates)?;
            let mode = space.mode();
            let page = first + index as u64 * mode.entry_pages();
            let superpage = Superpage { place, permissions };
            if let Err(error) = space.map_superpage(page, superpage, &mut effects) {
                places[index..].iter().for_each(|&place| self.free_superpage(mode, place));
                return Err(error);
            }
            self.superpages.made += 1;
        }
        Ok(())
    }

    /// Makes 4KB pages of a region's superpages of which single pages are to go, unless others map
    /// them too, so that nothing of them can go. Without memory for a node they stay.
    pub(super) fn demote_for_reclaim(
        &mut self,
        (id, number): SpaceRegion,
        updates: &mut Vec<Update>,
    ) {
        let Ok((space, mut effects)) = self.parts(id, updates) else { return };
        let Some(&page) = space.superpages_within(&pages_of(number)).first() else { return };
        if !space.is_superpage_shared(page, effects.memory) {
            // Where it fails the region has nothing to reclaim.
            let _ = space.demote_superpages(page, &mut effects);
        }
    }

    /// Whose superpage a frame is a part of, and which page it is. Frames fail seldom: all
    /// superpages are looked through.
    pub(super) fn superpage_page_of(&self, frame: Frame) -> Option<SpacePage> {
        self.processes.values().find_map(|&id| {
            let page = self.space(id).ok()?.superpage_of(frame)?;
            Some((id, page))
        })
    }

    /// A frame of a superpage is failing.
    pub(super) fn take_out_of_superpage(
        &mut self,
        (id, page): SpacePage,
        frame: Frame,
        updates: &mut Vec<Update>,
    ) -> HardFault {
        if self.relocate_superpage(id, page, updates) {
            return HardFault::Relocated;
        }
        let Ok((space, mut effects)) = self.parts(id, updates) else {
            return HardFault::Uncorrected;
        };
        let start = space.superpage_start(page);
        let demoted = space.demote_superpages(start, &mut effects);
        if demoted.is_ok() && self.migrate(frame, updates) {
            HardFault::Demoted
        } else {
            HardFault::Uncorrected
        }
    }

    /// Moves a superpage entry to other B-blocks; returns whether it could be done.
    fn relocate_superpage(&mut self, id: SpaceId, page: u64, updates: &mut Vec<Update>) -> bool {
        let Ok(space) = self.space(id) else { return false };
        let start = space.superpage_start(page);
        if space.is_superpage_shared(start, &self.memory) {
            return false;
        }
        let Some(place) = self.memory.allocate_superpage() else { return false };
        let Ok((space, mut effects)) = self.parts(id, updates) else { return false };
        let mode = space.mode();
        let old = space.move_superpage_to(start, place, &mut effects);
        effects.ledger.done.frames_migrated += mode.entry_pages();
        old.release(mode, effects.memory);
        self.superpages.relocated += 1;
        true
    }

    /// The block availability vectors, one for each slice of memory, a bit for each of its B-blocks
    /// whose frames are all free (G §3.6); none where no superpages are made.
    pub fn availability_vectors(&self) -> &[u64] {
        self.memory.zones().slices().map_or(&[], |slices| slices.vectors())
    }

    /// Writes the figures of superpages: at this moment, but for those made and attempts that
    /// failed.
    pub(super) fn superpage_counters(&self, out: &mut Counters) {
        let usage = self.usage();
        out.count("superpage_bytes", usage.superpage_pages << 12);
        out.count("superpages_made", self.superpages.made);
        out.count("superpage_failures", self.superpages.failed);
        out.count("superpages_relocated", self.superpages.relocated);
        let slices = self.memory.zones().slices();
        out.count("slices_allocatable", slices.map_or(0, |slices| slices.allocatable()));
    }
}

impl AddressSpace {
    /// Whether others map any frame of the superpage entry at `page`.
    pub(super) fn is_superpage_shared(&self, page: u64, memory: &PhysicalMemory) -> bool {
        self.superpage(page).is_shared(self.mode(), memory)
    }

    /// Unmaps what `pages` has of the superpage entry at `page`; where that is a part, the rest is
    /// 4KB pages from then on and the part is left to the caller.
    pub(super) fn drop_superpage(
        &mut self,
        page: u64,
        pages: &Range<u64>,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        if !self.has_superpage(page) {
            return Ok(());
        }
        if covers(pages, &self.superpage_pages(page)) {
            let mode = self.mode();
            self.unmap_superpage(page, effects).release(mode, effects.memory);
            return Ok(());
        }
        self.demote_superpages(page, effects)
    }

    /// Gives the superpage entry at `page` the permissions of `area`; where the area has only a part
    /// of it and they differ, makes 4KB pages of it, whose permissions are left to the caller.
    pub(super) fn protect_or_demote(
        &mut self,
        page: u64,
        area: &Area,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        if !self.has_superpage(page) {
            return Ok(());
        }
        let shared = self.is_superpage_shared(page, effects.memory);
        let permissions = allowed(&area.attributes, shared);
        if area.spans(&self.superpage_pages(page)) {
            self.protect_superpage(page, permissions, effects);
            return Ok(());
        }
        if self.superpage(page).permissions == permissions {
            return Ok(());
        }
        self.demote_superpages(page, effects)
    }

    /// fork: the child maps the same frames, read-only until a write copies them.
    pub(super) fn copy_superpage(
        &mut self,
        page: u64,
        child: &mut Self,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let superpage = self.superpage(page);
        let permissions = self.shared_permissions(page, superpage.permissions);
        child.map_superpage(page, Superpage { permissions, ..superpage }, effects)?;
        superpage.frames(self.mode()).for_each(|frame| effects.memory.share(frame));
        self.protect_superpage(page, permissions, effects);
        Ok(())
    }

    /// mremap: moves the superpage entry at `page` as one where all of it moves to a place for a
    /// superpage; else makes 4KB pages of it, which are left to the caller.
    pub(super) fn move_superpage(
        &mut self,
        page: u64,
        pages: &Range<u64>,
        to: u64,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        if !self.has_superpage(page) {
            return Ok(());
        }
        let (from, mode) = (self.superpage_pages(page), self.mode());
        let target = page.wrapping_add(to).wrapping_sub(pages.start);
        let goes_as_one = covers(pages, &from)
            && target.is_multiple_of(mode.entry_pages())
            && regions_of(&(target..target + mode.entry_pages()))
                .all(|number| self.region(number).is_none());
        if !goes_as_one {
            return self.demote_superpages(page, effects);
        }
        let superpage = self.unmap_superpage(page, effects);
        let mapped = self.map_superpage(target, superpage, effects);
        if mapped.is_err() {
            superpage.release(mode, effects.memory);
        }
        mapped
    }
}
