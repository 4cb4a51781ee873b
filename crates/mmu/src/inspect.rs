//! Attempts to translate, and contents of TLBs and walk caches, for tests that compare them with a model.
//! No translation asks for them.

use perforate_types::{
    AccessKind, Frame, Level, SpaceId, Steps, Unit, VirtualAddress, VirtualPage,
};

use crate::{EntryKind, Node, PageFault, Translated, radix::Directory};

/// An attempt of the memory-management unit to translate, failed or not.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// Kind of the access.
    pub kind: AccessKind,
    /// Address that the program accesses.
    pub address: VirtualAddress,
    /// Translation, or page fault.
    pub result: &'a Result<Translated, PageFault>,
    /// Steps of the hardware.
    pub steps: &'a Steps,
}

/// An entry of a TLB or of a walk cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedEntry {
    /// Core that has the unit.
    pub core: usize,
    /// Unit that holds the entry.
    pub unit: Unit,
    /// Slot in the unit, as steps name it.
    pub slot: u32,
    /// Array of the unit, set of the array, and way of the set, counted from 0. The arrays of a first-level
    /// TLB go by page size, those of the second level are the shared one and those of single page sizes;
    /// those of the walk caches are of level-2, level-3 and level-4 entries.
    pub place: (usize, usize, usize),
    /// Address space; for guest-physical addresses, that of the virtual machine in its host.
    pub space: SpaceId,
    /// True if the entry is about guest-physical addresses.
    pub is_guest_physical: bool,
    /// First 4KB page that the entry is about.
    pub first: VirtualPage,
    /// Number of 4KB pages that the entry is about.
    pub pages: u64,
    /// Content of the entry.
    pub content: CachedContent,
}

/// Content of a cached entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedContent {
    /// The pages lie in consecutive frames.
    Page {
        /// Kind of entry; in the first level, that of its page size.
        kind: EntryKind,
        /// Frame of the first page; for an intermediate entry, a frame of the guest.
        frame: Frame,
        /// Accesses that need no further work, as bits of [`allow`](crate::allow).
        allows: u8,
        /// Filter of a page with holes, or 0.
        filter: u8,
    },
    /// Bits of a hole bitmap, the first page's in the lowest bit.
    Bitmap(u32),
    /// A page-table entry that points to a node.
    Node {
        /// Level of the entry.
        level: Level,
        /// Kind of page directory on the way to the node.
        directory: Directory,
        /// Node of the table, in the guest and in the machine.
        node: Node,
    },
    /// A level-2 entry that is a leaf; the dimension keeps what it says.
    Leaf,
}
