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
        self.samples.add_if_due(self.done, || self.system.mmu().l2_contents());
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

#[cfg(test)]
mod tests {
    use perforate_types::{Backing, Permissions, ProcessId, ThreadId};

    use super::*;

    const START: u64 = 0x4000_0000;
    const CODE: u64 = 0x10_0000;

    fn simulation(scheme: &str, functional: bool, warmup: u64) -> Simulation {
        let machine = Machine::load(Machine::DEFAULT).unwrap();
        let system = SystemOptions { check: true, implicit_maps: false, counts_only: functional };
        let options = RunOptions { functional, system, warmup };
        let composition = Composition::find(scheme).unwrap();
        Simulation::new(&machine, composition, &MemoryState::of(256 << 20), 1, options).unwrap()
    }

    fn map(start: u64, pages: u64) -> ProgramEvent {
        ProgramEvent::Map {
            start: VirtualAddress::new(start),
            length: pages * 4096,
            permissions: Permissions::ALL,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: false,
        }
    }

    fn phase(name: &str) -> ProgramEvent {
        ProgramEvent::Phase { name: name.into(), figures: Vec::new() }
    }

    /// Writes to the first word of each page of `pages`.
    fn write(chunk: &mut Chunk, pages: std::ops::Range<u64>) {
        for page in pages {
            let (address, kind) = (VirtualAddress::new(START + page * 4096), AccessKind::Write);
            chunk.push(Instruction::default(), &[MemoryAccess { address, size: 8, kind }]);
        }
    }

    /// Chunks of ten instructions, each of which writes to a new page. The warm-up begins after the set-up,
    /// wherever that ends, and measuring after the warm-up; the whole run begins with the warm-up.
    #[test]
    fn measuring_starts_after_set_up_and_warm_up() {
        for (setup, warmup, expected) in [
            (None, 0, Some((40, 40))),
            (None, 10, Some((30, 40))),
            (None, 13, Some((27, 40))),
            (None, 39, Some((1, 40))),
            (None, 40, None),
            (Some(0), 3, Some((37, 40))),
            (Some(5), 0, Some((35, 35))),
            (Some(5), 3, Some((32, 35))),
            (Some(5), 5, Some((30, 35))),
            (Some(5), 12, Some((23, 35))),
            (Some(20), 20, None),
            (Some(20), 19, Some((1, 20))),
            (Some(41), 0, None),
        ] {
            let mut simulation =
                simulation("4k", true, warmup).with_setup_until(setup.map(|_| "run"));
            for number in 0..4 {
                let mut chunk = Chunk::default();
                if number == 0 {
                    chunk.push_event(map(START, 40));
                }
                for page in 10 * number..10 * number + 10 {
                    chunk.push_event(phase("other"));
                    if setup == Some(page) {
                        chunk.push_event(phase("run"));
                    }
                    write(&mut chunk, page..page + 1);
                }
                simulation.run(&chunk).unwrap();
            }
            assert_eq!(simulation.instructions(), 40);
            let case = format!("{setup:?}, {warmup}");
            let Some((measured, whole)) = expected else {
                let error = simulation.finish().err().expect("nothing was measured");
                assert!(
                    matches!(error, SimError::WarmupTooLong { instructions: 40, .. }),
                    "{case}"
                );
                continue;
            };
            assert_eq!(simulation.system().work_of_run().work.faults_4k, whole, "{case}");
            let figures = simulation.finish().unwrap();
            assert_eq!(figures.instructions, measured, "{case}");
            let get = |name| figures.counters.get(name).unwrap() as u64;
            assert_eq!(
                (get("work_faults_4k"), get("l1_tlb_accesses") >= measured),
                (measured, true)
            );
        }
    }

    /// A line of code is fetched once, until other code, an event or a thread of the kernel comes between.
    #[test]
    fn lines_of_code_are_fetched_once() {
        let fetches = |ips: &[u64], event_at: Option<usize>, options: &str| {
            let mut memory = MemoryState::of(256 << 20);
            let config = perforate_config::read::<perforate_os::KernelConfig>(options).unwrap();
            memory.kernel.khugepaged = config.khugepaged;
            let machine = Machine::load(Machine::DEFAULT).unwrap();
            let system = SystemOptions { check: true, implicit_maps: false, counts_only: true };
            let options = RunOptions { functional: true, system, warmup: 0 };
            let scheme = Composition::find("4k").unwrap();
            let mut simulation = Simulation::new(&machine, scheme, &memory, 1, options).unwrap();
            let mut chunk = Chunk::default();
            chunk.push_event(map(CODE, 1));
            for (index, ip) in ips.iter().enumerate() {
                if event_at == Some(index) {
                    chunk.push_event(phase("p"));
                }
                let ip = VirtualAddress::new(*ip);
                chunk.push(Instruction { ip, ..Instruction::default() }, &[]);
            }
            simulation.run(&chunk).unwrap();
            simulation.system().mmu().counters().l1_instruction_accesses
        };
        let line = [CODE, CODE + 60, CODE + 63];
        assert_eq!(fetches(&line, None, "default"), 1);
        assert_eq!(fetches(&[CODE, CODE + 64, CODE], None, "default"), 3);
        assert_eq!(fetches(&line, Some(1), "default"), 2);
        assert_eq!(fetches(&line, None, "khugepaged=every=1"), 3);
        assert_eq!(fetches(&line, None, "khugepaged=every=2"), 2);
        // Instructions without an address are not fetched.
        assert_eq!(fetches(&[CODE, 0, CODE], None, "default"), 2);
    }

    /// An access has a translation for each page that it touches, of its own kind.
    #[test]
    fn accesses_are_split_at_pages() {
        for (offset, size, pages) in
            [(0, 8, 1), (4088, 8, 1), (4089, 8, 2), (4095, 2, 2), (100, 4096, 2), (4000, 8289, 4)]
        {
            for kind in [AccessKind::Read, AccessKind::Write] {
                let mut simulation = simulation("4k", true, 0);
                let mut chunk = Chunk::default();
                chunk.push_event(map(START, 8));
                let address = VirtualAddress::new(START + offset);
                let access = MemoryAccess { address, size, kind };
                chunk.push(Instruction::default(), &[access]);
                simulation.run(&chunk).unwrap();
                let work = simulation.system().kernel().work();
                assert_eq!(work.faults_4k, pages, "{offset} {size}");
                // A page beyond the last is not touched, and a read leaves pages clean.
                let space = simulation.system().kernel().current();
                for page in 0..8 {
                    let first = VirtualAddress::new(START).page().add(page);
                    let leaf = simulation.system().own_tables().look_at(space, first);
                    let is_dirty = leaf.map(|leaf| leaf.allows & perforate_mmu::allow::DIRTY != 0);
                    let expected = (page < pages).then_some(kind == AccessKind::Write);
                    assert_eq!(is_dirty, expected, "{offset} {size}: page {page}");
                }
            }
        }
    }

    /// Events after the last instruction of a chunk are carried out; what a process had perforated when it
    /// ended is shown.
    #[test]
    fn events_at_the_end_are_carried_out() {
        let mut simulation = simulation("4k", false, 0);
        let mut chunk = Chunk::default();
        chunk.push_event(map(START, 8));
        write(&mut chunk, 0..3);
        let start = VirtualAddress::new(START);
        chunk.push_event(ProgramEvent::Unmap { start, length: 2 * 4096 });
        chunk.push_event(ProgramEvent::Fork { child: ProcessId(1) });
        let (process, thread) = (ProcessId(1), ThreadId(0));
        chunk.push_event(ProgramEvent::Switch { process, thread });
        simulation.run(&chunk).unwrap();
        let work = simulation.system().kernel().work();
        assert_eq!((work.pages_unmapped, work.forks, work.context_switches), (2, 1, 1));
        let first = simulation.cycles().unwrap();
        assert!(first > 0);
        simulation.reset_counts();
        assert_eq!(simulation.cycles(), Some(0));
        assert_eq!(simulation.system().work(), Default::default());
        simulation.stop_clock();
        assert_eq!(simulation.cycles(), None);
        chunk.clear();
        write(&mut chunk, 3..5);
        simulation.run(&chunk).unwrap();
        simulation.start_clock().unwrap();
        assert_eq!(simulation.cycles(), Some(0), "a new core");
        assert_eq!((simulation.instructions(), simulation.system().work().faults_4k), (5, 2));
    }

    /// Interrupts take as long as the machine file says, shared by the batches; no delivery takes less than
    /// nothing.
    #[test]
    fn interrupts_have_their_durations() {
        let mut simulation = simulation("4k", true, 0);
        simulation.machine.core.frequency_ghz = 2.0;
        let costs = &mut simulation.machine.operating_system;
        (costs.synchronize_ns, costs.interrupt_ns) = (900.0, 20.0);
        (costs.interrupt_handler_ns, costs.vm_exit_ns) = (100.0, 3_000.0);
        (costs.invalidate_entry_ns, costs.flush_space_ns) = (5.0, 7.0);
        let sent = SentShootdowns {
            sender: Some(0),
            targets: 0b110,
            batches: 2,
            entries: 4,
            flushes: 2,
            is_of_host: false,
        };
        let of = |simulation: &Simulation, sent: &SentShootdowns| {
            let Interrupts { is_waited_for, batches, each } = simulation.interrupts(sent);
            let cycles = (each.delivery_cycles, each.interrupt_cycles, each.handler_cycles);
            (is_waited_for, batches, each.targets, cycles)
        };
        let own = of(&simulation, &sent);
        assert_eq!(own, (true, 2, 0b110, (2 * 820, 2 * 20, 2 * (100 + 17))));
        let host = SentShootdowns { sender: None, is_of_host: true, ..sent };
        let of_host = of(&simulation, &host);
        assert_eq!(of_host, (false, 2, 0b110, (2 * 820, 2 * 20, 2 * (100 + 17 + 3_000))));
        simulation.machine.operating_system.interrupt_handler_ns = 10_000.0;
        assert_eq!(of(&simulation, &sent).3.0, 0);
    }

    /// Maps are of guest and host, from measuring on; the series of memory is the program's.
    #[test]
    fn maps_are_of_guest_and_host() {
        for (scheme, owners) in
            [("4k", vec![None]), ("4k+4k", vec![Some("guest".to_owned()), Some("host".to_owned())])]
        {
            for has_maps in [true, false] {
                let mut simulation = simulation(scheme, true, 3);
                if !has_maps {
                    simulation = simulation.without_maps();
                }
                let mut chunk = Chunk::default();
                chunk.push_event(map(START, 40));
                write(&mut chunk, 0..10);
                simulation.run(&chunk).unwrap();
                let figures = simulation.finish().unwrap();
                let mut of: Vec<_> = figures.memory_maps.iter().map(|map| map.of.clone()).collect();
                let moments: Vec<_> = figures
                    .memory_maps
                    .iter()
                    .filter(|map| map.of == owners[0])
                    .flat_map(|map| map.instructions.clone())
                    .collect();
                of.dedup();
                if has_maps {
                    assert_eq!((of, moments), (owners.clone(), vec![3, 10]), "{scheme}");
                } else {
                    assert!(of.is_empty());
                }
                let points = &figures.series.memory;
                let moments: Vec<u64> = points.iter().map(|point| point.instruction).collect();
                assert_eq!(moments, [0, 10]);
                let mapped: Vec<_> = points.iter().map(|point| point.mapped_bytes).collect();
                assert_eq!(mapped, [Some(0), Some(40_960)]);
                let contents = &figures.series.l2_tlb_contents;
                let moments: Vec<u64> = contents.iter().map(|point| point.instruction).collect();
                assert_eq!(moments, [0, 10]);
                let small = contents.iter().map(|point| point.entries.get("page_4k"));
                assert_eq!(small.collect::<Vec<_>>(), [Some(0), Some(10)]);
            }
        }
    }

    /// Windows of a sampled trace end at gaps, at the end of a chunk, too; each counts after its warm-up.
    #[test]
    fn windows_end_at_gaps() {
        for functional in [false, true] {
            let mut simulation = simulation("4k", functional, 2).with_window_warmup(3);
            let gap = || ProgramEvent::Gap { instructions: 1_000 };
            for number in 0..3 {
                let mut chunk = Chunk::default();
                if number == 0 {
                    chunk.push_event(map(START, 40));
                }
                write(&mut chunk, 10 * number..10 * number + 6);
                if number == 1 {
                    chunk.push_event(gap());
                }
                write(&mut chunk, 10 * number + 6..10 * number + 10);
                if number == 0 {
                    chunk.push_event(gap());
                }
                simulation.run(&chunk).unwrap();
            }
            let windows = simulation.finish().unwrap().windows;
            let counts: Vec<_> = windows.iter().map(|it| (it.instructions, it.walks)).collect();
            assert_eq!(counts, [(7, 7), (3, 3), (11, 11)]);
            assert_eq!(windows.iter().all(|it| it.cycles > 0), !functional);
        }
    }

    /// Sampled timing is of whole programs.
    #[test]
    fn a_sample_is_not_sampled_again() {
        let windows = TimedWindows { window: 5, period: 20 };
        let mut simulation = simulation("4k", false, 0).with_timed_windows(windows, 0, 1);
        assert!(simulation.has_timed_windows());
        let mut chunk = Chunk::default();
        chunk.push_event(map(START, 40));
        write(&mut chunk, 0..40);
        simulation.run(&chunk).unwrap();
        assert!(!simulation.timed_windows().is_empty());
        chunk.clear();
        chunk.push_event(ProgramEvent::Gap { instructions: 5 });
        let error = simulation.run(&chunk).unwrap_err();
        assert!(matches!(error, SimError::SampledTwice), "{error}");
    }

    /// Without a clock, windows and a thread for it have no effect.
    #[test]
    fn functional_runs_have_no_clock() {
        let windows = TimedWindows { window: 5, period: 20 };
        let functional = simulation("4k", true, 0).with_timed_windows(windows, 0, 1);
        assert!(!functional.has_timed_windows());
        let two = ProcessorOptions { cores: 2, ..ProcessorOptions::default() };
        let mut several = simulation("4k", true, 0)
            .with_clock_thread()
            .unwrap()
            .with_hardware_threads(&two)
            .unwrap();
        assert_eq!((several.cycles(), several.system().topology().is_some()), (None, true));
        let mut timed = simulation("4k", false, 0).with_hardware_threads(&two).unwrap();
        assert_eq!(timed.cycles(), Some(0));
        let one = simulation("4k", false, 0).with_hardware_threads(&ProcessorOptions::default());
        assert!(one.unwrap().system().topology().is_none());
        let many = ProcessorOptions { cores: 65, ..ProcessorOptions::default() };
        assert!(simulation("4k", true, 0).with_hardware_threads(&many).is_err());
    }

    /// Instructions are of the hardware thread to which the program switched, also at the end of a chunk.
    #[test]
    fn switches_at_the_end_of_a_chunk_hold_in_the_next() {
        let two = ProcessorOptions { cores: 2, ..ProcessorOptions::default() };
        let mut simulation = simulation("4k", false, 0).with_hardware_threads(&two).unwrap();
        let switch = |thread| {
            let (process, thread) = (ProcessId(0), ThreadId(thread));
            ProgramEvent::Switch { process, thread }
        };
        let mut chunk = Chunk::default();
        chunk.push_event(map(START, 40));
        write(&mut chunk, 0..3);
        chunk.push_event(switch(1));
        simulation.run(&chunk).unwrap();
        chunk.clear();
        write(&mut chunk, 3..8);
        chunk.push_event(switch(0));
        write(&mut chunk, 8..10);
        simulation.run(&chunk).unwrap();
        let figures = simulation.finish().unwrap();
        let instructions: Vec<u64> = figures.threads.iter().map(|it| it.instructions).collect();
        assert_eq!((instructions, figures.instructions), (vec![5, 5], 10));
        assert!(figures.cycles.is_some());
    }
}
