//! One scheme's operating system, memory-management unit and oracle, wired together.

mod population;

use perforate_mmu::{
    Dimension, Host, HostFault, Mmu, Nested, PageFault, RegisteredRun, Shadow, Translated,
};
use perforate_os::{FaultOutcome, Hypervisor, Kernel, ModePolicy, OsError, Side, Work};
use perforate_types::{
    AccessKind, Counters, Frame, GuestFrame, PageSize, Steps, Update, VirtualAddress,
};

use crate::exits::{Exits, HostWork};
use crate::host_memory::HostMemory;
use crate::oracles::{Access, GuestTables, Oracles};
use crate::{Composition, Machine, MemoryState, SimError};

/// Faults one access may take before its page counts as stuck: a large page may have to be
/// split or a hole mapped before the access itself succeeds. In a guest each of its tables may
/// have to be backed first, and be made writable.
const FAULTS_PER_ACCESS: u32 = 4;
const FAULTS_PER_GUEST_ACCESS: u32 = 16;

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

/// An operating system with its own memory, and the hardware that translates for it; when
/// virtualized, that is the guest's, and there is a hypervisor beneath.
///
/// The only back edge of the data flow: a page fault goes to the kernel, whose updates come back
/// to the tables, the TLBs and the oracle, in order. A violation of the nested page table goes to
/// the hypervisor likewise.
pub struct System {
    pub(crate) kernel: Kernel,
    pub(crate) hypervisor: Option<Hypervisor>,
    pub(crate) mmu: Mmu,
    oracles: Option<Oracles>,
    pub(crate) updates: Vec<Update>,
    /// Of the shadow tables, under shadow paging.
    pub(crate) shadow_updates: Vec<Update>,
    steps: Steps,
    scheme: String,
    seed: u64,
    instruction: u64,
    refused: u64,
    /// The kernel's account when measuring started.
    work_before: Work,
    host_memory: HostMemory,
    /// What of the work since then other processors did.
    background: Work,
    pub(crate) host: HostAccount,
    /// Where tables of the guest were located in the last translation that was checked.
    located: Vec<(GuestFrame, Frame)>,
}

/// What the hypervisor did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct HostAccount {
    /// Its kernel's account when measuring started.
    before: Work,
    /// Of the work since then, what other processors did.
    background: Work,
    /// Exits of the virtual machine since then, those apart that the guest's own work tells.
    pub(crate) exits: Exits,
    /// Those of them that kernel threads of the guest took on other processors.
    background_exits: Exits,
}

impl System {
    /// An empty memory under `scheme`.
    ///
    /// # Errors
    /// Memory too small for the kernel's own tables, an impossible machine, or one whose TLBs
    /// cannot hold the scheme's entries.
    pub fn new(
        machine: &Machine,
        composition: impl Into<Composition>,
        memory: &MemoryState,
        seed: u64,
        options: SystemOptions,
    ) -> Result<Self, SimError> {
        let composition = composition.into();
        let scheme = composition.name();
        composition.own.check_machine(machine)?;
        composition.host.map_or(Ok(()), |host| host.check_machine(machine))?;
        let Composition { own, .. } = composition;
        let failed = |source| SimError::Os { scheme: scheme.clone(), instruction: 0, source };
        let kernel = own.kernel(memory, seed, options.implicit_maps).map_err(failed)?;
        let hypervisor = composition.hypervisor(&kernel, memory, seed).map_err(failed)?;
        let host_memory = HostMemory::new(own, memory, kernel.config());
        let dimension = composition.dimension(&kernel, hypervisor.as_ref(), machine, options.check);
        let mmu = Mmu::new(&machine.mmu(), dimension, composition.variant()).map_err(|error| {
            SimError::Machine { name: machine.name.clone(), problem: error.to_string() }
        })?;
        let tables = GuestTables::new(kernel.hole_bitmap());
        let virtual_machine = hypervisor.as_ref().map(|host| (host.space(), tables));
        let mut system = Self {
            kernel,
            hypervisor,
            mmu,
            oracles: options.check.then(|| Oracles::new(virtual_machine)),
            updates: Vec::new(),
            shadow_updates: Vec::new(),
            steps: if options.counts_only { Steps::counts_only() } else { Steps::new() },
            scheme,
            seed,
            instruction: 0,
            refused: 0,
            work_before: Work::default(),
            host_memory,
            background: Work::default(),
            host: HostAccount::default(),
            located: Vec::new(),
        };
        system.mmu.switch(system.kernel.current());
        if composition.host.is_some_and(|host| !host.has_segments()) {
            system.register_guest_bitmap()?;
        }
        Ok(system)
    }

    /// Has the hypervisor back the guest's hole bitmap with contiguous memory, whose place a
    /// register says (P §V). Where the host has none, every read of the bitmap is translated. A
    /// host with a segment translates it by that.
    fn register_guest_bitmap(&mut self) -> Result<(), SimError> {
        let Some(bitmap) = self.kernel.hole_bitmap() else { return Ok(()) };
        let frames = self.kernel.end_frame().number();
        let pages = frames.div_ceil(8 * PageSize::Size4K.bytes());
        let first = GuestFrame::new(bitmap.page().number());
        let registered = self.change_host(|host, updates| {
            Ok(host.back_contiguously(first..first.add(pages), updates).ok())
        })?;
        if let Some(located) = registered {
            self.mmu.set_register(RegisteredRun { first, pages, located });
        }
        Ok(())
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
        let before = self.hypervisor.as_ref().map(|host| host.kernel().work());
        self.host = HostAccount { before: before.unwrap_or_default(), ..HostAccount::default() };
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
        let (before, exits) = (self.kernel.work(), self.host.exits);
        let result = self.change(act);
        self.background += (self.kernel.work() - before).apart_from_shootdowns();
        self.host.background_exits += self.host.exits - exits;
        result
    }

    /// What the hypervisor did since measuring started, and how often the virtual machine was left;
    /// `None` natively.
    pub fn host_work(&self) -> Option<HostWork> {
        let hypervisor = self.hypervisor.as_ref()?;
        let work = hypervisor.kernel().work() - self.host.before;
        let HostAccount { background, exits, background_exits, .. } = self.host;
        let exits = match hypervisor.shadow_tables() {
            Some(_) => exits.with_guest_work(&self.work()),
            None => exits,
        };
        Some(HostWork { work, background, exits, background_exits })
    }

    /// Where tables of the guest lay that the last translation looked for; with the oracle only.
    pub(crate) fn located_tables(&self) -> &[(GuestFrame, Frame)] {
        &self.located
    }

    /// The hypervisor, when virtualized.
    pub fn hypervisor(&self) -> Option<&Hypervisor> {
        self.hypervisor.as_ref()
    }

    /// The operating system; the guest's when virtualized.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
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
            scheme: self.scheme.clone(),
            instruction: self.instruction,
            source,
        })
    }

    /// Has the hypervisor do something to the virtual machine, and tells tables, TLBs and oracle of
    /// it.
    ///
    /// # Errors
    /// What the host's kernel says, or a change that the oracle refuses.
    ///
    /// # Panics
    /// In a native system.
    pub fn change_host<T>(
        &mut self,
        act: impl FnOnce(&mut Hypervisor, &mut Vec<Update>) -> Result<T, OsError>,
    ) -> Result<T, SimError> {
        let hypervisor = self.hypervisor.as_mut().expect("the system is virtualized");
        self.updates.clear();
        let outcome = act(hypervisor, &mut self.updates);
        for index in 0..self.updates.len() {
            self.publish_host(index)?;
        }
        outcome.map_err(|source| self.host_failure(source))
    }

    pub(crate) fn host_failure(&self, source: OsError) -> SimError {
        let (scheme, instruction) = (self.scheme.clone(), self.instruction);
        SimError::HostOs { scheme, instruction, source }
    }

    /// As [`Self::change_host`], by a kernel thread on another processor.
    ///
    /// # Errors
    /// As there.
    pub fn change_host_in_background(
        &mut self,
        act: impl FnOnce(&mut Hypervisor, &mut Vec<Update>) -> Result<(), OsError>,
    ) -> Result<(), SimError> {
        let work = |system: &Self| system.hypervisor().map(|host| host.kernel().work());
        let before = work(self).unwrap_or_default();
        let result = self.change_host(act);
        let after = work(self).unwrap_or_default();
        self.host.background += (after - before).apart_from_shootdowns();
        result
    }

    /// Has the policy of D Table III look after the segments of guest and host. What the balloon
    /// gave up for it goes back to the host, unless the host's segment holds it: giving up a part
    /// would end the segment.
    ///
    /// # Errors
    /// As [`Self::change_host`].
    pub(crate) fn step_modes(
        &mut self,
        policy: &mut ModePolicy,
        instruction: u64,
    ) -> Result<(), SimError> {
        let hypervisor = self.hypervisor.as_mut().expect("the system is virtualized");
        let (mut guest_updates, mut host_updates) = (Vec::new(), Vec::new());
        let (space, virtual_machine) = (self.kernel.current(), hypervisor.space());
        let before = (self.kernel.work(), hypervisor.kernel().work());
        let mut guest = Side { kernel: &mut self.kernel, space, updates: &mut guest_updates };
        let kernel = hypervisor.kernel_mut();
        let mut host = Side { kernel, space: virtual_machine, updates: &mut host_updates };
        let outcome = policy.step(instruction, &mut guest, &mut host);
        // Drivers and daemons on other processors do this.
        self.background += (self.kernel.work() - before.0).apart_from_shootdowns();
        let host_work = hypervisor.kernel().work() - before.1;
        self.host.background += host_work.apart_from_shootdowns();
        let has_segment = hypervisor.kernel().segment(virtual_machine).is_some();
        self.updates = guest_updates;
        self.publish()?;
        self.updates = host_updates;
        for index in 0..self.updates.len() {
            self.publish_host(index)?;
        }
        let given = outcome.map_err(|source| SimError::Os {
            scheme: self.scheme.clone(),
            instruction: self.instruction,
            source,
        })?;
        if given.is_empty() || has_segment {
            return Ok(());
        }
        self.change_host_in_background(|host, updates| host.take_back(&given, updates))
    }

    fn publish_host(&mut self, index: usize) -> Result<(), SimError> {
        let update = &self.updates[index];
        if let (Some(oracles), Update::Change(change)) = (&mut self.oracles, update) {
            oracles.apply_host(change).map_err(|source| SimError::Oracle {
                scheme: self.scheme.clone(),
                seed: self.seed,
                instruction: self.instruction,
                source,
            })?;
        }
        self.mmu.apply_host(update);
        self.follow_host(index);
        Ok(())
    }

    fn publish(&mut self) -> Result<(), SimError> {
        let shadows = self.mmu.shadow().is_some();
        for index in 0..self.updates.len() {
            let update = &self.updates[index];
            if let (Some(oracles), Update::Change(change)) = (&mut self.oracles, update) {
                oracles.apply(change).map_err(|source| SimError::Oracle {
                    scheme: self.scheme.clone(),
                    seed: self.seed,
                    instruction: self.instruction,
                    source,
                })?;
            }
            self.mmu.apply(update);
            if shadows {
                self.follow_guest(index);
            }
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
            Ok(translated) if self.oracles.is_none() => Ok(Some(translated)),
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
        let most = match self.hypervisor {
            None => FAULTS_PER_ACCESS,
            Some(_) => FAULTS_PER_GUEST_ACCESS,
        };
        for _ in 0..most {
            self.check(kind, address, &result)?;
            match result {
                Ok(translated) => return Ok(Some(translated)),
                Err(PageFault::Host(fault)) if !self.serve_host_fault(fault)? => return Ok(None),
                Err(PageFault::Shadow) if !self.serve_shadow_fault(kind, address)? => {
                    return Ok(None);
                }
                Err(PageFault::Host(_) | PageFault::Shadow) => {}
                Err(_) if !self.serve_fault(kind, address)? => return Ok(None),
                Err(_) => {}
            }
            result = self.mmu.translate(kind, address, &mut self.steps);
        }
        self.check(kind, address, &result)?;
        result.map(Some).map_err(|fault| self.stuck(kind, address, fault))
    }

    /// Has the operating system serve the page fault of an access; returns whether the access may
    /// be tried again.
    #[cold]
    #[inline(never)]
    pub(crate) fn serve_fault(
        &mut self,
        kind: AccessKind,
        address: VirtualAddress,
    ) -> Result<bool, SimError> {
        let space = self.kernel.current();
        let page = address.page();
        let outcome = self.change(|kernel, updates| kernel.fault(space, page, kind, updates))?;
        self.refused += u64::from(outcome == FaultOutcome::Segfault);
        Ok(outcome == FaultOutcome::Mapped)
    }

    /// Has the hypervisor serve a violation of the nested page table; returns whether the access may
    /// be tried again. One of a page that the virtual machine has not comes again, until the access
    /// counts as stuck: the guest has more frames than its host knows of. One that the host forbids
    /// (mprotect of the virtual machine's memory) is refused: KVM leaves the guest with EFAULT, and
    /// the guest cannot mend it.
    #[cold]
    #[inline(never)]
    fn serve_host_fault(&mut self, fault: HostFault) -> Result<bool, SimError> {
        self.host.exits.nested_fault += 1;
        self.has_host_back(fault)
    }

    /// Has the host's kernel back a page of the guest's memory. Returns whether it allows the
    /// access; one that it does not is counted.
    pub(crate) fn has_host_back(&mut self, fault: HostFault) -> Result<bool, SimError> {
        let outcome =
            self.change_host(|host, updates| host.fault(fault.page, fault.kind, updates))?;
        let exists = self.hypervisor.as_ref().is_some_and(|host| host.has_memory(fault.page));
        let refused = exists && outcome == FaultOutcome::Segfault;
        self.refused += u64::from(refused);
        Ok(!refused)
    }

    #[cold]
    fn stuck(&self, kind: AccessKind, address: VirtualAddress, fault: PageFault) -> SimError {
        SimError::StuckFault {
            scheme: self.scheme.clone(),
            seed: self.seed,
            instruction: self.instruction,
            kind,
            address,
            fault,
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn check(
        &mut self,
        kind: AccessKind,
        address: VirtualAddress,
        result: &Result<Translated, PageFault>,
    ) -> Result<(), SimError> {
        let Some(oracles) = &mut self.oracles else { return Ok(()) };
        let space = self.kernel.current();
        let mut outcome = oracles.check(Access { space, address, kind }, result);
        self.mmu.take_located(&mut self.located);
        for &(page, frame) in &self.located {
            outcome = outcome.and_then(|()| oracles.check_table(page, frame));
        }
        outcome.map_err(|source| SimError::Disagreement {
            scheme: self.scheme.clone(),
            seed: self.seed,
            instruction: self.instruction,
            source,
        })
    }

    /// Figures of the operating system and the translation hardware.
    pub fn record(&self, instructions: u64, out: &mut Counters) {
        self.mmu.record(instructions, out);
        self.kernel.counters(out);
        if let Some(shadow) = self.hypervisor.as_ref().and_then(Hypervisor::shadow_tables) {
            out.count("shadow_table_bytes", shadow.tables() as u64 * 4096);
            out.count("shadow_entries", shadow.entries() as u64);
        }
        out.count("accesses_refused", self.refused);
    }
}

impl Composition {
    /// A hypervisor with its own memory, when virtualized.
    fn hypervisor(
        &self,
        guest: &Kernel,
        memory: &MemoryState,
        seed: u64,
    ) -> Result<Option<Hypervisor>, OsError> {
        let Some(host) = self.host else { return Ok(None) };
        // The host's memory is another memory, fragmented in its own way.
        let kernel = host.kernel(&memory.host(), !seed, false)?;
        let hypervisor = Hypervisor::new(kernel, &guest.memory_slots())?;
        Ok(Some(match host.shadow_paging {
            true => hypervisor.with_shadow_paging(),
            false => hypervisor,
        }))
    }

    /// The page tables, those of the guest over those of the host when virtualized.
    fn dimension(
        &self,
        kernel: &Kernel,
        hypervisor: Option<&Hypervisor>,
        machine: &Machine,
        check: bool,
    ) -> Box<dyn Dimension> {
        let (variant, config) = (self.variant(), &machine.virtualization);
        let own = (self.own.dimension)(kernel, variant, config);
        let (Some(scheme), Some(hypervisor)) = (self.host, hypervisor) else { return own };
        let dimension = (scheme.dimension)(hypervisor.kernel(), variant, config);
        let mut host = Host::new(&machine.mmu(), dimension, variant, hypervisor.space());
        if check {
            host.note_located();
        }
        if scheme.shadow_paging {
            return Box::new(Shadow::new(own, host));
        }
        Box::new(Nested::new(own, host, variant))
    }
}
