//! Effects of other operations on a direct segment.
//!
//! - Unmapping, MADV_DONTNEED, mremap and fork *dissolve* it: all its pages get table entries where
//!   they are. If all of it is unmapped, it just goes.
//! - mprotect of few pages makes them escape (guard pages, D §V), of many dissolves it.
//! - A frame that fails makes its page escape to another (D §V).
//!
//! A fault on a page that an active segment translates is a false positive of the hardware's
//! escape filter, whose hash functions the kernel does not know: the page is mapped in place as
//! well.

use std::any::Any;
use std::ops::Range;

use perforate_types::{Frame, Permissions};

use super::{
    AddressSpace, Departure, Effects, FrameVisitor, Overlay, OverlayMechanism, Segment, covers,
    page_at, region_of, subpages_of, visit_run,
};
use crate::kernel::FirstTouch;
use crate::memory::{Recount, expect};
use crate::{FrameClass, OsError};

/// Direct segments (D §II.B).
pub(crate) struct DirectSegments;

impl OverlayMechanism for DirectSegments {
    fn leave(
        &self,
        space: &mut AddressSpace,
        pages: &Range<u64>,
        departure: Departure,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let Some(segment) = space.segment() else { return Ok(()) };
        match departure {
            // Nobody remaps pages that it keeps, and others are not its business.
            Departure::Remapped => Ok(()),
            Departure::Forked => space.dissolve_segment(effects),
            _ if !segment.meets(pages) => Ok(()),
            Departure::Moved => space.dissolve_segment(effects),
            Departure::Protected(permissions) => protect(space, pages, permissions, effects),
            Departure::Unmapped if !covers(pages, &segment.pages()) => {
                space.dissolve_segment(effects)
            }
            Departure::Unmapped => {
                for frames in space.end_segment(effects) {
                    effects.memory.free_range(frames);
                }
                Ok(())
            }
        }
    }

    fn touch(
        &self,
        space: &mut AddressSpace,
        page: u64,
        effects: &mut Effects<'_>,
    ) -> Result<bool, OsError> {
        let Some(segment) = space.segment().filter(|segment| segment.translates(page)) else {
            return Ok(false);
        };
        let number = region_of(page);
        if !segment.is_active && segment.large_pages && space.is_region_held(number) {
            space.region_in_place(number, effects)?;
            effects.ledger.join(FirstTouch::Large);
        } else {
            space.page_in_place(page, effects)?;
            effects.ledger.join(FirstTouch::Page);
        }
        Ok(true)
    }

    /// The page escapes to the new frame.
    fn replace_frame(
        &self,
        space: &mut AddressSpace,
        page: u64,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let to = effects.memory.allocate_page()?;
        match space.escape_to(page, to, effects) {
            Ok(frame) => effects.memory.free(frame, 0),
            Err(error) => {
                effects.memory.free(to, 0);
                return Err(error);
            }
        }
        effects.ledger.migrated(1);
        Ok(())
    }
}

/// Few pages that get other permissions escape; for many the segment is dissolved.
fn protect(
    space: &mut AddressSpace,
    pages: &Range<u64>,
    permissions: Permissions,
    effects: &mut Effects<'_>,
) -> Result<(), OsError> {
    let segment = space.segment().expect("segment");
    if permissions == segment.permissions {
        return Ok(());
    }
    let inside = segment.start.max(pages.start)..segment.end.min(pages.end);
    let room = segment.most_escapes.saturating_sub(segment.escaped.len() as u64) as usize;
    let leaving = inside.filter(|&page| segment.translates(page));
    let leaving: Vec<u64> = leaving.take(room + 1).collect();
    if leaving.len() > room {
        return space.dissolve_segment(effects);
    }
    if leaving.is_empty() {
        return Ok(());
    }
    space.escape_in_place(&leaving, effects)
}

impl Overlay for Segment {
    fn mechanism(&self) -> &'static dyn OverlayMechanism {
        &DirectSegments
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
        for pages in space.held_ranges() {
            visit_run(self.frames_of(&pages), FrameClass::Segment, visitor);
        }
    }

    fn check(&self, space: &AddressSpace, recount: &mut Recount) -> Result<(), String> {
        let held = space.held_ranges();
        let pages: u64 = held.iter().map(|pages| pages.end - pages.start).sum();
        expect("pages that the segment holds", self.held_pages(), pages)?;
        for frame in held.iter().flat_map(|pages| self.frames_of(pages)).map(Frame::new) {
            match self.is_active {
                true => recount.map(frame, None),
                false => recount.hold(frame)?,
            }
        }
        if let Some(page) = self.escaped.iter().find(|page| !self.covers(**page)) {
            return Err(format!("page {page:#x} escaped a segment that it is not in"));
        }
        for number in space.regions_within(&self.pages()) {
            for index in subpages_of(&self.pages(), number).iter() {
                check_page(space, self, page_at(number, index))?;
            }
        }
        for area in space.areas.within(self.pages()) {
            let own = self.permissions == area.attributes.effective()
                && area.attributes.is_private_anonymous();
            if !own && area.pages().any(|page| self.translates(page)) {
                return Err(format!("the area at {:#x} differs from the segment", area.start));
            }
        }
        match space.areas.gaps(self.pages()).first() {
            Some(gap) => Err(format!("no area at {:#x}, inside the segment", gap.start)),
            None => Ok(()),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
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
        _ if space.is_swapped(page) => Err(format!("page {page:#x} of the segment is swapped")),
        _ => Ok(()),
    }
}
