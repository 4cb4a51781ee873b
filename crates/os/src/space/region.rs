//! Mappings of one 2MB region of an address space.

use perforate_types::{Frame, PageTableEntry, VirtualPage};

use super::entries::Entries;
use super::extent::Extent;
use super::first_page;
use super::folios::Blocks;
use crate::memory::Fragment;

/// One mapped 2MB region.
pub(crate) struct Region {
    /// Entries that map the region: 4KB entries, or that of a 2MB page or another mapping in one piece.
    pub mapping: Mapping,
    /// 2MB block with generated holes that the region, if fragmented, got at its first touch.
    pub fragment: Option<Fragment>,
}

/// Entries that map a 2MB region.
pub(crate) enum Mapping {
    /// The 2MB region is mapped by 4KB pages.
    Pages(Pages),
    /// A mapping of 2MB in one piece, such as a 2MB page, maps the region.
    Extent(Box<dyn Extent>),
    /// Temporary state without a mapping, while one mapping replaces another.
    Changing,
}

impl Mapping {
    /// Page number and entry of each present 4KB entry. `number` is the number of this 2MB region.
    pub(crate) fn entries(
        &self,
        number: u64,
    ) -> impl Iterator<Item = (VirtualPage, PageTableEntry)> + '_ {
        let entries = match self {
            Self::Pages(pages) => Some(&pages.entries),
            Self::Extent(extent) => extent.entries(),
            Self::Changing => None,
        };
        let present = entries.into_iter().flat_map(Entries::present);
        present.map(move |(index, entry)| (first_page(number).add(index as u64), entry))
    }

    /// The mapping in one piece (such as a 2MB page) that maps the 2MB region, if any.
    pub(crate) fn extent(&self) -> Option<&dyn Extent> {
        match self {
            Self::Extent(extent) => Some(&**extent),
            Self::Pages(_) | Self::Changing => None,
        }
    }
}

/// A level-1 page-table node with its 4KB entries.
pub(crate) struct Pages {
    /// Frame that holds the level-1 node.
    pub node: Frame,
    /// Number of present entries in the node.
    pub used: u32,
    /// Page-table entries of the node.
    pub entries: Entries,
    /// Blocks of 16 pages that each lie in one folio. Not kept for tables whose entries cannot be
    /// joined.
    pub folios: Blocks,
    /// Blocks whose entries say that they are contiguous.
    pub joined: Blocks,
}

impl Pages {
    /// Creates the record of a node.
    pub(crate) fn new(node: Frame, used: u32, entries: Entries) -> Self {
        let (folios, joined) = Default::default();
        Self { node, used, entries, folios, joined }
    }
}
