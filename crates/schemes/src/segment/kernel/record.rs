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

use perforate_os::OsError;
use perforate_os::mechanism::{
    AddressSpace, Effects, Large, first_of, page_at, pages_of, region_of, regions_of, subpages_of,
};
use perforate_types::{Frame, HoleSet, Permissions, Shootdown, VirtualPage};

use crate::segment::SegmentOperation;

/// A direct segment.
#[derive(Clone, Debug)]
pub(super) struct Segment {
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
    pub(super) fn pages(&self) -> Range<u64> {
        self.start..self.end
    }

    /// Whether the page is inside, escaped or not.
    pub(super) fn covers(&self, page: u64) -> bool {
        self.pages().contains(&page)
    }

    /// Whether the page is inside and did not escape.
    pub(super) fn translates(&self, page: u64) -> bool {
        self.covers(page) && !self.escaped.contains(&page)
    }

    /// Whether any page of the range is inside.
    pub(super) fn meets(&self, pages: &Range<u64>) -> bool {
        self.start < pages.end && pages.start < self.end
    }

    /// The frame of the run for a page inside.
    pub(super) fn run_frame(&self, page: u64) -> Frame {
        self.frame.add(page - self.start)
    }

    /// The page inside that the run has this frame for, escaped or not.
    pub(super) fn run_page(&self, frame: Frame) -> Option<u64> {
        let index = frame.number().checked_sub(self.frame.number())?;
        Some(self.start + index).filter(|page| *page < self.end)
    }

    /// Frames of the run for these pages.
    pub(super) fn frames_of(&self, pages: &Range<u64>) -> Range<u64> {
        let first = self.run_frame(pages.start).number();
        first..first + (pages.end - pages.start)
    }

    /// Pages that did not escape and have no table entry.
    pub(super) fn held_pages(&self) -> u64 {
        self.end - self.start - self.escaped.len() as u64 - self.paged
    }
}

/// The segment of an address space, whether its registers are set or cleared.
pub(super) fn segment_of(space: &AddressSpace) -> Option<&Segment> {
    space.overlay()?.downcast_ref()
}

fn segment_mut(space: &mut AddressSpace) -> &mut Segment {
    let overlay = space.overlay_mut().expect("an address space with a segment");
    overlay.downcast_mut().expect("a segment")
}

/// As [`segment_of`], where there is one.
fn expected(space: &AddressSpace) -> &Segment {
    segment_of(space).expect("an address space with a segment")
}

/// Gives the space a segment, whose pages that did not escape have no table entry; the frames of
/// the run are the segment's, but for those of escaped pages.
pub(super) fn set(space: &mut AddressSpace, segment: Segment, effects: &mut Effects<'_>) {
    space.set_overlay(Box::new(Segment { is_active: false, ..segment }));
    activate(space, effects);
}

/// Sets the registers, which maps the held pages; everything cached for the address space dies.
pub(super) fn activate(space: &mut AddressSpace, effects: &mut Effects<'_>) {
    let id = space.id();
    let Some(segment) = segment_of(space).filter(|segment| !segment.is_active) else { return };
    for held in held_ranges(space) {
        let (pages, frame) = (held.end - held.start, segment.run_frame(held.start));
        space.tell_mapped((held.start, pages), frame, segment.permissions, effects);
    }
    let segment = segment_mut(space);
    segment.is_active = true;
    effects.work().segments_switched += 1;
    effects.format(SegmentOperation::Set {
        space: id,
        page: VirtualPage::new(segment.start),
        pages: segment.end - segment.start,
        frame: segment.frame,
        permissions: segment.permissions,
    });
    for &page in &segment.escaped {
        effects.work().pages_escaped += 1;
        effects.format(SegmentOperation::Escape { space: id, page: VirtualPage::new(page) });
    }
    effects.shootdown(Shootdown::Space { space: id });
}

/// Clears the registers, which unmaps the held pages; everything cached for the address space dies.
pub(super) fn deactivate(space: &mut AddressSpace, effects: &mut Effects<'_>) {
    let id = space.id();
    if segment_of(space).is_none_or(|segment| !segment.is_active) {
        return;
    }
    for held in held_ranges(space) {
        space.tell_unmapped(held.start, held.end - held.start, effects);
    }
    segment_mut(space).is_active = false;
    effects.work().segments_switched += 1;
    effects.format(SegmentOperation::Clear { space: id });
    effects.shootdown(Shootdown::Space { space: id });
}

/// Forgets the segment: pages in it that have a table entry are ordinary pages from now on. Returns
/// the frames it held, which are now the caller's.
pub(super) fn end(space: &mut AddressSpace, effects: &mut Effects<'_>) -> Vec<Range<u64>> {
    deactivate(space, effects);
    let held = held_ranges(space);
    let Some(segment) = segment_of(space).cloned() else { return Vec::new() };
    space.take_overlay();
    let entries = space.own_entries(&segment.pages()).into_iter();
    for (page, frame) in entries.filter(|(page, _)| segment.translates(page.number())) {
        effects.memory.set_owner(frame, space.id(), page);
    }
    held.iter().map(|pages| segment.frames_of(pages)).collect()
}

/// The pages that the segment holds, as runs in order.
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

/// Maps a held page in place by a 4KB entry.
pub(super) fn page_in_place(
    space: &mut AddressSpace,
    page: u64,
    effects: &mut Effects<'_>,
) -> Result<(), OsError> {
    let segment = expected(space);
    let (frame, permissions) = (segment.run_frame(page), segment.permissions);
    if segment.is_active {
        space.write_page(page, frame, permissions, effects)?;
    } else {
        space.map_page(page, frame, permissions, effects)?;
    }
    effects.memory.forget_owner(frame);
    segment_mut(space).paged += 1;
    Ok(())
}

/// Maps a region of held pages in place by a 2MB entry.
pub(super) fn region_in_place(
    space: &mut AddressSpace,
    number: u64,
    effects: &mut Effects<'_>,
) -> Result<(), OsError> {
    let segment = expected(space);
    let (block, permissions) = (segment.run_frame(first_of(number)), segment.permissions);
    if segment.is_active {
        space.write_large(number, Large { block, permissions }, effects)?;
    } else {
        space.map_large(number, block, permissions, effects)?;
    }
    segment_mut(space).paged += HoleSet::SUBPAGES as u64;
    Ok(())
}

/// Whether all pages of a region are held and congruent with their frames, so that one entry can map
/// them.
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

/// Makes ordinary pages of all pages of the segment, where they are, and forgets it. Where that
/// fails, the pages mapped so far stay mapped, and the segment stays.
pub(super) fn dissolve(space: &mut AddressSpace, effects: &mut Effects<'_>) -> Result<(), OsError> {
    page_all_in_place(space, effects)?;
    let held = end(space, effects);
    debug_assert!(held.is_empty(), "all pages have table entries");
    Ok(())
}

/// Maps every held page in place, regions by 2MB entries where they can be.
fn page_all_in_place(space: &mut AddressSpace, effects: &mut Effects<'_>) -> Result<(), OsError> {
    let large = segment_of(space).is_some_and(|segment| segment.large_pages);
    for held in held_ranges(space) {
        for number in regions_of(&held) {
            if large && is_region_held(space, number) {
                region_in_place(space, number, effects)?;
                continue;
            }
            for index in subpages_of(&held, number).iter() {
                page_in_place(space, page_at(number, index), effects)?;
            }
        }
    }
    Ok(())
}

/// Makes sure that a page of the segment can have a 4KB entry of its own. Only this can fail of an
/// escape, and leaves everything translated as it was.
fn open_for_escape(
    space: &mut AddressSpace,
    page: u64,
    effects: &mut Effects<'_>,
) -> Result<(), OsError> {
    let number = region_of(page);
    if space.has_extent(number) {
        let large = space.split_large(number, &HoleSet::FULL, effects)?;
        effects.memory.forget_owners(large.block, &HoleSet::FULL);
    }
    space.open_pages(page, effects)
}

/// Pages of the segment escape it where they are: each gets an ordinary 4KB entry.
pub(super) fn escape_in_place(
    space: &mut AddressSpace,
    pages: &[u64],
    effects: &mut Effects<'_>,
) -> Result<(), OsError> {
    for &page in pages {
        open_for_escape(space, page, effects)?;
        if space.find(page).is_none() {
            page_in_place(space, page, effects)?;
        }
    }
    for &page in pages {
        let frame = note_escape(space, page, true, effects);
        effects.memory.set_owner(frame, space.id(), VirtualPage::new(page));
    }
    shoot_down_escape(space, effects);
    Ok(())
}

/// A page of the segment escapes it to another frame. Returns the frame of the run, which is now the
/// caller's.
pub(super) fn escape_to(
    space: &mut AddressSpace,
    page: u64,
    to: Frame,
    effects: &mut Effects<'_>,
) -> Result<Frame, OsError> {
    open_for_escape(space, page, effects)?;
    let permissions = expected(space).permissions;
    let is_paged = space.find(page).is_some();
    let frame = note_escape(space, page, is_paged, effects);
    shoot_down_escape(space, effects);
    if is_paged {
        space.remap_page(page, to, permissions, effects);
    } else {
        space.map_page(page, to, permissions, effects).expect("the node is there");
    }
    Ok(frame)
}

fn note_escape(
    space: &mut AddressSpace,
    page: u64,
    is_paged: bool,
    effects: &mut Effects<'_>,
) -> Frame {
    let id = space.id();
    let segment = segment_mut(space);
    segment.escaped.insert(page);
    segment.paged -= u64::from(is_paged);
    let (frame, is_active) = (segment.run_frame(page), segment.is_active);
    if is_active && !is_paged {
        space.tell_unmapped(page, 1, effects);
    }
    if is_active {
        effects.work().pages_escaped += 1;
        effects.format(SegmentOperation::Escape { space: id, page: VirtualPage::new(page) });
    }
    frame
}

/// A combined entry of 2MB may hold the page, not only one of its own.
fn shoot_down_escape(space: &AddressSpace, effects: &mut Effects<'_>) {
    if segment_of(space).is_some_and(|segment| segment.is_active) {
        effects.shootdown(Shootdown::Space { space: space.id() });
    }
}
