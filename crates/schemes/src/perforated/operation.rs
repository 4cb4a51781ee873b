//! Operations on perforated pages: 2MB pages with 4KB holes (P §IV).
//!
//! The node for holes is an [`AddNode`](perforate_types::TableOperation::AddNode) of [`HOLE_BRANCH`]. A
//! perforated page is unmapped and protected as a page of 2MB; its holes go with it, but keep their
//! permissions.

use perforate_types::{
    FormatOperation, Frame, HoleSet, PageRun, PageSize, Permissions, SpaceId, Update, VirtualPage,
    Written,
};

/// Branch of the level-1 nodes that hang off shadow entries and so map holes (P §IV.B).
pub const HOLE_BRANCH: u8 = 1;

/// An operation on a perforated page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerforatedOperation {
    /// A new perforated page: `block` is mapped except for `holes`, which are unallocated.
    Perforate {
        /// Address space.
        space: SpaceId,
        /// First page; aligned to 2MB.
        page: VirtualPage,
        /// First frame of the block; aligned to 2MB.
        block: Frame,
        /// What the sub-pages that are not holes allow.
        permissions: Permissions,
        /// This address space's own holes.
        holes: HoleSet,
    },
    /// Sub-page `page` of a perforated or ordinary 2MB page becomes an unallocated hole.
    Punch {
        /// Address space.
        space: SpaceId,
        /// The 4KB sub-page.
        page: VirtualPage,
    },
    /// Sub-page `page` is a hole no more: it is translated by the 2MB mapping again.
    Patch {
        /// Address space.
        space: SpaceId,
        /// The 4KB sub-page.
        page: VirtualPage,
    },
    /// The hole `page` is now allocated: mapped to `frame` (possibly its in-place frame, where
    /// only the permissions differ).
    MapHole {
        /// Address space.
        space: SpaceId,
        /// The 4KB sub-page.
        page: VirtualPage,
        /// Where its data lie.
        frame: Frame,
        /// What it allows.
        permissions: Permissions,
    },
    /// The hole `page` is unallocated again; it stays a hole.
    UnmapHole {
        /// Address space.
        space: SpaceId,
        /// The 4KB sub-page.
        page: VirtualPage,
    },
}

impl FormatOperation for PerforatedOperation {
    fn pages(&self) -> PageRun {
        match *self {
            Self::Perforate { space, page, .. } => {
                PageRun::new(space, page, PageSize::Size2M.pages())
            }
            Self::Punch { space, page }
            | Self::Patch { space, page }
            | Self::MapHole { space, page, .. }
            | Self::UnmapHole { space, page } => PageRun::new(space, page, 1),
        }
    }

    /// A page or a hole that comes or goes is seen by the page-directory entry with its filter, an
    /// allocated hole by its own entry. The bitmap is not looked at: wherever the filter has the
    /// hardware ask it, the node of the holes says the same of every sub-page.
    fn written(&self) -> Written {
        match self {
            Self::Perforate { .. } | Self::Punch { .. } | Self::Patch { .. } => Written::Entry(2),
            Self::MapHole { .. } | Self::UnmapHole { .. } => Written::Entry(1),
        }
    }
}

impl From<PerforatedOperation> for Update {
    fn from(operation: PerforatedOperation) -> Self {
        Self::Format(Box::new(operation))
    }
}
