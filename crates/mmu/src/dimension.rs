//! A dimension: the translation from one address space to the next.

use perforate_types::{FormatOperation, SpaceId, VirtualPage};

use crate::capability::{Capability, CapabilityMut, Wanted};
use crate::{Reach, TableMemory, WalkFault, Walker};

/// A request for a page-table walk.
#[derive(Clone, Copy, Debug)]
pub struct WalkRequest {
    /// Address space to walk.
    pub space: SpaceId,
    /// Virtual page to translate.
    pub page: VirtualPage,
    /// True for a store.
    pub write: bool,
    /// True if an earlier walk of this translation has already found the page. The walker can then
    /// go to the holes without finding the page again.
    pub walked: bool,
}

/// A bit that accesses set in page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The accessed bits of all entries on the path to a leaf, including the leaf.
    Accessed,
    /// The dirty bit of the leaf.
    Dirty,
}

/// One address-space translation. A dimension applies operations to tables in simulated memory, and
/// walks those tables. A scheme is a dimension behind the shared TLB pipeline.
///
/// Optional features are [`Capability`] values. A dimension that wraps another one answers for the
/// features that it changes and forwards all other requests. So it cannot hide a feature that it
/// does not know. A dimension that composes two others matches on all capabilities, so that the
/// compiler reports a new one.
pub trait Dimension: Send {
    /// Carries out an operation on the tables or registers.
    ///
    /// # Panics
    /// If the operation has another format or does not fit the tables, which is a bug of the
    /// operating-system model.
    fn apply(&mut self, operation: &dyn FormatOperation);

    /// Walks to the leaf that covers the page. Appends look-ups and reads to the steps and sets
    /// accessed bits on the path. A store also sets the leaf's dirty bit if the leaf allows stores.
    ///
    /// A leaf with holes is only marked accessed: the sub-page may be a hole. The pipeline calls
    /// [`Self::mark`] once this is known.
    ///
    /// # Errors
    /// [`WalkFault::NotMapped`] if an entry on the path is not present.
    fn walk(&mut self, request: WalkRequest, walker: &mut Walker<'_>) -> Result<Reach, WalkFault>;

    /// The reach of the leaf that translates a page, or a part of the leaf in which the page is not
    /// a hole. This look-up has no hardware effects. Operating systems and fault attribution use
    /// it, but never a translation.
    fn look_at(&self, space: SpaceId, page: VirtualPage) -> Option<Reach>;

    /// Sets bits of the entries that translate the page: the dirty bit after a store through a
    /// clean TLB entry, or accessed bits for a hypervisor that shadows these tables.
    fn mark(&mut self, space: SpaceId, page: VirtualPage, mark: Mark);

    /// The simulated memory that contains the tables.
    fn memory(&self) -> &TableMemory;

    /// The requested capability, read-only; `None` if the dimension lacks it.
    fn capability(&self, wanted: Wanted) -> Option<Capability<'_>>;

    /// The requested capability, mutable; `None` if the dimension lacks it.
    fn capability_mut(&mut self, wanted: Wanted) -> Option<CapabilityMut<'_>>;
}
