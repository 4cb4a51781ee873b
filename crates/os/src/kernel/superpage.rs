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

use perforate_types::{Counters, GapTolerance, Permissions, SpaceId, Update};

use super::{FirstTouch, Kernel};
use crate::memory::{PhysicalMemory, Selected};
use crate::space::{Area, REGION_PAGES, Superpage};
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
            let mode = self.config.tables.gap_tolerance.expect("asked for such page tables only");
            let (space, mut effects) = self.parts(id, updates)?;
            let page = first + index as u64 * mode.entry_pages();
            let superpage = Superpage { place, permissions, mode };
            if let Err(error) = space.map_superpage(page, superpage, &mut effects) {
                places[index..].iter().for_each(|&place| self.free_superpage(mode, place));
                return Err(error);
            }
            self.superpages.made += 1;
        }
        Ok(())
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
        out.count("superpages_relocated", self.extents_relocated);
        let slices = self.memory.zones().slices();
        out.count("slices_allocatable", slices.map_or(0, |slices| slices.allocatable()));
    }
}
