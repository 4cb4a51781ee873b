//! Views of translations and of TLB and walk-cache contents, for tests that compare them with a
//! reference model. Translation does not use this module.

use perforate_types::{
    AccessKind, Frame, Level, SpaceId, Steps, Unit, VirtualAddress, VirtualPage,
};

use crate::{EntryKind, Node, PageFault, Translated, radix::Directory};

/// A completed attempt to translate an address, successful or not.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// Kind of the access.
    pub kind: AccessKind,
    /// Virtual address of the access.
    pub address: VirtualAddress,
    /// The translation, or the page fault.
    pub result: &'a Result<Translated, PageFault>,
    /// Steps that the hardware took.
    pub steps: &'a Steps,
}

/// An entry of a TLB or of a walk cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedEntry {
    /// Number of the core that has the unit.
    pub core: usize,
    /// Unit that holds the entry.
    pub unit: Unit,
    /// Slot number in the unit, as in steps.
    pub slot: u32,
    /// Array of the unit, set of the array, and way of the set, each counted from 0. The arrays of
    /// a first-level TLB are one per page size. Those of the second level are the shared array,
    /// then those of single page sizes. Those of the walk caches are for level-2, level-3 and
    /// level-4 entries.
    pub place: (usize, usize, usize),
    /// Address space of the entry; for guest-physical addresses, the virtual machine's in its host.
    pub space: SpaceId,
    /// True if the entry translates guest-physical addresses.
    pub is_guest_physical: bool,
    /// First 4KB page that the entry covers.
    pub first: VirtualPage,
    /// Number of 4KB pages that the entry covers.
    pub pages: u64,
    /// Content of the entry.
    pub content: CachedContent,
}

/// Content of a cached entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedContent {
    /// Translation of pages to consecutive frames.
    Page {
        /// Kind of entry; in the first level, the kind of its page size.
        kind: EntryKind,
        /// Frame of the first page; a guest frame for an intermediate entry.
        frame: Frame,
        /// Accesses that the entry allows without further work, as bits of [`allow`](crate::allow).
        allows: u8,
        /// Hole filter of the page, or 0.
        filter: u8,
    },
    /// Bits of a hole bitmap; the lowest bit is the first page's.
    Bitmap(u32),
    /// A page-table entry that points to a node.
    Node {
        /// Level of the entry.
        level: Level,
        /// Kind of page directory on the path to the node.
        directory: Directory,
        /// Frame of the node, in the guest and in the machine.
        node: Node,
    },
    /// A level-2 entry that is a leaf. The dimension stores its content.
    Leaf,
}
