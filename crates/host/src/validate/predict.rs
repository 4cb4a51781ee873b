//! Predictions: the same code recorded, and simulated under each assumption.

use perforate_config::Size;
use perforate_os::{Ageing, Defrag};
use perforate_record::{RecordError, RecordOptions, Region, Selection, TemporaryTrace, record};
use perforate_sim::{
    Comparison, Composition, Machine, MemoryOptions, MemoryState, ProcessorOptions, Progress,
    RunResult, SimError, Workload,
};
use serde::Serialize;

use super::plan::{Assumption, Row};
use super::spread::Spread;
use super::verdict::Verdict;
use crate::benchmark::{Benchmark, Job, Paging, WorkerCommand};
use crate::{HostError, Reporter};

/// Accesses to each line at least, if the caches can hold the benchmark's memory: half of them warm
/// up the caches.
const PASSES: u64 = 4;
/// Simulated memory besides the benchmark's.
const MORE_MEMORY_BYTES: u64 = 512 << 20;

/// Source of a row's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A recording of the measured code.
    Recorded,
    /// A synthetic workload with the same pattern, as there is no emulator.
    Synthetic,
}

/// Simulated nanoseconds per operation under one assumption, by the machine file's clock: with 4KB
/// pages and with large pages.
pub(super) type Times = [f64; 2];

/// The prediction of a row under one assumption.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The assumption.
    #[serde(flatten)]
    pub assumption: Assumption,
    /// Time with 4KB pages ÷ time with large pages.
    pub ratio: f64,
    /// Nanoseconds per operation with 4KB pages; absent for programs.
    pub small_pages_ns: Option<f64>,
    /// Nanoseconds per operation with large pages; absent for programs.
    pub large_pages_ns: Option<f64>,
    /// Agreement with the measurement.
    pub verdict: Option<Verdict>,
}

impl Prediction {
    pub(super) fn new(
        assumption: Assumption,
        [small, large]: Times,
        has_operations: bool,
        measured: Option<&Spread>,
    ) -> Self {
        let ratio = small / large;
        let verdict = measured.filter(|_| ratio.is_finite());
        Self {
            assumption,
            ratio,
            small_pages_ns: has_operations.then_some(small),
            large_pages_ns: has_operations.then_some(large),
            verdict: verdict.map(|measured| Verdict::of(measured, ratio)),
        }
    }
}

/// Records and simulates.
pub(super) struct Predictor<'a> {
    pub machine: &'a Machine,
    pub assumptions: &'a [Assumption],
    /// As [`Options::age`](super::Options::age).
    pub age: Option<Ageing>,
    /// As [`Options::operations`](super::Options::operations).
    pub operations: u64,
    pub worker: &'a WorkerCommand,
}

impl Predictor<'_> {
    /// Records a row's code and simulates it.
    pub fn predict_row(
        &self,
        row: &Row,
        reporter: &mut dyn Reporter,
    ) -> Result<(Vec<Times>, Vec<RunResult>, Origin), HostError> {
        let mut trace = TemporaryTrace::new(format!("{}.trace", row.name().replace(' ', "-")))?;
        let operations = self.operations_of(row);
        let (name, instructions, origin) = match self.record(row, operations, &trace, reporter) {
            Ok(count) => (trace.path().to_string_lossy().into_owned(), count, Origin::Recorded),
            Err(RecordError::EmulatorMissing | RecordError::EmulatorWithoutPlugins(_)) => {
                (synthetic(row), 4 * operations, Origin::Synthetic) // 3 others per access
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
        Ok((self.times(&results, operations), results, origin))
    }

    /// Operations of a row to record; more if they have to warm up the caches.
    pub fn operations_of(&self, row: &Row) -> u64 {
        let cache = &self.machine.cache;
        let largest = cache.llc.as_ref().unwrap_or(&cache.l2).size_bytes;
        // In order, one pass warms up everything, and each line takes eight operations.
        let per_line = if row.benchmark == Benchmark::Sequential { 2 * 8 } else { PASSES };
        match row.bytes / 64 * per_line {
            all if row.bytes <= 2 * largest => self.operations.max(all),
            _ => self.operations,
        }
    }

    /// Records operations of a row, between the worker's markers. Returns the number of
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
        let paging = Paging::Large; // the simulated schemes choose the pages
        let (layout, processor) = (None, None);
        let job = Job { benchmark, bytes, paging, layout, processor, recorded_operations };
        let options = RecordOptions {
            selection: Selection { region: Some(Region::Markers), ..Selection::default() },
            ..trace.options(self.worker.words(&job))
        };
        record_once(options, &row.name(), reporter)
    }

    /// Simulates a workload that touches so much memory under all assumptions. The first half of its
    /// instructions warms up, if their number is known.
    pub fn simulate(
        &self,
        workload: Workload,
        bytes: u64,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<RunResult>, HostError> {
        let schemes = self.assumptions.iter().flat_map(|assumption| assumption.schemes);
        let schemes: Vec<&str> = schemes.collect();
        self.simulate_schemes(&schemes.join(","), workload, bytes, progress)
    }

    /// As [`Self::simulate`], under these schemes.
    pub fn simulate_schemes(
        &self,
        schemes: &str,
        workload: Workload,
        bytes: u64,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<RunResult>, HostError> {
        let warmup = workload.instructions.map(|instructions| instructions / 2);
        let comparison = Comparison {
            processors: ProcessorOptions::default(),
            workload,
            machine: self.machine.clone(),
            schemes: Composition::list(schemes).map_err(SimError::from)?,
            memory: self.memory(bytes)?,
            seed: 1,
            functional: false,
            check: false,
            warmup,
        };
        Ok(perforate_sim::compare(&comparison, progress)?)
    }

    /// Memory with room for so many bytes. Faults that want a 2MB page compact aged memory, as the
    /// benchmarks ask for large pages with madvise.
    fn memory(&self, bytes: u64) -> Result<MemoryState, SimError> {
        let room = bytes.saturating_mul(2).saturating_add(MORE_MEMORY_BYTES).next_power_of_two();
        let size = if self.age.is_some() { room.saturating_mul(2) } else { room };
        let defrag = self.age.map(|_| Defrag::Always);
        let (memory, age) = (Some(Size(size)), self.age);
        MemoryOptions { memory, age, defrag, ..MemoryOptions::default() }.resolve()
    }

    /// Times per operation from the results, for each assumption.
    pub fn times(
        &self,
        results: &[RunResult],
        operations: impl Fn(&RunResult) -> f64,
    ) -> Vec<Times> {
        let time = |scheme: &str| {
            let result = results.iter().find(|result| result.scheme == scheme);
            result.map_or(f64::NAN, |result| {
                let cycles = result.cycles.unwrap_or_default() as f64;
                cycles / operations(result) / self.machine.core.frequency_ghz
            })
        };
        self.assumptions.iter().map(|assumption| assumption.schemes.map(time)).collect()
    }
}

/// Records to a trace, and returns the number of instructions.
pub(super) fn record_once(
    options: RecordOptions,
    name: &str,
    reporter: &mut dyn Reporter,
) -> Result<u64, RecordError> {
    reporter.stage(&format!("recording {name}"), "instructions");
    let summary = record(options, &mut |progress| {
        let done = progress.instructions + progress.instructions_skipped;
        reporter.progress(Progress { done, total: None });
    })?;
    Ok(summary.instructions)
}

/// A synthetic workload with the pattern of a row.
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
        let times = predictor.times(&results, |_| 100.0);
        let cycles = |scheme: &str| {
            results.iter().find(|result| result.scheme == scheme).unwrap().cycles.unwrap() as f64
        };
        assert_eq!(times[0][0], cycles("4k") / 100.0 / 3.7);
        assert_eq!(times[0][1], times[1][1]);
        assert!(times[1][0] > 0.0);
        let predicted = Prediction::new(assumptions[1], times[1], false, None);
        assert_eq!(predicted.ratio, times[1][0] / times[1][1]);
        assert_eq!((predicted.small_pages_ns, predicted.verdict), (None, None));
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
