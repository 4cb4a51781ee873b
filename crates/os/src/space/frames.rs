//! Which frames an address space maps, and how.

use std::ops::Range;

use perforate_types::{Frame, HoleSet, PageSize, PageTableEntry};

use super::{AddressSpace, GIGABYTE_REGIONS, Mapping, REGION_PAGES};
use crate::FrameClass;
use crate::memory::{PhysicalMemory, blocks_of_huge, complement};

/// Hears of mapped frames.
pub(crate) trait FrameVisitor {
    /// These frames of a 2MB block (frame `block` is its first).
    fn frames(&mut self, block: Frame, frames: &HoleSet, class: FrameClass);
    /// All frames of `blocks` 2MB blocks.
    fn blocks(&mut self, first: Frame, blocks: u64, class: FrameClass);
}

impl AddressSpace {
    /// Tells of every mapped frame; one that several pages map is told of several times.
    pub(crate) fn visit_frames(&self, visitor: &mut impl FrameVisitor) {
        for huge in self.huge.values() {
            visitor.blocks(huge.block, GIGABYTE_REGIONS, FrameClass::Huge);
        }
        for (_, superpage) in self.superpages() {
            let mode = self.gap_tolerance.expect("there are superpages");
            for block in superpage.place.blocks(mode) {
                let first = block.number();
                visit_run(first..first + mode.block_frames(), FrameClass::Superpage, visitor);
            }
        }
        for region in self.regions.values() {
            match &region.mapping {
                Mapping::Pages(pages) => visit_entries(&pages.entries[..], visitor),
                Mapping::Large(large) => visitor.blocks(large.block, 1, FrameClass::Large),
                Mapping::Perforated(perforated) => {
                    let in_place = complement(&perforated.holes);
                    visitor.frames(perforated.block, &in_place, FrameClass::Perforated);
                    visitor.frames(perforated.block, &perforated.reserved, FrameClass::Reserved);
                    visit_entries(&perforated.entries[..], visitor);
                }
            }
        }
        if let Some(segment) = self.segment() {
            for pages in self.held_ranges() {
                visit_run(segment.frames_of(&pages), FrameClass::Segment, visitor);
            }
        }
    }
}

/// A run of frames: whole blocks together.
pub(crate) fn visit_run(frames: Range<u64>, class: FrameClass, visitor: &mut impl FrameVisitor) {
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
        let part = ((next - block) as usize..(end - block) as usize).collect();
        visitor.frames(Frame::new(block), &part, class);
        next = end;
    }
}

impl AddressSpace {
    /// Records which page has which frame alone by an entry of its own, and that frames which are
    /// in place in a 2MB page have no such entry.
    pub(crate) fn record_owners(&self, memory: &mut PhysicalMemory) {
        for (number, region) in self.regions.iter() {
            let in_place = match &region.mapping {
                Mapping::Pages(_) => None,
                Mapping::Large(large) => Some((large.block, HoleSet::FULL)),
                Mapping::Perforated(page) => Some((page.block, complement(&page.holes))),
            };
            if let Some((block, subpages)) = in_place {
                memory.forget_owners(block, &subpages);
            }
            for (page, entry) in region.mapping.entries(number) {
                if !memory.is_shared(entry.frame()) {
                    self.record_owner(entry.frame(), page, memory);
                }
            }
        }
        for (_, superpage) in self.superpages() {
            let mode = self.gap_tolerance.expect("there are superpages");
            superpage.frames(mode).for_each(|frame| memory.forget_owner(frame));
        }
        for huge in self.huge.values() {
            for block in blocks_of_huge(huge.block) {
                memory.forget_owners(block, &HoleSet::FULL);
            }
        }
    }
}

/// Frames of 4KB entries, those that follow each other in one block together.
fn visit_entries(entries: &[PageTableEntry], visitor: &mut impl FrameVisitor) {
    let mut block = Frame::new(0);
    let mut frames = HoleSet::EMPTY;
    for frame in entries.iter().filter(|entry| entry.is_present()).map(|entry| entry.frame()) {
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
