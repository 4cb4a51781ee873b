//! Contract between an address space and the mechanisms that map memory in units larger than 4KB
//! pages.
//!
//! A unit that such a mechanism maps in one piece is an *extent*: a 2MB or 1GB page, a perforated page, a
//! gap-tolerant entry. [`Extent`] is the state of one extent; [`Mechanism`] acts on the extents of an
//! address space. Every mechanism has the same operations: map, unmap, protect and move a whole extent,
//! change a part of it, detach single pages, or break it up into 4KB pages. So the kernel's operations (copy
//! on write, mprotect, merging, reclaim, fork, …) are written once, for all mechanisms.

use std::any::Any;
use std::ops::Range;

use perforate_types::{Frame, HoleSet, Permissions, VirtualPage};

use super::{AddressSpace, Attributes, Entries, FrameVisitor, Holed, SpaceMut, Usage};
use crate::OsError;
use crate::memory::{PhysicalMemory, Recount};

/// Translation of one page by page tables at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Present {
    /// Mapped by a 4KB page outside any large page.
    Page(Frame, Permissions),
    /// Mapped as a part of an extent, such as a 2MB page.
    InPlace(Frame, Permissions),
    /// Inside an extent, such as a 2MB page, but mapped by a separate 4KB entry.
    Detached(Frame, Permissions),
    /// Inside an extent, such as a 2MB page, but not mapped.
    Vacant,
}

impl Present {
    /// The frame that the translation leads to; `None` for a vacant page.
    pub fn frame(self) -> Option<Frame> {
        match self {
            Self::Page(frame, _) | Self::InPlace(frame, _) | Self::Detached(frame, _) => {
                Some(frame)
            }
            Self::Vacant => None,
        }
    }

    /// The accesses that the translation allows; none for a vacant page.
    pub fn permissions(self) -> Permissions {
        match self {
            Self::Page(_, permissions)
            | Self::InPlace(_, permissions)
            | Self::Detached(_, permissions) => permissions,
            Self::Vacant => Permissions { write: false, execute: false, user: false },
        }
    }

    /// True if a separate 4KB entry maps the page, and no larger entry does.
    pub fn has_own_entry(self) -> bool {
        matches!(self, Self::Page(..) | Self::Detached(..))
    }
}

/// Part of a 2MB block that a second mapping of the same shared memory can map in one piece.
pub struct SharedBlock {
    /// First frame of the block.
    pub block: Frame,
    /// Indices of the sub-pages that the second mapping must not map to this block.
    pub holes: HoleSet,
    /// Index and frame of each hole that a separate 4KB entry maps.
    pub moved: Vec<(usize, Frame)>,
}

/// State of one extent, a mapping of more than 4KB in one piece, such as a 2MB page.
pub trait Extent: Any + Send {
    /// The mechanism (such as 2MB pages) whose operations apply to this extent.
    fn mechanism(&self) -> &'static dyn Mechanism;

    /// Number of 4KB pages that the extent covers, holes included.
    fn pages(&self) -> u64;

    /// Permissions of the pages that the extent maps itself, that is, of all except holes.
    fn permissions(&self) -> Permissions;

    /// Present translation of 4KB page number `offset` of the extent, counted from its first page.
    fn find(&self, offset: u64) -> Present;

    /// 4KB entries of the holes of a 2MB page, by index of the sub-page; `None` if the extent has none.
    fn entries(&self) -> Option<&Entries> {
        None
    }

    /// True if the extent maps all its pages itself, without holes.
    fn is_whole(&self) -> bool {
        true
    }

    /// State of the extent if it is a 2MB page with holes; `None` for all other extents.
    fn holed(&self) -> Option<Holed> {
        None
    }

    /// True if single pages may be taken out of the extent as holes, provided that the address space has a
    /// mechanism for holes ([`HoledPages`](super::HoledPages)).
    fn may_have_holes(&self) -> bool {
        false
    }

    /// True if no page of the extent is mapped.
    fn maps_nothing(&self) -> bool {
        false
    }

    /// True if merging, reclaim and similar operations must leave the extent in one piece.
    fn stays_whole(&self) -> bool {
        false
    }

    /// True if any frame that the extent maps (holes excluded) has other mappings too.
    fn is_shared(&self, memory: &PhysicalMemory) -> bool;

    /// Offset of the page that the extent maps in place to `frame`; `None` if the frame is not in
    /// the extent.
    fn offset_of(&self, frame: Frame) -> Option<u64>;

    /// Adds a reference to each frame that the extent maps (holes excluded), for a second mapping.
    fn share(&self, memory: &mut PhysicalMemory);

    /// Drops all references to frames that the extent holds, and frees frames without further references.
    fn release(&self, memory: &mut PhysicalMemory);

    /// A new extent that maps the same in-place frames with these permissions.
    fn with_permissions(&self, permissions: Permissions) -> Box<dyn Extent>;

    /// Description of a 2MB block that a second mapping can map in one piece: the block of region number
    /// `region` in the extent, limited to sub-pages `wanted`. `None` if the extent maps none of these, or
    /// maps them to several blocks.
    fn shared_block(&self, _region: u64, _wanted: &HoleSet) -> Option<SharedBlock> {
        None
    }

    /// Visits every frame that the extent maps or reserves.
    fn visit_frames(&self, visitor: &mut dyn FrameVisitor);

    /// Clears the reverse-map records of the in-place frames, because no separate 4KB entry maps
    /// them.
    fn forget_owners(&self, memory: &mut PhysicalMemory);

    /// Adds the extent's pages to `usage` and its frames to `recount`, and checks the extent's records.
    ///
    /// # Errors
    /// A description of the first disagreement.
    fn check(
        &self,
        first: VirtualPage,
        space: &AddressSpace,
        usage: &mut Usage,
        recount: &mut Recount,
    ) -> Result<(), String>;
}

impl dyn Extent {
    /// Casts the extent to type `T`, for the mechanism that created the extent; `None` for other types.
    pub fn downcast_ref<T: Extent>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// Casts the extent to type `T`, mutably, for the mechanism that created the extent; `None` for other
    /// ones.
    pub fn downcast_mut<T: Extent>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }

    /// Converts the extent to type `T`, for the mechanism that created the extent.
    ///
    /// # Panics
    /// If another mechanism created the extent.
    pub fn downcast<T: Extent>(self: Box<Self>) -> Box<T> {
        (self as Box<dyn Any>).downcast().expect("an extent of the mechanism that made it")
    }
}

/// Result of a mechanism's attempt to change a part of an extent, such as a few pages of a 2MB page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The change is complete.
    Done,
    /// The extent was broken up and nothing else changed. The caller must change the smaller pages that
    /// resulted.
    BrokenUp,
}

/// Operations on extents (mappings in one piece, such as 2MB pages) of one kind in an address space. `first`
/// is the first page of an extent.
pub trait Mechanism: Sync {
    /// Maps an extent where nothing is mapped.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn map(
        &self,
        space: &mut SpaceMut<'_>,
        first: u64,
        extent: Box<dyn Extent>,
    ) -> Result<(), OsError>;

    /// Unmaps an extent together with the 4KB entries of its holes. Returns the extent, whose frames the
    /// caller must release.
    fn unmap(&self, space: &mut SpaceMut<'_>, first: u64) -> Box<dyn Extent>;

    /// Changes the permissions of all pages of an extent except holes.
    fn protect(&self, space: &mut SpaceMut<'_>, first: u64, permissions: Permissions);

    /// Breaks an extent up into smaller pages, without moving data. After a failure, nothing has
    /// changed.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn break_up(&self, space: &mut SpaceMut<'_>, first: u64) -> Result<(), OsError>;

    /// Unmaps some pages of a 2MB extent and releases their frames. After a failure, nothing has
    /// changed. The caller breaks up extents of other sizes first.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn drop_subpages(
        &self,
        space: &mut SpaceMut<'_>,
        first: u64,
        _subpages: &HoleSet,
    ) -> Result<Part, OsError> {
        self.break_up(space, first).map(|()| Part::BrokenUp)
    }

    /// Changes the permissions of the pages of an extent that lie in `pages` to what `attributes` allow.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn protect_part(
        &self,
        space: &mut SpaceMut<'_>,
        first: u64,
        pages: &Range<u64>,
        attributes: &Attributes,
    ) -> Result<Part, OsError>;

    /// fork: maps the same frames in the child. Private pages are read-only in both until a write
    /// copies them.
    ///
    /// # Errors
    /// If memory for the child's tables runs out.
    fn copy_to(
        &self,
        space: &mut SpaceMut<'_>,
        first: u64,
        child: &mut AddressSpace,
    ) -> Result<(), OsError> {
        let extent = space.extent(first);
        let permissions = space.shared_permissions(first, extent.permissions());
        let copy = extent.with_permissions(permissions);
        self.map(&mut space.other(child), first, copy)?;
        space.space.extent(first).share(space.memory);
        self.protect(space, first, permissions);
        Ok(())
    }

    /// True if mremap can move the extent to page `target` in one piece.
    fn moves_as_one(&self, space: &AddressSpace, first: u64, target: u64) -> bool;

    /// Moves an extent to `target`, where nothing is mapped. After a failure its frames are
    /// released.
    ///
    /// # Errors
    /// If memory for tables runs out.
    fn move_to(&self, space: &mut SpaceMut<'_>, first: u64, target: u64) -> Result<(), OsError> {
        let extent = self.unmap(space, first);
        let permissions = extent.permissions();
        let moved = self.map(space, target, extent.with_permissions(permissions));
        if moved.is_err() {
            extent.release(space.memory);
        }
        moved
    }

    /// Moves an extent to other frames of the same kind because one of its frames fails. Frees the
    /// old frames. Returns false if that is impossible.
    fn relocate(&self, _space: &mut SpaceMut<'_>, _first: u64) -> bool {
        false
    }
}
