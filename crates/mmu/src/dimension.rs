//! A dimension: one address-space translation, and what it answers.

use perforate_types::{
    Frame, HoleSet, MappingChange, PageSize, Permissions, PhysicalAddress, SpaceId, Steps,
    VirtualPage,
};

use crate::{TableMemory, WalkCaches};

/// The aligned range around an address over which one linear mapping holds, minus its holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Size of the range.
    pub size: PageSize,
    /// Frame that the range's first page maps to.
    pub frame: Frame,
    /// What the mapping allows.
    pub permissions: Permissions,
    /// Whether the leaf entry is marked dirty.
    pub dirty: bool,
    /// Hole filter; 0 where the range has no holes.
    pub filter: u8,
}

/// Nothing is mapped there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotMapped;

/// What a walk is for.
#[derive(Clone, Copy, Debug)]
pub struct WalkRequest {
    /// Address space.
    pub space: SpaceId,
    /// Page wanted.
    pub page: VirtualPage,
    /// Whether it is for a store.
    pub write: bool,
}

/// A perforated page as its tables hold it, for pictures and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerforatedPage {
    /// Address space.
    pub space: SpaceId,
    /// First page.
    pub page: VirtualPage,
    /// Hole filter in the page-directory entry.
    pub filter: u8,
    /// This address space's holes.
    pub holes: HoleSet,
    /// Those of them that are mapped somewhere.
    pub allocated: HoleSet,
}

/// One address-space translation: it turns mapping changes into tables in simulated memory, and
/// walks those tables. A scheme is a dimension behind the one TLB pipeline.
pub trait Dimension: Send {
    /// Writes a mapping change into the tables.
    ///
    /// # Panics
    /// If the change does not fit the tables, which is a bug of the operating system model.
    fn apply(&mut self, change: &MappingChange);

    /// Walks to the leaf that covers the page, appending look-ups and reads to `steps`, and sets
    /// accessed bits on the way; for a store, the dirty bit of the leaf too, if it allows stores.
    /// A leaf with holes is no more than marked accessed: the sub-page may be one of them, and
    /// [`Self::mark_dirty`] comes when that is known.
    ///
    /// # Errors
    /// [`NotMapped`] where an entry on the way is not present.
    fn walk(
        &mut self,
        request: WalkRequest,
        caches: &mut WalkCaches,
        steps: &mut Steps,
    ) -> Result<Reach, NotMapped>;

    /// Walks to the 4KB translation of a hole.
    ///
    /// # Errors
    /// [`NotMapped`] where the hole is unallocated.
    ///
    /// # Panics
    /// In a dimension that has no holes.
    fn walk_hole(
        &mut self,
        _request: WalkRequest,
        _caches: &mut WalkCaches,
        _steps: &mut Steps,
    ) -> Result<Reach, NotMapped> {
        unreachable!("this dimension has no holes")
    }

    /// Where the 64-byte hole bitmap of `block` lies.
    ///
    /// # Panics
    /// In a dimension that has no holes.
    fn bitmap_line(&self, _block: Frame) -> PhysicalAddress {
        unreachable!("this dimension has no holes")
    }

    /// Sets the dirty bit of the leaf that translates the page (a store through a clean entry).
    fn mark_dirty(&mut self, space: SpaceId, page: VirtualPage);

    /// The simulated memory the tables live in.
    fn memory(&self) -> &TableMemory;

    /// Perforated pages, in order of address space and address.
    fn perforated_pages(&self) -> Vec<PerforatedPage> {
        Vec::new()
    }
}
