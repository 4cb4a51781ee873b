//! Requests to a kernel about direct segments that do not come from its programs.

use perforate_os::mechanism::SpaceMut;
use perforate_os::{Kernel, OsError, Policy};
use perforate_types::{SpaceId, VirtualPage};

use super::record::{self, segment_of};
use super::{SegmentState, Segments, make};
use crate::segment::{SegmentError, SegmentRule};

/// Requests to a kernel about direct segments. They come from a daemon or driver that creates
/// segments in the background, or from experiments and tests. Every kernel accepts them, whatever
/// its policy.
pub trait DirectSegments {
    /// The direct segment of an address space, even if its registers are cleared; `None` if there
    /// is no segment.
    fn segment(&self, space: SpaceId) -> Option<SegmentState>;

    /// Number of contiguous free 4KB frames, a multiple of 512, that a segment over the largest suitable area
    /// needs. `None` if no area is suitable.
    fn segment_frames_wanted(&self, space: SpaceId, rule: &SegmentRule) -> Option<u64>;

    /// Creates a segment over the largest writable private anonymous area, in the background. Pages
    /// already mapped in the area are copied into the segment's contiguous frames, and other
    /// contents of these frames are migrated. Conditions: `rule`, else the policy's, else
    /// [`SegmentRule::default`].
    ///
    /// # Errors
    /// If there is a segment already, no area is large enough, no contiguous memory is available or
    /// can be made available, or memory for tables runs out.
    fn create_segment(
        &mut self,
        space: SpaceId,
        rule: Option<SegmentRule>,
    ) -> Result<SegmentState, OsError>;

    /// Writes the registers of an existing segment again, which activates it, and adds its escaped
    /// pages to the filter again.
    ///
    /// # Errors
    /// If there is no segment.
    fn enable_segment(&mut self, space: SpaceId) -> Result<(), OsError>;

    /// Clears the registers of a segment (BASE = LIMIT). Its frames stay reserved, and page faults
    /// map its pages to these frames: by 2MB pages where policy and alignment allow, else by 4KB
    /// pages.
    ///
    /// # Errors
    /// If there is no segment.
    fn disable_segment(&mut self, space: SpaceId) -> Result<(), OsError>;

    /// Dissolves a segment: its pages get page-table entries with their present frames, and the
    /// registers are cleared.
    ///
    /// # Errors
    /// If there is no segment, or memory for tables runs out; the segment then stays.
    fn dissolve_segment(&mut self, space: SpaceId) -> Result<(), OsError>;

    /// Makes a page escape from its segment: it becomes an ordinary 4KB page with the same frame.
    /// For policies that treat single pages differently (D §V).
    ///
    /// # Errors
    /// If no segment translates the page, or memory for tables runs out.
    fn escape_page(&mut self, space: SpaceId, page: VirtualPage) -> Result<(), OsError>;
}

impl DirectSegments for Kernel {
    fn segment(&self, space: SpaceId) -> Option<SegmentState> {
        self.space(space).ok().and_then(segment_of).map(SegmentState::from)
    }

    fn segment_frames_wanted(&self, space: SpaceId, rule: &SegmentRule) -> Option<u64> {
        make::frames_wanted(self.space(space).ok()?, rule)
    }

    fn create_segment(
        &mut self,
        space: SpaceId,
        rule: Option<SegmentRule>,
    ) -> Result<SegmentState, OsError> {
        self.with_backer(without_rule, |segments, core| {
            let rule = rule.unwrap_or(segments.background_rule());
            segments.create_largest(core, space, rule)
        })
    }

    fn enable_segment(&mut self, space: SpaceId) -> Result<(), OsError> {
        change(self, space, |space| {
            record::activate(space);
            Ok(())
        })
    }

    fn disable_segment(&mut self, space: SpaceId) -> Result<(), OsError> {
        change(self, space, |space| {
            record::deactivate(space);
            Ok(())
        })
    }

    fn dissolve_segment(&mut self, space: SpaceId) -> Result<(), OsError> {
        change(self, space, record::dissolve)
    }

    fn escape_page(&mut self, space: SpaceId, page: VirtualPage) -> Result<(), OsError> {
        self.change_space(space, |found| {
            if !found.is_kept(page.number()) {
                return Err(SegmentError::Outside { space, page }.into());
            }
            record::escape_in_place(found, &[page.number()])
        })
    }
}

/// Makes the first-touch handler of direct segments for a kernel whose policy has no rule for
/// segments; this handler creates none at first touches.
fn without_rule(policy: &dyn Policy) -> Segments {
    Segments::new(None, policy.maps_large())
}

/// Calls `act` on an address space of `kernel`, which must have a segment.
fn change(
    kernel: &mut Kernel,
    id: SpaceId,
    act: fn(&mut SpaceMut<'_>) -> Result<(), OsError>,
) -> Result<(), OsError> {
    kernel.change_space(id, |space| match segment_of(space) {
        Some(_) => act(space),
        None => Err(SegmentError::None { space: id }.into()),
    })
}
