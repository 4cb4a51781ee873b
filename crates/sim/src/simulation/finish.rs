//! Results of a finished run.

use std::ops::Not;

use perforate_os::Span;
use perforate_records::{ContentsPoint, EntryCounts, HardwareThread, MemoryMap, Sampled, Series};
use perforate_schemes::perforated::{PerforatedPage, PerforatedRadix};

use super::*;
use crate::energy::{self, Activity};
use crate::operating_system::WorkCycles;
use crate::warmup::Slices;

/// Largest number of perforated pages shown in a result.
const REGION_PICTURES: usize = 6;

/// Results of one scheme's run.
pub(crate) struct Figures {
    pub(crate) instructions: u64,
    pub(crate) cycles: Option<u64>,
    /// Statistics of each hardware thread; empty with one thread.
    pub(crate) threads: Vec<HardwareThread>,
    pub(crate) counters: Counters,
    /// Cycles of the operating system's work in the measured part; `None` without a timing model.
    work_cycles: Option<WorkCycles>,
    /// Cycles of the operating system's work in the whole run, and the run's instructions. `None`
    /// if the trace has no map events, because then pages are mapped in the warm-up or in the
    /// measured part, whichever touches them first.
    work_of_run: Option<(WorkCycles, u64)>,
    pub(crate) series: Series,
    pub(crate) regions: Vec<Region>,
    pub(crate) memory_maps: Vec<MemoryMap>,
    pub(crate) mode_transitions: Vec<String>,
    /// Counts in equal slices of the measured part, for the check of the warm-up and the batches in
    /// results.
    pub(crate) slices: Slices,
    /// Counts in the windows of a sampled trace or of sampled timing.
    pub(crate) windows: Vec<PartCounts>,
}

impl Figures {
    /// Records instructions per cycle including the operating system's work; for a sampled trace,
    /// those of the whole program. Pages that the program first touches between windows fault in a
    /// later window, so the windows contain more of this work than their own instructions cause.
    pub(crate) fn record_speed(&mut self, sampled: Option<&Sampled>) {
        let (Some(work), Some(cycles)) = (self.work_cycles, self.cycles) else { return };
        let measured = (self.instructions, cycles);
        let whole = sampled.and_then(|sampled| {
            let cycles = sampled.extrapolated.get("cycles")?.mean.round() as u64;
            Some((sampled.instructions_represented, cycles))
        });
        let program = whole.unwrap_or(measured);
        work.record(program, &mut self.counters);
        if let Some((work, instructions)) = self.work_of_run {
            // A sampled trace represents more instructions than it contains.
            let represented = program.0 as f64 / self.instructions as f64;
            let instructions = (instructions as f64 * represented).round() as u64;
            work.record_whole(instructions, program, &mut self.counters);
        }
    }
}

impl Simulation {
    /// Returns the perforated pages to show: the current ones, or the last ones if there are none.
    pub(super) fn perforated_regions(&self) -> Vec<Region> {
        let perforated: Option<&PerforatedRadix> = self.system.own_tables().part();
        let pages = perforated.map(PerforatedRadix::perforated_pages).unwrap_or_default();
        match pages.is_empty() {
            true => self.regions.clone(),
            false => pages.iter().take(REGION_PICTURES).map(region).collect(),
        }
    }

    /// Ends the run, and returns all counters, including cycles and instructions per cycle.
    ///
    /// # Errors
    /// [`SimError::WarmupTooLong`] if the run ended before measuring began.
    pub fn into_counters(self) -> Result<Counters, SimError> {
        let mut figures = self.finish()?;
        figures.record_speed(None);
        Ok(figures.counters)
    }

    /// Ends the run and collects its results.
    pub(crate) fn finish(mut self) -> Result<Figures, SimError> {
        let Some(from) = self.measured_from.filter(|&from| from < self.done) else {
            let (warmup, instructions) = (self.options.warmup, self.done);
            return Err(SimError::WarmupTooLong { warmup, instructions });
        };
        let instructions = self.done - from;
        let timed_windows =
            self.timed.is_some().then(|| self.finish_windows(instructions)).transpose()?;
        if let Some(clock) = &mut self.clock {
            clock.drain();
        }
        let (end, regions) = (self.tally_at_rest(), self.perforated_regions());
        let (slices, windows) = self.stretches.finish(&end);
        let windows = timed_windows.unwrap_or(windows);
        self.samples.add(self.done, self.system.mmu().l2_contents());
        let (memory, mut memory_maps) = self.memory.finish(self.done, self.system.kernel());
        if let (Some(host_memory), Some(host)) = (self.host_memory, self.system.hypervisor()) {
            memory_maps.extend(host_memory.finish(self.done, host.kernel()).1);
        }
        let mut counters = Counters::default();
        self.system.record_of(Span::Run, instructions, &mut counters);
        let core = self.clock.map(Clock::end);
        if core.as_ref().is_some_and(|core| core.cycles() == 0) {
            return Err(SimError::NothingTimed { instructions });
        }
        if let Some(core) = &core {
            core.counters(&mut counters);
            let translations = self.system.mmu().counters();
            let (data, fetches) = (translations.l1_accesses, translations.l1_instruction_accesses);
            let mut accesses = core.translation_accesses();
            if self.system.mmu().has_unit_beside_l1() {
                accesses.segment_checks += data + fetches;
            }
            let activity = Activity {
                data_translations: data,
                fetch_translations: fetches,
                accesses,
                cycles: core.cycles(),
            };
            energy::record(&self.machine, &activity, &mut counters);
        }
        let frequency_ghz = self.machine.core.frequency_ghz;
        let costs = &self.machine.operating_system;
        let measured = self.system.measured_work();
        let work_cycles = costs.record(&measured, frequency_ghz, core.is_some(), &mut counters);
        let work_of_run = self.options.system.implicit_maps.not().then(|| {
            let cycles = costs.program_cycles(&self.system.work_of_run(), frequency_ghz);
            (cycles, self.done - self.setup)
        });
        let threads = core.as_ref().map(clock::Ended::threads).unwrap_or_default();
        if core.is_some() {
            counters.record(SHOOTDOWNS, &sum(&threads));
        }
        let contents: Vec<(u64, L2Contents)> = self.samples.into_points().collect();
        L2Contents::record(&measured_contents(&contents, from), &mut counters);
        let contents = contents.into_iter();
        let l2_tlb_contents =
            contents.map(|(instruction, contents)| contents_point(instruction, contents)).collect();
        Ok(Figures {
            instructions,
            threads,
            cycles: core.as_ref().map(clock::Ended::cycles),
            counters,
            work_cycles,
            work_of_run,
            series: Series { l2_tlb_contents, memory },
            regions,
            memory_maps,
            mode_transitions: self.modes.as_ref().map(ModeSwitcher::log).unwrap_or_default(),
            slices,
            windows,
        })
    }
}

figures! {
    static SHOOTDOWNS: HardwareThread, "Shootdowns between hardware threads" {
        /// Batches of shootdowns that hardware threads sent to others and waited for. Zero with one
        /// hardware thread: the machine file's costs of shootdowns are then reported apart from the
        /// steady state.
        shootdowns_waited_for, "shootdowns waited for", Count, Table: |it| it.shootdowns_waited_for;
        /// Cycles in which hardware threads waited for shootdowns, summed over threads. The run's
        /// cycles include them.
        shootdown_wait_cycles, "cycles of waiting for shootdowns", Cycles, Table:
            |it| it.shootdown_wait_cycles;
        /// Interrupts of hardware threads for shootdowns, including those by kernel threads on
        /// other processors.
        shootdown_interrupts, "interrupts for shootdowns", Count, Table: |it| it.shootdown_interrupts;
        /// Cycles in which hardware threads answered shootdowns, summed over threads. The run's
        /// cycles include them.
        shootdown_interrupt_cycles, Cycles, Listed: |it| it.shootdown_interrupt_cycles;
    }
}

/// Returns the descriptions of the counters of shootdowns between hardware threads.
pub(crate) fn counters() -> Vec<Counter> {
    registered(SHOOTDOWNS)
}

/// Returns the sums of the shootdown counts over all hardware threads.
fn sum(threads: &[HardwareThread]) -> HardwareThread {
    let mut sum = HardwareThread::default();
    for thread in threads {
        sum.shootdowns_waited_for += thread.shootdowns_waited_for;
        sum.shootdown_wait_cycles += thread.shootdown_wait_cycles;
        sum.shootdown_interrupts += thread.shootdown_interrupts;
        sum.shootdown_interrupt_cycles += thread.shootdown_interrupt_cycles;
    }
    sum
}

/// Returns the samples of the second-level TLB's contents in the measured part. The last sample, at
/// the end of the run, is used only if it is the only one, because the TLB has no entries of a
/// program that has exited.
fn measured_contents(points: &[(u64, L2Contents)], from: u64) -> Vec<L2Contents> {
    let (last, others) = points.split_last().expect("the end is a sample");
    let measured = others.iter().filter(|(instruction, _)| *instruction >= from);
    let measured: Vec<L2Contents> = measured.map(|(_, contents)| *contents).collect();
    if measured.is_empty() { vec![last.1] } else { measured }
}

/// Converts contents of the second-level TLB to the format of results files.
fn contents_point(instruction: u64, contents: L2Contents) -> ContentsPoint {
    let entries = contents.by_kind().map(|(kind, entries)| (kind.to_owned(), entries));
    ContentsPoint { instruction, entries: EntryCounts(entries.into()) }
}

/// Converts a perforated page to the format of results files.
fn region(page: &PerforatedPage) -> Region {
    Region {
        page: format!("{:#x}", page.page.address()),
        filter: page.filter.into(),
        holes: page.holes.words().into(),
        allocated: page.allocated.words().into(),
        ..Region::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns statistics of a thread, with a different number in each field.
    fn thread(factor: u64) -> HardwareThread {
        HardwareThread {
            core: 0,
            instructions: factor,
            cycles: 2 * factor,
            idle_cycles: 3 * factor,
            translation_stall_cycles: 4 * factor,
            shootdowns_waited_for: 5 * factor,
            shootdown_wait_cycles: 6 * factor,
            shootdown_interrupts: 7 * factor,
            shootdown_interrupt_cycles: 8 * factor,
        }
    }

    #[test]
    fn every_counter_of_shootdowns_is_the_sum_over_threads() {
        let mut counters = Counters::default();
        counters.record(SHOOTDOWNS, &sum(&[thread(1), thread(10), thread(100)]));
        assert_eq!(counters.iter().count(), 4);
        let expected = [
            ("shootdowns_waited_for", 555.0),
            ("shootdown_wait_cycles", 666.0),
            ("shootdown_interrupts", 777.0),
            ("shootdown_interrupt_cycles", 888.0),
        ];
        for (name, value) in expected {
            assert_eq!(counters.get(name), Some(value), "{name}");
        }
    }

    /// A window of 100 instructions that took 1000 cycles stands for 20 times as many. The program waits for
    /// 1000 cycles of work in the measured part, and 2000 in the run of 150 instructions.
    #[test]
    fn speeds_of_a_sample_are_those_of_the_whole_program() {
        use crate::OperatingSystemCosts;
        use crate::sampled::{Population, estimate};
        let costs = OperatingSystemCosts { map_ns: 1.0, ..OperatingSystemCosts::default() };
        let cycles = |pages_mapped| {
            let work = perforate_os::Work { pages_mapped, ..Default::default() };
            let background = perforate_os::Work::default();
            let program = crate::operating_system::ProgramWork {
                work,
                background,
                host: None,
                interrupts: None,
            };
            costs.program_cycles(&program, 1.0)
        };
        let figures = |is_timed: bool, has_events: bool| Figures {
            instructions: 100,
            cycles: is_timed.then_some(1_000),
            threads: Vec::new(),
            counters: Counters::default(),
            work_cycles: is_timed.then(|| cycles(1_000)),
            work_of_run: has_events.then(|| (cycles(2_000), 150)),
            series: Series::default(),
            regions: Vec::new(),
            memory_maps: Vec::new(),
            mode_transitions: Vec::new(),
            slices: Slices::new(true),
            windows: Vec::new(),
        };
        let window = PartCounts { instructions: 100, cycles: 1_000, ..PartCounts::default() };
        let sampled = estimate(&[window], Population::Program, 0, 2_000);
        let get = |mut figures: Figures, sampled: Option<&Sampled>| {
            figures.record_speed(sampled);
            let names = ["cycles_with_operating_system", "ipc_with_operating_system"];
            let whole = ["whole_run_cycles", "whole_run_ipc", "whole_run_operating_system_cycles"];
            [&names[..], &whole].concat().into_iter().map(|it| figures.counters.get(it)).collect()
        };
        let all: Vec<Option<f64>> = get(figures(true, true), None);
        let ratio = |one: f64, other: f64| Some(one / other);
        let expected = [Some(2e3), ratio(100.0, 2e3), Some(3.5e3), ratio(150.0, 3.5e3), Some(2e3)];
        assert_eq!(all, expected);
        let all: Vec<Option<f64>> = get(figures(true, true), sampled.as_ref());
        let expected = [Some(21e3), ratio(2e3, 21e3), Some(32e3), ratio(3e3, 32e3), Some(2e3)];
        assert_eq!(all, expected);
        let all: Vec<Option<f64>> = get(figures(true, false), None);
        assert_eq!(all, [Some(2e3), ratio(100.0, 2e3), None, None, None]);
        let all: Vec<Option<f64>> = get(figures(false, true), None);
        assert_eq!(all, [None; 5]);
    }

    /// Contents of the TLB are those of the measured part, except at its end.
    #[test]
    fn contents_are_of_the_measured_part() {
        let samples = |moments: &[u64]| -> Vec<(u64, L2Contents)> {
            moments.iter().map(|&moment| (moment, L2Contents::default())).collect()
        };
        let count = |moments: &[u64], from| measured_contents(&samples(moments), from).len();
        assert_eq!(count(&[0, 50, 100, 150], 50), 2);
        assert_eq!(count(&[0, 50, 100, 150], 51), 1);
        assert_eq!(count(&[0, 50, 100, 150], 101), 1, "only the end");
        assert_eq!(count(&[150], 0), 1);
    }
}
