//! Operations on page tables that are radix trees of 4KB nodes, as those of x86-64.

use crate::{
    FormatOperation, Frame, PageRun, PageSize, Permissions, SpaceId, VirtualPage, Written,
};

/// Level of a page-table node: 4 is the root (PML4), 1 holds the 4KB entries.
pub type Level = u8;

/// An operation on page tables. The operating system decides frames, also those of nodes; the
/// memory-management unit writes the entries. Every operation leaves the tables consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableOperation {
    /// The register that says of what format the address space's tables are (GTPTCR, G §3.7), before
    /// its first node. Without it they are as the hardware has them.
    SetControl {
        /// Address space.
        space: SpaceId,
        /// The register.
        control: u64,
    },
    /// A node now exists at `frame`, linked from its parent (level 4: the root). A format may have
    /// larger nodes on some levels.
    AddNode {
        /// Address space.
        space: SpaceId,
        /// Level of the node.
        level: Level,
        /// First page the node covers.
        page: VirtualPage,
        /// Where the node lies.
        frame: Frame,
        /// Which of several nodes of this level that cover the same pages: 0 is the ordinary one,
        /// others hang off entries that a format has besides.
        branch: u8,
    },
    /// The node covering `page` at `level` is gone; it maps nothing any more.
    RemoveNode {
        /// Address space.
        space: SpaceId,
        /// Level of the node.
        level: Level,
        /// First page the node covers.
        page: VirtualPage,
        /// Which of several nodes, as in [`Self::AddNode`].
        branch: u8,
    },
    /// A page of `size`.
    Map {
        /// Address space.
        space: SpaceId,
        /// First page; aligned to `size`.
        page: VirtualPage,
        /// Page size.
        size: PageSize,
        /// First frame; aligned to `size`.
        frame: Frame,
        /// What it allows.
        permissions: Permissions,
    },
    /// The page of `size` at `page` is gone, with whatever a format keeps for parts of it.
    Unmap {
        /// Address space.
        space: SpaceId,
        /// First page; aligned to `size`.
        page: VirtualPage,
        /// Page size.
        size: PageSize,
    },
    /// The page of `size` at `page` has new permissions; parts of it that a format maps by entries
    /// of their own keep theirs.
    Protect {
        /// Address space.
        space: SpaceId,
        /// First page; aligned to `size`.
        page: VirtualPage,
        /// Page size.
        size: PageSize,
        /// New permissions.
        permissions: Permissions,
    },
}

impl TableOperation {
    /// The address space whose tables are changed.
    pub const fn space(&self) -> SpaceId {
        match *self {
            Self::SetControl { space, .. }
            | Self::AddNode { space, .. }
            | Self::RemoveNode { space, .. }
            | Self::Map { space, .. }
            | Self::Unmap { space, .. }
            | Self::Protect { space, .. } => space,
        }
    }
}

impl FormatOperation for TableOperation {
    fn pages(&self) -> PageRun {
        match *self {
            Self::SetControl { space, .. } => PageRun::new(space, VirtualPage::new(0), 0),
            Self::AddNode { space, page, .. } | Self::RemoveNode { space, page, .. } => {
                PageRun::new(space, page, 0)
            }
            Self::Map { space, page, size, .. }
            | Self::Unmap { space, page, size }
            | Self::Protect { space, page, size, .. } => PageRun::new(space, page, size.pages()),
        }
    }

    /// A node is entered in the table above it; the root table, in none.
    fn written(&self) -> Written {
        match *self {
            Self::SetControl { .. } => Written::Registers(1),
            Self::AddNode { level, .. } | Self::RemoveNode { level, .. } => {
                Written::Entry(level + 1)
            }
            Self::Map { size, .. } | Self::Unmap { size, .. } | Self::Protect { size, .. } => {
                Written::Entry(size.leaf_level())
            }
        }
    }
}
