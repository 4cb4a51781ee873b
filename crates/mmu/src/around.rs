//! Dimensions that stand around others and alter a part of what they do.

use std::any::TypeId;

use perforate_types::{FormatOperation, SpaceId, VirtualPage};

use crate::capability::{Capability, CapabilityMut, Wanted};
use crate::{Dimension, Mark, Reach, TableMemory, WalkFault, WalkRequest, Walker};

/// A dimension around another one: page tables with a unit of a mechanism's own beside them, say.
///
/// Whatever implements this is a [`Dimension`], which does what the one inside does, except for what
/// it says here. Capabilities that it has not itself are those of the one inside, so that it cannot
/// hide what it does not know of.
pub trait Around: Send + 'static {
    /// The dimension inside.
    fn inside(&self) -> &dyn Dimension;

    /// The dimension inside, to be changed.
    fn inside_mut(&mut self) -> &mut dyn Dimension;

    /// Carries out an operation, if it is one of its own, and returns whether it was: any other goes
    /// inside.
    fn apply_own(&mut self, _operation: &dyn FormatOperation) -> bool {
        false
    }

    /// [`Dimension::walk`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    fn walk_around(
        &mut self,
        request: WalkRequest,
        walker: &mut Walker<'_>,
    ) -> Result<Reach, WalkFault> {
        self.inside_mut().walk(request, walker)
    }

    /// [`Dimension::look_at`] of what it translates itself; for any other page the dimension inside
    /// is asked.
    fn look_at_own(&self, _space: SpaceId, _page: VirtualPage) -> Option<Reach> {
        None
    }

    /// A capability of its own, to be looked at. The part of its own type need not be named.
    fn own_capability(&self, _wanted: Wanted) -> Option<Capability<'_>> {
        None
    }

    /// A capability of its own, to be used. It is asked for those of [`Self::own_capability`] only.
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

    /// Accessed and dirty bits are in the tables inside.
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
