//! What is mapped in one 2MB region of an address space.

use perforate_types::{Frame, HoleSet, PageTableEntry, Permissions, VirtualPage};

use super::first_page;
use crate::memory::Fragment;

/// The 4KB entries of a level-1 node; 8 bytes per page.
pub(crate) type Entries = Box<[PageTableEntry; 512]>;

pub(crate) fn no_entries() -> Entries {
    Box::new([PageTableEntry::ABSENT; 512])
}

/// One mapped 2MB region.
pub(crate) struct Region {
    /// How it is mapped.
    pub mapping: Mapping,
    /// The fragmented block the region was given, if it was.
    pub fragment: Option<Fragment>,
}

/// How a 2MB region is mapped.
pub(crate) enum Mapping {
    /// By 4KB pages.
    Pages(Pages),
    /// By an ordinary 2MB page.
    Large(Large),
    /// By a 2MB page with holes.
    Perforated(Box<Perforated>),
}

impl Mapping {
    /// The 4KB entries that are present, and the pages of region `number` that they translate.
    pub(crate) fn entries(
        &self,
        number: u64,
    ) -> impl Iterator<Item = (VirtualPage, PageTableEntry)> + '_ {
        let entries = match self {
            Self::Pages(pages) => &pages.entries[..],
            Self::Large(_) => &[],
            Self::Perforated(perforated) => &perforated.entries[..],
        };
        let present = entries.iter().enumerate().filter(|(_, entry)| entry.is_present());
        present.map(move |(index, &entry)| (first_page(number).add(index as u64), entry))
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

/// An ordinary 2MB page.
#[derive(Clone, Copy)]
pub(crate) struct Large {
    /// First frame.
    pub block: Frame,
    /// What it allows.
    pub permissions: Permissions,
}

/// A 2MB page with holes. Every sub-page that is no hole holds a reference to its frame of the
/// block, every allocated hole one to the frame it is mapped to.
pub(crate) struct Perforated {
    /// First frame of the block.
    pub block: Frame,
    /// What the sub-pages that are not holes allow.
    pub permissions: Permissions,
    /// This address space's own holes.
    pub holes: HoleSet,
    /// Frame of the level-1 node behind the shadow entry.
    pub node: Frame,
    /// Unallocated holes whose in-place frames are kept for this page (P §VI: reservation).
    pub reserved: HoleSet,
    /// Holes that are mapped.
    pub allocated: u32,
    /// Where the holes are mapped.
    pub entries: Entries,
}

impl Perforated {
    /// `large` except for `holes`, of which none is allocated; `node` is for them.
    pub(super) fn new(large: Large, holes: HoleSet, node: Frame) -> Self {
        Self {
            block: large.block,
            permissions: large.permissions,
            holes,
            node,
            reserved: HoleSet::EMPTY,
            allocated: 0,
            entries: no_entries(),
        }
    }

    /// The in-place frame of a sub-page.
    pub(crate) fn in_place(&self, index: usize) -> Frame {
        self.block.add(index as u64)
    }
}
