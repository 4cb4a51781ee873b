//! Dimensions: a dimension translates one address space to the next, such as guest-virtual to
//! guest-physical addresses.

use perforate_types::{FormatOperation, SpaceId, VirtualPage};

use crate::capability::{Capability, CapabilityKind, CapabilityMut};
use crate::{Reach, TableMemory, WalkFault, Walker};

/// A request for a page-table walk.
#[derive(Clone, Copy, Debug)]
pub struct WalkRequest {
    /// Address space whose tables are walked.
    pub space: SpaceId,
    /// Virtual page to translate; for a host's tables, a guest-physical page.
    pub page: VirtualPage,
    /// True if the access that causes the walk is a store.
    pub write: bool,
    /// True if a walk for this access has already found the 2MB page with holes. Nested translation
    /// then knows the guest frame of the page; otherwise, it has to read the guest's entry again.
    pub walked: bool,
}

/// Kind of status bit that an access sets in page-table entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The accessed bits of all entries on the path to a leaf, including the leaf.
    Accessed,
    /// The dirty bit of the leaf entry.
    Dirty,
}

/// Address translation from one address space to the next, by page tables or registers. A dimension
/// applies the operating system's operations to its tables in simulated memory, and walks those
/// tables. All schemes have the same TLB pipeline; a scheme is a dimension that the pipeline uses.
///
/// Optional features are [`Capability`] values. A dimension that wraps another one
/// ([`DimensionLayer`](crate::DimensionLayer)) answers requests for the features that it changes. It forwards all
/// other requests, so a capability that is added later passes through. [`Nested`](crate::Nested),
/// which composes two dimensions, matches on all kinds of capability, so the compiler reports a
/// kind that is added later.
pub trait Dimension: Send {
    /// Carries out an operation on the tables or registers.
    ///
    /// # Panics
    /// If the operation belongs to another format or does not fit the tables. Both are bugs of the
    /// operating-system model.
    fn apply(&mut self, operation: &dyn FormatOperation);

    /// Walks to the leaf that covers the page. Appends look-ups and reads to the steps, and sets
    /// the accessed bits on the path. A store also sets the leaf's dirty bit if the leaf allows
    /// stores.
    ///
    /// If the leaf has holes, a store does not set the dirty bit, because the sub-page may be a
    /// hole with a separate entry. The pipeline calls [`Self::mark`] when it knows.
    ///
    /// # Errors
    /// [`WalkFault::NotMapped`] if an entry on the path is not present.
    fn walk(&mut self, request: WalkRequest, walker: &mut Walker<'_>) -> Result<Reach, WalkFault>;

    /// Translates a page in software, without steps, cache fills or status bits. Returns the
    /// mapping of the leaf that translates the page, or of a part of the leaf in which the page is
    /// not a hole. `None` if the page is not mapped. Fault attribution, TLB coalescing and tests
    /// use it; [`Self::walk`] is for translations.
    fn look_at(&self, space: SpaceId, page: VirtualPage) -> Option<Reach>;

    /// Sets status bits of the entries that translate the page: the dirty bit for a store through a
    /// clean TLB entry, or accessed bits for a hypervisor that shadows these tables.
    fn mark(&mut self, space: SpaceId, page: VirtualPage, mark: Mark);

    /// Returns the simulated memory that contains the tables.
    fn memory(&self) -> &TableMemory;

    /// Returns the capability (optional feature) of the wanted kind, read-only; `None` if the
    /// dimension lacks it.
    fn capability(&self, wanted: CapabilityKind) -> Option<Capability<'_>>;

    /// Returns the capability (optional feature) of the wanted kind, mutable; `None` if the
    /// dimension lacks it.
    fn capability_mut(&mut self, wanted: CapabilityKind) -> Option<CapabilityMut<'_>>;
}
