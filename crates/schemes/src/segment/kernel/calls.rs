//! Calls to a kernel about direct segments other than those of the programs that it runs.

use perforate_os::mechanism::{AddressSpace, Effects};
use perforate_os::{Kernel, OsError, Policy};
use perforate_types::{SpaceId, Update, VirtualPage};

use super::record::{self, segment_of};
use super::{SegmentState, Segments, make};
use crate::segment::{SegmentError, SegmentRule};

/// Calls to a kernel about direct segments: those of a daemon or driver that makes them in the
/// background, and single acts for experiments and tests. Any kernel can have segments.
pub trait DirectSegments {
    /// The segment of an address space, whether its registers are set or cleared.
    fn segment(&self, space: SpaceId) -> Option<SegmentState>;

    /// Frames of the run, in whole 2MB blocks, that a segment of the largest area would be made of.
    fn segment_frames_wanted(&self, space: SpaceId, rule: &SegmentRule) -> Option<u64>;

    /// Makes a segment of the largest private anonymous area that may be written, in the background:
    /// what is in it already is copied into the run, and what is in the way of the run elsewhere.
    /// The policy says what is asked of it, or [`SegmentRule::default`].
    ///
    /// # Errors
    /// If there is a segment already, no area is large enough, there is no contiguous memory and
    /// none can be made, or memory for tables runs out.
    fn create_segment(
        &mut self,
        space: SpaceId,
        updates: &mut Vec<Update>,
    ) -> Result<SegmentState, OsError>;

    /// As [`Self::create_segment`], whatever the policy asks of segments.
    ///
    /// # Errors
    /// As there.
    fn create_segment_with(
        &mut self,
        space: SpaceId,
        rule: SegmentRule,
        updates: &mut Vec<Update>,
    ) -> Result<SegmentState, OsError>;

    /// Sets the registers of a segment again; pages that escaped do so again.
    ///
    /// # Errors
    /// If there is no segment.
    fn enable_segment(&mut self, space: SpaceId, updates: &mut Vec<Update>) -> Result<(), OsError>;

    /// Clears the registers of a segment (BASE = LIMIT). Its memory stays where it is, and faults
    /// map it in place: 2MB where policy and alignment allow, else 4KB.
    ///
    /// # Errors
    /// If there is no segment.
    fn disable_segment(&mut self, space: SpaceId, updates: &mut Vec<Update>)
    -> Result<(), OsError>;

    /// Makes ordinary pages of all pages of a segment, where they are, and forgets it.
    ///
    /// # Errors
    /// If there is no segment, or memory for tables runs out; the segment stays then.
    fn dissolve_segment(
        &mut self,
        space: SpaceId,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError>;

    /// A page escapes its segment and is an ordinary 4KB page from then on, at the frame it has:
    /// for policies that want to treat single pages otherwise (D §V).
    ///
    /// # Errors
    /// If no segment translates the page, or memory for tables runs out.
    fn escape_page(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError>;
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
        updates: &mut Vec<Update>,
    ) -> Result<SegmentState, OsError> {
        self.with_backer(without_rule, updates, |segments, context, updates| {
            segments.create_largest(context, space, segments.background_rule(), updates)
        })
    }

    fn create_segment_with(
        &mut self,
        space: SpaceId,
        rule: SegmentRule,
        updates: &mut Vec<Update>,
    ) -> Result<SegmentState, OsError> {
        self.with_backer(without_rule, updates, |segments, context, updates| {
            segments.create_largest(context, space, rule, updates)
        })
    }

    fn enable_segment(&mut self, space: SpaceId, updates: &mut Vec<Update>) -> Result<(), OsError> {
        change(self, space, updates, |space, effects| {
            record::activate(space, effects);
            Ok(())
        })
    }

    fn disable_segment(
        &mut self,
        space: SpaceId,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        change(self, space, updates, |space, effects| {
            record::deactivate(space, effects);
            Ok(())
        })
    }

    fn dissolve_segment(
        &mut self,
        space: SpaceId,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        change(self, space, updates, record::dissolve)
    }

    fn escape_page(
        &mut self,
        space: SpaceId,
        page: VirtualPage,
        updates: &mut Vec<Update>,
    ) -> Result<(), OsError> {
        self.change_space(space, updates, |found, effects| {
            if !found.is_kept(page.number()) {
                return Err(SegmentError::Outside { space, page }.into());
            }
            record::escape_in_place(found, &[page.number()], effects)
        })
    }
}

/// The backer of a kernel whose policy wants no segments at first touches.
fn without_rule(policy: &dyn Policy) -> Segments {
    Segments::new(None, policy.maps_large())
}

/// Acts on an address space that has a segment.
fn change(
    kernel: &mut Kernel,
    id: SpaceId,
    updates: &mut Vec<Update>,
    act: fn(&mut AddressSpace, &mut Effects<'_>) -> Result<(), OsError>,
) -> Result<(), OsError> {
    kernel.change_space(id, updates, |space, effects| match segment_of(space) {
        Some(_) => act(space, effects),
        None => Err(SegmentError::None { space: id }.into()),
    })
}
