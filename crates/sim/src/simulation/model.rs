//! What the run loop hands translated accesses to.

use perforate_timing::Core;
use perforate_types::{Instruction, PhysicalAddress, StepLists};

/// Cycles since measuring began; 0 without a clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cycles {
    pub(super) all: u64,
    /// Latencies of translations beyond the first-level TLB, summed.
    pub(super) translation: u64,
    /// Those for which the run waited for translation.
    pub(super) translation_stall: u64,
}

/// Consumes translated accesses: the timing model, or nothing in functional mode.
pub(super) trait Model {
    fn fetch(&mut self, address: PhysicalAddress, slot: u32, steps: StepLists<'_>);
    fn begin(&mut self, instruction: &Instruction);
    fn load(&mut self, address: PhysicalAddress, size: u16, slot: u32, steps: StepLists<'_>);
    fn store(&mut self, address: PhysicalAddress, size: u16, slot: u32, steps: StepLists<'_>);
    fn finish(&mut self, instruction: &Instruction);
    /// Lets everything finish that is under way.
    fn drain(&mut self);
    /// Cycles so far.
    fn cycles_so_far(&mut self) -> Cycles;
}

impl Model for Core {
    #[inline]
    fn fetch(&mut self, address: PhysicalAddress, slot: u32, steps: StepLists<'_>) {
        Core::fetch(self, address, slot, steps);
    }
    #[inline]
    fn begin(&mut self, instruction: &Instruction) {
        Core::begin(self, instruction);
    }
    #[inline]
    fn load(&mut self, address: PhysicalAddress, size: u16, slot: u32, steps: StepLists<'_>) {
        Core::load(self, address, size, slot, steps);
    }
    #[inline]
    fn store(&mut self, address: PhysicalAddress, size: u16, slot: u32, steps: StepLists<'_>) {
        Core::store(self, address, size, slot, steps);
    }
    #[inline]
    fn finish(&mut self, instruction: &Instruction) {
        Core::finish(self, instruction);
    }
    fn drain(&mut self) {
        Core::drain(self);
    }
    fn cycles_so_far(&mut self) -> Cycles {
        Cycles {
            all: self.cycles(),
            translation: self.translation_cycles(),
            translation_stall: self.translation_stall_cycles(),
        }
    }
}

/// A core that is warmed and takes no time.
pub(super) struct Warming<'a>(pub(super) &'a mut Core);

impl Model for Warming<'_> {
    #[inline]
    fn fetch(&mut self, address: PhysicalAddress, _: u32, steps: StepLists<'_>) {
        self.0.warm_fetch(address, steps);
    }
    #[inline]
    fn begin(&mut self, instruction: &Instruction) {
        self.0.warm_begin(instruction);
    }
    #[inline]
    fn load(&mut self, address: PhysicalAddress, size: u16, _: u32, steps: StepLists<'_>) {
        self.0.warm_load(address, size, steps);
    }
    #[inline]
    fn store(&mut self, address: PhysicalAddress, size: u16, _: u32, steps: StepLists<'_>) {
        self.0.warm_store(address, size, steps);
    }
    #[inline]
    fn finish(&mut self, instruction: &Instruction) {
        self.0.warm_finish(instruction);
    }
    fn drain(&mut self) {}
    fn cycles_so_far(&mut self) -> Cycles {
        Cycles::default()
    }
}

/// No clock.
pub(super) struct Functional;

impl Model for Functional {
    #[inline]
    fn fetch(&mut self, _: PhysicalAddress, _: u32, _: StepLists<'_>) {}
    #[inline]
    fn begin(&mut self, _: &Instruction) {}
    #[inline]
    fn load(&mut self, _: PhysicalAddress, _: u16, _: u32, _: StepLists<'_>) {}
    #[inline]
    fn store(&mut self, _: PhysicalAddress, _: u16, _: u32, _: StepLists<'_>) {}
    #[inline]
    fn finish(&mut self, _: &Instruction) {}
    fn drain(&mut self) {}
    fn cycles_so_far(&mut self) -> Cycles {
        Cycles::default()
    }
}
