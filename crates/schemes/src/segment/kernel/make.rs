//! Creation of segments, at the first touch of a large area or later.

use std::collections::BTreeSet;
use std::ops::Range;

use perforate_os::OsError;
use perforate_os::mechanism::{ALL_PAGES, AddressSpace, Area, Core, FirstTouch, Touch, regions_of};
use perforate_types::{Frame, HoleSet, PageSize, SpaceId};

use super::record::{self, Segment, segment_of};
use super::{MissingRun, SegmentState, Segments};
use crate::segment::{SegmentError, SegmentRule};

const PAGE_BYTES: u64 = PageSize::Size4K.bytes();

impl Segments {
    /// Creates a segment over the largest suitable area of an address space, in the background.
    pub(super) fn create_largest(
        &mut self,
        core: &mut Core,
        id: SpaceId,
        rule: SegmentRule,
    ) -> Result<SegmentState, OsError> {
        let space = core.space(id)?;
        if space.overlay().is_some() {
            return Err(SegmentError::Second { space: id }.into());
        }
        let largest = largest_area(space, &rule);
        let least_bytes = rule.min_bytes;
        let (area, pages) = largest.ok_or(SegmentError::NoArea { space: id, least_bytes })?;
        core.clear_new_frames();
        let made = self.make(core, id, &area, pages, rule);
        self.failed += u64::from(made.is_err());
        made?;
        segment_of(core.space(id)?)
            .map(SegmentState::from)
            .ok_or(SegmentError::None { space: id }.into())
    }

    /// Creates a segment at the first touch of an area, if policy and memory allow it. Returns true
    /// if a segment was created.
    ///
    /// # Errors
    /// If prescribed bounds are only partly inside this area.
    pub(super) fn begin(&mut self, core: &mut Core, touch: &Touch) -> Result<bool, OsError> {
        let Some(rule) = self.rule else { return Ok(false) };
        let &Touch { space: id, ref area, .. } = touch;
        if core.space(id)?.overlay().is_some() {
            return Ok(false);
        }
        lies_inside(area, &rule)?;
        let Some(pages) = pages_for(area, &rule) else { return Ok(false) };
        if !self.back_off.is_due() {
            return Ok(false);
        }
        let releases = core.memory.zones().releases();
        let wanted = Some(MissingRun { space: id, pages: pages.clone(), releases });
        let is_missing = !rule.compacts && self.missing == wanted;
        let made = !is_missing && self.make(core, id, area, pages, rule).is_ok();
        match made {
            true => self.back_off.reset(),
            false => self.back_off.failed(),
        }
        self.missing = wanted.filter(|_| !made && !rule.compacts);
        self.failed += u64::from(!made);
        Ok(made)
    }

    /// Creates a segment for pages of an area. The segment's first frame has the same offset in its
    /// 2MB block as the first page in its region, so that 2MB entries can map the segment in place.
    fn make(
        &mut self,
        core: &mut Core,
        id: SpaceId,
        area: &Area,
        pages: Range<u64>,
        rule: SegmentRule,
    ) -> Result<(), OsError> {
        let frames = core.take_run_for(&pages, rule.faulty_pages, rule.compacts)?;
        let page_at = |faulty: Frame| pages.start + (faulty.number() - frames.start);
        let faulty = core.memory.retired_within(&frames);
        let escaped: BTreeSet<u64> = faulty.into_iter().map(page_at).collect();
        let space = &mut core.space_mut(id)?;
        if let Err(error) = space.prepare_run(&pages, &escaped) {
            core.give_back_run(frames);
            return Err(error);
        }
        let (moved, swapped) = space.vacate_for_run(&pages, &escaped);
        let cleared = (pages.end - pages.start) - escaped.len() as u64 - moved - swapped;
        let Range { start, end } = pages;
        let permissions = area.attributes.effective();
        let segment = Segment {
            start,
            end,
            frame: Frame::new(frames.start),
            permissions,
            is_active: true,
            escaped,
            paged: 0,
            large_pages: self.large_pages,
            most_escapes: self.rule.unwrap_or_default().faulty_pages,
        };
        record::set(space, segment);
        space.bring_in(FirstTouch::Run { cleared });
        space.work().pages_swapped_in += swapped;
        space.migrated(moved);
        self.made += 1;
        Ok(())
    }
}

/// Largest area suitable for a segment, with the pages to cover; the lowest of equally large areas.
/// `None` if no area is suitable.
fn largest_area(space: &AddressSpace, rule: &SegmentRule) -> Option<(Area, Range<u64>)> {
    let areas = space.areas_within(ALL_PAGES);
    let fitting = areas.filter_map(|area| pages_for(&area, rule).map(|pages| (area, pages)));
    fitting.rev().max_by_key(|(_, pages)| pages.end - pages.start)
}

/// Number of frames, in whole 2MB blocks, that a segment over the largest suitable area needs as
/// contiguous free memory; `None` if no area is suitable.
pub(super) fn frames_wanted(space: &AddressSpace, rule: &SegmentRule) -> Option<u64> {
    let blocks = regions_of(&largest_area(space, rule)?.1);
    Some((blocks.end - blocks.start) * HoleSet::SUBPAGES as u64)
}

/// Pages of an area that a segment may cover. The area must be private, anonymous and writable, and
/// have the minimum size or contain the prescribed bounds; otherwise `None`.
fn pages_for(area: &Area, rule: &SegmentRule) -> Option<Range<u64>> {
    let suits = area.attributes.is_private_anonymous() && area.attributes.effective().write;
    let pages = match rule.bounds {
        Some(bounds) => pages_of(bounds),
        None => area.pages(),
    };
    let inside = area.start <= pages.start && pages.end <= area.end && !pages.is_empty();
    let bytes = (pages.end - pages.start).saturating_mul(PAGE_BYTES);
    let enough = rule.bounds.is_some() || bytes >= rule.min_bytes;
    (suits && inside && enough).then_some(pages)
}

fn pages_of((base, limit): (u64, u64)) -> Range<u64> {
    base / PAGE_BYTES..limit / PAGE_BYTES
}

/// Checks that prescribed bounds of a segment do not extend beyond an area that they overlap.
fn lies_inside(area: &Area, rule: &SegmentRule) -> Result<(), OsError> {
    let Some((base, limit)) = rule.bounds else { return Ok(()) };
    let pages = pages_of((base, limit));
    let apart = pages.is_empty() || pages.end <= area.start || area.end <= pages.start;
    if apart || (area.start <= pages.start && pages.end <= area.end) {
        return Ok(());
    }
    let mapped = (area.start * PAGE_BYTES, area.end * PAGE_BYTES);
    Err(SegmentError::BeyondArea { base, limit, start: mapped.0, end: mapped.1 }.into())
}
