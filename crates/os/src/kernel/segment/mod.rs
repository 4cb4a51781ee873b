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
use super::first_touch::{Backed, Backer, Context, Touch};
use super::{Core, FirstTouch};
use crate::space::{AddressSpace, Attributes, Segment, region_of};
use crate::{BlockUse, OsError, Policy, SegmentRule};

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

/// The backer for direct segments: makes one at the first touch of a large area, if the policy has
/// a rule for that.
pub(super) struct Segments {
    rule: Option<SegmentRule>,
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

pub(super) use make::frames_wanted;

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

impl Segments {
    /// Segments as the policy wants them.
    pub(super) fn new(policy: &dyn Policy) -> Self {
        let rule = policy.rule().copied();
        Self { rule, made: 0, failed: 0, fruitless: Deferral::default(), missing: None }
    }

    /// The rule for segments made in the background: the policy's, or the default.
    pub(super) fn background_rule(&self) -> SegmentRule {
        SegmentRule { compacts: true, ..self.rule.unwrap_or_default() }
    }
}

impl Backer for Segments {
    fn back(
        &mut self,
        context: &mut Context<'_>,
        touch: &Touch,
        updates: &mut Vec<Update>,
    ) -> Result<Backed, OsError> {
        let is_made = self.begin(context, touch, updates)?;
        let is_inside = is_made && context.core.space(touch.space)?.in_segment(touch.page);
        Ok(if is_inside { Backed::Yes } else { Backed::No })
    }

    /// Writes the figures of segments: at this moment, but for those made and attempts that
    /// failed.
    fn counters(&self, core: &Core, out: &mut Counters) {
        let segments = || core.live_spaces().filter_map(|space| space.segment());
        let pages = segments().map(|s| s.end - s.start - s.escaped.len() as u64).sum();
        let escaped = segments().map(|segment| segment.escaped.len() as u64).sum();
        let idle: u64 = core.live_spaces().map(|space| space.segment_idle_pages()).sum();
        out.count("segments_active", segments().filter(|segment| segment.is_active).count() as u64);
        out.count("segment_pages", pages);
        out.count("segment_escaped_pages", escaped);
        out.count("segment_pages_paged", segments().map(|segment| segment.paged).sum());
        out.count("segment_idle_bytes", idle * PageSize::Size4K.bytes());
        out.count("segments_made", self.made);
        out.count("segment_failures", self.failed);
    }
}

/// The segment of an address space, whether its registers are set or cleared.
pub(super) fn with_segment(core: &Core, space: SpaceId) -> Result<&Segment, OsError> {
    core.space(space)?.segment().ok_or(OsError::NoSegment { space })
}

/// Whether a switch to or from the address space touches the segment registers.
pub(super) fn has_registers(core: &Core, space: SpaceId) -> bool {
    core.space(space).ok().and_then(AddressSpace::segment).is_some_and(|segment| segment.is_active)
}

/// A touch of a page without a table entry: if it is the segment's, it is mapped in place.
/// Returns whether it is.
pub(super) fn touch(
    core: &mut Core,
    id: SpaceId,
    page: u64,
    updates: &mut Vec<Update>,
) -> Result<bool, OsError> {
    let may_be_large = core.policy.use_block(&HoleSet::EMPTY) == BlockUse::Large;
    let (space, mut effects) = core.parts(id, updates)?;
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
pub(super) fn leave(
    core: &mut Core,
    id: SpaceId,
    pages: &Range<u64>,
    updates: &mut Vec<Update>,
) -> Result<(), OsError> {
    let (space, mut effects) = core.parts(id, updates)?;
    let Some(segment) = space.segment().filter(|segment| segment.meets(pages)) else {
        return Ok(());
    };
    if segment.start < pages.start || pages.end < segment.end {
        return dissolve(core, id, updates);
    }
    for frames in space.end_segment(&mut effects) {
        effects.memory.free_range(frames);
    }
    Ok(())
}

/// Makes ordinary pages of a segment's, if there is one.
pub(super) fn dissolve(
    core: &mut Core,
    id: SpaceId,
    updates: &mut Vec<Update>,
) -> Result<(), OsError> {
    let large = core.policy.use_block(&HoleSet::EMPTY) == BlockUse::Large;
    let (space, mut effects) = core.parts(id, updates)?;
    space.page_all_in_place(large, &mut effects)?;
    let held = space.end_segment(&mut effects);
    debug_assert!(held.is_empty(), "all pages have table entries");
    Ok(())
}

/// Before these pages get other permissions: few pages of a segment escape it, for many it is
/// dissolved.
pub(super) fn protect(
    core: &mut Core,
    id: SpaceId,
    pages: &Range<u64>,
    (permissions, accessible): (Permissions, bool),
    updates: &mut Vec<Update>,
) -> Result<(), OsError> {
    let most = core.policy.rule::<SegmentRule>().copied().unwrap_or_default().faulty_pages;
    let (space, mut effects) = core.parts(id, updates)?;
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
        return dissolve(core, id, updates);
    }
    if leaving.is_empty() {
        return Ok(());
    }
    space.escape_in_place(&leaving, &mut effects)
}

/// A page escapes its segment and is an ordinary 4KB page from then on, at the frame it has.
pub(super) fn escape_in_place(
    core: &mut Core,
    space: SpaceId,
    page: VirtualPage,
    updates: &mut Vec<Update>,
) -> Result<(), OsError> {
    let (found, mut effects) = core.parts(space, updates)?;
    if !found.in_segment(page.number()) {
        return Err(OsError::NotInSegment { space, page });
    }
    found.escape_in_place(&[page.number()], &mut effects)
}

/// Whose segment has this frame, and for which page.
pub(super) fn page_of(core: &Core, frame: Frame) -> Option<(SpaceId, u64)> {
    (0..core.spaces.len()).find_map(|slot| {
        let id = SpaceId(slot as u16);
        let space = core.space(id).ok()?;
        let page = space.segment()?.page_of(frame)?;
        space.in_segment(page).then_some((id, page))
    })
}

/// A page escapes its segment to a new frame, as the one it has fails; that one is free then.
pub(super) fn escape_elsewhere(
    core: &mut Core,
    id: SpaceId,
    page: u64,
    updates: &mut Vec<Update>,
) -> Result<(), OsError> {
    let (space, mut effects) = core.parts(id, updates)?;
    let to = effects.memory.allocate_page()?;
    match space.escape_to(page, to, &mut effects) {
        Ok(frame) => effects.memory.free(frame, 0),
        Err(error) => {
            effects.memory.free(to, 0);
            return Err(error);
        }
    }
    core.ledger.migrated(1);
    Ok(())
}
