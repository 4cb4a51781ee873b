//! Contract between an address space and a mechanism that translates pages beside its page tables.
//!
//! [`Overlay`] is the state of one overlay and answers questions; [`OverlayMechanism`] acts on it.
//! There are two kinds. The first *keeps* pages: these need no table entry, the overlay owns their
//! frames, and nothing else moves, merges or reclaims them (direct segments). The second only
//! repeats what page tables say, for faster translation, and keeps nothing (range translations).
//! Before code changes how page tables map a page, it calls [`AddressSpace::leave_overlay`], which
//! tells either kind.

use std::any::Any;
use std::ops::Range;

use perforate_types::{Frame, Permissions, VirtualPage};

use super::{AddressSpace, FrameVisitor, SpaceMut};
use crate::OsError;
use crate::memory::{PhysicalMemory, Recount};

/// The operation for which pages leave an overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The pages are unmapped, and their contents dropped.
    Unmapped,
    /// The contents of the pages move to other addresses (mremap).
    Moved,
    /// A child will share the pages (fork).
    Forked,
    /// The pages get these permissions (mprotect).
    Protected(Permissions),
    /// Page tables will map the pages to other frames or with other permissions, or not at all for
    /// a while. Never used for pages that the overlay keeps.
    Remapped,
}

/// State of the overlay of an address space. The defaults are the answers of an overlay that keeps
/// nothing.
pub trait Overlay: Any + Send {
    /// The mechanism that acts on this overlay.
    fn mechanism(&self) -> &'static dyn OverlayMechanism;

    /// True if the overlay keeps the page.
    fn keeps(&self, _page: u64) -> bool {
        false
    }

    /// True if any of these pages is set aside for the overlay, so that page tables make no large
    /// page there.
    fn claims(&self, _pages: &Range<u64>) -> bool {
        false
    }

    /// The frame to which the overlay translates a page without a table entry.
    fn frame_of(&self, _page: u64) -> Option<Frame> {
        None
    }

    /// The page that the overlay keeps in this frame.
    fn page_of(&self, _frame: Frame) -> Option<u64> {
        None
    }

    /// Number of pages that the overlay translates and no table entry does.
    fn translated_pages(&self) -> u64 {
        0
    }

    /// Number of pages whose frames the overlay keeps although nothing translates them.
    fn idle_pages(&self) -> u64 {
        0
    }

    /// Number of frames of the overlay's own tables, which count as page tables.
    fn table_frames(&self) -> u64 {
        0
    }

    /// True if the processor holds the overlay in registers, which a context switch saves and
    /// loads.
    fn is_in_registers(&self) -> bool {
        false
    }

    /// Visits every frame that the overlay keeps and no table entry maps.
    fn visit_frames(&self, _space: &AddressSpace, _visitor: &mut dyn FrameVisitor) {}

    /// Adds the frames that the overlay keeps to `recount`, and checks that it agrees with page
    /// tables and areas.
    ///
    /// # Errors
    /// Describes the first disagreement.
    fn check(&self, space: &AddressSpace, recount: &mut Recount) -> Result<(), String>;
}

impl dyn Overlay {
    /// The overlay as type `T`, for the mechanism that made it.
    pub fn downcast_ref<T: Overlay>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// The overlay as type `T`, mutably, for the mechanism that made it.
    pub fn downcast_mut<T: Overlay>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }
}

/// Acts on the overlay of an address space. The overlay must belong to this mechanism.
pub trait OverlayMechanism: Sync {
    /// Ensures that page tables alone translate those of `pages` for which `departure` requires it.
    /// After a failure, all pages are still translated as before.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn leave(
        &self,
        space: &mut SpaceMut<'_>,
        pages: &Range<u64>,
        departure: Departure,
    ) -> Result<(), OsError>;

    /// Serves the touch of a page without a table entry. Returns false if the overlay does not
    /// translate the page.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn touch(&self, _space: &mut SpaceMut<'_>, _page: u64) -> Result<bool, OsError> {
        Ok(false)
    }

    /// Moves the data of a page that the overlay keeps to a new frame, because its frame fails. The
    /// failing frame is free then.
    ///
    /// # Errors
    /// If memory runs out.
    fn replace_frame(&self, _space: &mut SpaceMut<'_>, _page: u64) -> Result<(), OsError> {
        unreachable!("it keeps no page")
    }
}

impl AddressSpace {
    /// The overlay of the address space, if it has one.
    pub fn overlay(&self) -> Option<&dyn Overlay> {
        self.overlay.as_deref()
    }

    /// The overlay for its mechanism, mutably.
    pub fn overlay_mut(&mut self) -> Option<&mut (dyn Overlay + 'static)> {
        self.overlay.as_deref_mut()
    }

    /// Adds an overlay to the address space.
    ///
    /// # Panics
    /// If the address space has an overlay already.
    pub fn set_overlay(&mut self, overlay: Box<dyn Overlay>) {
        assert!(self.overlay.is_none(), "an address space has one overlay");
        self.overlay = Some(overlay);
    }

    /// Removes the overlay. The caller becomes responsible for pages that it kept.
    pub fn take_overlay(&mut self) -> Option<Box<dyn Overlay>> {
        self.overlay.take()
    }

    /// Records the owner of a frame, unless the overlay keeps the page.
    pub(super) fn record_owner(
        &self,
        frame: Frame,
        page: VirtualPage,
        memory: &mut PhysicalMemory,
    ) {
        if !self.is_kept(page.number()) {
            memory.set_owner(frame, self.id, page);
        }
    }

    /// True if the overlay keeps the page.
    pub fn is_kept(&self, page: u64) -> bool {
        self.overlay().is_some_and(|overlay| overlay.keeps(page))
    }

    /// True if any of these pages is set aside for the overlay.
    pub(crate) fn is_claimed(&self, pages: &Range<u64>) -> bool {
        self.overlay().is_some_and(|overlay| overlay.claims(pages))
    }

    /// The frame to which the overlay translates a page without a table entry.
    pub(crate) fn overlay_frame(&self, page: u64) -> Option<Frame> {
        self.overlay()?.frame_of(page)
    }

    /// Number of pages that the overlay translates and no table entry does.
    pub(super) fn overlay_pages(&self) -> u64 {
        self.overlay().map_or(0, Overlay::translated_pages)
    }

    /// Number of pages whose frames the overlay keeps although nothing translates them.
    pub fn idle_pages(&self) -> u64 {
        self.overlay().map_or(0, Overlay::idle_pages)
    }
}

impl SpaceMut<'_> {
    /// Tells the overlay about a change of pages that it may translate. Call it before the change.
    ///
    /// # Errors
    /// If memory for tables runs out; all pages are still translated as before.
    pub(crate) fn leave_overlay(
        &mut self,
        pages: &Range<u64>,
        departure: Departure,
    ) -> Result<(), OsError> {
        match self.overlay().map(Overlay::mechanism) {
            Some(mechanism) => mechanism.leave(self, pages, departure),
            None => Ok(()),
        }
    }

    /// Serves the touch of a page without a table entry. Returns false if the overlay does not
    /// translate the page.
    ///
    /// # Errors
    /// If memory for tables runs out.
    pub(crate) fn touch_overlay(&mut self, page: u64) -> Result<bool, OsError> {
        match self.overlay().map(Overlay::mechanism) {
            Some(mechanism) => mechanism.touch(self, page),
            None => Ok(false),
        }
    }
}
