//! Dimensions that wrap another dimension and change part of its behaviour.

use std::any::TypeId;

use perforate_types::{FormatOperation, SpaceId, VirtualPage};

use crate::capability::{Capability, CapabilityMut, Wanted};
use crate::{Dimension, Mark, Reach, TableMemory, WalkFault, WalkRequest, Walker};

/// A dimension that wraps another one, such as page tables with a mechanism's own unit beside the
/// second-level TLB.
///
/// Every implementor is a [`Dimension`]. It behaves like the inner dimension except where a method
/// of this trait is overridden. Capabilities that the wrapper lacks are those of the inner
/// dimension, so a wrapper cannot hide a capability that it does not know.
pub trait Around: Send + 'static {
    /// The dimension that this one wraps.
    fn inside(&self) -> &dyn Dimension;

    /// The inner dimension, mutable.
    fn inside_mut(&mut self) -> &mut dyn Dimension;

    /// Carries out an operation of the wrapper's own format and returns true. Returns false for any
    /// other operation, which then goes to the inner dimension.
    fn apply_own(&mut self, _operation: &dyn FormatOperation) -> bool {
        false
    }

    /// Performs a walk, as [`Dimension::walk`]. By default the inner dimension walks.
    ///
    /// # Errors
    /// See [`Dimension::walk`].
    #[inline]
    fn walk_around(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        self.inside_mut().walk(request, walker)
    }

    /// Translates a page as [`Dimension::look_at`] if the wrapper itself maps it. `None` passes the
    /// request to the inner dimension.
    fn look_at_own(&self, _space: SpaceId, _page: VirtualPage) -> Option<Reach> {
        None
    }

    /// A capability of the wrapper itself, read-only. [`Capability::Part`] for the wrapper's own
    /// type is handled by the blanket implementation.
    fn own_capability(&self, _wanted: Wanted) -> Option<Capability<'_>> {
        None
    }

    /// A capability of the wrapper itself, mutable. Called only for capabilities that
    /// [`Self::own_capability`] returns.
    fn own_capability_mut(&mut self, _wanted: Wanted) -> Option<CapabilityMut<'_>> {
        None
    }
}

impl<T: Around> Dimension for T {
    fn apply(&mut self, operation: &dyn FormatOperation) {
        if !self.apply_own(operation) {
            self.inside_mut().apply(operation);
        }
    }

    #[inline]
    fn walk(&mut self, request: WalkRequest, walker: &mut Walker<'_>) -> Result<Reach, WalkFault> {
        self.walk_around(request, walker)
    }

    fn look_at(&self, space: SpaceId, page: VirtualPage) -> Option<Reach> {
        self.look_at_own(space, page).or_else(|| self.inside().look_at(space, page))
    }

    /// Accessed and dirty bits are in the inner dimension's tables.
    fn mark(&mut self, space: SpaceId, page: VirtualPage, mark: Mark) {
        self.inside_mut().mark(space, page, mark);
    }

    fn memory(&self) -> &TableMemory {
        self.inside().memory()
    }

    fn capability(&self, wanted: Wanted) -> Option<Capability<'_>> {
        match self.own_capability(wanted) {
            None if wanted == Wanted::Part(TypeId::of::<T>()) => Some(Capability::Part(self)),
            None => self.inside().capability(wanted),
            own => own,
        }
    }

    fn capability_mut(&mut self, wanted: Wanted) -> Option<CapabilityMut<'_>> {
        if self.own_capability(wanted).is_some() {
            return self.own_capability_mut(wanted);
        }
        if wanted == Wanted::Part(TypeId::of::<T>()) {
            return Some(CapabilityMut::Part(self));
        }
        self.inside_mut().capability_mut(wanted)
    }
}
