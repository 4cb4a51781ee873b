//! A dimension: one address-space translation.

use perforate_types::{FormatOperation, SpaceId, VirtualPage};

use crate::capability::{Capability, CapabilityMut, Wanted};
use crate::{Reach, TableMemory, WalkFault, Walker};

/// A walk to be done.
#[derive(Clone, Copy, Debug)]
pub struct WalkRequest {
    /// Address space.
    pub space: SpaceId,
    /// Page wanted.
    pub page: VirtualPage,
    /// Whether it is for a store.
    pub write: bool,
    /// Whether an earlier walk of the same translation has found the page already, so that the
    /// walker need not find it again for the sake of its holes.
    pub walked: bool,
}

/// A bit that accesses leave in page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The accessed bits on the way to a leaf, the leaf's included.
    Accessed,
    /// The dirty bit of a leaf.
    Dirty,
}

/// One address-space translation: it carries out operations on tables in simulated memory, and
/// walks those tables. A scheme is a dimension behind the one TLB pipeline.
///
/// What only some dimensions have is handed out as a [`Capability`]. One dimension that wraps
/// another and alters a part of it answers for that part and passes every other request on, so that
/// it cannot hide what it does not know of; one that composes two dimensions lists all capabilities,
/// so that the compiler asks it about a new one.
pub trait Dimension: Send {
    /// Carries out an operation on the tables or registers.
    ///
    /// # Panics
    /// If it is of another format or does not fit the tables, which is a bug of the operating system
    /// model.
    fn apply(&mut self, operation: &dyn FormatOperation);

    /// Walks to the leaf that covers the page, appending look-ups and reads to the steps, and sets
    /// accessed bits on the way; for a store, the dirty bit of the leaf too, if it allows stores.
    /// A leaf with holes is no more than marked accessed: the sub-page may be one of them, and
    /// [`Self::mark`] comes when that is known.
    ///
    /// # Errors
    /// [`WalkFault::NotMapped`] where an entry on the way is not present.
    fn walk(&mut self, request: WalkRequest, walker: &mut Walker<'_>) -> Result<Reach, WalkFault>;

    /// The reach of the leaf that translates a page, or a part of it in which the page is no hole;
    /// found without hardware. For operating systems and for blame, never for a translation.
    fn look_at(&self, space: SpaceId, page: VirtualPage) -> Option<Reach>;

    /// Sets bits of the entries that translate the page: the dirty bit for a store through a clean
    /// entry, accessed bits for a hypervisor that shadows these tables.
    fn mark(&mut self, space: SpaceId, page: VirtualPage, mark: Mark);

    /// The simulated memory the tables live in.
    fn memory(&self) -> &TableMemory;

    /// A capability, to be looked at.
    fn capability(&self, wanted: Wanted) -> Option<Capability<'_>>;

    /// A capability, to be used.
    fn capability_mut(&mut self, wanted: Wanted) -> Option<CapabilityMut<'_>>;
}
