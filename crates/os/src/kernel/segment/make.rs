//! Making segments: at the first touch of a large area, or later.

use std::collections::BTreeSet;
use std::ops::Range;

use perforate_types::{Frame, HoleSet, SpaceId, Update};

use super::{MissingRun, SegmentState, Segments, with_segment};
use crate::kernel::contiguous::{free_good_frames, keep_for};
use crate::kernel::first_touch::{Context, Touch};
use crate::kernel::{Core, FirstTouch};
use crate::memory::FRAME_BYTES;
use crate::space::{ALL_PAGES, Area, Segment, regions_of};
use crate::{OsError, SegmentRule};

impl Segments {
    /// Makes a segment of the largest area that it may be made of, in the background.
    pub(in crate::kernel) fn create_largest(
        &mut self,
        context: &mut Context<'_>,
        id: SpaceId,
        rule: SegmentRule,
        updates: &mut Vec<Update>,
    ) -> Result<SegmentState, OsError> {
        let core = &mut *context.core;
        if core.space(id)?.overlay().is_some() {
            return Err(OsError::HasSegment { space: id });
        }
        let largest = largest_area(core, id, &rule);
        let least_bytes = rule.min_bytes;
        let (area, pages) = largest.ok_or(OsError::NoSegmentArea { space: id, least_bytes })?;
        core.ledger.clears = true;
        let made = self.make(context, id, &area, pages, rule, updates);
        self.failed += u64::from(made.is_err());
        made.and_then(|()| with_segment(context.core, id).map(SegmentState::from))
    }

    /// At the first touch of an area: makes a segment of it if policy and memory allow; returns
    /// whether it did.
    ///
    /// # Errors
    /// If prescribed bounds lie in this area in part only.
    pub(super) fn begin(
        &mut self,
        context: &mut Context<'_>,
        touch: &Touch,
        updates: &mut Vec<Update>,
    ) -> Result<bool, OsError> {
        let Some(rule) = self.rule else { return Ok(false) };
        let core = &mut *context.core;
        let &Touch { space: id, ref area, .. } = touch;
        if core.space(id)?.overlay().is_some() {
            return Ok(false);
        }
        lies_inside(area, &rule)?;
        let Some(pages) = pages_for(area, &rule) else { return Ok(false) };
        if !self.fruitless.is_due() {
            return Ok(false);
        }
        let releases = core.memory.zones().releases();
        let wanted = Some(MissingRun { space: id, pages: pages.clone(), releases });
        let is_missing = !rule.compacts && self.missing == wanted;
        let made = !is_missing && self.make(context, id, area, pages, rule, updates).is_ok();
        match made {
            true => self.fruitless.reset(),
            false => self.fruitless.failed(),
        }
        self.missing = wanted.filter(|_| !made && !rule.compacts);
        self.failed += u64::from(!made);
        Ok(made)
    }

    /// Makes a segment of pages of an area. Its frames are congruent with its pages modulo 2MB, so that 2MB
    /// entries can map it as well.
    fn make(
        &mut self,
        context: &mut Context<'_>,
        id: SpaceId,
        area: &Area,
        pages: Range<u64>,
        rule: SegmentRule,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        let Context { core, compaction } = context;
        let blocks = regions_of(&pages);
        let length = pages.end - pages.start;
        // No whole block can be had for a region that injected fragmentation covers.
        if core.is_any_fragmented(blocks.clone()) {
            let asked_bytes = length * FRAME_BYTES;
            return Err(OsError::NoContiguousMemory { asked_bytes, longest_bytes: 0 });
        }
        let wanted = blocks.end - blocks.start;
        let run = compaction.take_run(core, wanted, rule.faulty_pages, rule.compacts, updates)?;
        let frames = keep_for(core, &run, &pages);
        let frame = Frame::new(frames.start);
        let page_at = |faulty: Frame| pages.start + (faulty.number() - frames.start);
        let faulty = core.memory.retired_within(&frames);
        let escaped: BTreeSet<u64> = faulty.into_iter().map(page_at).collect();
        let (space, mut effects) = core.parts(id, updates)?;
        if let Err(error) = space.prepare_segment(&pages, &escaped, &mut effects) {
            free_good_frames(core, frames);
            return Err(error);
        }
        let (moved, swapped) = space.vacate_for_segment(&pages, &escaped, &mut effects);
        let cleared = length - escaped.len() as u64 - moved - swapped;
        let Range { start, end } = pages;
        let permissions = area.attributes.effective();
        let segment = Segment {
            start,
            end,
            frame,
            permissions,
            is_active: true,
            escaped,
            paged: 0,
            large_pages: self.large_pages,
            most_escapes: self.rule.unwrap_or_default().faulty_pages,
        };
        space.set_segment(segment, &mut effects);
        effects.ledger.bring_in(FirstTouch::Segment { cleared });
        effects.ledger.done.pages_swapped_in += swapped;
        effects.ledger.migrated(moved);
        self.made += 1;
        Ok(())
    }
}

/// The largest area of which a segment may be made, and its pages for it; of equally large ones
/// the lowest.
fn largest_area(core: &Core, id: SpaceId, rule: &SegmentRule) -> Option<(Area, Range<u64>)> {
    let areas = core.space(id).ok()?.areas.within(ALL_PAGES);
    let fitting =
        areas.into_iter().filter_map(|area| pages_for(&area, rule).map(|pages| (area, pages)));
    fitting.rev().max_by_key(|(_, pages)| pages.end - pages.start)
}

/// Frames of the run, in whole 2MB blocks, that a segment of the largest area would be made of.
pub(in crate::kernel) fn frames_wanted(
    core: &Core,
    space: SpaceId,
    rule: &SegmentRule,
) -> Option<u64> {
    let blocks = regions_of(&largest_area(core, space, rule)?.1);
    Some((blocks.end - blocks.start) * HoleSet::SUBPAGES as u64)
}

/// The pages of an area that a segment may hold, if it may: private anonymous memory that can be
/// written, and enough of it or what the bounds prescribe.
fn pages_for(area: &Area, rule: &SegmentRule) -> Option<Range<u64>> {
    let suits = area.attributes.is_private_anonymous() && area.attributes.effective().write;
    let pages = match rule.bounds {
        Some(bounds) => pages_of(bounds),
        None => area.pages(),
    };
    let inside = area.start <= pages.start && pages.end <= area.end && !pages.is_empty();
    let bytes = (pages.end - pages.start).saturating_mul(FRAME_BYTES);
    let enough = rule.bounds.is_some() || bytes >= rule.min_bytes;
    (suits && inside && enough).then_some(pages)
}

fn pages_of((base, limit): (u64, u64)) -> Range<u64> {
    base / FRAME_BYTES..limit / FRAME_BYTES
}

/// Prescribed bounds must not reach beyond the area they begin or end in.
fn lies_inside(area: &Area, rule: &SegmentRule) -> Result<(), OsError> {
    let Some((base, limit)) = rule.bounds else { return Ok(()) };
    let pages = pages_of((base, limit));
    let apart = pages.is_empty() || pages.end <= area.start || area.end <= pages.start;
    if apart || (area.start <= pages.start && pages.end <= area.end) {
        return Ok(());
    }
    let mapped = (area.start * FRAME_BYTES, area.end * FRAME_BYTES);
    Err(OsError::SegmentBeyondArea { base, limit, start: mapped.0, end: mapped.1 })
}
