//! The contract between an address space and the mechanisms that map memory in units larger than
//! 4KB pages.
//!
//! Whatever such a mechanism maps as one is an *extent*: a 2MB or 1GB page, a perforated page, a
//! gap-tolerant entry. [`Extent`] is the state of one and answers questions; [`Mechanism`] acts on
//! those of an address space. All mechanisms do the same to them: map, unmap, protect and move one
//! whole, change a part of one, detach single pages or break it up into 4KB pages. The kernel's
//! operations (copy on write, mprotect, merging, reclaim, fork, …) are written once, in these terms.

use std::any::Any;
use std::ops::Range;

use perforate_types::{Frame, HoleSet, Permissions, VirtualPage};

use super::{AddressSpace, Attributes, Effects, Entries, FrameVisitor, Holed, Usage};
use crate::OsError;
use crate::memory::{PhysicalMemory, Recount};

/// The present translation of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Present {
    /// By a 4KB page.
    Page(Frame, Permissions),
    /// As a part of an extent.
    InPlace(Frame, Permissions),
    /// Inside an extent, by a 4KB entry of its own.
    Detached(Frame, Permissions),
    /// Inside an extent, detached from it and not mapped.
    Vacant,
}

impl Present {
    /// The frame it is translated to.
    pub fn frame(self) -> Option<Frame> {
        match self {
            Self::Page(frame, _) | Self::InPlace(frame, _) | Self::Detached(frame, _) => {
                Some(frame)
            }
            Self::Vacant => None,
        }
    }

    /// The accesses that the translation allows.
    pub fn permissions(self) -> Permissions {
        match self {
            Self::Page(_, permissions)
            | Self::InPlace(_, permissions)
            | Self::Detached(_, permissions) => permissions,
            Self::Vacant => Permissions { write: false, execute: false, user: false },
        }
    }

    /// Whether the page is mapped by a 4KB entry of its own.
    pub fn has_own_entry(self) -> bool {
        matches!(self, Self::Page(..) | Self::Detached(..))
    }
}

/// Part of a 2MB block that a second mapping of the same shared memory can map as one.
pub struct SharedBlock {
    /// First frame of the block.
    pub block: Frame,
    /// Sub-pages that are not in place.
    pub holes: HoleSet,
    /// Those of them that are mapped, and their frames.
    pub moved: Vec<(usize, Frame)>,
}

/// State of one extent.
pub trait Extent: Any + Send {
    /// The mechanism that maps it.
    fn mechanism(&self) -> &'static dyn Mechanism;

    /// Number of its 4KB pages, in place or not.
    fn pages(&self) -> u64;

    /// Permissions of the pages in place.
    fn permissions(&self) -> Permissions;

    /// Translation of page number `offset` of the extent.
    fn find(&self, offset: u64) -> Present;

    /// 4KB entries of detached pages, by offset; `None` where none can be detached.
    fn entries(&self) -> Option<&Entries> {
        None
    }

    /// Whether all of its pages are in place.
    fn is_whole(&self) -> bool {
        true
    }

    /// What it is as a 2MB page with holes, if it may have some.
    fn holed(&self) -> Option<Holed> {
        None
    }

    /// Whether no page of it is mapped.
    fn maps_nothing(&self) -> bool {
        false
    }

    /// Whether merging, reclaim and the like leave it as it is.
    fn stays_whole(&self) -> bool {
        false
    }

    /// Whether a frame in place is mapped by others, too.
    fn is_shared(&self, memory: &PhysicalMemory) -> bool;

    /// Offset of the page that this frame is in place for.
    fn offset_of(&self, frame: Frame) -> Option<u64>;

    /// One more mapping of each frame in place.
    fn share(&self, memory: &mut PhysicalMemory);

    /// Gives up all references that it holds.
    fn release(&self, memory: &mut PhysicalMemory);

    /// Another extent that maps the same frames in place, with these permissions.
    fn with_permissions(&self, permissions: Permissions) -> Box<dyn Extent>;

    /// The sub-pages `wanted` of 2MB region `region` of the extent, if any of them is in place and
    /// they lie in one block.
    fn shared_block(&self, _region: u64, _wanted: &HoleSet) -> Option<SharedBlock> {
        None
    }

    /// Tells of every frame it maps or reserves.
    fn visit_frames(&self, visitor: &mut dyn FrameVisitor);

    /// Records that its frames in place are mapped by no 4KB entry.
    fn forget_owners(&self, memory: &mut PhysicalMemory);

    /// Adds all that it has to `usage` and `recount`.
    ///
    /// # Errors
    /// A description of what does not agree.
    fn check(
        &self,
        first: VirtualPage,
        space: &AddressSpace,
        usage: &mut Usage,
        recount: &mut Recount,
    ) -> Result<(), String>;
}

impl dyn Extent {
    /// It, for the mechanism that made it.
    pub fn downcast_ref<T: Extent>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// It, for the mechanism that made it.
    pub fn downcast_mut<T: Extent>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }

    /// It, for the mechanism that made it.
    ///
    /// # Panics
    /// If another mechanism made it.
    pub fn downcast<T: Extent>(self: Box<Self>) -> Box<T> {
        (self as Box<dyn Any>).downcast().expect("an extent of the mechanism that made it")
    }
}

/// How much of an unmapped part a mechanism has dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Done,
    /// Nothing: the extent was broken up, and what is there now is to be looked at again.
    BrokenUp,
}

/// Acts on the extents of an address space. `first` is the first page of an extent.
pub trait Mechanism: Sync {
    /// Maps an extent where nothing is mapped.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn map(
        &self,
        space: &mut AddressSpace,
        first: u64,
        extent: Box<dyn Extent>,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError>;

    /// Unmaps an extent with its detached pages; all references are the caller's then.
    fn unmap(
        &self,
        space: &mut AddressSpace,
        first: u64,
        effects: &mut Effects<'_>,
    ) -> Box<dyn Extent>;

    /// Gives all pages in place other permissions.
    fn protect(
        &self,
        space: &mut AddressSpace,
        first: u64,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    );

    /// Makes smaller pages of an extent, where they lie. Nothing has changed where it fails.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn break_up(
        &self,
        space: &mut AddressSpace,
        first: u64,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError>;

    /// Unmaps some pages of an extent of 2MB and gives up their frames. Nothing has changed where it
    /// fails. Extents of other sizes are broken up first.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn drop_subpages(
        &self,
        space: &mut AddressSpace,
        first: u64,
        _subpages: &HoleSet,
        effects: &mut Effects<'_>,
    ) -> Result<Part, OsError> {
        self.break_up(space, first, effects).map(|()| Part::BrokenUp)
    }

    /// Gives what `pages` has of an extent the permissions of its area.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn protect_part(
        &self,
        space: &mut AddressSpace,
        first: u64,
        pages: &Range<u64>,
        attributes: &Attributes,
        effects: &mut Effects<'_>,
    ) -> Result<Part, OsError>;

    /// fork: the child maps the same frames, read-only until a write copies them.
    ///
    /// # Errors
    /// If memory for the child's tables runs out.
    fn copy_to(
        &self,
        space: &mut AddressSpace,
        first: u64,
        child: &mut AddressSpace,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let extent = space.extent(first);
        let permissions = space.shared_permissions(first, extent.permissions());
        let copy = extent.with_permissions(permissions);
        self.map(child, first, copy, effects)?;
        space.extent(first).share(effects.memory);
        self.protect(space, first, permissions, effects);
        Ok(())
    }

    /// Whether mremap can move an extent to `target` as one.
    fn moves_as_one(&self, space: &AddressSpace, first: u64, target: u64) -> bool;

    /// Moves an extent to `target`, where nothing is mapped. Where that fails its frames are gone.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn move_to(
        &self,
        space: &mut AddressSpace,
        first: u64,
        target: u64,
        effects: &mut Effects<'_>,
    ) -> Result<(), OsError> {
        let extent = self.unmap(space, first, effects);
        let permissions = extent.permissions();
        let moved = self.map(space, target, extent.with_permissions(permissions), effects);
        if moved.is_err() {
            extent.release(effects.memory);
        }
        moved
    }

    /// Maps an extent to other frames of the same kind because one of them is failing; returns
    /// whether it could. The frames it had are free then.
    fn relocate(&self, _space: &mut AddressSpace, _first: u64, _effects: &mut Effects<'_>) -> bool {
        false
    }

    /// How single pages are detached, if they can be: others are broken up.
    fn detacher(&self, _space: &AddressSpace) -> Option<&'static dyn Detacher> {
        None
    }
}

/// Acts of mechanisms whose extents may have detached pages.
pub trait Detacher: Sync {
    /// Detaches a page in place, which is vacant then. The reference to its frame is the caller's.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn detach(
        &self,
        space: &mut AddressSpace,
        page: u64,
        effects: &mut Effects<'_>,
    ) -> Result<Frame, OsError>;

    /// Attaches a page again. The caller holds the reference to the frame in its place; if the page
    /// was mapped, the reference to its frame, which is returned, is the caller's then.
    fn attach(
        &self,
        space: &mut AddressSpace,
        page: u64,
        effects: &mut Effects<'_>,
    ) -> Option<Frame>;

    /// Frame that the page has when attached.
    fn place_of(&self, space: &AddressSpace, page: u64) -> Frame;

    /// Maps a vacant page.
    fn fill(
        &self,
        space: &mut AddressSpace,
        page: u64,
        frame: Frame,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    );

    /// Gives a vacant page the frame in its place, if that can be had; returns whether it could.
    fn fill_in_place(
        &self,
        space: &mut AddressSpace,
        page: u64,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) -> bool;

    /// Unmaps a detached page, which is vacant then. The reference to its frame is the caller's.
    fn vacate(&self, space: &mut AddressSpace, page: u64, effects: &mut Effects<'_>) -> Frame;

    /// Maps a detached page to another frame or with other permissions. The reference to the frame
    /// it had is the caller's.
    fn refill(
        &self,
        space: &mut AddressSpace,
        page: u64,
        frame: Frame,
        permissions: Permissions,
        effects: &mut Effects<'_>,
    ) -> Frame;
}
