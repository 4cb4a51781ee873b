//! Operating system, memory-management unit and oracle of one scheme, and the connections between
//! them.

mod host;
mod modes;
mod population;
mod shootdowns;

use std::mem;

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
use crate::placed::SchemeSetup;
use crate::wiring::{Connections, Side, Wiring};
use crate::{Composition, Machine, MemoryState, SimError};
pub(crate) use host::counter as host_counter;
use shootdowns::Hardware;
pub(crate) use shootdowns::SentShootdowns;

/// Largest number of page faults of one access; after more, the page counts as stuck. A large page
/// may have to be split, or a hole mapped, before the access succeeds. In a guest, the host may
/// have to back each of the guest's tables, the page, its holes and their tables, and make each
/// writable.
const FAULTS_PER_ACCESS: u32 = 4;
const FAULTS_PER_GUEST_ACCESS: u32 = 64;

/// End of the user half of the 48-bit address space. Higher addresses belong to the kernel or are
/// not canonical, so programs may not access them.
const USER_END: u64 = 1 << 47;

/// Options of a [`System`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemOptions {
    /// True to compare every translation with the oracle.
    pub check: bool,
    /// True to map any unmapped page on its first access, for traces without map events.
    pub implicit_maps: bool,
    /// True to count the memory reads of translations without listing their steps (look-ups and reads), which
    /// only a timing model needs.
    pub counts_only: bool,
}

/// An operating system with its memory, and its translation hardware. If virtualized, it is the guest's
/// operating system, which runs on a hypervisor.
///
/// Operating systems and hardware exchange data only through the system. A page fault goes to the kernel,
/// whose updates come back to the tables, the TLBs and the oracle, in order. A fault in the host's page
/// tables goes to the hypervisor in the same way.
pub struct System {
    pub(crate) kernel: Kernel,
    pub(crate) hypervisor: Option<Hypervisor>,
    pub(crate) mmu: Mmu,
    pub(crate) connections: Connections,
    oracles: Option<Oracles>,
    /// Updates of the last operation of the kernel or the host's kernel.
    pub(crate) updates: Vec<Update>,
    steps: Steps,
    scheme: String,
    seed: u64,
    instruction: u64,
    /// Number of accesses that the operating systems refused since measuring started.
    refused: u64,
    /// Work of the operating systems from the creation of the system to the start of measuring.
    measured_from: Account,
    /// Work of the operating systems from the creation of the system to the start of the run.
    run_from: Account,
    host_memory: HostMemory,
    /// Work of the kernel's threads on other processors.
    background: Work,
    /// Exits of the virtual machine, and parts of its host's work, such as the first backing of
    /// memory. The field `work` is unused, because the host's kernel counts all of its work.
    pub(crate) host: HostWork,
    hardware: Hardware,
    /// Frames of tables other than page tables, such as range tables, that the guest's kernel has written and
    /// that the host may not have backed yet.
    written_tables: Vec<Frame>,
    /// Guest tables that the walker read in the last checked translation, with their physical
    /// frames.
    located: Vec<(GuestFrame, Frame)>,
}

impl System {
    /// Creates a system with an empty memory.
    ///
    /// # Errors
    /// The memory is too small for the kernel's tables, the machine cannot exist, or its TLBs
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

    /// Creates a system as [`Self::new`] does. `wiring` observes, and may alter, what the operating
    /// systems send to the hardware; `None` connects them directly.
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
        let kernel = own.kernel(machine, memory, seed, options.implicit_maps).map_err(failed)?;
        let hypervisor =
            host::hypervisor(&composition, &kernel, (machine, memory), seed).map_err(failed)?;
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
            system.change_host(|host| host.kernel_mut().proceed())?;
        }
        Ok(system)
    }

    /// Sets the number of instructions executed, for error messages.
    pub fn at_instruction(&mut self, instruction: u64) {
        self.instruction = instruction;
    }

    /// Returns the hardware's steps in the last translation.
    #[inline]
    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    /// Returns the memory-management unit.
    pub fn mmu(&self) -> &Mmu {
        &self.mmu
    }

    /// Returns the memory-management unit, mutable.
    pub fn mmu_mut(&mut self) -> &mut Mmu {
        &mut self.mmu
    }

    /// Starts measuring: resets the counts of hardware and operating systems.
    pub fn start_measuring(&mut self) {
        self.mmu.reset_counters();
        self.measured_from = self.account();
        (self.hardware.interrupts, self.refused) = (0, 0);
    }

    /// Starts the program's run. Earlier work does not count, such as mapping the memory that the
    /// program had before its recording began.
    pub(crate) fn start_run(&mut self) {
        self.run_from = self.account();
    }

    /// Returns the work of the operating systems since the system was created.
    pub(super) fn account(&self) -> Account {
        let host = self.hypervisor.as_ref().map(|host| host.kernel().work());
        let host = HostWork { work: host.unwrap_or_default(), ..self.host };
        Account { work: self.kernel.work(), background: self.background, host }
    }

    /// Returns the work of the operating systems since measuring started.
    pub(crate) fn measured_work(&self) -> ProgramWork {
        self.work_since(self.measured_from)
    }

    /// Returns the work of the operating systems since the run began, including the warm-up.
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

    /// Returns the work of the program's operating system since measuring started.
    pub fn work(&self) -> Work {
        self.kernel.work() - self.measured_from.work
    }

    /// Lets `act`, a kernel thread on another processor, change the kernel, then updates tables,
    /// TLBs and oracle. The work counts as background work.
    ///
    /// # Errors
    /// As [`Self::change`].
    pub fn change_in_background(
        &mut self,
        act: impl FnOnce(&mut Kernel) -> Result<(), perforate_os::OsError>,
    ) -> Result<(), SimError> {
        let (before, exits) = (self.kernel.work(), self.host.exits);
        let result =
            self.in_background(|system| system.change(act).and_then(|()| system.prepare()));
        let work = self.kernel.work() - before;
        self.background += self.apart_from_sent(work);
        self.host.background_exits += self.host.exits - exits;
        result
    }

    /// Calls `act` as a kernel thread on another processor: no hardware thread waits for the
    /// shootdowns that it sends.
    fn in_background<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        self.hardware.is_background = true;
        let result = act(self);
        self.hardware.is_background = false;
        result
    }

    /// Returns the part of a kernel thread's work for which the program does not wait: all but the
    /// shootdowns, or all if the interrupted hardware threads are simulated.
    fn apart_from_sent(&self, work: Work) -> Work {
        if self.hardware.are_several() { work } else { work.apart_from_shootdowns() }
    }

    /// Returns the guest tables that the walker read in the last translation, with their physical
    /// frames; empty without the oracle.
    pub(crate) fn located_tables(&self) -> &[(GuestFrame, Frame)] {
        &self.located
    }

    /// Returns the oracle of the operating system's mappings; `None` if translations are not
    /// checked.
    pub fn oracle(&self) -> Option<&Oracle> {
        self.oracles.as_ref().map(Oracles::own)
    }

    /// Returns the oracle of the host's mappings; `None` for a native system, or if translations
    /// are not checked.
    pub fn host_oracle(&self) -> Option<&Oracle> {
        self.oracles.as_ref().and_then(Oracles::host)
    }

    /// Returns the kernel of the program's operating system; the guest's when virtualized.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Lets `act` change the kernel, then updates tables, TLBs and oracle.
    ///
    /// # Errors
    /// The kernel fails, or the oracle refuses an update.
    pub fn change<T>(
        &mut self,
        act: impl FnOnce(&mut Kernel) -> Result<T, perforate_os::OsError>,
    ) -> Result<T, SimError> {
        self.updates.clear();
        let before = self.hardware.are_several().then(|| self.kernel.work());
        let outcome = act(&mut self.kernel);
        mem::swap(self.kernel.updates(), &mut self.updates);
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
                oracles.apply(update).map_err(|source| SimError::Oracle {
                    scheme: self.scheme.clone(),
                    seed: self.seed,
                    instruction: self.instruction,
                    source,
                })?;
            }
            self.hardware.note_shootdown(update);
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

    /// Translates an access of the running process and serves its page faults. Returns `None` for an
    /// access that the operating system refuses, where a real one would kill the program; such accesses
    /// are counted.
    ///
    /// # Errors
    /// The simulated memory is exhausted, or a translation differs from the oracle's.
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

    /// Checks a translation or serves its page fault, until the access succeeds. This code is separate
    /// from [`Self::translate`] because its loop and references would slow down accesses without a
    /// fault.
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
            self.show_attempt(kind, address, &result);
            self.check(kind, address, &result)?;
            match result {
                Ok(translated) => return Ok(Some(translated)),
                Err(fault) if !self.serve(kind, address, fault)? => return Ok(None),
                Err(_) => {}
            }
            result = self.mmu.translate(kind, address, &mut self.steps);
        }
        self.show_attempt(kind, address, &result);
        self.check(kind, address, &result)?;
        result.map(Some).map_err(|fault| self.stuck(kind, address, fault))
    }

    /// Passes an attempt to translate to the [`Wiring`], where a test can compare it with a model.
    fn show_attempt(
        &mut self,
        kind: AccessKind,
        address: VirtualAddress,
        result: &Result<Translated, PageFault>,
    ) {
        let attempt = Attempt { kind, address, result, steps: &self.steps };
        self.connections.translated(&attempt, &self.mmu);
    }

    /// Lets the responsible kernel or hypervisor serve a fault. Returns true if the access may be
    /// retried.
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
        let served = self.oracles.as_mut().map_or(Ok(()), Oracles::end_fault);
        served.map_err(|source| self.disagree(source))?;
        Ok(again)
    }

    /// Lets the operating system serve a page fault. Returns true if the access may be retried.
    #[cold]
    #[inline(never)]
    pub(crate) fn serve_fault(
        &mut self,
        kind: AccessKind,
        address: VirtualAddress,
    ) -> Result<bool, SimError> {
        let space = self.kernel.current();
        let page = address.page();
        let outcome = self.change(|kernel| kernel.fault(space, page, kind))?;
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

    /// Records the current counters of the operating systems and the translation hardware.
    pub fn record(&self, instructions: u64, out: &mut Counters) {
        self.record_of(Span::Moment, instructions, out);
    }

    /// Records the counters of the operating systems and the translation hardware. For quantities
    /// that rise and fall, such as mapped memory, `span` selects the current value or the peak.
    pub(crate) fn record_of(&self, span: Span, instructions: u64, out: &mut Counters) {
        self.mmu.counters().record(instructions, out);
        self.mmu.record_sideband(out);
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
        /// Peak size of the shadow page tables.
        shadow_table_bytes, Bytes, Listed: |(tables, _)| *tables as u64 * 4096;
        /// Peak number of entries in the shadow page tables.
        shadow_entries, Count, Listed: |(_, entries)| *entries as u64;
    }

    static REFUSED: System, "Memory" {
        /// Accesses that the simulated kernel refused; a real one would have killed the program.
        accesses_refused, Count, Listed: |it| it.refused;
    }
}

/// Returns the descriptions of the system's counters, without those of kernels and hardware.
pub(crate) fn counters() -> Vec<Counter> {
    [registered(REFUSED), registered(SHADOW)].concat()
}
