//! Effects of other memory operations on a direct segment.
//!
//! - Unmapping, MADV_DONTNEED, mremap and fork *dissolve* it: all its pages get page-table entries
//!   in place. If the whole segment is unmapped, it is removed.
//! - mprotect of few pages makes them escape (guard pages, D §V). mprotect of many pages dissolves
//!   the segment.
//! - A failing frame makes its page escape to another frame (D §V).
//!
//! A fault on a page that an active segment translates is a false positive of the hardware's escape
//! filter, whose hash functions the kernel does not know. The kernel then also maps the page in
//! place by a page-table entry.

use std::ops::Range;

use perforate_os::mechanism::{
    AddressSpace, Area, Departure, FirstTouch, FrameVisitor, Overlay, OverlayMechanism, Recount,
    SpaceMut, covers, expect, region_of, visit_run,
};
use perforate_os::{FrameClass, OsError};
use perforate_types::{Frame, Permissions};

use super::record::{self, Segment, held_ranges, is_region_held, segment_of};

/// Reactions of a direct segment to changes of its pages, such as unmapping, mprotect and faults of
/// frames.
struct SegmentMechanism;

impl OverlayMechanism for SegmentMechanism {
    fn leave(
        &self,
        space: &mut SpaceMut<'_>,
        pages: &Range<u64>,
        departure: Departure,
    ) -> Result<(), OsError> {
        let Some(segment) = segment_of(space) else { return Ok(()) };
        match departure {
            // Pages that the segment keeps are never remapped, and the segment does not depend on
            // other pages.
            Departure::Remapped => Ok(()),
            Departure::Forked => record::dissolve(space),
            _ if !segment.meets(pages) => Ok(()),
            Departure::Moved => record::dissolve(space),
            Departure::Protected(permissions) => protect(space, pages, permissions),
            Departure::Unmapped if !covers(pages, &segment.pages()) => record::dissolve(space),
            Departure::Unmapped => {
                for frames in record::end(space) {
                    space.memory.free_range(frames);
                }
                Ok(())
            }
        }
    }

    fn touch(&self, space: &mut SpaceMut<'_>, page: u64) -> Result<bool, OsError> {
        let Some(segment) = segment_of(space).filter(|segment| segment.translates(page)) else {
            return Ok(false);
        };
        let number = region_of(page);
        if !segment.is_active && segment.large_pages && is_region_held(space, number) {
            record::region_in_place(space, number)?;
            space.join(FirstTouch::Large);
        } else {
            record::page_in_place(space, page)?;
            space.join(FirstTouch::Page);
        }
        Ok(true)
    }

    /// Makes the page escape from the segment to a new frame.
    fn replace_frame(&self, space: &mut SpaceMut<'_>, page: u64) -> Result<(), OsError> {
        let to = space.memory.allocate_page()?;
        let escaped = record::escape_to(space, page, to);
        let free = *escaped.as_ref().unwrap_or(&to);
        space.memory.free(free, 0);
        escaped?;
        space.migrated(1);
        Ok(())
    }
}

/// Changes the permissions of pages of the segment: few pages escape, many pages dissolve the
/// segment.
fn protect(
    space: &mut SpaceMut<'_>,
    pages: &Range<u64>,
    permissions: Permissions,
) -> Result<(), OsError> {
    let segment = segment_of(space).expect("a segment");
    if permissions == segment.permissions {
        return Ok(());
    }
    let inside = segment.start.max(pages.start)..segment.end.min(pages.end);
    let room = segment.most_escapes.saturating_sub(segment.escaped.len() as u64) as usize;
    let leaving = inside.filter(|&page| segment.translates(page));
    let leaving: Vec<u64> = leaving.take(room + 1).collect();
    if leaving.len() > room {
        return record::dissolve(space);
    }
    if leaving.is_empty() {
        return Ok(());
    }
    record::escape_in_place(space, &leaving)
}

impl Overlay for Segment {
    fn mechanism(&self) -> &'static dyn OverlayMechanism {
        &SegmentMechanism
    }

    fn keeps(&self, page: u64) -> bool {
        self.translates(page)
    }

    fn claims(&self, pages: &Range<u64>) -> bool {
        self.meets(pages)
    }

    fn frame_of(&self, page: u64) -> Option<Frame> {
        (self.is_active && self.translates(page)).then(|| self.run_frame(page))
    }

    fn page_of(&self, frame: Frame) -> Option<u64> {
        self.run_page(frame).filter(|&page| self.translates(page))
    }

    fn translated_pages(&self) -> u64 {
        if self.is_active { self.held_pages() } else { 0 }
    }

    fn idle_pages(&self) -> u64 {
        if self.is_active { 0 } else { self.held_pages() }
    }

    fn is_in_registers(&self) -> bool {
        self.is_active
    }

    fn visit_frames(&self, space: &AddressSpace, visitor: &mut dyn FrameVisitor) {
        for pages in held_ranges(space) {
            visit_run(self.frames_of(&pages), FrameClass::Segment, visitor);
        }
    }

    fn check(&self, space: &AddressSpace, recount: &mut Recount) -> Result<(), String> {
        let held = held_ranges(space);
        let pages: u64 = held.iter().map(|pages| pages.end - pages.start).sum();
        expect("pages that the segment holds", self.held_pages(), pages)?;
        for frame in held.iter().flat_map(|pages| self.frames_of(pages)).map(Frame::new) {
            match self.is_active {
                true => recount.map(frame, None),
                false => recount.hold(frame)?,
            }
        }
        let is_lost = |&page: &u64| self.translates(page) && space.is_swapped(page);
        if space.any_swapped(self.pages())
            && let Some(page) = self.pages().find(is_lost)
        {
            return Err(format!("page {page:#x} of the segment is swapped"));
        }
        if let Some(page) = self.escaped.iter().find(|page| !self.covers(**page)) {
            return Err(format!("page {page:#x} escaped a segment that it is not in"));
        }
        let areas: Vec<Area> = space.areas_within(self.pages()).collect();
        for mapped in space.mapped_within(&self.pages()) {
            mapped.into_iter().try_for_each(|page| check_page(space, self, page))?;
        }
        for area in &areas {
            let own = self.permissions == area.attributes.effective()
                && area.attributes.is_private_anonymous();
            if !own && area.pages().any(|page| self.translates(page)) {
                return Err(format!("the area at {:#x} differs from the segment", area.start));
            }
        }
        let covered: u64 = areas.iter().map(|area| area.pages().count() as u64).sum();
        expect("pages of the segment in areas", self.end - self.start, covered)
    }
}

fn check_page(space: &AddressSpace, segment: &Segment, page: u64) -> Result<(), String> {
    if !segment.translates(page) {
        return Ok(());
    }
    match space.find(page) {
        Some(present)
            if present.frame() != Some(segment.run_frame(page))
                || present.permissions() != segment.permissions =>
        {
            Err(format!("page {page:#x} of the segment is mapped as {present:?}"))
        }
        _ => Ok(()),
    }
}
