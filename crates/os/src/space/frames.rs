//! Visits of the frames that an address space maps, and records of their owners.

use std::ops::Range;

use perforate_types::{Frame, HoleSet, PageSize};

use super::{AddressSpace, Entries, Mapping, REGION_PAGES};
use crate::FrameClass;
use crate::memory::PhysicalMemory;

/// Visitor of mapped frames and their classes.
pub trait FrameVisitor {
    /// Visits some frames of a 2MB block, by index; `block` is its first frame.
    fn frames(&mut self, block: Frame, frames: &HoleSet, class: FrameClass);
    /// Visits all frames of `blocks` 2MB blocks.
    fn blocks(&mut self, first: Frame, blocks: u64, class: FrameClass);
}

impl AddressSpace {
    /// Visits every mapped frame; a frame that several pages map is visited several times.
    pub(crate) fn visit_frames(&self, visitor: &mut dyn FrameVisitor) {
        self.wide.values().for_each(|extent| extent.visit_frames(visitor));
        for region in self.regions.values() {
            match &region.mapping {
                Mapping::Pages(pages) => visit_entries(&pages.entries, visitor),
                Mapping::Extent(extent) => extent.visit_frames(visitor),
                Mapping::Changing => unreachable!("nothing changes between operations"),
            }
        }
        if let Some(overlay) = self.overlay() {
            overlay.visit_frames(self, visitor);
        }
    }
}

/// Passes a run of frames to `visitor`, whole 2MB blocks together.
pub fn visit_run(frames: Range<u64>, class: FrameClass, visitor: &mut dyn FrameVisitor) {
    let mut next = frames.start;
    while next < frames.end {
        let block = next & !(REGION_PAGES - 1);
        let blocks = (frames.end - next) / REGION_PAGES;
        if next == block && blocks > 0 {
            visitor.blocks(Frame::new(block), blocks, class);
            next += blocks * REGION_PAGES;
            continue;
        }
        let end = frames.end.min(block + REGION_PAGES);
        let part = HoleSet::of_range((next - block) as usize..(end - block) as usize);
        visitor.frames(Frame::new(block), &part, class);
        next = end;
    }
}

impl AddressSpace {
    /// Records the owner of each frame that a single 4KB entry maps. Removes the owners of frames that are in
    /// place in an extent, such as a 2MB page.
    pub(crate) fn record_owners(&self, memory: &mut PhysicalMemory) {
        for (number, region) in self.regions.iter() {
            if let Some(extent) = region.mapping.extent() {
                extent.forget_owners(memory);
            }
            for (page, entry) in region.mapping.entries(number) {
                if !memory.is_shared(entry.frame()) {
                    self.record_owner(entry.frame(), page, memory);
                }
            }
        }
        self.wide.values().for_each(|extent| extent.forget_owners(memory));
    }
}

/// Passes the frames of 4KB entries to `visitor`, successive frames of one 2MB block together.
pub fn visit_entries(entries: &Entries, visitor: &mut dyn FrameVisitor) {
    let mut block = Frame::new(0);
    let mut frames = HoleSet::EMPTY;
    for frame in entries.present().map(|(_, entry)| entry.frame()) {
        let of_frame = frame.align_down(PageSize::Size2M);
        if of_frame != block && !frames.is_empty() {
            visitor.frames(block, &frames, FrameClass::Movable);
            frames = HoleSet::EMPTY;
        }
        block = of_frame;
        frames.insert(frame.index_in(PageSize::Size2M));
    }
    if !frames.is_empty() {
        visitor.frames(block, &frames, FrameClass::Movable);
    }
}
