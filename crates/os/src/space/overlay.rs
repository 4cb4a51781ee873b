//! The contract between an address space and a mechanism that translates pages beside its page
//! tables.
//!
//! [`Overlay`] is the state of one and answers questions; [`OverlayMechanism`] acts on it. There are
//! two kinds. One *keeps* pages: they need no table entry, their frames are the overlay's, and
//! nobody else moves, merges or reclaims them (direct segments). The other only repeats what page
//! tables say, for faster translation, and keeps nothing (range translations). Both are told before
//! pages leave them, by [`AddressSpace::leave_overlay`]: whatever changes how page tables map a page
//! says so first.

use std::any::Any;
use std::ops::Range;

use perforate_types::{Frame, Permissions, VirtualPage};

use super::{AddressSpace, Effects, FrameVisitor};
use crate::OsError;
use crate::memory::{PhysicalMemory, Recount};

/// The operation that pages leave an overlay for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// They are unmapped, and their contents dropped.
    Unmapped,
    /// Their contents move to other addresses (mremap).
    Moved,
    /// A child is going to share them (fork).
    Forked,
    /// They get these permissions (mprotect).
    Protected(Permissions),
    /// Page tables are going to map them to other frames or with other permissions, or not at all
    /// for a while. This is never said of pages that the overlay keeps.
    Remapped,
}

/// State of the overlay of an address space. The default of every question is the answer of one that
/// keeps nothing.
pub trait Overlay: Any + Send {
    /// The mechanism that acts on it.
    fn mechanism(&self) -> &'static dyn OverlayMechanism;

    /// Whether it keeps the page.
    fn keeps(&self, _page: u64) -> bool {
        false
    }

    /// Whether any of these pages is set aside for it: page tables make no large page there.
    fn claims(&self, _pages: &Range<u64>) -> bool {
        false
    }

    /// The frame that it translates a page without a table entry to.
    fn frame_of(&self, _page: u64) -> Option<Frame> {
        None
    }

    /// The page that it keeps in this frame.
    fn page_of(&self, _frame: Frame) -> Option<u64> {
        None
    }

    /// Pages that it translates and no table entry does.
    fn translated_pages(&self) -> u64 {
        0
    }

    /// Pages whose frames it keeps although nothing translates them.
    fn idle_pages(&self) -> u64 {
        0
    }

    /// Frames of tables of its own, which count as page tables.
    fn table_frames(&self) -> u64 {
        0
    }

    /// Whether the processor holds it in registers, which a context switch saves and loads.
    fn is_in_registers(&self) -> bool {
        false
    }

    /// Tells of every frame that it keeps and no table entry maps.
    fn visit_frames(&self, _space: &AddressSpace, _visitor: &mut dyn FrameVisitor) {}

    /// Adds what it keeps to `recount`, and checks that it agrees with page tables and areas.
    ///
    /// # Errors
    /// A description of what does not agree.
    fn check(&self, space: &AddressSpace, recount: &mut Recount) -> Result<(), String>;
}

impl dyn Overlay {
    /// It, for the mechanism that made it.
    pub fn downcast_ref<T: Overlay>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// It, for the mechanism that made it.
    pub fn downcast_mut<T: Overlay>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }
}

/// Acts on the overlay of an address space, which has one of this mechanism.
pub trait OverlayMechanism: Sync {
    /// Makes sure that page tables alone translate those of `pages` of which `departure` asks that.
    /// Where it fails, all pages are still translated as they were.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn leave(
        &self,
        space: &mut AddressSpace,
        pages: &Range<u64>,
        departure: Departure,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError>;

    /// Serves the touch of a page without a table entry, if the overlay has it; returns whether it
    /// has.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn touch(
        &self,
        _space: &mut AddressSpace,
        _page: u64,
        _effects: &mut Effects<'_>,
    ) -> Result<bool, OsError> {
        Ok(false)
    }

    /// The frame of a page that the overlay keeps is failing: its data go to another. The failing
    /// frame is free then.
    ///
    /// # Errors
    /// If memory runs out.
    fn replace_frame(
        &self,
        _space: &mut AddressSpace,
        _page: u64,
        _effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        unreachable!("it keeps no page")
    }
}

impl AddressSpace {
    /// The overlay, if there is one.
    pub fn overlay(&self) -> Option<&dyn Overlay> {
        self.overlay.as_deref()
    }

    /// The overlay, for its mechanism.
    pub fn overlay_mut(&mut self) -> Option<&mut (dyn Overlay + 'static)> {
        self.overlay.as_deref_mut()
    }

    /// Gives the address space an overlay.
    ///
    /// # Panics
    /// If it has one.
    pub fn set_overlay(&mut self, overlay: Box<dyn Overlay>) {
        assert!(self.overlay.is_none(), "an address space has one overlay");
        self.overlay = Some(overlay);
    }

    /// Takes the overlay away. Pages that it kept are nobody's then.
    pub fn take_overlay(&mut self) -> Option<Box<dyn Overlay>> {
        self.overlay.take()
    }

    /// Records who owns a frame, unless the overlay keeps it in place.
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

    /// Whether the overlay keeps the page.
    pub fn is_kept(&self, page: u64) -> bool {
        self.overlay().is_some_and(|overlay| overlay.keeps(page))
    }

    /// Whether any of these pages is set aside for the overlay.
    pub(crate) fn is_claimed(&self, pages: &Range<u64>) -> bool {
        self.overlay().is_some_and(|overlay| overlay.claims(pages))
    }

    /// The frame that the overlay translates a page without a table entry to.
    pub(crate) fn overlay_frame(&self, page: u64) -> Option<Frame> {
        self.overlay()?.frame_of(page)
    }

    /// Pages that the overlay translates and no table entry does.
    pub(super) fn overlay_pages(&self) -> u64 {
        self.overlay().map_or(0, Overlay::translated_pages)
    }

    /// Pages whose frames the overlay keeps although nothing translates them.
    pub fn idle_pages(&self) -> u64 {
        self.overlay().map_or(0, Overlay::idle_pages)
    }

    /// To be called before anything happens to pages that the overlay may translate.
    ///
    /// # Errors
    /// If memory for tables runs out; all pages are still translated as they were.
    pub(crate) fn leave_overlay(
        &mut self,
        pages: &Range<u64>,
        departure: Departure,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        match self.overlay().map(Overlay::mechanism) {
            Some(mechanism) => mechanism.leave(self, pages, departure, effects),
            None => Ok(()),
        }
    }

    /// Serves the touch of a page without a table entry, if the overlay has it; returns whether it
    /// has.
    ///
    /// # Errors
    /// If memory for tables runs out.
    pub(crate) fn touch_overlay(
        &mut self,
        page: u64,
        effects: &mut Effects<'_>,
    ) -> Result<bool, OsError> {
        match self.overlay().map(Overlay::mechanism) {
            Some(mechanism) => mechanism.touch(self, page, effects),
            None => Ok(false),
        }
    }
}
