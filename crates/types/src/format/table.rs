//! Operations on page tables that are radix trees of 4KB nodes, such as those of x86-64.

use crate::{
    Contiguity, FormatOperation, Frame, PageRun, PageSize, Permissions, SpaceId, VirtualPage,
    Written,
};

/// Level of a page-table node: 4 is the root (PML4), or 5 (PML5) in tables of five levels; 1 holds
/// the 4KB entries.
pub type Level = u8;

/// An operation on page tables. The operating system chooses all frames, including those of
/// page-table nodes; the MMU writes the entries. The tables are consistent after every operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableOperation {
    /// Sets the register that selects the format of the address space's tables (GTPTCR, G §3.7).
    /// The kernel must set it before it adds the root node. Otherwise the tables have the
    /// hardware's default format.
    SetControl {
        /// Address space whose page-table format this operation selects.
        space: SpaceId,
        /// Value of the control register GTPTCR.
        control: u64,
    },
    /// Adds a node at `frame` and links it from its parent (for the root, from the register
    /// CR3). Some formats have nodes that are larger than 4KB at some levels.
    AddNode {
        /// Address space of the page tables.
        space: SpaceId,
        /// Level of the page-table node.
        level: Level,
        /// First virtual page that the page-table node covers.
        page: VirtualPage,
        /// First frame of the page-table node.
        frame: Frame,
        /// Index of the node among several nodes of this level for the same pages; 0 for the ordinary node.
        /// Additional entries point to the others: the second (shadow) level-2 entry of a perforated page
        /// points to the level-1 node of its holes.
        branch: u8,
    },
    /// Removes the node that covers `page` at `level`. The node must not map any page.
    RemoveNode {
        /// Address space of the page tables.
        space: SpaceId,
        /// Level of the page-table node.
        level: Level,
        /// First virtual page that the page-table node covers.
        page: VirtualPage,
        /// Index of the node among several nodes for the same pages, as in [`Self::AddNode`].
        branch: u8,
    },
    /// Maps the page of `size` at `page` to memory from `frame` on.
    Map {
        /// Address space of the page tables.
        space: SpaceId,
        /// First page to map; aligned to `size`.
        page: VirtualPage,
        /// Page size of the leaf entry.
        size: PageSize,
        /// First frame of the memory to which the page is mapped; aligned to `size`.
        frame: Frame,
        /// Accesses that the page allows.
        permissions: Permissions,
    },
    /// Unmaps the page of `size` at `page`. This includes separate entries that a format has for
    /// parts of the page, such as holes.
    Unmap {
        /// Address space of the page tables.
        space: SpaceId,
        /// First 4KB page of the page to unmap; aligned to `size`.
        page: VirtualPage,
        /// Page size of the leaf entry.
        size: PageSize,
    },
    /// Changes the permissions of the page of `size` at `page`. Parts of the page that have
    /// separate entries, such as holes, keep their permissions.
    Protect {
        /// Address space of the page tables.
        space: SpaceId,
        /// First 4KB page of the page to change; aligned to `size`.
        page: VirtualPage,
        /// Page size of the leaf entry.
        size: PageSize,
        /// Accesses that the page allows from now on.
        permissions: Permissions,
    },
    /// Rewrites the entries of the 16 pages of an aligned 64KB so that they say that they are
    /// contiguous, or no longer say so. Translations stay. The pages must be mapped to 16 aligned
    /// frames, with equal permissions.
    Join {
        /// Address space of the page tables.
        space: SpaceId,
        /// First of the 16 pages; aligned to 64KB.
        page: VirtualPage,
        /// Encoding of the entries from now on; `None` for entries that each map a page alone.
        contiguity: Option<Contiguity>,
    },
}

impl TableOperation {
    /// Address space whose tables the operation changes.
    pub const fn space(&self) -> SpaceId {
        match *self {
            Self::SetControl { space, .. }
            | Self::AddNode { space, .. }
            | Self::RemoveNode { space, .. }
            | Self::Map { space, .. }
            | Self::Unmap { space, .. }
            | Self::Protect { space, .. }
            | Self::Join { space, .. } => space,
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
            Self::Join { space, page, .. } => PageRun::new(space, page, 0),
            Self::Map { space, page, size, .. }
            | Self::Unmap { space, page, size }
            | Self::Protect { space, page, size, .. } => PageRun::new(space, page, size.pages()),
        }
    }

    /// Returns the page-table entry or register that the operation writes. For a node, this is the
    /// entry of its parent, one level higher.
    fn written(&self) -> Written {
        match *self {
            Self::SetControl { .. } => Written::Registers(1),
            Self::AddNode { level, .. } | Self::RemoveNode { level, .. } => {
                Written::Entry(level + 1)
            }
            Self::Map { size, .. } | Self::Unmap { size, .. } | Self::Protect { size, .. } => {
                Written::Entry(size.leaf_level())
            }
            Self::Join { .. } => Written::Entry(1),
        }
    }
}
