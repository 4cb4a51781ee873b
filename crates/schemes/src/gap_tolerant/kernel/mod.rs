//! Operating-system half of gap-tolerant superpages: allocation and later changes (G §3.8).
//!
//! Choices of this model where G names none:
//! - The first touch of an aligned piece of private memory (at least 2MB) maps superpages, if its
//!   area covers the piece and slices are available. Otherwise it maps 4KB pages.
//! - A superpage is demoted to 4KB pages in place if a part of it is unmapped, protected, moved,
//!   copied on write, merged or swapped. It is never promoted again.
//! - A superpage with a failing frame moves to other B-blocks if available.
//! - Shared memory has 4KB pages.

mod granularities;
mod pairing;
mod pairs;
mod slices;
mod superpage;

use std::collections::BTreeSet;
use std::ops::Range;

use perforate_os::mechanism::{Backed, Backer, Core, FirstTouch, FreeIndex, REGION_PAGES, Touch};
use perforate_os::{Kernel, OsError};
use perforate_types::{Counters, GapTolerance, HoleSet, Permissions, SpaceId, figures};

use super::SuperpageRule;
pub(super) use granularities::Granularities;
pub use pairing::{ChunkPairing, SlicePair, lowest_blocks};
use slices::{Selected, Slices};
use superpage::{Superpage, map_superpage};

/// First-touch handler that maps gap-tolerant superpages.
#[derive(Default)]
pub(super) struct Superpages {
    /// Aligned ranges, each of one entry but at least 2MB, that the kernel has tried to map with
    /// superpages: address space and first page. Recorded only if memory is fragmented synthetically,
    /// because the extent of that fragmentation follows them.
    tried: BTreeSet<(SpaceId, u64)>,
    /// Number of pages that the kernel has tried to map with superpages. Each aligned range counts
    /// once in the lifetime of its process.
    wanted_pages: u64,
    /// Number of gap-tolerant entries mapped since the start.
    made: u64,
    /// Number of first touches for which no superpage could be allocated or mapped.
    failed: u64,
}

/// Creates the index of free slices, for each of `modes`, of a memory of `end_frame` frames.
pub(super) fn free_index(
    rule: &SuperpageRule,
    modes: &[GapTolerance],
    end_frame: u64,
    is_fragmented: bool,
) -> Box<dyn FreeIndex> {
    let of_mode = |&mode| Slices::new(mode, end_frame, rule, is_fragmented);
    Box::new(Granularities::new(modes.iter().map(of_mode).collect()))
}

/// Block availability vectors for the largest B-block size, one per slice of memory. Bit *i* is set
/// if all frames of B-block *i* are free (G §3.6). Empty if the policy maps no superpages.
pub fn availability_vectors(kernel: &Kernel) -> &[u64] {
    let granularities = kernel.free_index::<Granularities>();
    granularities.map_or(&[], |granularities| granularities.first().vectors())
}

impl Superpages {
    /// Generates synthetic fragmentation for further slices, until they have as many frames as the
    /// kernel has tried to map pages with superpages. For each 2MB of virtual memory, superpages
    /// thus have one 2MB block of memory to choose from, like ordinary 2MB pages.
    fn draw_slices(&mut self, core: &mut Core, id: SpaceId, pages: &Range<u64>) {
        if core.config.fragmentation.is_none() {
            return;
        }
        if self.tried.insert((id, pages.start)) {
            self.wanted_pages += pages.end - pages.start;
        }
        loop {
            let Some(slices) = core.memory.free_index::<Granularities>() else { return };
            // The mode with the largest slices: what it draws are whole slices of every mode.
            let slices = slices.first();
            let frames = slices.next_to_draw();
            if slices.drawn_frames() >= self.wanted_pages || frames.is_empty() {
                return;
            }
            let block_frames = HoleSet::SUBPAGES as u64;
            core.inject_fragmentation(frames.start / block_frames..frames.end / block_frames);
            let slices: Option<&mut Granularities> = core.memory.free_index_mut();
            slices.expect("found above").note_drawn(&frames);
        }
    }

    fn map_all(
        &mut self,
        core: &mut Core,
        mode: GapTolerance,
        id: SpaceId,
        first: u64,
        places: &[Selected],
        permissions: Permissions,
    ) -> Result<(), OsError> {
        for (index, &place) in places.iter().enumerate() {
            let space = &mut core.space_mut(id)?;
            let page = first + index as u64 * mode.entry_pages();
            let superpage = Superpage { place, permissions, mode };
            if let Err(error) = map_superpage(space, page, superpage) {
                places[index..].iter().for_each(|&place| free(core, mode, place));
                return Err(error);
            }
            self.made += 1;
        }
        Ok(())
    }
}

impl Backer for Superpages {
    /// Maps the aligned range around the touched page with superpages, if area, policy and memory
    /// allow it.
    fn back(&mut self, core: &mut Core, touch: &Touch) -> Result<Backed, OsError> {
        let &Touch { space: id, page, ref area } = touch;
        let attributes = &area.attributes;
        let Some(mode) = core.space(id)?.tables().gap_tolerance else {
            return Ok(Backed::No);
        };
        if attributes.is_shared() || !core.wants_large(attributes) {
            return Ok(Backed::No);
        }
        let size = mode.entry_pages().max(REGION_PAGES);
        let pages = page & !(size - 1)..(page & !(size - 1)) + size;
        if !area.spans(&pages) || !core.space(id)?.is_clear(&pages) {
            return Ok(Backed::No);
        }
        self.draw_slices(core, id, &pages);
        let Some(places) = allocate_all(core, mode, size / mode.entry_pages()) else {
            self.failed += 1;
            return Ok(Backed::No);
        };
        match self.map_all(core, mode, id, pages.start, &places, touch.permissions()) {
            // The superpages took all frames, so none is left for table nodes. 4KB pages leave some
            // frames free.
            Err(OsError::OutOfMemory { .. }) => {
                self.failed += 1;
                return Ok(Backed::No);
            }
            mapped => mapped?,
        }
        let space = &mut core.space_mut(id)?;
        space.bring_in(FirstTouch::Superpage { pages: size });
        Ok(Backed::Yes)
    }

    fn forget(&mut self, space: SpaceId) {
        self.tried.retain(|&(of_space, _)| of_space != space);
    }

    /// Writes the counters of superpages. They describe the present state, except for the numbers
    /// of superpages made and of failed attempts, which count from the start.
    fn counters(&self, core: &Core, out: &mut Counters) {
        let slices = core.memory.free_index::<Granularities>();
        let state = State {
            pages: core.usage().wide_pages,
            made: self.made,
            failed: self.failed,
            relocated: core.extents_relocated(),
            processes: BLOCK_ORDERS.map(|order| {
                let modes = core.live_spaces().filter_map(|space| space.tables().gap_tolerance);
                modes.filter(|mode| mode.block_order() == order).count() as u64
            }),
            slices_allocatable: slices.map_or(0, |slices| slices.first().allocatable()),
        };
        out.record(SUPERPAGES, &state);
    }
}

/// Values of the superpage counters at one moment.
pub(in crate::gap_tolerant) struct State {
    pages: u64,
    made: u64,
    failed: u64,
    relocated: u64,
    /// Number of living processes for each size of B-blocks (64ths of a slice), in the order of
    /// [`BLOCK_ORDERS`].
    processes: [u64; BLOCK_ORDERS.len()],
    slices_allocatable: u64,
}

/// Values of the field BS of GTPTCR for B-blocks of 32KB, 64KB and 128KB: base-2 logarithms of
/// their frames.
const BLOCK_ORDERS: [u32; 3] = [3, 4, 5];

figures! {
    pub(in crate::gap_tolerant) static SUPERPAGES: State, "Gap-tolerant superpages" {
        /// Peak of memory in gap-tolerant superpages.
        superpage_bytes, Bytes, Listed: |it| it.pages << 12;
        /// Gap-tolerant superpages made since the start.
        superpages_made, Count, Listed: |it| it.made;
        /// First touches that got no superpage, because memory in the right places was not free.
        superpage_failures, Count, Listed: |it| it.failed;
        /// Superpages that were moved because one of their frames failed.
        superpages_relocated, Count, Listed: |it| it.relocated;
        /// Peak number of processes with B-blocks of 32KB.
        processes_with_32kb_blocks, Count, Listed: |it| it.processes[0];
        /// Peak number of processes with B-blocks of 64KB.
        processes_with_64kb_blocks, Count, Listed: |it| it.processes[1];
        /// Peak number of processes with B-blocks of 128KB.
        processes_with_128kb_blocks, Count, Listed: |it| it.processes[2];
        /// Peak number of slices of memory with enough free B-blocks for a superpage. If processes
        /// differ in the size of B-blocks, the largest size is meant.
        slices_allocatable, Count, Listed: |it| it.slices_allocatable;
    }
}

/// Allocates frames for `count` gap-tolerant entries. If one cannot be allocated, frees all of them
/// and returns `None`.
fn allocate_all(core: &mut Core, mode: GapTolerance, count: u64) -> Option<Vec<Selected>> {
    let mut places = Vec::new();
    for _ in 0..count {
        match granularities::allocate(&mut core.memory, mode) {
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
