//! Functional warming: instructions update caches, TLBs and branch predictors, and take no time (Wunderlich
//! et al., "SMARTS: accelerating microarchitecture simulation via rigorous statistical sampling", ISCA 2003).
//!
//! Differences from the timed model: prefetchers find a free MSHR for every line, and the open rows of DRAM
//! do not change. The core must be drained first ([`Core::drain`]).

use super::*;
use crate::hierarchy::Origin;

impl Core {
    /// As [`Core::fetch`], but only updates caches and TLB.
    pub fn warm_fetch<'a>(&mut self, address: PhysicalAddress, steps: impl Into<StepLists<'a>>) {
        self.translation.warm(&mut self.shared.memory, steps.into());
        self.shared.memory.warm(
            self.levels.l1i,
            address.value() >> LINE_SHIFT,
            false,
            Origin::Program,
        );
    }

    /// As [`Core::begin`], but only trains the target prediction of the branch before.
    #[inline]
    pub fn warm_begin(&mut self, instruction: &Instruction) {
        debug_assert!(self.is_at_rest(), "a core is drained before it is warmed");
        self.branches.check_target(instruction.ip.value());
    }

    /// As [`Core::load`], but only updates caches and TLB.
    #[inline]
    pub fn warm_load<'a>(
        &mut self,
        address: PhysicalAddress,
        size: u16,
        steps: impl Into<StepLists<'a>>,
    ) {
        self.warm_access(address, size, false, steps.into());
    }

    /// As [`Core::store`], but only updates caches and TLB.
    #[inline]
    pub fn warm_store<'a>(
        &mut self,
        address: PhysicalAddress,
        size: u16,
        steps: impl Into<StepLists<'a>>,
    ) {
        self.warm_access(address, size, true, steps.into());
    }

    #[inline]
    fn warm_access(
        &mut self,
        address: PhysicalAddress,
        size: u16,
        write: bool,
        steps: StepLists<'_>,
    ) {
        if !steps.awaited.is_empty() {
            self.translation.warm(&mut self.shared.memory, steps);
        }
        let address = address.value();
        let first = address >> LINE_SHIFT;
        for line in first..first + accesses::lines(address, size) {
            self.shared.memory.warm(self.levels.l1d, line, write, Origin::Program);
        }
    }

    /// As [`Core::finish`], but only updates the branch predictor.
    #[inline]
    pub fn warm_finish(&mut self, instruction: &Instruction) {
        if instruction.branch != Branch::None {
            self.branches.branch(instruction);
            self.front_end.may_stop |= self.branches.expects_a_target();
        }
    }
}
