//! Contents of TLBs and walk caches, for tests that compare it with a model. No translation asks it.

use perforate_types::{Frame, Level, SpaceId, Unit, VirtualPage};

use crate::{EntryKind, Node, radix::Directory};

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
        /// Node of the next level to which the entry leads.
        directory: Directory,
        /// The node.
        node: Node,
    },
    /// A level-2 entry that is a leaf; the dimension keeps what it says.
    Leaf,
}
