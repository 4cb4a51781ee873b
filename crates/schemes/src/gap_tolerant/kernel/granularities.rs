//! Availability of slices at one or several granularities. If processes have different B-block
//! sizes, the operating system keeps availability vectors for each size (G §3.8).

use std::ops::Range;

use perforate_os::mechanism::{FreeIndex, PhysicalMemory};
use perforate_types::{Frame, GapTolerance};

use super::slices::{Selected, Slices};

/// Slices of a memory, with their free B-blocks (64ths of a slice), for each mode that processes
/// may have; largest B-blocks first.
pub(in crate::gap_tolerant) struct Granularities(Vec<Slices>);

impl Granularities {
    /// Combines the slices of several modes, largest B-blocks first. At least one mode is required.
    pub(super) fn new(of_modes: Vec<Slices>) -> Self {
        assert!(!of_modes.is_empty(), "superpages have a mode");
        Self(of_modes)
    }

    /// The slices for the mode with the largest B-blocks.
    pub(super) fn first(&self) -> &Slices {
        &self.0[0]
    }

    fn smallest(&self) -> &Slices {
        &self.0[self.0.len() - 1]
    }

    /// Number of bytes of superpages that can be allocated in `mode` at present.
    pub(in crate::gap_tolerant) fn superpage_bytes(&self, mode: GapTolerance) -> u64 {
        let slices = self.0.iter().find(|slices| slices.mode() == mode);
        slices.map_or(0, |slices| slices.superpages() * mode.superpage_pages() * 4096)
    }

    /// Records that synthetic fragmentation has been generated for these frames, so that superpages
    /// may use their slices.
    pub(super) fn note_drawn(&mut self, frames: &Range<u64>) {
        self.0.iter_mut().for_each(|slices| slices.note_drawn(frames));
    }
}

/// Receives the buddy allocator's updates in units of the smallest B-blocks. A larger B-block is
/// free if all of its parts are.
impl FreeIndex for Granularities {
    fn block_order(&self) -> u32 {
        self.smallest().mode().block_order()
    }

    #[inline]
    fn taken(&mut self, frames: Range<u64>) {
        self.0.iter_mut().for_each(|slices| slices.taken(frames.clone()));
    }

    #[inline]
    fn freed(&mut self, blocks: Range<u64>) {
        let order = self.block_order();
        let (smallest, larger) = self.0.split_last_mut().expect("there is one at least");
        smallest.freed(blocks.clone());
        for slices in larger {
            let shift = slices.mode().block_order() - order;
            for block in blocks.start >> shift..((blocks.end - 1) >> shift) + 1 {
                if smallest.are_usable(block << shift..(block + 1) << shift) {
                    slices.freed(block..block + 1);
                }
            }
        }
    }

    fn check(&self, is_free: &dyn Fn(Frame) -> bool) -> Result<(), String> {
        let order = self.block_order();
        self.0.iter().try_for_each(|slices| {
            let parts = 1u64 << (slices.mode().block_order() - order);
            slices.check(&|block| (0..parts).all(|part| is_free(block.add(part << order))))
        })
    }
}

/// Allocates the frames for a new entry of `mode`, in the highest zone with a suitable slice or
/// pair of slices. `None` if no zone has one.
pub(super) fn allocate(memory: &mut PhysicalMemory, mode: GapTolerance) -> Option<Selected> {
    let zones: Vec<Range<u64>> = memory.zone_frames().collect();
    let slices = of_mode(memory, mode)?;
    let found = zones.iter().find_map(|frames| slices.find(frames))?;
    for block in found.blocks(mode) {
        memory.take_range(block.number()..block.number() + mode.block_frames());
    }
    of_mode(memory, mode)?.note_superpage(found);
    Some(found)
}

fn of_mode(memory: &mut PhysicalMemory, mode: GapTolerance) -> Option<&mut Slices> {
    let granularities: &mut Granularities = memory.free_index_mut()?;
    granularities.0.iter_mut().find(|slices| slices.mode() == mode)
}
