//! Interface between run loop and clock.

use perforate_timing::{Core, Processors, Shootdown};
use perforate_types::{Instruction, PhysicalAddress, StepLists};

/// Numbers of cycles since measuring began; 0 without a timing model.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cycles {
    pub(super) all: u64,
    /// Sum of the latencies of translations that missed in the first-level TLB, in cycles.
    pub(super) translation: u64,
    /// Number of cycles in which the run waited for translation.
    pub(super) translation_stall: u64,
}

/// Consumer of translated accesses: the timing model, or a model that ignores them in functional
/// runs.
pub(super) trait Model {
    /// True if the model simulates several hardware threads, so shootdowns between them are passed
    /// to it.
    const HAS_THREADS: bool = false;

    fn fetch(&mut self, address: PhysicalAddress, slot: u32, steps: StepLists<'_>);
    fn begin(&mut self, instruction: &Instruction);
    fn load(&mut self, address: PhysicalAddress, size: u16, slot: u32, steps: StepLists<'_>);
    fn store(&mut self, address: PhysicalAddress, size: u16, slot: u32, steps: StepLists<'_>);
    fn finish(&mut self, instruction: &Instruction);
    /// Drains the pipeline: simulates until all pending work is done.
    fn drain(&mut self);
    /// Returns the cycles since measuring started.
    fn cycles_so_far(&mut self) -> Cycles;
    /// Makes `thread` the hardware thread that runs from now on. No effect with one hardware
    /// thread.
    fn run_on(&mut self, _thread: usize) {}
    /// Interrupts hardware threads for the shootdowns of one operation.
    fn shoot_down(&mut self, _sent: &Interrupts) {}
}

/// Interrupts of hardware threads for the shootdowns of one operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interrupts {
    /// True if the current hardware thread waits for the answers. If false, a kernel thread on
    /// another processor waits.
    pub(super) is_waited_for: bool,
    /// Number of batches of shootdowns, each of which causes the interrupts in `each`.
    pub(super) batches: u64,
    pub(super) each: Shootdown,
}

impl Model for Processors {
    const HAS_THREADS: bool = true;

    fn fetch(&mut self, address: PhysicalAddress, slot: u32, steps: StepLists<'_>) {
        Processors::fetch(self, address, slot, steps);
    }
    fn begin(&mut self, instruction: &Instruction) {
        Processors::begin(self, instruction);
    }
    fn load(&mut self, address: PhysicalAddress, size: u16, slot: u32, steps: StepLists<'_>) {
        Processors::load(self, address, size, slot, steps);
    }
    fn store(&mut self, address: PhysicalAddress, size: u16, slot: u32, steps: StepLists<'_>) {
        Processors::store(self, address, size, slot, steps);
    }
    fn finish(&mut self, _: &Instruction) {
        Processors::finish(self);
    }
    fn drain(&mut self) {
        Processors::drain(self);
    }
    fn cycles_so_far(&mut self) -> Cycles {
        Cycles {
            all: self.cycles(),
            translation: self.translation_cycles(),
            translation_stall: self.translation_stall_cycles(),
        }
    }
    fn run_on(&mut self, thread: usize) {
        Processors::run_on(self, thread);
    }
    fn shoot_down(&mut self, sent: &Interrupts) {
        let Interrupts { is_waited_for, batches, each } = *sent;
        for _ in 0..batches {
            if is_waited_for {
                Processors::shoot_down(self, each);
            } else {
                self.interrupt(each.targets, each.handler_cycles);
            }
        }
    }
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
    #[inline(always)]
    fn finish(&mut self, instruction: &Instruction) {
        Core::finish(self, instruction);
    }
    fn drain(&mut self) {
        Core::drain(self);
    }
    fn cycles_so_far(&mut self) -> Cycles {
        self.catch_up();
        Cycles {
            all: self.cycles(),
            translation: self.translation_cycles(),
            translation_stall: self.translation_stall_cycles(),
        }
    }
}

/// A core that only updates caches and predictors, in no time (functional warming).
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

/// Model that takes no time, for functional runs.
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
