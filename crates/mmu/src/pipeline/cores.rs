//! Several cores over the same tables, each with TLBs and walk caches of its own.

use perforate_types::SpaceId;

use super::Mmu;
use crate::tlb::L2Tlb;

impl Mmu {
    /// There are so many cores from now on, all as the one that there is, which is number 0.
    ///
    /// # Panics
    /// If there are none, or it has run something that is cached.
    pub fn set_cores(&mut self, cores: usize) {
        assert!(cores > 0, "something runs");
        assert_eq!(self.core, 0, "nothing has run on another core");
        self.parked.set_cores(&self.own, cores);
        self.dimension.set_cores(cores);
        self.cores = cores;
    }

    /// Number of cores.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Accesses are those of this core from now on. It runs the address space that it ran last.
    ///
    /// # Panics
    /// If there are fewer cores.
    pub fn run_on(&mut self, core: usize) {
        if core != self.core {
            self.parked.run_on(&mut self.own, core);
            self.dimension.run_on(core);
            self.core = core;
        }
    }

    /// Accesses are those of another hardware thread of the same core, which runs this address space:
    /// nothing is forgotten.
    pub fn resume(&mut self, space: SpaceId) {
        self.own.space = space;
    }

    /// What the second-level TLBs hold, of all cores.
    pub(super) fn l2_of_all(&self) -> impl Iterator<Item = &L2Tlb> {
        [&self.own.l2].into_iter().chain(self.parked.others().map(|other| &other.l2))
    }

    /// Has each core do something, one after the other.
    pub(super) fn on_all_cores(&mut self, mut act: impl FnMut(&mut Self)) {
        let running = self.core;
        for core in (0..self.cores).filter(|&core| core != running) {
            self.run_on(core);
            act(self);
        }
        self.run_on(running);
        act(self);
    }
}
