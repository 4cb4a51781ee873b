//! What the run loop hands translated accesses to.

use perforate_timing::{Core, Processors, Shootdown};
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
    /// Whether it is told at once of shootdowns that go to other hardware threads.
    const HAS_THREADS: bool = false;

    fn fetch(&mut self, address: PhysicalAddress, slot: u32, steps: StepLists<'_>);
    fn begin(&mut self, instruction: &Instruction);
    fn load(&mut self, address: PhysicalAddress, size: u16, slot: u32, steps: StepLists<'_>);
    fn store(&mut self, address: PhysicalAddress, size: u16, slot: u32, steps: StepLists<'_>);
    fn finish(&mut self, instruction: &Instruction);
    /// Lets everything finish that is under way.
    fn drain(&mut self);
    /// Cycles so far.
    fn cycles_so_far(&mut self) -> Cycles;
    /// What comes next is run by this hardware thread. With one there is nothing to be said.
    fn run_on(&mut self, _thread: usize) {}
    /// Hardware threads are interrupted for shootdowns.
    fn shoot_down(&mut self, _sent: &Interrupts) {}
}

/// Shootdowns that go to other hardware threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interrupts {
    /// Whether the thread at work waits for the answers; otherwise a kernel thread on another processor
    /// does.
    pub(super) is_waited_for: bool,
    /// How often.
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
