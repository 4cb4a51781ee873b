//! The run loop: instructions in, cycles and counts out.

mod block;
mod clock;
mod finish;
mod model;
mod timed_windows;

use std::sync::Arc;

use perforate_mmu::L2Contents;
use perforate_records::Region;
use perforate_schemes::segment;
use perforate_timing::{Core, Processors, Shootdown};
use perforate_types::{
    AccessKind, Chunk, Counter, Counters, Instruction, MemoryAccess, PageSize, PhysicalAddress,
    ProgramEvent, StepLists, VirtualAddress, figures, registered,
};

use crate::background::Alarms;
use crate::effort::WorkLimit;
use crate::memory_history::MemoryHistory;
use crate::mode_switching::ModeSwitcher;
use crate::placed::{SchemeSetup, host_alarms};
use crate::sampled::Schedule;
use crate::samples::Samples;
use crate::stretches::{PartCounts, RunParts};
use crate::system::{SentShootdowns, SystemOptions};
use crate::{Composition, Machine, MemoryState, ProcessorOptions, SimError, System, TimedWindows};

use clock::Clock;
use model::{Cycles, Functional, Interrupts, Model, Warming};
use timed_windows::TimedRun;

pub(crate) use finish::{Figures, counters};

/// Initial interval in instructions, and largest number, of samples of the second-level TLB's
/// contents. When the number is reached, every second sample is dropped and the interval doubles.
const TLB_SAMPLES: (u64, usize) = (50_000, 128);
const LINE_BYTES: u64 = 64;

/// Options of a simulation: timing model, operating system and warm-up.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// True if the run counts events only, without a timing model.
    pub functional: bool,
    /// Options of the operating system, and of the checks by the oracle.
    pub system: SystemOptions,
    /// Number of instructions before measuring starts, not counting the program's set-up phase.
    pub warmup: u64,
}

/// Simulation of one scheme on one machine, with its own memory. [`Self::run`] feeds it
/// instructions.
pub struct Simulation {
    system: System,
    clock: Option<Clock>,
    machine: Machine,
    options: RunOptions,
    /// Number of instructions executed, including the warm-up.
    done: u64,
    /// Name of the phase that ends the program's set-up. `None` once this phase has begun, or if
    /// there is no set-up.
    setup_until: Option<&'static str>,
    /// Number of instructions in the program's set-up.
    setup: u64,
    /// Number of instructions executed when measuring started; `None` before.
    measured_from: Option<u64>,
    /// Virtual address of the last fetched line of code, divided by the line size.
    fetch_line: u64,
    /// Samples of the second-level TLB's contents over time (P Fig. 8).
    samples: Samples<L2Contents>,
    memory: MemoryHistory,
    host_memory: Option<MemoryHistory>,
    alarms: Alarms,
    host_alarms: Alarms,
    modes: Option<ModeSwitcher>,
    stretches: RunParts,
    /// State of sampled timing; `None` if all instructions are timed, or the run has no timing model.
    timed: Option<TimedRun>,
    effort: WorkLimit,
    /// True if the program's operating system uses direct segments.
    has_segments: bool,
    /// True if translation takes no time (scheme `free`).
    is_free: bool,
    /// Perforated pages when the process last exited or called exec; the result shows these if the
    /// final process has none.
    regions: Vec<Region>,
}

/// Position in a chunk of instructions: index of the next instruction, access and event.
#[derive(Clone, Copy, Default)]
struct Position {
    instruction: usize,
    access: usize,
    event: usize,
}

impl Simulation {
    /// Creates a simulation that has not run, with an empty memory.
    ///
    /// # Errors
    /// The machine cannot exist, or the memory is too small for the kernel's tables.
    pub fn new(
        machine: &Machine,
        composition: impl Into<Composition>,
        memory: &MemoryState,
        seed: u64,
        options: RunOptions,
    ) -> Result<Self, SimError> {
        let composition = composition.into();
        let one_core = ProcessorOptions::default().topology();
        machine.check_host_memory(one_core, 1, options.functional)?;
        let system = System::new(machine, composition, memory, seed, options.system)?;
        let clock = if options.functional {
            None
        } else {
            machine.check_memory(&composition, memory)?;
            Some(Clock::new(Core::new(&machine.timing(), system.mmu().slots())?))
        };
        Ok(Self {
            system,
            clock,
            machine: machine.clone(),
            options,
            done: 0,
            setup_until: None,
            setup: 0,
            measured_from: None,
            fetch_line: u64::MAX,
            samples: Samples::new(TLB_SAMPLES.0, TLB_SAMPLES.1),
            memory: MemoryHistory::new(composition.host.map(|_| "guest")),
            host_memory: composition.host.map(|_| MemoryHistory::new(Some("host"))),
            alarms: Alarms::new(&composition.own.kernel_options(memory)),
            host_alarms: host_alarms(&composition, memory),
            modes: ModeSwitcher::new(&composition, memory),
            stretches: RunParts::new(!options.functional, 0),
            timed: None,
            effort: WorkLimit::new(memory),
            has_segments: segment::is_used_by(composition.own),
            is_free: composition.is_free(),
            regions: Vec::new(),
        })
    }

    /// Excludes the first `instructions` of each window of a sampled trace from the statistics of
    /// the windows. Call before the first instruction runs.
    pub(crate) fn with_window_warmup(self, instructions: u64) -> Self {
        let stretches = RunParts::new(!self.options.functional, instructions);
        Self { stretches, ..self }
    }

    /// Enables sampled timing: only windows are timed. Before each window, at least `warmup` instructions are
    /// timed but not counted. The seed determines the places of the windows. No effect without a timing
    /// model. Call before the first instruction runs.
    pub fn with_timed_windows(self, windows: TimedWindows, warmup: u64, seed: u64) -> Self {
        let schedule = Schedule::new(windows, warmup, seed);
        let timed = self.clock.is_some().then(|| TimedRun::new(schedule));
        Self { stretches: RunParts::new(false, 0), timed, ..self }
    }

    /// Delays the warm-up until the program announces `phase`. Call before the first instruction runs.
    pub(crate) fn with_setup_until(self, phase: Option<&'static str>) -> Self {
        Self { setup_until: phase, ..self }
    }

    /// Raises the limit on the operating system's work ([`WorkLimit`]) by what `instructions` skipped
    /// instructions allow, because their events are still carried out. Call before the first
    /// instruction runs.
    pub(crate) fn with_skipped(mut self, instructions: u64) -> Self {
        self.effort.skip(instructions);
        self
    }

    /// True if only windows are timed.
    pub(crate) fn has_timed_windows(&self) -> bool {
        self.timed.is_some()
    }

    /// Moves the timing model (the clock) to a separate thread, in parallel with the thread that
    /// translates. Results stay the same. No effect on functional runs. Call before the first
    /// instruction runs.
    ///
    /// # Errors
    /// [`SimError::Thread`] if the thread cannot be started.
    pub fn with_clock_thread(self) -> Result<Self, SimError> {
        let clock = self.clock.map(Clock::on_own_thread).transpose().map_err(SimError::Thread)?;
        Ok(Self { clock, ..self })
    }

    /// Distributes the programs' threads over several hardware threads. Call before the first
    /// instruction runs.
    ///
    /// # Errors
    /// [`SimError::Config`] for more than 64 hardware threads.
    pub fn with_hardware_threads(mut self, options: &ProcessorOptions) -> Result<Self, SimError> {
        self.system.set_processors(options)?;
        if !options.are_several() {
            return Ok(self);
        }
        if self.clock.is_some() {
            let slots = self.system.mmu().slots();
            let all = Processors::new(&self.machine.timing(), options.topology(), slots)?;
            self.clock = Some(Clock::Several(Box::new(all)));
        }
        Ok(self)
    }

    /// Omits maps of physical memory from the result.
    pub(crate) fn without_maps(self) -> Self {
        let memory = self.memory.without_maps();
        let host_memory = self.host_memory.map(MemoryHistory::without_maps);
        Self { memory, host_memory, ..self }
    }

    /// Returns the operating system and translation hardware.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// Returns the operating system and translation hardware, mutable, for changes between chunks.
    pub fn system_mut(&mut self) -> &mut System {
        &mut self.system
    }

    /// Attaches a timing model, a core with empty caches, so that the instructions from now on take
    /// simulated time.
    ///
    /// # Errors
    /// The machine cannot exist.
    pub fn start_clock(&mut self) -> Result<(), SimError> {
        let core = Core::new(&self.machine.timing(), self.system.mmu().slots())?;
        self.clock = Some(Clock::new(core));
        Ok(())
    }

    /// Removes the timing model: the instructions from now on are executed and counted, but not
    /// timed.
    pub fn stop_clock(&mut self) {
        self.clock = None;
    }

    /// Resets the counts of hardware and operating system, and the cycles.
    pub fn reset_counts(&mut self) {
        self.system.start_measuring();
        if let Some(clock) = &mut self.clock {
            clock.start_measuring();
        }
    }

    /// Ends the run, and returns the operating system and translation hardware in their final
    /// state.
    pub fn into_system(self) -> System {
        self.system
    }

    /// Runs a chunk of instructions.
    ///
    /// # Errors
    /// The simulated memory is exhausted, or a translation differs from the oracle's.
    pub fn run(&mut self, chunk: &Chunk) -> Result<(), SimError> {
        if let Some(Clock::Threaded(thread)) = &mut self.clock {
            thread.set_chunk(Arc::new(chunk.clone()));
        }
        self.run_chunk(chunk)
    }

    /// Runs a chunk that other simulations share. In contrast to [`Self::run`], a clock thread
    /// needs no copy of the chunk.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_shared(&mut self, chunk: &Arc<Chunk>) -> Result<(), SimError> {
        if let Some(Clock::Threaded(thread)) = &mut self.clock {
            thread.set_chunk(Arc::clone(chunk));
        }
        self.run_chunk(chunk)
    }

    fn run_chunk(&mut self, chunk: &Chunk) -> Result<(), SimError> {
        if self.samples.is_due(self.done) {
            self.samples.add(self.done, self.system.mmu().l2_contents());
        }
        self.memory.observe(self.done, self.system.kernel());
        if let (Some(memory), Some(host)) = (&mut self.host_memory, self.system.hypervisor()) {
            memory.observe(self.done, host.kernel());
        }
        self.system.at_instruction(self.done);
        let mut rest = Position::default();
        if let Some(phase) = self.setup_until
            && let Some(start) = chunk.phase_start(phase)
        {
            self.run_until(chunk, &mut rest, start)?;
            (self.setup_until, self.setup) = (None, self.done);
            self.system.start_run();
        }
        if self.measured_from.is_none() && self.setup_until.is_none() {
            let warm_from = self.setup.saturating_add(self.options.warmup);
            let warmup = usize::try_from(warm_from.saturating_sub(self.done));
            let end = rest.instruction.saturating_add(warmup.unwrap_or(usize::MAX));
            self.run_until(chunk, &mut rest, chunk.instructions.len().min(end))?;
            if self.done >= warm_from {
                self.start_measuring();
            }
        }
        self.run_until(chunk, &mut rest, chunk.instructions.len())?;
        for (_, event) in &chunk.events[rest.event..] {
            if let ProgramEvent::Gap { .. } = event {
                self.clock.iter_mut().for_each(Clock::drain);
                let tally = self.tally_at_rest();
                self.stretches.gap(&tally);
            }
            self.event(event, self.done)?;
            self.clock = match self.clock.take() {
                Some(Clock::Several(mut all)) => {
                    self.sync_threads(all.as_mut());
                    Some(Clock::Several(all))
                }
                other => other,
            };
        }
        Ok(())
    }

    /// Returns the counts of cycles, TLB misses and page walks since measuring started, and
    /// `instructions`, the number of instructions since the run began. `cycles` are the timing
    /// model's counts.
    fn tally(&self, cycles: Cycles, instructions: u64) -> PartCounts {
        let Cycles { all: cycles, translation, translation_stall } = cycles;
        let counters = self.system.mmu().counters();
        let (l2_tlb_misses, walks) = (counters.l2_misses, counters.walks);
        PartCounts {
            instructions,
            cycles,
            translation_cycles: translation,
            translation_stall_cycles: translation_stall,
            l2_tlb_misses,
            walks,
        }
    }

    /// Returns the run's counts at this moment, between two instructions: instructions since the
    /// run began; cycles, TLB misses and page walks since measuring started.
    fn tally_at_rest(&mut self) -> PartCounts {
        let cycles = self.clock.as_mut().map(Clock::cycles).unwrap_or_default();
        self.tally(cycles, self.done)
    }

    /// Runs the instructions of a chunk from `position` up to instruction number `end` (exclusive).
    fn run_until(
        &mut self,
        chunk: &Chunk,
        position: &mut Position,
        end: usize,
    ) -> Result<(), SimError> {
        if self.timed.is_some() {
            return self.run_in_phases(chunk, position, end);
        }
        // The clock is taken out so that the loop is compiled once for each model.
        let Some(mut clock) = self.clock.take() else {
            return self.run_with(&mut Functional, chunk, position, end);
        };
        let outcome = match &mut clock {
            Clock::Inline(core) => self.run_with(core.as_mut(), chunk, position, end),
            Clock::Threaded(thread) => self.run_with(thread, chunk, position, end),
            Clock::Several(all) => self.run_with(all.as_mut(), chunk, position, end),
        };
        self.clock = Some(clock);
        outcome
    }

    fn start_measuring(&mut self) {
        self.measured_from = Some(self.done);
        // With several threads, the clock lags behind the run loop by up to `lead` instructions.
        let lead = self.system.topology().map_or(0, |topology| topology.lead);
        self.stretches.start_measuring(self.done.saturating_add(lead));
        self.reset_counts();
        self.await_first_window();
        self.memory.start_measuring(self.done, self.system.kernel());
        if let (Some(memory), Some(host)) = (&mut self.host_memory, self.system.hypervisor()) {
            memory.start_measuring(self.done, host.kernel());
        }
    }

    fn run_with<M: Model>(
        &mut self,
        model: &mut M,
        chunk: &Chunk,
        position: &mut Position,
        end: usize,
    ) -> Result<(), SimError> {
        let mut accesses = &chunk.accesses[position.access..];
        let done_before = position.instruction;
        while position.instruction < end {
            let now = self.done + (position.instruction - done_before) as u64;
            if now >= self.next_alarm() {
                self.fetch_line = u64::MAX;
                self.alarms.ring(now, &mut self.system)?;
                self.host_alarms.ring_host(now, &mut self.system)?;
                if let Some(modes) = &mut self.modes {
                    modes.ring(now, &mut self.system)?;
                }
                self.sync_threads(model);
            }
            if now >= self.stretches.next() {
                let tally = self.tally(model.cycles_so_far(), now);
                self.stretches.reach(&tally);
            }
            let until_alarm = self.next_alarm().min(self.stretches.next()) - now;
            let until_alarm = usize::try_from(until_alarm).unwrap_or(usize::MAX);
            let mut next = end.min(position.instruction.saturating_add(until_alarm));
            if let Some((at, event)) = chunk.events.get(position.event) {
                if *at as usize <= position.instruction {
                    if matches!(event, ProgramEvent::Gap { .. }) {
                        // The next instructions come from another part of the program.
                        model.drain();
                        let tally = self.tally(model.cycles_so_far(), now);
                        self.stretches.gap(&tally);
                    }
                    self.event(event, now)?;
                    self.sync_threads(model);
                    position.event += 1;
                    continue;
                }
                next = next.min(*at as usize);
            }
            if now == 0 {
                if self.has_segments {
                    self.system.make_primary_region()?;
                }
                self.system.start_run();
            }
            let instructions = &chunk.instructions[position.instruction..next];
            accesses = self.run_undisturbed(model, instructions, accesses)?;
            position.instruction = next;
        }
        self.done += (end - done_before) as u64;
        position.access = chunk.accesses.len() - accesses.len();
        Ok(())
    }

    /// Returns the instruction before which a kernel thread of guest or host wakes next, or the
    /// policy of direct segments runs next.
    fn next_alarm(&self) -> u64 {
        let modes = self.modes.as_ref().map_or(u64::MAX, ModeSwitcher::next);
        self.alarms.next().min(self.host_alarms.next()).min(modes)
    }

    /// Runs `instructions`, between which no event occurs. `accesses` begins with their accesses;
    /// returns the rest, which belong to later instructions.
    fn run_undisturbed<'a, M: Model>(
        &mut self,
        model: &mut M,
        instructions: &[Instruction],
        mut accesses: &'a [MemoryAccess],
    ) -> Result<&'a [MemoryAccess], SimError> {
        for instruction in instructions {
            let line = instruction.ip.value() / LINE_BYTES;
            if line != self.fetch_line {
                self.fetch_line = line;
                self.fetch(model, instruction.ip)?;
            }
            model.begin(instruction);
            if instruction.accesses > 0 {
                let (own, later) = accesses.split_at(usize::from(instruction.accesses));
                accesses = later;
                for access in own {
                    self.access(model, access)?;
                }
            }
            model.finish(instruction);
            if M::HAS_THREADS && self.system.has_sent_shootdowns() {
                self.sync_threads(model);
            }
        }
        Ok(accesses)
    }

    /// Passes pending shootdowns and the number of the current hardware thread to the timing model.
    #[cold]
    fn sync_threads<M: Model>(&mut self, model: &mut M) {
        for sent in self.system.take_shootdowns() {
            model.shoot_down(&self.interrupts(&sent));
        }
        model.run_on(self.system.hardware_thread());
    }

    /// Converts shootdowns to interrupts with durations in cycles. The machine file states the
    /// sender's whole wait, so the delivery of an interrupt takes this time less the time in the
    /// interrupt handler.
    fn interrupts(&self, sent: &SentShootdowns) -> Interrupts {
        let costs = &self.machine.operating_system;
        let cycles = |ns: f64| (ns * self.machine.core.frequency_ghz).round() as u32;
        let entries_ns = sent.entries as f64 * costs.invalidate_entry_ns;
        let flushes_ns = sent.flushes as f64 * costs.flush_space_ns;
        let exit_ns = if sent.is_of_host { costs.vm_exit_ns } else { 0.0 };
        let invalidation_ns = (entries_ns + flushes_ns) / sent.batches as f64;
        let entry_ns = costs.interrupt_handler_ns;
        Interrupts {
            is_waited_for: sent.sender.is_some(),
            batches: sent.batches,
            each: Shootdown {
                targets: sent.targets,
                delivery_cycles: cycles(
                    (costs.synchronize_ns + costs.interrupt_ns - entry_ns).max(0.0),
                ),
                interrupt_cycles: cycles(costs.interrupt_ns),
                handler_cycles: cycles(entry_ns + exit_ns + invalidation_ns),
            },
        }
    }

    #[cold]
    fn event(&mut self, event: &ProgramEvent, at: u64) -> Result<(), SimError> {
        self.fetch_line = u64::MAX;
        if self.timed.is_some() && matches!(event, ProgramEvent::Gap { .. }) {
            return Err(SimError::SampledTwice);
        }
        if let ProgramEvent::Exec | ProgramEvent::Exit { .. } = event {
            self.regions = self.perforated_regions();
        }
        self.effort.add(self.system.kernel().effort_of(event), at)?;
        self.system.event(event)
    }

    /// Translates the fetch of the code line that contains `ip`, and passes it to the timing model.
    /// No effect for address 0, which means that the trace omits the code.
    #[inline]
    fn fetch<M: Model>(&mut self, model: &mut M, ip: VirtualAddress) -> Result<(), SimError> {
        if ip.value() == 0 {
            return Ok(());
        }
        if let Some(found) = self.system.translate(AccessKind::Fetch, ip)? {
            model.fetch(found.physical, found.slot, self.steps());
        }
        Ok(())
    }

    /// Returns the hardware's steps (look-ups, memory reads and fills) of the last translation; empty if
    /// translation is free.
    #[inline]
    fn steps(&self) -> StepLists<'_> {
        if self.is_free { StepLists::default() } else { self.system.steps().into() }
    }

    #[inline]
    fn access<M: Model>(&mut self, model: &mut M, access: &MemoryAccess) -> Result<(), SimError> {
        let in_page = PageSize::Size4K.bytes() - access.address.offset(PageSize::Size4K);
        if u64::from(access.size) <= in_page {
            return self.access_in_page(model, access);
        }
        self.access_across_pages(model, access)
    }

    /// Splits an access that crosses pages into one access per page, each with its translation.
    #[cold]
    #[inline(never)]
    fn access_across_pages<M: Model>(
        &mut self,
        model: &mut M,
        access: &MemoryAccess,
    ) -> Result<(), SimError> {
        let mut rest = *access;
        while rest.size > 0 {
            let in_page = PageSize::Size4K.bytes() - rest.address.offset(PageSize::Size4K);
            let size = u64::from(rest.size).min(in_page) as u16;
            self.access_in_page(model, &MemoryAccess { size, ..rest })?;
            rest.address = VirtualAddress::new(rest.address.value().wrapping_add(size.into()));
            rest.size -= size;
        }
        Ok(())
    }

    #[inline]
    fn access_in_page<M: Model>(
        &mut self,
        model: &mut M,
        access: &MemoryAccess,
    ) -> Result<(), SimError> {
        let Some(found) = self.system.translate(access.kind, access.address)? else {
            return Ok(());
        };
        let steps = self.steps();
        if access.kind == AccessKind::Write {
            model.store(found.physical, access.size, found.slot, steps);
        } else {
            model.load(found.physical, access.size, found.slot, steps);
        }
        Ok(())
    }

    /// Returns the number of instructions executed so far, including the warm-up.
    pub fn instructions(&self) -> u64 {
        self.done
    }

    /// Drains the pipeline, and returns the cycles since measuring started; `None` without a timing model.
    pub fn cycles(&mut self) -> Option<u64> {
        let clock = self.clock.as_mut()?;
        clock.drain();
        Some(clock.cycles().all)
    }
}
