//! Mappings of one 2MB region of an address space.

use perforate_types::{Frame, PageTableEntry, VirtualPage};

use super::entries::Entries;
use super::extent::Extent;
use super::first_page;
use crate::memory::Fragment;

/// One mapped 2MB region.
pub(crate) struct Region {
    /// Its mapping.
    pub mapping: Mapping,
    /// The fragmented block the region was given, if it was.
    pub fragment: Option<Fragment>,
}

/// The mapping of a 2MB region.
pub(crate) enum Mapping {
    /// By 4KB pages.
    Pages(Pages),
    /// By an extent of 2MB.
    Extent(Box<dyn Extent>),
    /// Not at all at the moment: another mapping is about to take the place.
    Changing,
}

impl Mapping {
    /// The 4KB entries that are present, and the pages of region `number` that they translate.
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

    /// The extent, if it is one.
    pub(crate) fn extent(&self) -> Option<&dyn Extent> {
        match self {
            Self::Extent(extent) => Some(&**extent),
            Self::Pages(_) | Self::Changing => None,
        }
    }
}

/// A level-1 node with its 4KB pages.
pub(crate) struct Pages {
    /// Frame of the node.
    pub node: Frame,
    /// Pages mapped.
    pub used: u32,
    /// The pages.
    pub entries: Entries,
}
