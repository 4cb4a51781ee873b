//! Several cores over the same tables, each with its own TLBs and walk caches.

use perforate_types::SpaceId;

use super::Mmu;
use crate::tlb::L2Tlb;

impl Mmu {
    /// Sets the number of cores. Each new core starts with a copy of the TLBs and walk caches of
    /// the present core, which becomes core 0.
    ///
    /// # Panics
    /// If `cores` is 0, or if a core other than 0 is running.
    pub fn set_cores(&mut self, cores: usize) {
        assert!(cores > 0, "something runs");
        assert_eq!(self.running_core, 0, "nothing has run on another core");
        self.parked.set_cores(&self.own, cores);
        self.dimension.set_cores(cores);
        self.cores = cores;
    }

    /// Number of simulated cores.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Makes `core` the running core. It resumes the address space that it ran last.
    ///
    /// # Panics
    /// If there is no such core.
    pub fn run_on(&mut self, core: usize) {
        if core != self.running_core {
            self.parked.run_on(&mut self.own, core);
            self.dimension.run_on(core);
            self.running_core = core;
        }
    }

    /// Switches the running core to another of its hardware threads, which runs address space
    /// `space`. Flushes nothing, because the hardware threads of a core share its TLBs.
    pub fn resume(&mut self, space: SpaceId) {
        self.own.space = space;
    }

    /// Iterates over the second-level TLBs of all cores, the running core's first.
    pub(super) fn l2_of_all_cores(&self) -> impl Iterator<Item = &L2Tlb> {
        [&self.own.l2].into_iter().chain(self.parked.others().map(|other| &other.l2))
    }

    /// Calls `act` once for each core, with that core as the running one; last for the core that
    /// runs at the call.
    pub(super) fn on_all_cores(&mut self, mut act: impl FnMut(&mut Self)) {
        let running = self.running_core;
        for core in (0..self.cores).filter(|&core| core != running) {
            self.run_on(core);
            act(self);
        }
        self.run_on(running);
        act(self);
    }
}
