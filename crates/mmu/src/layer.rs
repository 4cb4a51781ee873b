//! Dimensions (translations from one address space to the next) that wrap another dimension and
//! change part of its behaviour.

use std::any::TypeId;

use perforate_types::{FormatOperation, SpaceId, VirtualPage};

use crate::capability::{Capability, CapabilityKind, CapabilityMut};
use crate::{Dimension, Mark, Reach, TableMemory, WalkFault, WalkRequest, Walker};

/// A dimension (address translation) that wraps another one, such as a range TLB over ordinary page
/// tables.
///
/// Every implementor is a [`Dimension`]. It behaves like the inner dimension except where a method
/// of this trait is overridden. Requests for capabilities (optional features) that the wrapper
/// lacks go to the inner dimension, so capabilities that are added later pass through every
/// wrapper.
pub trait DimensionLayer: Send + 'static {
    /// Returns the dimension that this one wraps.
    fn inside(&self) -> &dyn Dimension;

    /// Returns the dimension that this one wraps, mutable.
    fn inside_mut(&mut self) -> &mut dyn Dimension;

    /// Carries out an operation of the wrapper's own format and returns true. Returns false for any
    /// other operation, which then goes to the inner dimension.
    fn apply_own(&mut self, _operation: &dyn FormatOperation) -> bool {
        false
    }

    /// Performs a page walk, as [`Dimension::walk`]. By default, the inner dimension performs it.
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

    /// Translates a page in software, as [`Dimension::look_at`], if the wrapper maps the page
    /// itself. `None` passes the request to the inner dimension.
    fn look_at_own(&self, _space: SpaceId, _page: VirtualPage) -> Option<Reach> {
        None
    }

    /// Returns a capability (optional feature) of the wrapper itself, read-only. `None` passes the
    /// request to the inner dimension. The blanket implementation handles [`Capability::Part`] for
    /// the wrapper's own type.
    fn own_capability(&self, _wanted: CapabilityKind) -> Option<Capability<'_>> {
        None
    }

    /// Returns a capability (optional feature) of the wrapper itself, mutable. Called only for
    /// capabilities that [`Self::own_capability`] returns.
    fn own_capability_mut(&mut self, _wanted: CapabilityKind) -> Option<CapabilityMut<'_>> {
        None
    }
}

impl<T: DimensionLayer> Dimension for T {
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

    /// Sets accessed or dirty bits in the inner dimension, whose tables hold these bits.
    fn mark(&mut self, space: SpaceId, page: VirtualPage, mark: Mark) {
        self.inside_mut().mark(space, page, mark);
    }

    fn memory(&self) -> &TableMemory {
        self.inside().memory()
    }

    fn capability(&self, wanted: CapabilityKind) -> Option<Capability<'_>> {
        match self.own_capability(wanted) {
            None if wanted == CapabilityKind::Part(TypeId::of::<T>()) => {
                Some(Capability::Part(self))
            }
            None => self.inside().capability(wanted),
            own => own,
        }
    }

    fn capability_mut(&mut self, wanted: CapabilityKind) -> Option<CapabilityMut<'_>> {
        if self.own_capability(wanted).is_some() {
            return self.own_capability_mut(wanted);
        }
        if wanted == CapabilityKind::Part(TypeId::of::<T>()) {
            return Some(CapabilityMut::Part(self));
        }
        self.inside_mut().capability_mut(wanted)
    }
}
