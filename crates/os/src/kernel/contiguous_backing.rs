//! Backs memory with contiguous frames before its first touch. Either all of it becomes contiguous,
//! so that a register can hold its base (P §V: a guest's hole bitmaps), or as much as the longest
//! free run holds.

use std::collections::BTreeSet;
use std::ops::Range;

use perforate_types::{Frame, HoleSet, Permissions, SpaceId};

use super::contiguous::{RunRequest, keep_for};
use super::{Core, FirstTouch, Kernel};
use crate::OsError;
use crate::memory::{BLOCK_ORDER, FRAME_BYTES};
use crate::space::{Large, first_of, pages_of, region_of, regions_of};

impl Kernel {
    /// Maps `pages` to a run of contiguous frames as 4KB pages, and moves their present contents to
    /// the run. The pages may be migrated later, like all program memory. Returns the first frame.
    ///
    /// # Errors
    /// If there is no such run (nothing is mapped), or memory for tables runs out (some of the
    /// pages are mapped).
    pub(crate) fn back_contiguously(
        &mut self,
        id: SpaceId,
        pages: Range<u64>,
        permissions: Permissions,
    ) -> Result<Frame, OsError> {
        self.operation(|kernel| kernel.core.back_contiguously(id, pages, permissions))
    }
}

impl Core {
    /// Work of [`Kernel::back_contiguously`].
    fn back_contiguously(
        &mut self,
        id: SpaceId,
        pages: Range<u64>,
        permissions: Permissions,
    ) -> Result<Frame, OsError> {
        let blocks = regions_of(&pages);
        let run = self.take_run(&RunRequest::free(blocks.end - blocks.start))?;
        let frames = keep_for(self, &run, &pages);
        let space = &mut self.space_mut(id)?;
        let none = BTreeSet::new();
        if let Err(error) = space.prepare_run(&pages, &none) {
            space.memory.free_range(frames);
            return Err(error);
        }
        let (moved, swapped) = space.vacate_for_run(&pages, &none);
        space.work().pages_swapped_in += swapped;
        space.migrated(moved);
        for (page, frame) in pages.zip(frames.clone()) {
            let mapped = space.map_page(page, Frame::new(frame), permissions);
            if let Err(error) = mapped {
                space.memory.free_range(frame..frames.end);
                return Err(error);
            }
        }
        Ok(Frame::new(frames.start))
    }

    /// Maps unmapped pages from the start of `pages` on, as many as contiguous frames are available, and
    /// returns their number. With `large`, uses 2MB pages if possible. Maps none if memory is short or
    /// generated fragmentation affects the first page.
    ///
    /// # Errors
    /// If memory for tables runs out, or there is no such address space.
    pub fn back_in_advance(
        &mut self,
        id: SpaceId,
        mut pages: Range<u64>,
        permissions: Permissions,
        large: bool,
    ) -> Result<u64, OsError> {
        let fragmented = regions_of(&pages).find(|&region| self.is_fragmented(region));
        if self.space(id)?.any_swapped(pages.clone()) {
            return Ok(0);
        }
        pages.end = pages.end.min(fragmented.map_or(u64::MAX, first_of)).max(pages.start);
        let Some(frames) = take_longest(self, &mut pages) else { return Ok(0) };
        self.ledger.clears = true;
        let mut next = pages.start;
        while next < pages.end {
            let region = pages_of(region_of(next));
            let frame = Frame::new(frames.start + (next - pages.start));
            let whole = region.start == next && region.end <= pages.end;
            let aligned = frame.number().is_multiple_of(HoleSet::SUBPAGES as u64);
            let space = &mut self.space_mut(id)?;
            let (mapped, size, first_touch) = if large && whole && aligned {
                let mapped = space.map_large(region_of(next), Large { block: frame, permissions });
                (mapped, HoleSet::SUBPAGES as u64, FirstTouch::Large)
            } else {
                let mapped = space.map_page(next, frame, permissions);
                (mapped, 1, FirstTouch::Page)
            };
            if let Err(error) = mapped {
                space.memory.free_range(frame.number()..frames.end);
                return Err(error);
            }
            space.ledger.bring_in(first_touch);
            next += size;
        }
        Ok(pages.end - pages.start)
    }

    /// True if free memory is at or below the high watermark, so that nothing is backed in advance.
    pub fn is_memory_short(&self) -> bool {
        self.free_frames() <= self.memory.high_watermark()
    }
}

/// Allocates contiguous frames for as many pages from the start of `pages` on as possible, and shortens
/// `pages` to these. `None` if memory is short.
fn take_longest(core: &mut Core, pages: &mut Range<u64>) -> Option<Range<u64>> {
    if pages.is_empty() || core.is_memory_short() {
        return None;
    }
    let blocks = regions_of(pages);
    if pages.end - pages.start < HoleSet::SUBPAGES as u64 {
        return take_part_of_block(core, pages);
    }
    let mut wanted = blocks.end - blocks.start;
    let mut run = core.take_run(&RunRequest::free(wanted));
    if let Err(OsError::NoContiguousMemory { longest_bytes, .. }) = run {
        wanted = (longest_bytes / FRAME_BYTES) >> BLOCK_ORDER;
        if wanted == 0 {
            return take_part_of_block(core, pages);
        }
        run = core.take_run(&RunRequest::free(wanted));
    }
    let run = run.ok()?;
    pages.end = pages.end.min(first_of(blocks.start + wanted));
    Some(keep_for(core, &run, pages))
}

/// Allocates the largest free aligned run of frames, at most 2MB, that fits the first of `pages`, and
/// shortens `pages` to the length of the run.
fn take_part_of_block(core: &mut Core, pages: &mut Range<u64>) -> Option<Range<u64>> {
    let wanted = pages.end - pages.start;
    let enough = wanted.next_power_of_two().trailing_zeros().min(BLOCK_ORDER);
    let order = (0..=enough).rev().find(|&order| core.memory.has_free(order))?;
    let first = core.memory.allocate_pages(order).ok()?.number();
    let frames = first..first + wanted.min(1 << order);
    core.memory.free_range(frames.end..first + (1 << order));
    pages.end = pages.start + (frames.end - frames.start);
    Some(frames)
}
