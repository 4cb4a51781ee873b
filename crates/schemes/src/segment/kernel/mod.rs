//! Operating-system half of direct segments (D §II.B, §III). An address space has at most one
//! segment: a run of contiguous memory, allocated at the first touch of a large area or later in
//! the background.
//!
//! The registers can be cleared and set again at run time (mode switches). While they are cleared,
//! the address space keeps the run, and faults map it in place. Other operations on pages of a
//! segment first dissolve it or make the pages escape (see `overlay`). Khugepaged, same-page
//! merging, compaction, swap and MADV_FREE skip its pages. Its 2MB pages cannot be punched or
//! shared, because an overlay keeps them.

mod calls;
mod make;
mod overlay;
mod record;

use std::ops::Range;

use perforate_os::OsError;
use perforate_os::mechanism::{Backed, Backer, Core, Deferral, Touch};
use perforate_types::{Counters, Frame, PageSize, Permissions, SpaceId, VirtualPage, figures};

use super::SegmentRule;
pub use calls::DirectSegments;
use record::{Segment, segment_of};

/// State of an address space's direct segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentState {
    /// First page of the segment.
    pub page: VirtualPage,
    /// Number of 4KB pages in the segment, including escaped pages.
    pub pages: u64,
    /// Frame of the segment's first page.
    pub frame: Frame,
    /// Permissions of all pages in the segment.
    pub permissions: Permissions,
    /// True if the hardware's registers hold the segment; false while they are cleared.
    pub is_active: bool,
    /// Number of pages that escaped from the segment.
    pub escaped_pages: u64,
    /// Number of pages that a page-table entry also maps, to the frame that the segment gives them.
    pub paged_pages: u64,
}

/// First-touch handler that creates a direct segment at the first touch of a large area, if the
/// policy has a rule for this.
pub(super) struct Segments {
    rule: Option<SegmentRule>,
    /// True if 2MB page-table entries may map pages of segments to the segments' frames.
    large_pages: bool,
    made: u64,
    failed: u64,
    /// Pause between attempts to create a segment, after first touches that found no contiguous
    /// memory.
    back_off: Deferral,
    /// Pages for which the last attempt found no contiguous run of free frames; `None` after a
    /// success.
    missing: Option<MissingRun>,
}

/// Address space and pages for which no contiguous run of free frames was available. None can
/// become available until frames are freed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MissingRun {
    space: SpaceId,
    pages: Range<u64>,
    /// Number of free operations that the allocator had done when the request failed.
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

impl Segments {
    /// Creates the first-touch handler. `rule` has the conditions for a segment at a first touch;
    /// if it is `None`, first touches create no segments. With `large_pages`, 2MB page-table
    /// entries may map pages of segments to the segments' frames.
    pub(super) fn new(rule: Option<SegmentRule>, large_pages: bool) -> Self {
        Self { rule, large_pages, made: 0, failed: 0, back_off: Deferral::default(), missing: None }
    }

    /// Rule for segments created in the background: the policy's rule or the default one, in both
    /// cases with compaction.
    fn background_rule(&self) -> SegmentRule {
        SegmentRule { compacts: true, ..self.rule.unwrap_or_default() }
    }
}

impl Backer for Segments {
    fn back(&mut self, core: &mut Core, touch: &Touch) -> Result<Backed, OsError> {
        let is_made = self.begin(core, touch)?;
        let is_inside = is_made && core.space(touch.space)?.is_kept(touch.page);
        Ok(if is_inside { Backed::Yes } else { Backed::No })
    }

    /// Writes the counters of segments. They describe the present state, except for the numbers of
    /// created segments and of failed attempts.
    fn counters(&self, core: &Core, out: &mut Counters) {
        let segments = || core.live_spaces().filter_map(segment_of);
        let pages = segments().map(|s| s.end - s.start - s.escaped.len() as u64).sum();
        let escaped = segments().map(|segment| segment.escaped.len() as u64).sum();
        let idle: u64 = core.live_spaces().map(|space| space.idle_pages()).sum();
        let state = State {
            active: segments().filter(|segment| segment.is_active).count() as u64,
            pages,
            escaped,
            paged: segments().map(|segment| segment.paged).sum(),
            idle,
            made: self.made,
            failed: self.failed,
        };
        out.record(SEGMENTS, &state);
    }
}

/// Values of the segment counters at one moment.
pub(in crate::segment) struct State {
    active: u64,
    pages: u64,
    escaped: u64,
    paged: u64,
    idle: u64,
    made: u64,
    failed: u64,
}

figures! {
    pub(in crate::segment) static SEGMENTS: State, "Direct segments" {
        /// Peak number of direct segments whose registers are set.
        segments_active, Count, Listed: |it| it.active;
        /// Peak number of 4KB pages in direct segments, without escaped pages.
        segment_pages, Count, Listed: |it| it.pages;
        /// Peak number of pages that escape their direct segment, so that page tables translate
        /// them.
        segment_escaped_pages, Count, Listed: |it| it.escaped;
        /// Peak number of pages in direct segments that a page-table entry maps as well.
        segment_pages_paged, Count, Listed: |it| it.paged;
        /// Peak of memory in direct segments that no page of the program uses any more.
        segment_idle_bytes, Bytes, Listed: |it| it.idle * PageSize::Size4K.bytes();
        /// Direct segments made since the start.
        segments_made, Count, Listed: |it| it.made;
        /// First touches that got no direct segment, because no contiguous memory was free.
        segment_failures, Count, Listed: |it| it.failed;
    }
}
