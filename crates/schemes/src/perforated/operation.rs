//! Operations on perforated pages: 2MB pages with 4KB holes (P §IV).
//!
//! The node for holes is added by [`AddNode`](perforate_types::TableOperation::AddNode) with
//! [`HOLE_BRANCH`]. A perforated page is unmapped and protected like a 2MB page. Unmapping includes
//! its holes; protecting does not change them.

use perforate_types::{
    FormatOperation, Frame, HoleSet, PageRun, PageSize, Permissions, SpaceId, Update, VirtualPage,
    Written,
};

/// Index that tells the level-1 node of a perforated page's holes, which the shadow entry points
/// to, from the ordinary level-1 node of the same pages (P §IV.B).
pub const HOLE_BRANCH: u8 = 1;

/// A change of a perforated page's table entries by the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerforatedOperation {
    /// Maps a new perforated page to `block`; its `holes` have no frame yet.
    Perforate {
        /// Address space of the 2MB page.
        space: SpaceId,
        /// First 4KB page of the 2MB page; aligned to 2MB.
        page: VirtualPage,
        /// First frame of the mapped block; aligned to 2MB.
        block: Frame,
        /// Accesses that sub-pages other than holes allow.
        permissions: Permissions,
        /// Sub-pages that are holes in this address space.
        holes: HoleSet,
    },
    /// Turns sub-page `page` of a perforated or ordinary 2MB page into a hole without a frame.
    Punch {
        /// Address space of the 2MB page.
        space: SpaceId,
        /// The 4KB sub-page to punch.
        page: VirtualPage,
    },
    /// Removes the hole at sub-page `page`: the 2MB mapping translates it again.
    Patch {
        /// Address space of the 2MB page.
        space: SpaceId,
        /// The 4KB sub-page to patch.
        page: VirtualPage,
    },
    /// Allocates the hole `page`: maps it to `frame`, which is its in-place frame if only the
    /// permissions differ.
    MapHole {
        /// Address space of the 2MB page.
        space: SpaceId,
        /// The hole, a 4KB sub-page.
        page: VirtualPage,
        /// Frame that the hole is mapped to.
        frame: Frame,
        /// Accesses that the hole allows.
        permissions: Permissions,
    },
    /// Unmaps the hole `page`, which then has no frame but stays a hole.
    UnmapHole {
        /// Address space of the 2MB page.
        space: SpaceId,
        /// The hole, a 4KB sub-page, to unmap.
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

    /// Tells a hypervisor with shadow tables which entries change. The hypervisor sees punches and
    /// patches in the page-directory entry with its filter, and allocated holes in their own
    /// entries. It can ignore the bitmap: wherever the filter requires the bitmap, the hole node
    /// has an entry with that information for every sub-page.
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
