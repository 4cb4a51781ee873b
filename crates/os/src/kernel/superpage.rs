//! Gap-tolerant superpages: when they are made, and what becomes of them (G §3.8).
//!
//! Choices of ours, where G is silent:
//! - The first touch of an aligned piece of private memory maps it, 2MB at least, if its area spans
//!   the piece and slices can be had; else 4KB pages.
//! - A superpage of which a part is unmapped, protected, moved, copied on write, merged or swapped
//!   becomes 4KB pages where it lies. Nothing makes it a superpage again.
//! - One with a failing frame moves to other B-blocks if they can be had.
//! - Shared memory has 4KB pages.

use std::collections::BTreeSet;
use std::ops::Range;

use perforate_types::{Counters, GapTolerance, Permissions, SpaceId, Update, figures};

use super::first_touch::{Backed, Backer, Context, Touch};
use super::{Core, FirstTouch};
use crate::memory::{PhysicalMemory, Selected};
use crate::space::{REGION_PAGES, Superpage};
use crate::{KernelConfig, OsError, Policy, SuperpageRule};

/// The backer for gap-tolerant superpages.
#[derive(Default)]
pub(super) struct Superpages {
    /// The mode of those that the policy wants.
    mode: Option<GapTolerance>,
    /// Where they were tried while fragmentation is injected, by first page.
    tried: BTreeSet<(SpaceId, u64)>,
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
        let wanted = policy.rule::<SuperpageRule>().is_some();
        return if wanted { Err(OsError::NoGapTolerance) } else { Ok(()) };
    };
    if policy.maps_large() {
        let (policy, mode) = (policy.name(), mode.label());
        return Err(OsError::LargePagesWithGapTolerance { policy, mode });
    }
    let Some(rule) = policy.rule::<SuperpageRule>() else { return Ok(()) };
    rule.check(mode, memory.end_frame())?;
    memory.track_slices(mode, rule, config.fragmentation.is_some());
    Ok(())
}

impl Superpages {
    /// Superpages as policy and page tables want them.
    pub(super) fn new(config: &KernelConfig, policy: &dyn Policy) -> Self {
        let mode = policy.rule::<SuperpageRule>().and(config.tables.gap_tolerance);
        Self { mode, ..Self::default() }
    }

    /// Injected fragmentation is drawn for as much memory as superpages were tried for, so that they
    /// have the choice that 2MB pages have of one block for each region.
    fn draw_slices(&mut self, core: &mut Core, id: SpaceId, pages: &Range<u64>) {
        let Some(fragmentation) = core.config.fragmentation else { return };
        if self.tried.insert((id, pages.start)) {
            self.wanted_pages += pages.end - pages.start;
        }
        let seed = core.config.seed;
        core.memory.draw_slices(self.wanted_pages, |block| fragmentation.holes(seed, block));
    }

    fn map_all(
        &mut self,
        core: &mut Core,
        mode: GapTolerance,
        (id, first): (SpaceId, u64),
        places: &[Selected],
        permissions: Permissions,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        for (index, &place) in places.iter().enumerate() {
            let (space, mut effects) = core.parts(id, updates)?;
            let page = first + index as u64 * mode.entry_pages();
            let superpage = Superpage { place, permissions, mode };
            if let Err(error) = space.map_superpage(page, superpage, &mut effects) {
                places[index..].iter().for_each(|&place| free(core, mode, place));
                return Err(error);
            }
            self.made += 1;
        }
        Ok(())
    }
}

impl Backer for Superpages {
    /// Maps the piece around the page by superpages, if area, policy and memory allow.
    fn back(
        &mut self,
        context: &mut Context<'_>,
        touch: &Touch,
        updates: &mut Vec<Update>,
    ) -> Result<Backed, OsError> {
        let core = &mut *context.core;
        let &Touch { space: id, page, ref area } = touch;
        let attributes = &area.attributes;
        let Some(mode) = self.mode else { return Ok(Backed::No) };
        if attributes.is_shared() || !core.wants_large(attributes) {
            return Ok(Backed::No);
        }
        let size = mode.entry_pages().max(REGION_PAGES);
        let pages = page & !(size - 1)..(page & !(size - 1)) + size;
        if !area.spans(&pages) || !core.space(id)?.is_clear_for_superpages(&pages) {
            return Ok(Backed::No);
        }
        self.draw_slices(core, id, &pages);
        let Some(places) = allocate_all(core, mode, size / mode.entry_pages()) else {
            self.failed += 1;
            return Ok(Backed::No);
        };
        let place = (id, pages.start);
        match self.map_all(core, mode, place, &places, touch.permissions(), updates) {
            // The superpages took the frames that the nodes above need: 4KB pages leave them some.
            Err(OsError::OutOfMemory { .. }) => {
                self.failed += 1;
                return Ok(Backed::No);
            }
            mapped => mapped?,
        }
        core.ledger.bring_in(FirstTouch::Superpage { pages: size });
        Ok(Backed::Yes)
    }

    fn forget(&mut self, space: SpaceId) {
        self.tried.retain(|&(of_space, _)| of_space != space);
    }

    /// Writes the figures of superpages: at this moment, but for those made and attempts that
    /// failed.
    fn counters(&self, core: &Core, out: &mut Counters) {
        let slices = core.memory.zones().slices();
        let state = State {
            pages: core.usage().superpage_pages,
            made: self.made,
            failed: self.failed,
            relocated: core.faults.extents_relocated,
            slices_allocatable: slices.map_or(0, |slices| slices.allocatable()),
        };
        out.record(SUPERPAGES, &state);
    }
}

/// What the figures say.
pub(super) struct State {
    pages: u64,
    made: u64,
    failed: u64,
    relocated: u64,
    slices_allocatable: u64,
}

figures! {
    pub(super) static SUPERPAGES: State, "Gap-tolerant superpages" {
        /// Memory in superpages at the end.
        superpage_bytes, Bytes, Listed: |it| it.pages << 12;
        /// Superpages made since the start.
        superpages_made, Count, Listed: |it| it.made;
        /// First touches for which there was no memory in the right places.
        superpage_failures, Count, Listed: |it| it.failed;
        /// Superpages that moved since one of their frames failed.
        superpages_relocated, Count, Listed: |it| it.relocated;
        /// Slices of memory with enough free B-blocks for a superpage.
        slices_allocatable, Count, Listed: |it| it.slices_allocatable;
    }
}

/// Frames for `count` entries, or for none.
fn allocate_all(core: &mut Core, mode: GapTolerance, count: u64) -> Option<Vec<Selected>> {
    let mut places = Vec::new();
    for _ in 0..count {
        match core.memory.allocate_superpage() {
            Some(place) => places.push(place),
            None => {
                places.iter().for_each(|&place| free(core, mode, place));
                return None;
            }
        }
    }
    Some(places)
}

fn free(core: &mut Core, mode: GapTolerance, place: Selected) {
    for block in place.blocks(mode) {
        core.memory.free(block, mode.block_order());
    }
}
