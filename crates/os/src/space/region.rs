//! Mappings of one 2MB region of an address space.

use perforate_types::{Frame, PageTableEntry, VirtualPage};

use super::entries::Entries;
use super::extent::Extent;
use super::first_page;
use crate::memory::Fragment;

/// One mapped 2MB region.
pub(crate) struct Region {
    /// Entries that map the region: 4KB pages or a 2MB extent.
    pub mapping: Mapping,
    /// Block with generated fragmentation that the region got at its first touch.
    pub fragment: Option<Fragment>,
}

/// Entries that map a 2MB region.
pub(crate) enum Mapping {
    /// The region is mapped by 4KB pages.
    Pages(Pages),
    /// The region is mapped by an extent of 2MB.
    Extent(Box<dyn Extent>),
    /// Temporary state without a mapping, while one mapping replaces another.
    Changing,
}

impl Mapping {
    /// Page number and entry of each present 4KB entry. `number` is the number of this region.
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

    /// The extent that maps the region, if any.
    pub(crate) fn extent(&self) -> Option<&dyn Extent> {
        match self {
            Self::Extent(extent) => Some(&**extent),
            Self::Pages(_) | Self::Changing => None,
        }
    }
}

/// A level-1 node with its 4KB pages.
pub(crate) struct Pages {
    /// Frame of the level-1 node.
    pub node: Frame,
    /// Number of present entries in the node.
    pub used: u32,
    /// Page-table entries of the node.
    pub entries: Entries,
}
