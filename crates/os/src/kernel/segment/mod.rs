//! Direct segments (D §II.B, §III): at most one for each address space, made of a run of contiguous
//! memory at the first touch of a large area or later, in the background.
//!
//! The registers can be cleared and set again at run time (mode switches). While they are cleared,
//! the run stays with the address space and faults map it in place. Whatever else happens to pages
//! of a segment ends it first, so that no other file knows of segments:
//! - unmapping, MADV_DONTNEED, mremap and fork *dissolve* it: all its pages get table entries where
//!   they are. If all of it is unmapped, it just goes.
//! - mprotect of few pages makes them escape (guard pages, D §V), of many dissolves it.
//! - A frame that fails makes its page escape to another (D §V).
//! - khugepaged, same-page merging, compaction, swap and MADV_FREE leave its pages alone, and
//!   punching and sharing single 2MB pages of it is refused.
//!
//! A fault on a page that an active segment translates is a false positive of the hardware's
//! escape filter, whose hash functions the kernel does not know: the page is mapped in place as
//! well.

use std::ops::Range;

use perforate_types::{
    Counters, Frame, HoleSet, PageSize, Permissions, SpaceId, Update, VirtualPage,
};

mod make;

use super::deferral::Deferral;
use super::{FirstTouch, Kernel};
use crate::space::{AddressSpace, Attributes, Effects, Segment, region_of};
use crate::{BlockUse, OsError, SegmentRule};

/// The direct segment of an address space at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentState {
    /// First page.
    pub page: VirtualPage,
    /// Number of 4KB pages.
    pub pages: u64,
    /// Frame of the first page.
    pub frame: Frame,
    /// What it allows.
    pub permissions: Permissions,
    /// Whether the registers are set.
    pub is_active: bool,
    /// Pages that escaped it.
    pub escaped_pages: u64,
    /// Pages in place that a table entry maps as well.
    pub paged_pages: u64,
}

/// Attempts to make segments.
#[derive(Clone, Debug, Default)]
pub(super) struct Segments {
    made: u64,
    failed: u64,
    /// First touches that found no contiguous memory.
    fruitless: Deferral,
    /// What the last of them wanted of free frames alone.
    missing: Option<MissingRun>,
}

/// Pages for which there was no run of free frames. There is none either while nothing is given back.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MissingRun {
    space: SpaceId,
    pages: Range<u64>,
    /// How often frames had been given back then.
    releases: u64,
}

impl From<&Segment> for SegmentState {
    fn from(segment: &Segment) -> Self {
        Self {
            page: VirtualPage::new(segment.start),
            pages: segment.end - segment.start,
            frame: segment.frame,
            permissions: segment.permissions,
            is_active: segment.is_active,
            escaped_pages: segment.escaped.len() as u64,
            paged_pages: segment.paged,
        }
    }
}

impl Kernel {
    /// The segment of an address space, whether its registers are set or cleared.
    pub fn segment(&self, space: SpaceId) -> Option<SegmentState> {
        self.space(space).ok()?.segment().map(SegmentState::from)
    }

    /// Makes a segment of the largest private anonymous area that may be written, in the background:
    /// what is in it already is copied into the run, and what is in the way of the run elsewhere.
    /// The policy says what is asked of it, or [`SegmentRule::default`].
    ///
    /// # Errors
    /// If there is a segment already, no area is large enough, there is no contiguous memory and
    /// none can be made, or memory for tables runs out.
    pub fn create_segment(
        &mut self,
        space: SpaceId,
        updates: &mut Vec<Update>,
    ) -> Result<SegmentState, OsError> {
        let rule = self.policy.segment().unwrap_or_default();
        self.create_segment_with(space, SegmentRule { compacts: true, ..rule }, updates)
    }

    /// As [`Self::create_segment`], whatever the policy asks of segments.
    ///
    /// # Errors
    /// As there.
    pub fn create_segment_with(
        &mut self,
        space: SpaceId,
        rule: SegmentRule,
        updates: &mut Vec<Update>,
    ) -> Result<SegmentState, OsError> {
        self.note_peak();
        let result = self.create_largest(space, rule, updates);
        self.conclude(updates);
        result.map_err(|error| self.with_estimate(error))
    }

    /// Sets the registers of a segment again; pages that escaped do so again.
    ///
    /// # Errors
    /// If there is no segment.
    pub fn enable_segment(
        &mut self,
        space: SpaceId,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        self.switch_segment(space, updates, AddressSpace::activate_segment)
    }

    /// Clears the registers of a segment (BASE = LIMIT). Its memory stays where it is, and faults
    /// map it in place: 2MB where policy and alignment allow, else 4KB.
    ///
    /// # Errors
    /// If there is no segment.
    pub fn disable_segment(
        &mut self,
        space: SpaceId,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        self.switch_segment(space, updates, AddressSpace::deactivate_segment)
    }

    /// Makes ordinary pages of all pages of a segment, where they are, and forgets it.
    ///
    /// # Errors
    /// If there is no segment, or memory for tables runs out; the segment stays then.
    pub fn dissolve_segment(
        &mut self,
        space: SpaceId,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        self.with_segment(space)?;
        self.note_peak();
        let result = self.dissolve(space, updates);
        self.conclude(updates);
        result.map_err(|error| self.with_estimate(error))
    }

    /// A page escapes its segment and is an ordinary 4KB page from then on, at the frame it has:
    /// for policies that want to treat single pages otherwise (D §V).
    ///
    /// # Errors
    /// If no segment translates the page, or memory for tables runs out.
    pub fn escape_page(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let (found, mut effects) = self.parts(space, updates)?;
        if !found.in_segment(page.number()) {
            return Err(OsError::NotInSegment { space, page });
        }
        let result = found.escape_in_place(&[page.number()], &mut effects);
        self.ledger.send();
        result.map_err(|error| self.with_estimate(error))
    }

    fn switch_segment(
        &mut self,
        space: SpaceId,
        updates: &mut Vec<Update>,
        switch: fn(&mut AddressSpace, &mut Effects<'_>),
    ) -> Result<(), OsError> {
        self.with_segment(space)?;
        let (found, mut effects) = self.parts(space, updates)?;
        switch(found, &mut effects);
        self.ledger.send();
        Ok(())
    }

    fn with_segment(&self, space: SpaceId) -> Result<&Segment, OsError> {
        self.space(space)?.segment().ok_or(OsError::NoSegment { space })
    }

    /// Whether a switch to or from the address space touches the segment registers.
    pub(super) fn has_registers(&self, space: SpaceId) -> bool {
        self.segment(space).is_some_and(|segment| segment.is_active)
    }

    /// A touch of a page without a table entry: if it is the segment's, it is mapped in place.
    /// Returns whether it is.
    pub(super) fn touch_segment(
        &mut self,
        id: SpaceId,
        page: u64,
        updates: &mut Vec<Update>,
    ) -> Result<bool, OsError> {
        let may_be_large = self.policy.use_block(&HoleSet::EMPTY) == BlockUse::Large;
        let (space, mut effects) = self.parts(id, updates)?;
        let Some(segment) = space.segment().filter(|segment| segment.translates(page)) else {
            return Ok(false);
        };
        let number = region_of(page);
        if !segment.is_active && may_be_large && space.is_region_held(number) {
            space.region_in_place(number, &mut effects)?;
            effects.ledger.join(FirstTouch::Large);
        } else {
            space.page_in_place(page, &mut effects)?;
            effects.ledger.join(FirstTouch::Page);
        }
        Ok(true)
    }

    /// Before these pages change: a segment that is among them as a whole goes, one of which they
    /// are a part is dissolved.
    pub(super) fn leave_segment(
        &mut self,
        id: SpaceId,
        pages: &Range<u64>,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let (space, mut effects) = self.parts(id, updates)?;
        let Some(segment) = space.segment().filter(|segment| segment.meets(pages)) else {
            return Ok(());
        };
        if segment.start < pages.start || pages.end < segment.end {
            return self.dissolve(id, updates);
        }
        for frames in space.end_segment(&mut effects) {
            effects.memory.free_range(frames);
        }
        Ok(())
    }

    /// Makes ordinary pages of a segment's, if there is one.
    pub(super) fn dissolve(
        &mut self,
        id: SpaceId,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let large = self.policy.use_block(&HoleSet::EMPTY) == BlockUse::Large;
        let (space, mut effects) = self.parts(id, updates)?;
        space.page_all_in_place(large, &mut effects)?;
        let held = space.end_segment(&mut effects);
        debug_assert!(held.is_empty(), "all pages have table entries");
        Ok(())
    }

    /// Before these pages get other permissions: few pages of a segment escape it, for many it is
    /// dissolved.
    pub(super) fn protect_in_segment(
        &mut self,
        id: SpaceId,
        pages: &Range<u64>,
        (permissions, accessible): (Permissions, bool),
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let most = self.policy.segment().unwrap_or_default().faulty_pages;
        let (space, mut effects) = self.parts(id, updates)?;
        let Some(segment) = space.segment().filter(|segment| segment.meets(pages)) else {
            return Ok(());
        };
        let anonymous = Attributes::private(permissions, perforate_types::Backing::Anonymous);
        if (Attributes { accessible, ..anonymous }).effective() == segment.permissions {
            return Ok(());
        }
        let inside = segment.start.max(pages.start)..segment.end.min(pages.end);
        let room = most.saturating_sub(segment.escaped.len() as u64) as usize;
        let leaving = inside.filter(|&page| segment.translates(page));
        let leaving: Vec<u64> = leaving.take(room + 1).collect();
        if leaving.len() > room {
            return self.dissolve(id, updates);
        }
        if leaving.is_empty() {
            return Ok(());
        }
        space.escape_in_place(&leaving, &mut effects)
    }

    /// Whose segment has this frame, and for which page.
    pub(super) fn segment_page_of(&self, frame: Frame) -> Option<(SpaceId, u64)> {
        (0..self.spaces.len()).find_map(|slot| {
            let id = SpaceId(slot as u16);
            let space = self.space(id).ok()?;
            let page = space.segment()?.page_of(frame)?;
            space.in_segment(page).then_some((id, page))
        })
    }

    /// A page escapes its segment to a new frame, as the one it has fails; that one is free then.
    pub(super) fn escape_elsewhere(
        &mut self,
        id: SpaceId,
        page: u64,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let (space, mut effects) = self.parts(id, updates)?;
        let to = effects.memory.allocate_page()?;
        match space.escape_to(page, to, &mut effects) {
            Ok(frame) => effects.memory.free(frame, 0),
            Err(error) => {
                effects.memory.free(to, 0);
                return Err(error);
            }
        }
        self.note_migration(1);
        Ok(())
    }

    /// Writes the figures of segments: at this moment, but for those made and attempts that
    /// failed.
    pub(super) fn segment_counters(&self, out: &mut Counters) {
        let segments = || self.live_spaces().filter_map(|space| space.segment());
        let pages = segments().map(|s| s.end - s.start - s.escaped.len() as u64).sum();
        let escaped = segments().map(|segment| segment.escaped.len() as u64).sum();
        let idle: u64 = self.live_spaces().map(|space| space.segment_idle_pages()).sum();
        out.count("segments_active", segments().filter(|segment| segment.is_active).count() as u64);
        out.count("segment_pages", pages);
        out.count("segment_escaped_pages", escaped);
        out.count("segment_pages_paged", segments().map(|segment| segment.paged).sum());
        out.count("segment_idle_bytes", idle * PageSize::Size4K.bytes());
        out.count("segments_made", self.segments.made);
        out.count("segment_failures", self.segments.failed);
    }
}
