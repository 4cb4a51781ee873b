//! One scheme's operating system, memory-management unit and oracle, wired together.

use perforate_mmu::{Mmu, PageFault, Translated};
use perforate_oracle::Oracle;
use perforate_os::{FaultOutcome, Kernel, Work};
use perforate_types::{AccessKind, Counters, ProgramEvent, SpaceId, Steps, Update, VirtualAddress};

use crate::host_memory::HostMemory;
use crate::{Machine, MemoryState, Scheme, SimError};

/// Faults one access may take before its page counts as stuck: a large page may have to be
/// split or a hole mapped before the access itself succeeds.
const FAULTS_PER_ACCESS: u32 = 4;

/// End of the user half of the 48-bit address space. Programs may not touch what lies above:
/// addresses that are not canonical, and the kernel's.
const USER_END: u64 = 1 << 47;

/// How a [`System`] is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemOptions {
    /// Compare every translation with the oracle.
    pub check: bool,
    /// Touching what was never mapped maps it, for traces without map events.
    pub implicit_maps: bool,
    /// Count what translations read, but list no steps: nobody times them.
    pub counts_only: bool,
}

/// An operating system with its own memory, and the hardware that translates for it.
///
/// The only back edge of the data flow: a page fault goes to the kernel, whose updates come back
/// to the tables, the TLBs and the oracle, in order.
pub struct System {
    kernel: Kernel,
    mmu: Mmu,
    oracle: Option<Oracle>,
    updates: Vec<Update>,
    steps: Steps,
    scheme: &'static str,
    seed: u64,
    instruction: u64,
    refused: u64,
    /// The kernel's account when measuring started.
    work_before: Work,
    host_memory: HostMemory,
    /// What of the work since then other processors did.
    background: Work,
}

impl System {
    /// An empty memory under `scheme`.
    ///
    /// # Errors
    /// Memory too small for the kernel's own tables, an impossible machine, or one whose TLBs
    /// cannot hold the scheme's entries.
    pub fn new(
        machine: &Machine,
        scheme: &'static Scheme,
        memory: &MemoryState,
        seed: u64,
        options: SystemOptions,
    ) -> Result<Self, SimError> {
        scheme.check_machine(machine)?;
        let kernel = scheme.kernel(memory, seed, options.implicit_maps).map_err(|source| {
            SimError::Os { scheme: scheme.name.into(), instruction: 0, source }
        })?;
        let host_memory = HostMemory::new(scheme, memory, kernel.config());
        let dimension = (scheme.dimension)(&kernel, scheme.variant);
        let mmu = Mmu::new(&machine.mmu(), dimension, scheme.variant).map_err(|error| {
            SimError::Machine { name: machine.name.clone(), problem: error.to_string() }
        })?;
        let mut system = Self {
            kernel,
            mmu,
            oracle: options.check.then(Oracle::new),
            updates: Vec::new(),
            steps: if options.counts_only { Steps::counts_only() } else { Steps::new() },
            scheme: scheme.name,
            seed,
            instruction: 0,
            refused: 0,
            work_before: Work::default(),
            host_memory,
            background: Work::default(),
        };
        system.mmu.switch(system.kernel.current());
        Ok(system)
    }

    /// Notes how many instructions are done, for error messages.
    pub fn at_instruction(&mut self, instruction: u64) {
        self.instruction = instruction;
    }

    /// The steps of the last translation.
    #[inline]
    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    /// The memory-management unit.
    pub fn mmu(&self) -> &Mmu {
        &self.mmu
    }

    /// The memory-management unit, to be changed.
    pub fn mmu_mut(&mut self) -> &mut Mmu {
        &mut self.mmu
    }

    /// What hardware and operating system count as done from here on is measured.
    pub fn start_measuring(&mut self) {
        self.mmu.reset_counters();
        self.work_before = self.kernel.work();
        self.background = Work::default();
    }

    /// What the operating system did since measuring started.
    pub fn work(&self) -> Work {
        self.kernel.work() - self.work_before
    }

    /// What of that kernel threads did on other processors, their shootdowns apart: these
    /// interrupt the program.
    pub fn background_work(&self) -> Work {
        self.background
    }

    /// As [`Self::change`], by a kernel thread on another processor.
    ///
    /// # Errors
    /// As there.
    pub fn change_in_background(
        &mut self,
        act: impl FnOnce(&mut Kernel, &mut Vec<Update>) -> Result<(), perforate_os::OsError>,
    ) -> Result<(), SimError> {
        let before = self.kernel.work();
        let result = self.change(act);
        self.background += (self.kernel.work() - before).apart_from_shootdowns();
        result
    }

    /// The operating system.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// What the program asks of the operating system.
    ///
    /// # Errors
    /// Out of memory, simulated or of the host, or a change that the oracle refuses.
    pub fn event(&mut self, event: &ProgramEvent) -> Result<(), SimError> {
        self.host_memory.check(event)?;
        self.change(|kernel, updates| kernel.event(event, updates))
    }

    /// Lets `act` change the kernel, then brings tables, TLBs and oracle up to date.
    ///
    /// # Errors
    /// What the kernel said, or a change that the oracle refuses.
    pub fn change<T>(
        &mut self,
        act: impl FnOnce(&mut Kernel, &mut Vec<Update>) -> Result<T, perforate_os::OsError>,
    ) -> Result<T, SimError> {
        self.updates.clear();
        let outcome = act(&mut self.kernel, &mut self.updates);
        self.publish()?;
        self.mmu.switch(self.kernel.current());
        outcome.map_err(|source| SimError::Os {
            scheme: self.scheme.into(),
            instruction: self.instruction,
            source,
        })
    }

    fn publish(&mut self) -> Result<(), SimError> {
        for update in &self.updates {
            if let (Some(oracle), Update::Change(change)) = (&mut self.oracle, update) {
                oracle.apply(change).map_err(|source| SimError::Oracle {
                    scheme: self.scheme.into(),
                    seed: self.seed,
                    instruction: self.instruction,
                    source,
                })?;
            }
            self.mmu.apply(update);
        }
        Ok(())
    }

    /// Translates an access of the running process, with page faults served. `None` for an access
    /// that the operating system refuses (it would kill the program); such accesses are counted.
    ///
    /// # Errors
    /// Out of memory, or a disagreement with the oracle.
    #[inline]
    pub fn translate(
        &mut self,
        kind: AccessKind,
        address: VirtualAddress,
    ) -> Result<Option<Translated>, SimError> {
        if address.value() >= USER_END {
            self.refused += 1;
            return Ok(None);
        }
        match self.mmu.translate(kind, address, &mut self.steps) {
            Ok(translated) if self.oracle.is_none() => Ok(Some(translated)),
            result => self.settle(kind, address, result),
        }
    }

    /// Checks a translation or serves its page fault, until the access succeeds. Apart from
    /// [`Self::translate`], so that its loop and the references it takes do not slow down the
    /// plain case.
    #[cold]
    #[inline(never)]
    fn settle(
        &mut self,
        kind: AccessKind,
        address: VirtualAddress,
        mut result: Result<Translated, PageFault>,
    ) -> Result<Option<Translated>, SimError> {
        for _ in 0..FAULTS_PER_ACCESS {
            self.check(kind, address, &result)?;
            match result {
                Ok(translated) => return Ok(Some(translated)),
                Err(_) if !self.serve_fault(kind, address)? => return Ok(None),
                Err(_) => result = self.mmu.translate(kind, address, &mut self.steps),
            }
        }
        self.check(kind, address, &result)?;
        result.map(Some).map_err(|fault| self.stuck(kind, address, fault))
    }

    /// Has the operating system serve the page fault of an access; returns whether the access may
    /// be tried again.
    #[cold]
    #[inline(never)]
    fn serve_fault(&mut self, kind: AccessKind, address: VirtualAddress) -> Result<bool, SimError> {
        let space = self.kernel.current();
        let page = address.page();
        let outcome = self.change(|kernel, updates| kernel.fault(space, page, kind, updates))?;
        self.refused += u64::from(outcome == FaultOutcome::Segfault);
        Ok(outcome == FaultOutcome::Mapped)
    }

    #[cold]
    fn stuck(&self, kind: AccessKind, address: VirtualAddress, fault: PageFault) -> SimError {
        SimError::StuckFault {
            scheme: self.scheme.into(),
            seed: self.seed,
            instruction: self.instruction,
            kind,
            address,
            fault,
        }
    }

    #[cold]
    #[inline(never)]
    fn check(
        &mut self,
        kind: AccessKind,
        address: VirtualAddress,
        result: &Result<Translated, PageFault>,
    ) -> Result<(), SimError> {
        let Some(oracle) = &mut self.oracle else { return Ok(()) };
        let space: SpaceId = self.kernel.current();
        let got = result.map(|translated| translated.physical).ok();
        oracle.check(space, address, kind, got).map_err(|source| SimError::Disagreement {
            scheme: self.scheme.into(),
            seed: self.seed,
            instruction: self.instruction,
            source,
        })
    }

    /// Figures of the operating system and the translation hardware.
    pub fn record(&self, instructions: u64, out: &mut Counters) {
        self.mmu.record(instructions, out);
        self.kernel.counters(out);
        out.count("accesses_refused", self.refused);
    }
}
