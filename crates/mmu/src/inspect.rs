//! Views of translations and of TLB and walk-cache contents, for tests that compare them with a
//! reference model. Translation does not use this module.

use perforate_types::{
    AccessKind, Frame, Level, SpaceId, Steps, Unit, VirtualAddress, VirtualPage,
};

use crate::{EntryKind, Node, PageFault, Translated, radix::Directory};

/// An attempt to translate an address, which may have succeeded or failed.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// Kind of the attempted access.
    pub kind: AccessKind,
    /// Virtual address of the access.
    pub address: VirtualAddress,
    /// The translation, or the page fault if the attempt failed.
    pub result: &'a Result<Translated, PageFault>,
    /// Steps of the hardware in this attempt.
    pub steps: &'a Steps,
}

/// An entry of a TLB or of a walk cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedEntry {
    /// Number of the core whose TLB or walk cache holds the entry.
    pub core: usize,
    /// TLB or walk cache that holds the entry.
    pub unit: Unit,
    /// Slot number of the entry in the unit, as in the steps of translations.
    pub slot: u32,
    /// Index of the array in the unit, of the set in the array, and of the way in the set, from 0.
    /// A first-level TLB has an array per page size. The second-level TLB has the shared array,
    /// then the separate arrays for page sizes. Walk caches have arrays for level-2, level-3 and
    /// level-4 entries.
    pub place: (usize, usize, usize),
    /// Address space of the entry. For guest-physical addresses, the virtual machine's address
    /// space in its host.
    pub space: SpaceId,
    /// True if the entry translates guest-physical addresses.
    pub is_guest_physical: bool,
    /// First 4KB page that the cached entry covers.
    pub first: VirtualPage,
    /// Number of 4KB pages that the cached entry covers.
    pub pages: u64,
    /// Translation, bitmap bits or node that the entry holds.
    pub content: CachedContent,
}

/// Content of a cached entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedContent {
    /// Translation of pages to consecutive frames.
    Page {
        /// Kind of the entry; a first-level entry has the kind of its page size.
        kind: EntryKind,
        /// Frame of the first page; a guest frame for an intermediate entry.
        frame: Frame,
        /// Accesses that the entry allows without further work, as bits of [`allow`](crate::allow).
        allows: u8,
        /// Hole filter of the page; 0 if the page has no holes.
        filter: u8,
    },
    /// Bits of a hole bitmap; the lowest bit is that of the first page.
    Bitmap(u32),
    /// A non-leaf page-table entry in a walk cache, which points to a node.
    Node {
        /// Level of the non-leaf entry.
        level: Level,
        /// Kind of the entry: an ordinary entry, or a shadow entry that points to the node of
        /// holes.
        directory: Directory,
        /// Guest frame and machine frame of the node, which are equal natively.
        node: Node,
    },
    /// A level-2 leaf entry (G §3.7). The walk cache has only its key; the dimension that walks the
    /// tables keeps the content.
    Leaf,
}
