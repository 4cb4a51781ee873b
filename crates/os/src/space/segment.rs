//! The direct segment of an address space (D §II.B): a run of pages that registers translate
//! linearly, beside the page tables.
//!
//! The record stays while the registers are cleared (mode switches, D §III): the frames of the run
//! are kept, and faults map them in place. A page of the segment is in one of three states:
//! - *held*: no table entry; the frame belongs to the record;
//! - *paged*: an entry maps it in place as well, for a false positive of the hardware's filter or
//!   since it was touched while the registers were cleared. Such frames have no recorded owner, so
//!   nobody moves them;
//! - *escaped*: it is an ordinary 4KB page, or not mapped; the frame of the run is not the
//!   segment's any more.

use std::collections::BTreeSet;
use std::ops::Range;

use perforate_types::{Frame, HoleSet, Permissions, SegmentOperation, Shootdown, VirtualPage};

use super::{
    AddressSpace, Effects, Large, Mapping, first_of, page_at, pages_of, region_of, regions_of,
    subpages_of,
};
use crate::OsError;
use crate::memory::PhysicalMemory;

/// A direct segment.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// First page.
    pub start: u64,
    /// Page after the last.
    pub end: u64,
    /// Frame of the first page.
    pub frame: Frame,
    /// Permissions of its pages.
    pub permissions: Permissions,
    /// Whether the registers hold it.
    pub is_active: bool,
    /// Pages that paging alone translates.
    pub escaped: BTreeSet<u64>,
    /// Pages that did not escape and have a table entry.
    pub paged: u64,
    /// Whether 2MB entries may map it in place.
    pub large_pages: bool,
    /// Most pages that escape before it is dissolved instead.
    pub most_escapes: u64,
}

impl Segment {
    /// Its pages.
    pub(crate) fn pages(&self) -> Range<u64> {
        self.start..self.end
    }

    /// Whether the page is inside, escaped or not.
    pub(crate) fn covers(&self, page: u64) -> bool {
        self.pages().contains(&page)
    }

    /// Whether the page is inside and did not escape.
    pub(crate) fn translates(&self, page: u64) -> bool {
        self.covers(page) && !self.escaped.contains(&page)
    }

    /// Whether any page of the range is inside.
    pub(crate) fn meets(&self, pages: &Range<u64>) -> bool {
        self.start < pages.end && pages.start < self.end
    }

    /// The frame of the run for a page inside.
    pub(crate) fn run_frame(&self, page: u64) -> Frame {
        self.frame.add(page - self.start)
    }

    /// The page inside that the run has this frame for, escaped or not.
    pub(crate) fn run_page(&self, frame: Frame) -> Option<u64> {
        let index = frame.number().checked_sub(self.frame.number())?;
        Some(self.start + index).filter(|page| *page < self.end)
    }

    /// Frames of the run for these pages.
    pub(crate) fn frames_of(&self, pages: &Range<u64>) -> Range<u64> {
        let first = self.run_frame(pages.start).number();
        first..first + (pages.end - pages.start)
    }

    /// Pages that did not escape and have no table entry.
    pub(crate) fn held_pages(&self) -> u64 {
        self.end - self.start - self.escaped.len() as u64 - self.paged
    }
}

impl AddressSpace {
    /// The segment, whether its registers are set or cleared.
    pub(crate) fn segment(&self) -> Option<&Segment> {
        self.overlay()?.as_any().downcast_ref()
    }

    fn segment_mut(&mut self) -> Option<&mut Segment> {
        self.overlay_mut()?.as_any_mut().downcast_mut()
    }

    /// Gives the space a segment, whose pages that did not escape have no table entry; the frames of
    /// the run are the segment's, but for those of escaped pages.
    pub(crate) fn set_segment(&mut self, segment: Segment, effects: &mut Effects<'_>) {
        self.set_overlay(Box::new(Segment { is_active: false, ..segment }));
        self.activate_segment(effects);
    }

    /// Sets the registers, which maps the held pages; everything cached for the address space dies.
    pub(crate) fn activate_segment(&mut self, effects: &mut Effects<'_>) {
        let space = self.id;
        let Some(segment) = self.segment().filter(|segment| !segment.is_active) else { return };
        for held in self.held_ranges() {
            let (pages, frame) = (held.end - held.start, segment.run_frame(held.start));
            self.tell_mapped((held.start, pages), frame, segment.permissions, effects);
        }
        let segment = self.segment_mut().expect("segment");
        segment.is_active = true;
        effects.ledger.done.segments_switched += 1;
        effects.format(SegmentOperation::Set {
            space,
            page: VirtualPage::new(segment.start),
            pages: segment.end - segment.start,
            frame: segment.frame,
            permissions: segment.permissions,
        });
        for &page in &segment.escaped {
            effects.ledger.done.pages_escaped += 1;
            effects.format(SegmentOperation::Escape { space, page: VirtualPage::new(page) });
        }
        effects.shootdown(Shootdown::Space { space });
    }

    /// Clears the registers, which unmaps the held pages; everything cached for the address space
    /// dies.
    pub(crate) fn deactivate_segment(&mut self, effects: &mut Effects<'_>) {
        let space = self.id;
        if self.segment().is_none_or(|segment| !segment.is_active) {
            return;
        }
        for held in self.held_ranges() {
            self.tell_unmapped(held.start, held.end - held.start, effects);
        }
        self.segment_mut().expect("segment").is_active = false;
        effects.ledger.done.segments_switched += 1;
        effects.format(SegmentOperation::Clear { space });
        effects.shootdown(Shootdown::Space { space });
    }

    /// Forgets the segment: pages in it that have a table entry are ordinary pages from now on.
    /// Returns the frames it held, which are now the caller's.
    pub(crate) fn end_segment(&mut self, effects: &mut Effects<'_>) -> Vec<Range<u64>> {
        self.deactivate_segment(effects);
        let held = self.held_ranges();
        let Some(segment) = self.segment().cloned() else { return Vec::new() };
        self.overlay = None;
        for number in self.regions_within(&segment.pages()) {
            let entries = self.region(number).expect("mapped region").mapping.entries(number);
            for (page, entry) in entries.filter(|(page, _)| segment.translates(page.number())) {
                effects.memory.set_owner(entry.frame(), self.id, page);
            }
        }
        held.iter().map(|pages| segment.frames_of(pages)).collect()
    }

    /// The pages that the segment holds, as runs in order.
    pub(crate) fn held_ranges(&self) -> Vec<Range<u64>> {
        let Some(segment) = self.segment() else { return Vec::new() };
        let mut others: Vec<Range<u64>> =
            segment.escaped.iter().map(|&page| page..page + 1).collect();
        for number in self.regions_within(&segment.pages()) {
            let region = self.region(number).expect("mapped region");
            if let Mapping::Pages(_) = region.mapping {
                let pages = region.mapping.entries(number).map(|(page, _)| page.number());
                let inside = pages.filter(|&page| segment.translates(page));
                others.extend(inside.map(|page| page..page + 1));
            } else {
                others.push(pages_of(number));
            }
        }
        others.sort_unstable_by_key(|pages| pages.start);
        let mut held = Vec::new();
        let mut next = segment.start;
        for other in others {
            if next < other.start {
                held.push(next..other.start);
            }
            next = next.max(other.end);
        }
        if next < segment.end {
            held.push(next..segment.end);
        }
        held
    }

    /// Maps a held page in place by a 4KB entry.
    pub(crate) fn page_in_place(
        &mut self,
        page: u64,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let segment = self.segment().expect("segment");
        let (frame, permissions) = (segment.run_frame(page), segment.permissions);
        if segment.is_active {
            self.write_page(page, frame, permissions, effects)?;
        } else {
            self.map_page(page, frame, permissions, effects)?;
        }
        effects.memory.forget_owner(frame);
        self.segment_mut().expect("segment").paged += 1;
        Ok(())
    }

    /// Maps a region of held pages in place by a 2MB entry.
    pub(crate) fn region_in_place(
        &mut self,
        number: u64,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let segment = self.segment().expect("segment");
        let (block, permissions) = (segment.run_frame(first_of(number)), segment.permissions);
        if segment.is_active {
            self.write_large(number, Large { block, permissions }, effects)?;
        } else {
            self.map_large(number, block, permissions, effects)?;
        }
        self.segment_mut().expect("segment").paged += HoleSet::SUBPAGES as u64;
        Ok(())
    }

    /// Whether all pages of a region are held and congruent with their frames, so that one entry
    /// can map them.
    pub(crate) fn is_region_held(&self, number: u64) -> bool {
        self.segment().is_some_and(|segment| {
            let region = pages_of(number);
            segment.start <= region.start
                && region.end <= segment.end
                && segment.escaped.range(region.clone()).next().is_none()
                && segment.run_frame(region.start).number().is_multiple_of(HoleSet::SUBPAGES as u64)
                && self.region(number).is_none()
        })
    }

    /// Makes ordinary pages of all pages of the segment, where they are, and forgets it. Where that
    /// fails, the pages mapped so far stay mapped, and the segment stays.
    pub(crate) fn dissolve_segment(&mut self, effects: &mut Effects<'_>) -> Result<(), OsError> {
        self.page_all_in_place(effects)?;
        let held = self.end_segment(effects);
        debug_assert!(held.is_empty(), "all pages have table entries");
        Ok(())
    }

    /// Maps every held page in place, regions by 2MB entries where they can be.
    fn page_all_in_place(&mut self, effects: &mut Effects<'_>) -> Result<(), OsError> {
        let large = self.segment().is_some_and(|segment| segment.large_pages);
        for held in self.held_ranges() {
            for number in regions_of(&held) {
                if large && self.is_region_held(number) {
                    self.region_in_place(number, effects)?;
                    continue;
                }
                for index in subpages_of(&held, number).iter() {
                    self.page_in_place(page_at(number, index), effects)?;
                }
            }
        }
        Ok(())
    }

    /// Makes sure that these pages of the segment, of one region, can have a 4KB entry of their own.
    /// Only this can fail of an escape, and leaves everything translated as it was.
    fn open_for_escape(&mut self, page: u64, effects: &mut Effects<'_>) -> Result<(), OsError> {
        let number = region_of(page);
        if self.has_extent(number) {
            let large = self.split_large(number, &HoleSet::FULL, effects)?;
            effects.memory.forget_owners(large.block, &HoleSet::FULL);
        }
        self.open_pages(page, effects)
    }

    /// Pages of the segment escape it where they are: each gets an ordinary 4KB entry.
    pub(crate) fn escape_in_place(
        &mut self,
        pages: &[u64],
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        for &page in pages {
            self.open_for_escape(page, effects)?;
            if self.find(page).is_none() {
                self.page_in_place(page, effects)?;
            }
        }
        for &page in pages {
            let frame = self.note_escape(page, true, effects);
            effects.memory.set_owner(frame, self.id, VirtualPage::new(page));
        }
        self.shoot_down_escape(effects);
        Ok(())
    }

    /// A page of the segment escapes it to another frame. Returns the frame of the run, which is
    /// now the caller's.
    pub(crate) fn escape_to(
        &mut self,
        page: u64,
        to: Frame,
        effects: &mut Effects<'_>,
    ) -> Result<Frame, OsError> {
        self.open_for_escape(page, effects)?;
        let permissions = self.segment().expect("segment").permissions;
        let is_paged = self.find(page).is_some();
        let frame = self.note_escape(page, is_paged, effects);
        self.shoot_down_escape(effects);
        if is_paged {
            self.remap_page(page, to, permissions, effects);
        } else {
            self.map_page(page, to, permissions, effects).expect("the node is there");
        }
        Ok(frame)
    }

    fn note_escape(&mut self, page: u64, is_paged: bool, effects: &mut Effects<'_>) -> Frame {
        let space = self.id;
        let segment = self.segment_mut().expect("segment");
        segment.escaped.insert(page);
        segment.paged -= u64::from(is_paged);
        let (frame, is_active) = (segment.run_frame(page), segment.is_active);
        if is_active && !is_paged {
            self.tell_unmapped(page, 1, effects);
        }
        if is_active {
            effects.ledger.done.pages_escaped += 1;
            effects.format(SegmentOperation::Escape { space, page: VirtualPage::new(page) });
        }
        frame
    }

    /// A combined entry of 2MB may hold the page, not only one of its own.
    fn shoot_down_escape(&self, effects: &mut Effects<'_>) {
        if self.segment().is_some_and(|segment| segment.is_active) {
            effects.shootdown(Shootdown::Space { space: self.id });
        }
    }

    /// Records who owns a frame, unless the overlay keeps it in place.
    pub(super) fn record_owner(
        &self,
        frame: Frame,
        page: VirtualPage,
        memory: &mut PhysicalMemory,
    ) {
        if !self.is_kept(page.number()) {
            memory.set_owner(frame, self.id, page);
        }
    }
}
