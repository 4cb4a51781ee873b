//! The direct segment of an address space (D §II.B): a run of pages that registers translate
//! linearly, in addition to the page tables.
//!
//! The record remains while the registers are cleared (mode switches, D §III): the frames of the
//! run stay reserved, and faults map them in place. A page of the segment is in one of three
//! states:
//! - *held*: no page-table entry maps it, and its frame belongs to the segment;
//! - *paged*: a page-table entry also maps it in place, because of a false positive of the
//!   hardware's filter or a touch while the registers were cleared. Such frames have no recorded
//!   owner, so they are never migrated;
//! - *escaped*: it is an ordinary 4KB page, or not mapped; its frame of the run no longer belongs
//!   to the segment.

use std::collections::BTreeSet;
use std::ops::Range;

use perforate_os::OsError;
use perforate_os::mechanism::{
    AddressSpace, Large, SpaceMut, first_of, page_at, pages_of, region_of, regions_of, subpages_of,
};
use perforate_types::{Frame, HoleSet, Permissions, Shootdown, VirtualPage};

use crate::segment::SegmentOperation;

/// A direct segment, with its registers set or cleared.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// First page of the segment.
    pub start: u64,
    /// Page after the last page of the segment.
    pub end: u64,
    /// Frame of the segment's first page.
    pub frame: Frame,
    /// Permissions of all pages in the segment.
    pub permissions: Permissions,
    /// True if the hardware's registers hold the segment; false while they are cleared.
    pub is_active: bool,
    /// Pages that have escaped from the segment, which only page tables can translate.
    pub escaped: BTreeSet<u64>,
    /// Number of paged pages: page-table entries also map them, to the frames that the segment
    /// gives them.
    pub paged: u64,
    /// True if 2MB page-table entries may map pages of the segment to the segment's frames.
    pub large_pages: bool,
    /// Maximum number of escaped pages. If more pages would escape, the segment is dissolved.
    pub most_escapes: u64,
}

impl Segment {
    /// Page numbers in the segment.
    pub(super) fn pages(&self) -> Range<u64> {
        self.start..self.end
    }

    /// True if the page is within the bounds of the segment, escaped or not.
    pub(super) fn covers(&self, page: u64) -> bool {
        self.pages().contains(&page)
    }

    /// True if the page is within the bounds of the segment and has not escaped, whether or not the
    /// registers are set.
    pub(super) fn translates(&self, page: u64) -> bool {
        self.covers(page) && !self.escaped.contains(&page)
    }

    /// True if any page of the range is within the bounds of the segment.
    pub(super) fn meets(&self, pages: &Range<u64>) -> bool {
        self.start < pages.end && pages.start < self.end
    }

    /// Frame at the position of `page` in the segment's contiguous memory. The page must be within
    /// the bounds, escaped or not.
    pub(super) fn run_frame(&self, page: u64) -> Frame {
        self.frame.add(page - self.start)
    }

    /// Page at the position of `frame` in the segment's contiguous memory, escaped or not; `None`
    /// for frames outside that memory.
    pub(super) fn run_page(&self, frame: Frame) -> Option<u64> {
        let index = frame.number().checked_sub(self.frame.number())?;
        Some(self.start + index).filter(|page| *page < self.end)
    }

    /// Frames at the positions of these pages in the segment's contiguous memory. The pages must be
    /// within the bounds.
    pub(super) fn frames_of(&self, pages: &Range<u64>) -> Range<u64> {
        let first = self.run_frame(pages.start).number();
        first..first + (pages.end - pages.start)
    }

    /// Number of pages in the segment that have neither escaped nor a page-table entry.
    pub(super) fn held_pages(&self) -> u64 {
        self.end - self.start - self.escaped.len() as u64 - self.paged
    }
}

/// The direct segment of an address space, even if its registers are cleared; `None` if there is no
/// segment.
pub(super) fn segment_of(space: &AddressSpace) -> Option<&Segment> {
    space.overlay()?.downcast_ref()
}

fn segment_mut(space: &mut AddressSpace) -> &mut Segment {
    let overlay = space.overlay_mut().expect("an address space with a segment");
    overlay.downcast_mut().expect("a segment")
}

/// The direct segment of an address space, which must have one.
fn existing_segment(space: &AddressSpace) -> &Segment {
    segment_of(space).expect("an address space with a segment")
}

/// Adds a segment to an address space and sets its registers. Pages that have not escaped must have
/// no page-table entry. The segment owns its contiguous frames, except those of escaped pages.
pub(super) fn set(space: &mut SpaceMut<'_>, segment: Segment) {
    space.set_overlay(Box::new(Segment { is_active: false, ..segment }));
    activate(space);
}

/// Sets the segment registers, which maps the held pages (those without a page-table entry), and
/// flushes the address space's cached translations.
pub(super) fn activate(space: &mut SpaceMut<'_>) {
    let id = space.id();
    let inactive = segment_of(space).filter(|segment| !segment.is_active);
    let Some(segment) = inactive.cloned() else { return };
    for held in held_ranges(space) {
        let (pages, frame) = (held.end - held.start, segment.run_frame(held.start));
        space.report_mapped(held.start, pages, frame, segment.permissions);
    }
    segment_mut(space).is_active = true;
    space.work().segments_switched += 1;
    space.format(SegmentOperation::Set {
        space: id,
        page: VirtualPage::new(segment.start),
        pages: segment.end - segment.start,
        frame: segment.frame,
        permissions: segment.permissions,
    });
    for page in segment.escaped {
        space.work().pages_escaped += 1;
        space.format(SegmentOperation::Escape { space: id, page: VirtualPage::new(page) });
    }
    space.shootdown(Shootdown::Space { space: id });
}

/// Clears the segment registers, which unmaps the held pages (those without a page-table entry),
/// and flushes the address space's cached translations.
pub(super) fn deactivate(space: &mut SpaceMut<'_>) {
    let id = space.id();
    if segment_of(space).is_none_or(|segment| !segment.is_active) {
        return;
    }
    for held in held_ranges(space) {
        space.report_unmapped(held.start, held.end - held.start);
    }
    segment_mut(space).is_active = false;
    space.work().segments_switched += 1;
    space.format(SegmentOperation::Clear { space: id });
    space.shootdown(Shootdown::Space { space: id });
}

/// Removes the segment. Pages with page-table entries become ordinary pages. Returns the frames of
/// held pages, which have no entry; the caller must free or map these frames.
pub(super) fn end(space: &mut SpaceMut<'_>) -> Vec<Range<u64>> {
    deactivate(space);
    let held = held_ranges(space);
    let Some(segment) = segment_of(space).cloned() else { return Vec::new() };
    space.take_overlay();
    let entries = space.own_entries(&segment.pages()).into_iter();
    for (page, frame) in entries.filter(|(page, _)| segment.translates(page.number())) {
        space.memory.set_owner(frame, space.id(), page);
    }
    held.iter().map(|pages| segment.frames_of(pages)).collect()
}

/// Runs of held pages (those without a page-table entry) of the segment, in ascending order.
pub(super) fn held_ranges(space: &AddressSpace) -> Vec<Range<u64>> {
    let Some(segment) = segment_of(space) else { return Vec::new() };
    let mut others = space.mapped_within(&segment.pages());
    others.extend(segment.escaped.iter().map(|&page| page..page + 1));
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

/// Adds a 4KB page-table entry for a held page (one without an entry), which maps it to its frame
/// of the segment.
pub(super) fn page_in_place(space: &mut SpaceMut<'_>, page: u64) -> Result<(), OsError> {
    let segment = existing_segment(space);
    let (frame, permissions) = (segment.run_frame(page), segment.permissions);
    if segment.is_active {
        space.write_page(page, frame, permissions)?;
    } else {
        space.map_page(page, frame, permissions)?;
    }
    space.memory.forget_owner(frame);
    segment_mut(space).paged += 1;
    Ok(())
}

/// Adds a 2MB page-table entry for a region of held pages (pages without an entry), which maps them
/// to their frames of the segment.
pub(super) fn region_in_place(space: &mut SpaceMut<'_>, number: u64) -> Result<(), OsError> {
    let segment = existing_segment(space);
    let (block, permissions) = (segment.run_frame(first_of(number)), segment.permissions);
    if segment.is_active {
        space.write_large(number, Large { block, permissions })?;
    } else {
        space.map_large(number, Large { block, permissions })?;
    }
    segment_mut(space).paged += HoleSet::SUBPAGES as u64;
    Ok(())
}

/// True if the segment holds all pages of 2MB region `number` without page-table entries, and their
/// frames are aligned, so that one 2MB entry can map the region.
pub(super) fn is_region_held(space: &AddressSpace, number: u64) -> bool {
    segment_of(space).is_some_and(|segment| {
        let region = pages_of(number);
        segment.start <= region.start
            && region.end <= segment.end
            && segment.escaped.range(region.clone()).next().is_none()
            && segment.run_frame(region.start).number().is_multiple_of(HoleSet::SUBPAGES as u64)
            && !space.is_region_mapped(number)
    })
}

/// Dissolves the segment: its pages get page-table entries with their present frames, and the
/// registers are cleared. After an error, the entries made so far and the segment stay.
pub(super) fn dissolve(space: &mut SpaceMut<'_>) -> Result<(), OsError> {
    page_all_in_place(space)?;
    let held = end(space);
    debug_assert!(held.is_empty(), "all pages have table entries");
    Ok(())
}

/// Adds page-table entries for all held pages (pages without an entry), 2MB entries where possible.
/// They map the pages to their frames of the segment.
fn page_all_in_place(space: &mut SpaceMut<'_>) -> Result<(), OsError> {
    let large = segment_of(space).is_some_and(|segment| segment.large_pages);
    for held in held_ranges(space) {
        for number in regions_of(&held) {
            if large && is_region_held(space, number) {
                region_in_place(space, number)?;
                continue;
            }
            for index in subpages_of(&held, number).iter() {
                page_in_place(space, page_at(number, index))?;
            }
        }
    }
    Ok(())
}

/// Prepares the page tables for a separate 4KB entry of a page that is to escape: splits a 2MB
/// entry around it, or adds missing nodes. No translation changes. Only this part of an escape can
/// fail.
fn open_for_escape(space: &mut SpaceMut<'_>, page: u64) -> Result<(), OsError> {
    let number = region_of(page);
    if space.has_extent(number) {
        let large = space.split_large(number, &HoleSet::FULL)?;
        space.memory.forget_owners(large.block, &HoleSet::FULL);
    }
    space.open_pages(page)
}

/// Makes pages escape from the segment without moving them: each gets an ordinary 4KB entry with
/// the frame that it has in the segment.
pub(super) fn escape_in_place(space: &mut SpaceMut<'_>, pages: &[u64]) -> Result<(), OsError> {
    for &page in pages {
        open_for_escape(space, page)?;
        if space.find(page).is_none() {
            page_in_place(space, page)?;
        }
    }
    for &page in pages {
        let frame = note_escape(space, page, true);
        space.memory.set_owner(frame, space.id(), VirtualPage::new(page));
    }
    shoot_down_escape(space);
    Ok(())
}

/// Makes a page escape from the segment and maps it to frame `to`. Returns the frame that it had in
/// the segment, which the caller must free.
pub(super) fn escape_to(space: &mut SpaceMut<'_>, page: u64, to: Frame) -> Result<Frame, OsError> {
    open_for_escape(space, page)?;
    let permissions = existing_segment(space).permissions;
    let is_paged = space.find(page).is_some();
    let frame = note_escape(space, page, is_paged);
    shoot_down_escape(space);
    if is_paged {
        space.remap_page(page, to, permissions);
    } else {
        space.map_page(page, to, permissions).expect("the node is there");
    }
    Ok(frame)
}

fn note_escape(space: &mut SpaceMut<'_>, page: u64, is_paged: bool) -> Frame {
    let id = space.id();
    let segment = segment_mut(space);
    segment.escaped.insert(page);
    segment.paged -= u64::from(is_paged);
    let (frame, is_active) = (segment.run_frame(page), segment.is_active);
    if is_active && !is_paged {
        space.report_unmapped(page, 1);
    }
    if is_active {
        space.work().pages_escaped += 1;
        space.format(SegmentOperation::Escape { space: id, page: VirtualPage::new(page) });
    }
    frame
}

/// Sends a shootdown of the whole address space after an escape, because the page may be translated
/// by a TLB entry of up to 1GB that the segment filled.
fn shoot_down_escape(space: &mut SpaceMut<'_>) {
    if segment_of(space).is_some_and(|segment| segment.is_active) {
        space.shootdown(Shootdown::Space { space: space.id() });
    }
}
