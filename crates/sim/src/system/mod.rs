//! One scheme's operating system, memory-management unit and oracle, wired together.

mod host;
mod modes;
mod population;
mod shootdowns;

use perforate_mmu::{Attempt, Mmu, PageFault, Translated};
use perforate_oracle::{Disagreement, Oracle};
use perforate_os::{FaultOutcome, Hypervisor, Kernel, Span, Work};
use perforate_schemes::segment;
use perforate_types::{
    AccessKind, Counter, Counters, Frame, GuestFrame, Steps, Update, VirtualAddress, figures,
    registered,
};

use crate::exits::{Account, HostWork};
use crate::host_memory::HostMemory;
use crate::operating_system::ProgramWork;
use crate::oracles::{Access, GuestTables, Oracles};
use crate::placed::Placed;
use crate::wiring::{Connections, Side, Wiring};
use crate::{Composition, Machine, MemoryState, SimError};
pub(crate) use host::counter as host_counter;
use shootdowns::Hardware;
pub(crate) use shootdowns::Sent;

/// Faults one access may take before its page counts as stuck: a large page may have to be
/// split or a hole mapped before the access itself succeeds. In a guest each of its tables may
/// have to be backed first, be made writable, and so may the page, its holes and their tables.
const FAULTS_PER_ACCESS: u32 = 4;
const FAULTS_PER_GUEST_ACCESS: u32 = 64;

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
    pub(crate) connections: Connections,
    oracles: Option<Oracles>,
    pub(crate) updates: Vec<Update>,
    /// Of the shadow tables, under shadow paging.
    pub(crate) shadow_updates: Vec<Update>,
    steps: Steps,
    scheme: String,
    seed: u64,
    instruction: u64,
    refused: u64,
    /// Account of all work when measuring started.
    measured_from: Account,
    /// Account of all work when the run began.
    run_from: Account,
    host_memory: HostMemory,
    /// Work of the kernel on other processors.
    background: Work,
    /// Work of the host, that of its kernel apart, which keeps its own account.
    pub(crate) host: HostWork,
    hardware: Hardware,
    /// Tables of mechanisms that a guest's kernel has written and the host may not have backed.
    written_tables: Vec<Frame>,
    /// Where tables of the guest were located in the last translation that was checked.
    located: Vec<(GuestFrame, Frame)>,
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
        Self::wired(machine, composition.into(), memory, seed, options, None)
    }

    /// The same with somebody between operating systems and hardware.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn wired(
        machine: &Machine,
        composition: Composition,
        memory: &MemoryState,
        seed: u64,
        options: SystemOptions,
        wiring: Option<Box<dyn Wiring>>,
    ) -> Result<Self, SimError> {
        let mut connections = Connections(wiring);
        let scheme = composition.name();
        composition.in_hardware().try_for_each(|scheme| scheme.check_machine(machine))?;
        composition.own.check_superpages(memory)?;
        if let Some(host) = composition.host {
            let checked = host.check_superpages(&memory.host());
            checked.map_err(|error| error.under("host"))?;
        }
        let Composition { own, .. } = composition;
        let failed = |source| SimError::Os { scheme: scheme.clone(), instruction: 0, source };
        let kernel = own.kernel(memory, seed, options.implicit_maps).map_err(failed)?;
        let hypervisor = host::hypervisor(&composition, &kernel, memory, seed).map_err(failed)?;
        let host_memory = HostMemory::new(own, memory, kernel.config());
        let sides = (&kernel, hypervisor.as_ref());
        let dimension =
            host::dimension(&composition, sides, machine, options.check, &mut connections);
        let mmu = host::mmu(&composition, machine);
        let mmu = Mmu::new(&mmu, connections.behind_tlbs(dimension)).map_err(|error| {
            SimError::Machine { name: machine.name.clone(), problem: error.to_string() }
        })?;
        let tables = GuestTables::new(&kernel);
        let virtual_machine = hypervisor.as_ref().map(|host| (host.space(), tables));
        let mut system = Self {
            kernel,
            hypervisor,
            mmu,
            connections,
            oracles: options.check.then(|| Oracles::new(virtual_machine)),
            updates: Vec::new(),
            shadow_updates: Vec::new(),
            steps: if options.counts_only { Steps::counts_only() } else { Steps::new() },
            scheme,
            seed,
            instruction: 0,
            refused: 0,
            measured_from: Account::default(),
            run_from: Account::default(),
            host_memory,
            background: Work::default(),
            host: HostWork::default(),
            hardware: Hardware::default(),
            written_tables: Vec::new(),
            located: Vec::new(),
        };
        system.mmu.switch(system.kernel.current());
        // Under shadow paging no hardware reads the guest's bitmap.
        let is_nested = composition.host.is_some() && !composition.is_shadowed();
        if is_nested && !composition.host.is_some_and(segment::is_used_by) {
            system.register_guest_bitmap()?;
        }
        while system.hypervisor().is_some_and(|host| host.kernel().has_work_in_advance()) {
            system.change_host(Hypervisor::proceed)?;
        }
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
        self.measured_from = self.account();
        self.hardware.interrupts = 0;
    }

    /// The program's run begins: memory that it had before is there.
    pub(crate) fn start_run(&mut self) {
        self.run_from = self.account();
    }

    /// Work of operating systems since the system was made.
    pub(super) fn account(&self) -> Account {
        let host = self.hypervisor.as_ref().map(|host| host.kernel().work());
        let host = HostWork { work: host.unwrap_or_default(), ..self.host };
        Account { work: self.kernel.work(), background: self.background, host }
    }

    /// Work of operating systems since measuring started.
    pub(crate) fn measured_work(&self) -> ProgramWork {
        self.work_since(self.measured_from)
    }

    /// Work of operating systems since the run began, the warm-up's included.
    pub(crate) fn work_of_run(&self) -> ProgramWork {
        self.work_since(self.run_from)
    }

    fn work_since(&self, before: Account) -> ProgramWork {
        let account = self.account() - before;
        ProgramWork {
            work: account.work,
            background: account.background,
            host: self.host_part(&account),
            interrupts: self.shootdown_interrupts(),
        }
    }

    /// Work of the program's operating system since measuring started.
    pub fn work(&self) -> Work {
        self.kernel.work() - self.measured_from.work
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
        self.hardware.is_background = true;
        let result = self.change(act).and_then(|()| self.prepare());
        self.hardware.is_background = false;
        let work = self.kernel.work() - before;
        self.background += self.apart_from_sent(work);
        self.host.background_exits += self.host.exits - exits;
        result
    }

    /// What of a kernel thread's work takes the program no time. Its shootdowns do, unless the hardware
    /// threads that they interrupt are simulated.
    fn apart_from_sent(&self, work: Work) -> Work {
        if self.hardware.are_several() { work } else { work.apart_from_shootdowns() }
    }

    /// Where tables of the guest lay that the last translation looked for; with the oracle only.
    pub(crate) fn located_tables(&self) -> &[(GuestFrame, Frame)] {
        &self.located
    }

    /// What is true of the operating system's mapping, if every translation is checked.
    pub fn oracle(&self) -> Option<&Oracle> {
        self.oracles.as_ref().map(Oracles::own)
    }

    /// What is true of the host's mapping, if there is one and every translation is checked.
    pub fn host_oracle(&self) -> Option<&Oracle> {
        self.oracles.as_ref().and_then(Oracles::host)
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
        let before = self.hardware.are_several().then(|| self.kernel.work());
        let outcome = act(&mut self.kernel, &mut self.updates);
        self.publish()?;
        if let Some(before) = before {
            self.send_shootdowns(before, false);
        }
        self.mmu.switch(self.kernel.current());
        outcome.map_err(|source| SimError::Os {
            scheme: self.scheme.clone(),
            instruction: self.instruction,
            source,
        })
    }

    fn publish(&mut self) -> Result<(), SimError> {
        let shadows = self.hypervisor.as_ref().and_then(Hypervisor::shadow_tables).is_some();
        for index in 0..self.updates.len() {
            let update = &self.updates[index];
            if let Some(oracles) = &mut self.oracles {
                oracles.hear(update).map_err(|source| SimError::Oracle {
                    scheme: self.scheme.clone(),
                    seed: self.seed,
                    instruction: self.instruction,
                    source,
                })?;
            }
            self.hardware.hear(update);
            self.connections.deliver(Side::Own, update, &mut self.mmu);
            if self.hypervisor.is_some()
                && let Update::Format(operation) = update
            {
                self.written_tables.extend(operation.table());
            }
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
            self.show(kind, address, &result);
            self.check(kind, address, &result)?;
            match result {
                Ok(translated) => return Ok(Some(translated)),
                Err(fault) if !self.serve(kind, address, fault)? => return Ok(None),
                Err(_) => {}
            }
            result = self.mmu.translate(kind, address, &mut self.steps);
        }
        self.show(kind, address, &result);
        self.check(kind, address, &result)?;
        result.map(Some).map_err(|fault| self.stuck(kind, address, fault))
    }

    /// Shows an attempt to translate to the model of hardware state, if a test has connected one.
    fn show(
        &mut self,
        kind: AccessKind,
        address: VirtualAddress,
        result: &Result<Translated, PageFault>,
    ) {
        let attempt = Attempt { kind, address, result, steps: &self.steps };
        self.connections.translated(&attempt, &self.mmu);
    }

    /// Has whoever is to blame serve a fault; returns whether the access may be tried again.
    fn serve(
        &mut self,
        kind: AccessKind,
        address: VirtualAddress,
        fault: PageFault,
    ) -> Result<bool, SimError> {
        let again = match fault {
            PageFault::Host(fault) => self.serve_host_fault(fault)?,
            PageFault::Incomplete => self.serve_shadow_fault(kind, address)?,
            PageFault::NotMapped | PageFault::Protection => self.serve_fault(kind, address)?,
        };
        let served = self.oracles.as_mut().map_or(Ok(()), Oracles::served);
        served.map_err(|source| self.disagree(source))?;
        Ok(again)
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
        self.prepare()?;
        self.refused += u64::from(outcome == FaultOutcome::Segfault);
        Ok(outcome == FaultOutcome::Mapped)
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
        outcome.map_err(|source| self.disagree(source))
    }

    fn disagree(&self, source: Disagreement) -> SimError {
        let (scheme, seed, instruction) = (self.scheme.clone(), self.seed, self.instruction);
        SimError::Disagreement { scheme, seed, instruction, source }
    }

    /// Figures of the operating system and the translation hardware at this moment.
    pub fn record(&self, instructions: u64, out: &mut Counters) {
        self.record_of(Span::Moment, instructions, out);
    }

    /// The same; of what comes and goes, for this span.
    pub(crate) fn record_of(&self, span: Span, instructions: u64, out: &mut Counters) {
        self.mmu.record(instructions, out);
        self.kernel.counters_of(span, out);
        if let Some(shadow) = self.hypervisor.as_ref().and_then(Hypervisor::shadow_tables) {
            let now = (shadow.tables(), shadow.entries());
            out.record(SHADOW, &if span == Span::Run { shadow.most() } else { now });
        }
        out.record(REFUSED, self);
        perforate_schemes::complete(out);
        self.record_host(span, out);
    }
}

figures! {
    static SHADOW: (usize, usize), "Shadow paging" {
        /// Shadow tables, at most, under shadow paging.
        shadow_table_bytes, Bytes, Listed: |(tables, _)| *tables as u64 * 4096;
        /// Their entries, at most.
        shadow_entries, Count, Listed: |(_, entries)| *entries as u64;
    }

    static REFUSED: System, "Memory" {
        /// Accesses that the simulated kernel refused (it would have killed the program).
        accesses_refused, Count, Listed: |it| it.refused;
    }
}

/// The counters that a system has besides those of its parts.
pub(crate) fn counters() -> Vec<Counter> {
    [registered(REFUSED), registered(SHADOW)].concat()
}
