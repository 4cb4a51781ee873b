//! Predictions: the measured code is recorded, and simulated under each assumption.

use perforate_config::Size;
use perforate_os::{Ageing, Defrag, KernelConfig};
use perforate_record::{
    RecordError, RecordOptions, RecordSummary, Region, Selection, TemporaryTrace, record,
};
use perforate_sim::{
    Composition, Machine, MeasuringOptions, MemoryOptions, MemorySnapshot, MemoryState, Observer,
    Progress, ResolvedRun, RunResult, SimError, SizeOptions, WarmupLength, Workload,
};
use serde::Serialize;

use super::plan::{Assumption, Row};
use super::spread::Spread;
use super::verdict::{Verdict, farther, is_near};
use crate::benchmark::{Benchmark, Job, Paging, WorkerCommand};
use crate::counters::Rates;
use crate::{HostError, Reporter};

/// Minimum number of accesses to each cache line, if the caches can hold the benchmark's memory.
/// Half of the accesses warm up the caches.
const PASSES: u64 = 4;
/// Simulated memory in addition to the benchmark's, in bytes.
const MORE_MEMORY_BYTES: u64 = 512 << 20;

/// Source of a benchmark's or program's simulated instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A recording of the measured code.
    Recorded,
    /// A synthetic workload with the same access pattern, used without an emulator.
    Synthetic,
}

/// Simulated time and counters per unit of work: an operation of a benchmark, or an instruction of a
/// program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Simulated {
    /// Simulated nanoseconds per unit of work, at the clock frequency in the machine file.
    pub ns: f64,
    /// Rates of the simulation's counters per unit of work.
    pub rates: Rates,
}

impl Simulated {
    /// Empty result, for schemes that were not simulated or not timed.
    pub(super) const NOTHING: Self = Self {
        ns: f64::NAN,
        rates: Rates { cycles: None, instructions: None, tlb_misses: None, walk_cycles: None },
    };

    fn of(result: &RunResult, units: f64, frequency_ghz: f64) -> Self {
        let counter = |name| Some(result.counters.get(name)? / units);
        let cycles = result.cycles.map(|cycles| cycles as f64 / units);
        let rates = Rates {
            cycles,
            instructions: Some(result.instructions as f64 / units),
            tlb_misses: counter("walks"),
            walk_cycles: counter("walk_cycles"),
        };
        Self { ns: cycles.unwrap_or_default() / frequency_ghz, rates }
    }

    /// Time and counters of `units` units of work, from those of one unit.
    fn times(self, units: f64) -> Self {
        let rates = self.rates.and_then(|rate| Some(rate * units));
        Self { ns: self.ns * units, rates }
    }
}

/// Results of the simulations with 4KB pages and with 2MB pages, under one assumption about the host's page
/// tables.
pub(super) type Both = [Simulated; 2];

/// Measurements with which predictions are compared. Pairs have the value for 4KB pages first, then the
/// value for 2MB pages.
#[derive(Clone, Copy, Debug)]
pub(super) enum Observed {
    /// Measurements of a benchmark.
    Operations {
        /// Measured time with 4KB pages ÷ time with 2MB pages.
        ratio: Option<Spread>,
        /// Measured nanoseconds per operation, for both page sizes.
        ns: Option<[Spread; 2]>,
    },
    /// Measurements of a program.
    Program {
        /// Measured time with 4KB pages ÷ time with 2MB pages.
        ratio: Option<Spread>,
        /// Seconds that the whole program takes, for both page sizes.
        seconds: Option<[Spread; 2]>,
        /// Number of instructions of the whole program for both page sizes; `None` if unknown.
        instructions: Option<[f64; 2]>,
    },
}

impl Observed {
    fn ratio(&self) -> Option<Spread> {
        let (Self::Operations { ratio, .. } | Self::Program { ratio, .. }) = self;
        *ratio
    }
}

/// Predicted effect of 2MB pages and predicted times of a benchmark or program, under one assumption about
/// the host's page tables.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Assumption about the host's page tables that was simulated.
    #[serde(flatten)]
    pub assumption: Assumption,
    /// Predicted time with 4KB pages ÷ time with 2MB pages.
    pub ratio: f64,
    /// Predicted nanoseconds per operation with 4KB pages; absent for programs.
    pub small_pages_ns: Option<f64>,
    /// Predicted nanoseconds per operation with 2MB pages; absent for programs.
    pub large_pages_ns: Option<f64>,
    /// Predicted seconds of the whole program with 4KB and with 2MB pages; absent if its number of
    /// instructions is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<[f64; 2]>,
    /// Predicted ÷ measured time, for the page size at which this ratio is farther from 1.
    pub time_ratio: Option<f64>,
    /// Simulated counters with 4KB and with 2MB pages: per operation for benchmarks, per 1,000
    /// instructions for programs.
    pub counters: [Rates; 2],
    /// Agreement of the predicted with the measured effect of 2MB pages; `None` without a measured ratio.
    pub verdict: Option<Verdict>,
}

impl Prediction {
    pub(super) fn new(assumption: Assumption, both: Both, observed: &Observed) -> Self {
        let [small, large] = both.map(|simulated| simulated.ns);
        let ratio = small / large;
        let measured = observed.ratio().filter(|_| ratio.is_finite());
        let mut found = Self {
            assumption,
            ratio,
            small_pages_ns: None,
            large_pages_ns: None,
            seconds: None,
            time_ratio: None,
            counters: both.map(|simulated| simulated.rates),
            verdict: measured.map(|measured| Verdict::of(&measured, ratio)),
        };
        let time_ratio = |predicted: [f64; 2], measured: [Spread; 2]| {
            let of = |which: usize| predicted[which] / measured[which].median;
            let ratio = farther(of(0), of(1));
            Some(ratio).filter(|ratio| ratio.is_finite() && *ratio > 0.0)
        };
        match *observed {
            Observed::Operations { ns, .. } => {
                (found.small_pages_ns, found.large_pages_ns) = (Some(small), Some(large));
                found.time_ratio = ns.and_then(|ns| time_ratio([small, large], ns));
            }
            Observed::Program { seconds, instructions, .. } => {
                let predicted =
                    instructions.map(|[one, other]| [small * one * 1e-9, large * other * 1e-9]);
                found.seconds = predicted;
                found.time_ratio =
                    predicted.zip(seconds).and_then(|(one, other)| time_ratio(one, other));
                found.counters = both.map(|simulated| simulated.times(1000.0).rates);
            }
        }
        found
    }

    /// True if the predicted times are near the measured times. `None` without measured times.
    pub fn is_time_near(&self) -> Option<bool> {
        self.time_ratio.map(is_near)
    }
}

/// Recorder and simulator of benchmarks and programs.
pub(super) struct Predictor<'a> {
    pub machine: &'a Machine,
    pub assumptions: &'a [Assumption],
    /// Use of the simulated memory before the run ([`Options::age`](super::Options::age)).
    pub age: Option<Ageing>,
    /// Minimum number of operations to record
    /// ([`Options::operations`](super::Options::operations)).
    pub operations: u64,
    pub worker: &'a WorkerCommand,
}

impl Predictor<'_> {
    /// Records the code of a benchmark and simulates the recording under all assumptions. Returns times and
    /// counters per assumption, the results of the simulations, and the source of the simulated instructions.
    pub fn predict_row(
        &self,
        row: &Row,
        reporter: &mut dyn Reporter,
    ) -> Result<(Vec<Both>, Vec<RunResult>, Origin), HostError> {
        let mut trace = TemporaryTrace::new(format!("{}.trace", row.name().replace(' ', "-")))?;
        let operations = self.operations_of(row);
        let (name, instructions, origin) = match self.record(row, operations, &trace, reporter) {
            Ok(count) => (trace.path().to_string_lossy().into_owned(), count, Origin::Recorded),
            Err(RecordError::EmulatorMissing | RecordError::EmulatorWithoutPlugins(_)) => {
                (synthetic(row), 4 * operations, Origin::Synthetic) // each access has 3 other instructions
            }
            Err(error) => return Err(error.into()),
        };
        let workload = Workload { instructions: Some(instructions), ..Workload::named(name) };
        reporter.stage(&format!("simulating {}", row.name()), "instructions");
        let results = self.simulate(workload, row.bytes, &mut |progress| {
            reporter.progress(progress);
            trace.end_if_interrupted();
        })?;
        let operations = |result: &RunResult| result.counters.get("loads").unwrap_or_default();
        Ok((self.simulated(&results, operations), results, origin))
    }

    /// Number of operations to record for a benchmark: more than the minimum if that does not warm
    /// up the caches.
    pub fn operations_of(&self, row: &Row) -> u64 {
        let cache = &self.machine.cache;
        let largest = cache.llc.as_ref().unwrap_or(&cache.l2).size_bytes;
        // A sequential scan warms up in one pass, and takes eight operations per line.
        let per_line = if row.benchmark == Benchmark::Sequential { 2 * 8 } else { PASSES };
        match row.bytes / 64 * per_line {
            all if row.bytes <= 2 * largest => self.operations.max(all),
            _ => self.operations,
        }
    }

    /// Records operations of a benchmark, between the worker's markers. Returns the number of
    /// instructions.
    fn record(
        &self,
        row: &Row,
        operations: u64,
        trace: &TemporaryTrace,
        reporter: &mut dyn Reporter,
    ) -> Result<u64, RecordError> {
        let Row { benchmark, bytes } = *row;
        let recorded_operations = Some(operations);
        let paging = Paging::Large; // the simulated schemes choose the page size
        let (layout, processor) = (None, None);
        let job = Job { benchmark, bytes, paging, layout, processor, recorded_operations };
        let options = RecordOptions {
            selection: Selection { region: Some(Region::Markers), ..Selection::default() },
            ..trace.options(self.worker.words(&job))
        };
        Ok(record_once(options, &row.name(), reporter)?.instructions)
    }

    /// Simulates a workload that touches `bytes` bytes, with the schemes of all assumptions. If the number of
    /// instructions is known, the first half of them warms up the caches.
    pub fn simulate(
        &self,
        workload: Workload,
        bytes: u64,
        observer: &mut dyn Observer,
    ) -> Result<Vec<RunResult>, HostError> {
        let schemes = self.assumptions.iter().flat_map(|assumption| assumption.schemes);
        let schemes: Vec<&str> = schemes.collect();
        self.simulate_schemes(&schemes.join(","), workload, bytes, observer)
    }

    /// Like [`Self::simulate`], with the schemes in a comma-separated list.
    pub fn simulate_schemes(
        &self,
        schemes: &str,
        workload: Workload,
        bytes: u64,
        observer: &mut dyn Observer,
    ) -> Result<Vec<RunResult>, HostError> {
        let warmup = workload.instructions.map(|instructions| instructions / 2);
        let warmup = warmup.map(WarmupLength::Instructions);
        let run = ResolvedRun {
            machine: self.machine.clone(),
            memory: self.memory(bytes)?,
            measuring: MeasuringOptions { warmup, ..MeasuringOptions::default() },
            ..ResolvedRun::new(workload, Composition::list(schemes).map_err(SimError::from)?)
        };
        Ok(perforate_sim::run(&run, observer)?)
    }

    /// Makes the state of the simulated memory, with room for `bytes` bytes. In aged memory, page faults
    /// compact to get 2MB pages, because the benchmarks use MADV_HUGEPAGE.
    fn memory(&self, bytes: u64) -> Result<MemoryState, SimError> {
        let room = bytes.saturating_mul(2).saturating_add(MORE_MEMORY_BYTES).next_power_of_two();
        let size = if self.age.is_some() { room.saturating_mul(2) } else { room };
        let defrag = if self.age.is_some() { Defrag::Always } else { Defrag::Never };
        let size = SizeOptions { memory: Some(Size(size)), ..SizeOptions::default() };
        let kernel = KernelConfig { age: self.age, defrag, ..KernelConfig::default() };
        MemoryOptions { size, kernel, ..MemoryOptions::default() }.resolve(&MemorySnapshot::load)
    }

    /// Times and counters per unit of work, for each assumption, from the results of its schemes. `units`
    /// returns the number of units of work in a result.
    pub fn simulated(&self, results: &[RunResult], units: impl Fn(&RunResult) -> f64) -> Vec<Both> {
        let frequency_ghz = self.machine.core.frequency_ghz;
        let of = |scheme: &str| {
            let result = results.iter().find(|result| result.scheme == scheme);
            result.map_or(Simulated::NOTHING, |result| {
                Simulated::of(result, units(result), frequency_ghz)
            })
        };
        self.assumptions.iter().map(|assumption| assumption.schemes.map(of)).collect()
    }
}

/// Records a program once, with progress sent to `reporter`.
pub(super) fn record_once(
    options: RecordOptions,
    name: &str,
    reporter: &mut dyn Reporter,
) -> Result<RecordSummary, RecordError> {
    reporter.stage(&format!("recording {name}"), "instructions");
    record(options, &mut |progress| {
        let done = progress.instructions + progress.instructions_skipped;
        reporter.progress(Progress { done, total: None });
    })
}

/// Name of the synthetic workload with the access pattern of a benchmark.
fn synthetic(row: &Row) -> String {
    let bytes = row.bytes;
    match row.benchmark {
        Benchmark::Chase => format!("chase:size={bytes}B"),
        Benchmark::Random => format!("random:size={bytes}B"),
        Benchmark::Updates => format!("random:size={bytes}B,writes=50%"),
        Benchmark::Sequential => format!("sequential:size={bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static WORKER: WorkerCommand =
        WorkerCommand { program: std::path::PathBuf::new(), arguments: Vec::new() };

    fn predictor<'a>(machine: &'a Machine, assumptions: &'a [Assumption]) -> Predictor<'a> {
        Predictor { machine, assumptions, age: None, operations: 100_000, worker: &WORKER }
    }

    #[test]
    fn times_are_cycles_per_operation_over_the_clock() {
        let machine = Machine::load("zen4-genoa").unwrap();
        let assumptions = [
            Assumption { name: "a", schemes: ["4k", "thp"] },
            Assumption { name: "b", schemes: ["4k+4k", "thp"] },
        ];
        let predictor = predictor(&machine, &assumptions);
        let workload = Workload { instructions: Some(10_000), ..Workload::named("random:size=1M") };
        let results = predictor.simulate(workload, 1 << 20, &mut |_| {}).unwrap();
        assert_eq!(results.len(), 3, "thp is simulated once");
        let both = predictor.simulated(&results, |_| 100.0);
        let cycles = |scheme: &str| {
            results.iter().find(|result| result.scheme == scheme).unwrap().cycles.unwrap() as f64
        };
        assert_eq!(both[0][0].ns, cycles("4k") / 100.0 / 3.7);
        assert_eq!(both[0][1].ns, both[1][1].ns);
        assert!(both[1][0].ns > 0.0 && both[1][0].rates.tlb_misses.is_some());
        let observed = Observed::Program { ratio: None, seconds: None, instructions: None };
        let predicted = Prediction::new(assumptions[1], both[1], &observed);
        assert_eq!(predicted.ratio, both[1][0].ns / both[1][1].ns);
        assert_eq!((predicted.small_pages_ns, predicted.verdict), (None, None));
        assert_eq!((predicted.seconds, predicted.time_ratio), (None, None));
        let cycles = both[1][0].rates.cycles.map(|cycles| cycles * 1000.0);
        assert_eq!(predicted.counters[0].cycles, cycles, "for 1,000 instructions");
    }

    fn simulated(ns: f64) -> Simulated {
        Simulated { ns, ..Simulated::NOTHING }
    }

    #[test]
    fn absolute_times_are_judged() {
        let assumption = Assumption { name: "a", schemes: ["4k", "thp"] };
        let spread = |value: f64| Spread::of(&[value]).unwrap();
        let observed = Observed::Operations {
            ratio: Some(spread(1.1)),
            ns: Some([spread(0.28), spread(0.25)]),
        };
        let both = [simulated(1.65), simulated(1.49)];
        let predicted = Prediction::new(assumption, both, &observed);
        assert_eq!(predicted.verdict, Some(Verdict::Agrees), "the effect alone");
        assert!((predicted.time_ratio.unwrap() - 1.49 / 0.25).abs() < 1e-12, "the farther one");
        assert_eq!(predicted.is_time_near(), Some(false));
        // The program takes 2G instructions with 4KB pages (3 s) and 1G instructions with 2MB pages
        // (1.2 s).
        let observed = Observed::Program {
            ratio: Some(spread(2.5)),
            seconds: Some([spread(3.0), spread(1.0)]),
            instructions: Some([2e9, 1e9]),
        };
        let predicted = Prediction::new(assumption, [simulated(1.5), simulated(1.2)], &observed);
        assert_eq!(
            predicted.seconds.map(|both| both.map(|one| (one * 10.0).round())),
            Some([30.0, 12.0])
        );
        assert!((predicted.time_ratio.unwrap() - 1.2).abs() < 1e-9);
        assert_eq!(predicted.is_time_near(), Some(true));
    }

    #[test]
    fn caches_are_warmed_up_if_they_can_be() {
        let machine = Machine::load("zen4-genoa").unwrap(); // 32MB of L3
        let predictor = predictor(&machine, &[]);
        let operations = |benchmark, bytes| predictor.operations_of(&Row { benchmark, bytes });
        assert_eq!(operations(Benchmark::Chase, 64 << 20), 4 << 20);
        assert_eq!(operations(Benchmark::Sequential, 1 << 20), 262_144);
        assert_eq!(operations(Benchmark::Chase, 1 << 20), 100_000);
        assert_eq!(operations(Benchmark::Random, 128 << 20), 100_000);
    }

    #[test]
    fn synthetic_substitutes_are_workloads() {
        for benchmark in Benchmark::ALL {
            let name = synthetic(&Row { benchmark, bytes: 1 << 20 });
            let workload = Workload { instructions: Some(1000), ..Workload::named(name.clone()) };
            let memory = MemoryState::of(64 << 20);
            assert!(perforate_sim::open_workload(&workload, &memory, 1).is_ok(), "{name}");
        }
    }
}
