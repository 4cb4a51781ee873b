//! Contract between an address space and a mechanism that translates pages in parallel with the
//! page tables.
//!
//! [`Overlay`] is the state of one overlay; [`OverlayMechanism`] acts on it. There are two kinds. The first
//! *keeps* pages: no page-table entry maps them, the overlay owns their frames, and the rest of the kernel
//! does not move, merge or reclaim them (direct segments). The second repeats mappings of the page tables
//! for faster translation, and keeps nothing (range translations). Before code changes how page tables map a
//! page, it must call
//! [`AddressSpace::leave_overlay`], which notifies an overlay of either kind.

use std::any::Any;
use std::ops::Range;

use perforate_types::{Frame, Permissions, VirtualPage};

use super::{AddressSpace, FrameVisitor, SpaceMut};
use crate::OsError;
use crate::memory::{PhysicalMemory, Recount};

/// Reason why pages leave an overlay (a direct segment or ranges).
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
    /// Page tables will map the pages to other frames or with other permissions, or unmap them temporarily.
    /// Never used for pages that only the overlay (a direct segment) translates.
    Remapped,
}

/// State of the overlay of an address space: a direct segment or ranges, which translate pages in parallel
/// with the page tables. The default methods suit an overlay that keeps no pages for itself (ranges).
pub trait Overlay: Any + Send {
    /// The operations that act on this overlay (a direct segment or ranges).
    fn mechanism(&self) -> &'static dyn OverlayMechanism;

    /// True if the overlay (a direct segment) keeps the page: owns its frame, without a page-table entry.
    fn keeps(&self, _page: u64) -> bool {
        false
    }

    /// True if any of these pages is reserved for the overlay, such as a direct segment. Page tables then map
    /// no large page over them.
    fn claims(&self, _pages: &Range<u64>) -> bool {
        false
    }

    /// Frame to which the overlay (a direct segment) translates a page that has no page-table entry.
    fn frame_of(&self, _page: u64) -> Option<Frame> {
        None
    }

    /// Page that the overlay (a direct segment) keeps in this frame; `None` if it does not own the frame.
    fn page_of(&self, _frame: Frame) -> Option<u64> {
        None
    }

    /// Number of pages that only the overlay (a direct segment) translates, without a page-table entry.
    fn translated_pages(&self) -> u64 {
        0
    }

    /// Number of pages whose frames the overlay (a direct segment) owns, but which nothing translates now.
    fn idle_pages(&self) -> u64 {
        0
    }

    /// Number of frames of private tables of the overlay, such as a range table; they count as page tables.
    fn table_frames(&self) -> u64 {
        0
    }

    /// True if processor registers hold the overlay, as with a direct segment. A context switch then saves
    /// and loads these registers.
    fn is_in_registers(&self) -> bool {
        false
    }

    /// Visits every frame that the overlay (a direct segment) owns and no page-table entry maps.
    fn visit_frames(&self, _space: &AddressSpace, _visitor: &mut dyn FrameVisitor) {}

    /// Adds the frames that the overlay (a direct segment) owns to `recount`, and checks that the overlay
    /// agrees with page tables and memory areas.
    ///
    /// # Errors
    /// A description of the first disagreement.
    fn check(&self, space: &AddressSpace, recount: &mut Recount) -> Result<(), String>;
}

impl dyn Overlay {
    /// Casts the overlay (a direct segment or ranges) to type `T`, for its mechanism; `None` for other types.
    pub fn downcast_ref<T: Overlay>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// Casts the overlay (a direct segment or ranges) to type `T`, mutably, for its mechanism; `None` for
    /// other types.
    pub fn downcast_mut<T: Overlay>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }
}

/// Operations on the overlay (a direct segment or ranges) of an address space. The overlay must be of the
/// kind that implements this trait.
pub trait OverlayMechanism: Sync {
    /// Takes `pages` out of the overlay (a direct segment or ranges) as far as the coming change `departure`
    /// requires it. Page tables alone then translate them, unless they are unmapped. After a failure, all
    /// pages are translated as before.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn leave(
        &self,
        space: &mut SpaceMut<'_>,
        pages: &Range<u64>,
        departure: Departure,
    ) -> Result<(), OsError>;

    /// Handles the touch of a page that has no page-table entry. Returns false if the overlay (a direct
    /// segment or ranges) does not translate the page.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn touch(&self, _space: &mut SpaceMut<'_>, _page: u64) -> Result<bool, OsError> {
        Ok(false)
    }

    /// Moves the data of a page that the overlay (a direct segment) keeps to a new frame, because the old
    /// frame fails. Frees the failing frame.
    ///
    /// # Errors
    /// If memory runs out.
    fn replace_frame(&self, _space: &mut SpaceMut<'_>, _page: u64) -> Result<(), OsError> {
        unreachable!("it keeps no page")
    }
}

impl AddressSpace {
    /// The overlay (a direct segment or ranges) of the address space, if there is one.
    pub fn overlay(&self) -> Option<&dyn Overlay> {
        self.overlay.as_deref()
    }

    /// The overlay (a direct segment or ranges), mutably, for the mechanism that created the overlay.
    pub fn overlay_mut(&mut self) -> Option<&mut (dyn Overlay + 'static)> {
        self.overlay.as_deref_mut()
    }

    /// Adds an overlay (a direct segment or ranges) to the address space.
    ///
    /// # Panics
    /// If the address space has an overlay already.
    pub fn set_overlay(&mut self, overlay: Box<dyn Overlay>) {
        assert!(self.overlay.is_none(), "an address space has one overlay");
        self.overlay = Some(overlay);
    }

    /// Removes the overlay (a direct segment or ranges). The caller takes over the frames that it kept.
    pub fn take_overlay(&mut self) -> Option<Box<dyn Overlay>> {
        self.overlay.take()
    }

    /// Records `page` as the owner of a frame, unless an overlay (a direct segment) keeps the page.
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

    /// True if an overlay (a direct segment) keeps the page: owns its frame, without a page-table entry.
    pub fn is_kept(&self, page: u64) -> bool {
        self.overlay().is_some_and(|overlay| overlay.keeps(page))
    }

    /// True if any of these pages is reserved for an overlay, such as a direct segment.
    pub(crate) fn is_claimed(&self, pages: &Range<u64>) -> bool {
        self.overlay().is_some_and(|overlay| overlay.claims(pages))
    }

    /// Frame to which an overlay (a direct segment) translates a page that has no page-table entry.
    pub(crate) fn overlay_frame(&self, page: u64) -> Option<Frame> {
        self.overlay()?.frame_of(page)
    }

    /// Number of pages that only an overlay (a direct segment) translates, without a page-table entry.
    pub(super) fn overlay_pages(&self) -> u64 {
        self.overlay().map_or(0, Overlay::translated_pages)
    }

    /// Number of pages whose frames an overlay (a direct segment) owns, but which nothing translates now.
    pub fn idle_pages(&self) -> u64 {
        self.overlay().map_or(0, Overlay::idle_pages)
    }
}

impl SpaceMut<'_> {
    /// Makes the overlay (a direct segment or ranges) give up `pages` as far as `departure` requires. Call
    /// this function before the change itself.
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

    /// Lets the overlay (a direct segment or ranges) handle the touch of a page that has no page-table entry.
    /// Returns false if the overlay does not translate the page.
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
