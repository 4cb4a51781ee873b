//! Predicting: the same code recorded, and simulated under each assumption.

use std::ffi::OsString;
use std::path::Path;

use perforate_capture::native::{Benchmark, Job, Paging};
use perforate_capture::{CaptureError, Ending, RecordOptions, Region, Selection};
use perforate_config::Size;
use perforate_os::{Ageing, Defrag};
use perforate_sim::{
    Comparison, Composition, Machine, MemoryOptions, MemoryState, Progress, RunResult, SimError,
    Workload,
};

use super::plan::{Assumption, Row};
use crate::failure::Failure;
use crate::output::Bar;
use crate::record::TemporaryTrace;

/// How often each line is accessed at least, where caches can hold what is accessed: half of the
/// accesses warm the caches up.
const PASSES: u64 = 4;
/// Memory beside the benchmark's.
const MORE_MEMORY_BYTES: u64 = 512 << 20;

/// What is simulated, and on what.
pub struct Prediction<'a> {
    pub machine: &'a Machine,
    pub assumptions: &'a [Assumption],
    /// What the simulated memory went through before, as `--age` of other commands; none: frames
    /// follow each other as pages do.
    pub age: Option<Ageing>,
    /// Operations recorded at least; the first half warms up.
    pub operations: u64,
}

/// Where the instructions of a row came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The code that was measured, recorded.
    Recorded,
    /// A synthetic workload with the same pattern, as there is no emulator here.
    Synthetic,
}

impl Origin {
    /// The name in JSON lines.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Synthetic => "synthetic",
        }
    }
}

/// What a row is predicted to take under one assumption.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// Nanoseconds per operation with 4KB pages, by the machine file's clock.
    pub small_ns: f64,
    /// The same with large pages.
    pub large_ns: f64,
}

impl Predicted {
    /// 4KB ÷ large.
    pub fn ratio(&self) -> f64 {
        self.small_ns / self.large_ns
    }
}

impl Prediction<'_> {
    /// Records the row's code and simulates it; one value for each assumption.
    pub fn of_row(
        &self,
        program: &Path,
        first: &[&str],
        row: &Row,
    ) -> Result<(Vec<Predicted>, Vec<RunResult>, Origin), Failure> {
        let mut trace = TemporaryTrace::new(format!("{}.trace", row.name().replace(' ', "-")))?;
        let operations = self.operations_of(row);
        let (name, instructions, origin) = match record(program, first, row, operations, &trace) {
            Ok(count) => (trace.path().to_string_lossy().into_owned(), count, Origin::Recorded),
            Err(CaptureError::EmulatorMissing | CaptureError::EmulatorWithoutPlugins { .. }) => {
                (synthetic(row), 4 * operations, Origin::Synthetic) // 3 others per access
            }
            Err(error) => return Err(error.into()),
        };
        let workload = Workload { name, skip: 0, instructions: Some(instructions) };
        let bar = Bar::instructions(&format!("simulating {}", row.name()));
        let results = self.simulate(workload, row.bytes, &mut |progress| {
            bar.show(progress);
            trace.end_if_interrupted();
        })?;
        let operations = |result: &RunResult| result.counters.get("loads").unwrap_or_default();
        Ok((self.times(&results, operations), results, origin))
    }

    /// Operations to record of a row: more where the caches have to be warmed up with it.
    fn operations_of(&self, row: &Row) -> u64 {
        let cache = &self.machine.cache;
        let largest = cache.llc.as_ref().unwrap_or(&cache.l2).size_bytes;
        // In order, one pass warms up everything, and each line takes eight operations.
        let per_line = if row.benchmark == Benchmark::Sequential { 2 * 8 } else { PASSES };
        match row.bytes / 64 * per_line {
            all if row.bytes <= 2 * largest => self.operations.max(all),
            _ => self.operations,
        }
    }

    /// Simulates a workload that needs so much memory, under all assumptions; the first half of
    /// its instructions, where their number is known, warms up.
    pub fn simulate(
        &self,
        workload: Workload,
        bytes: u64,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<RunResult>, Failure> {
        let mut schemes: Vec<&str> = Vec::new();
        for assumption in self.assumptions {
            schemes.extend([assumption.small, assumption.large]);
        }
        let warmup = workload.instructions.map(|instructions| instructions / 2);
        let comparison = Comparison {
            workload,
            machine: self.machine.clone(),
            schemes: Composition::list(&schemes.join(","))?,
            memory: self.memory(bytes)?,
            seed: 1,
            functional: false,
            check: false,
            warmup,
        };
        Ok(perforate_sim::compare(&comparison, progress)?)
    }

    /// Memory with room for so many bytes. Memory that aged is compacted by faults that want a 2MB
    /// page, as here large pages are asked for with madvise; 4KB pages take what is free.
    fn memory(&self, bytes: u64) -> Result<MemoryState, SimError> {
        let room = bytes.saturating_mul(2).saturating_add(MORE_MEMORY_BYTES).next_power_of_two();
        let size = if self.age.is_some() { room.saturating_mul(2) } else { room };
        let defrag = self.age.map(|_| Defrag::Always);
        let (memory, age) = (Some(Size(size)), self.age);
        MemoryOptions { memory, age, defrag, ..MemoryOptions::default() }.resolve()
    }

    /// Times of the results per operation, for each assumption.
    pub fn times(
        &self,
        results: &[RunResult],
        operations: impl Fn(&RunResult) -> f64,
    ) -> Vec<Predicted> {
        let time = |scheme: &str| {
            let result = results.iter().find(|result| result.scheme == scheme);
            result.map_or(f64::NAN, |result| {
                let cycles = result.cycles.unwrap_or_default() as f64;
                cycles / operations(result) / self.machine.core.frequency_ghz
            })
        };
        let predicted = |assumption: &Assumption| Predicted {
            small_ns: time(assumption.small),
            large_ns: time(assumption.large),
        };
        self.assumptions.iter().map(predicted).collect()
    }
}

/// Records the operations of a row, between the worker's markers. Returns how many instructions
/// were recorded.
fn record(
    program: &Path,
    first: &[&str],
    row: &Row,
    operations: u64,
    trace: &TemporaryTrace,
) -> Result<u64, CaptureError> {
    let Row { benchmark, bytes } = *row;
    let recorded_operations = Some(operations);
    let paging = Paging::Large; // the simulated schemes choose the pages
    let job = Job { benchmark, bytes, paging, processor: None, recorded_operations };
    let words = first.iter().map(|word| (*word).to_owned()).chain(job.arguments());
    let words = words.map(OsString::from);
    let command = std::iter::once(program.as_os_str().to_owned()).chain(words).collect();
    let options = RecordOptions {
        selection: Selection { region: Some(Region::Markers), ..Selection::default() },
        stop: trace.stop(),
        prints_to_stderr: true,
        ..RecordOptions::new(trace.path(), command)
    };
    let bar = Bar::of(&format!("recording {}", row.name()), "instructions");
    let summary = perforate_capture::record(options, &mut |progress| {
        let done = progress.instructions + progress.instructions_skipped;
        bar.show(Progress { done, total: None });
    })?;
    match summary.ending {
        Ending::Stopped => Err(CaptureError::StoppedEarly),
        _ => Ok(summary.instructions),
    }
}

/// A synthetic workload with the pattern of a row.
fn synthetic(row: &Row) -> String {
    let bytes = row.bytes;
    match row.benchmark {
        Benchmark::Chase => format!("chase:size={bytes}"),
        Benchmark::Random => format!("random:size={bytes}"),
        Benchmark::Updates => format!("random:size={bytes},writes=50%"),
        Benchmark::Sequential => format!("sequential:size={bytes}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cycles_per_operation_over_the_clock() {
        let machine = Machine::load("zen4-genoa").unwrap();
        let assumptions = [
            Assumption { name: "a", small: "4k", large: "thp" },
            Assumption { name: "b", small: "4k+4k", large: "thp" },
        ];
        let prediction = Prediction {
            machine: &machine,
            assumptions: &assumptions,
            age: None,
            operations: 1000,
        };
        let workload =
            Workload { name: "random:size=1M".into(), skip: 0, instructions: Some(10_000) };
        let results = prediction.simulate(workload, 1 << 20, &mut |_| {}).unwrap();
        assert_eq!(results.len(), 3, "thp is simulated once");
        let times = prediction.times(&results, |_| 100.0);
        let cycles = |scheme: &str| {
            results.iter().find(|result| result.scheme == scheme).unwrap().cycles.unwrap() as f64
        };
        assert_eq!(times[0].small_ns, cycles("4k") / 100.0 / 3.7);
        assert_eq!(times[0].large_ns, times[1].large_ns);
        assert_eq!(times[1].ratio(), times[1].small_ns / times[1].large_ns);
        assert!(times[1].small_ns > 0.0);
    }

    #[test]
    fn caches_are_warmed_up_where_they_can_be() {
        let machine = Machine::load("zen4-genoa").unwrap(); // 32MB of L3
        let prediction =
            Prediction { machine: &machine, assumptions: &[], age: None, operations: 100_000 };
        let operations = |benchmark, bytes| prediction.operations_of(&Row { benchmark, bytes });
        assert_eq!(operations(Benchmark::Chase, 64 << 20), 4 << 20);
        assert_eq!(operations(Benchmark::Sequential, 1 << 20), 262_144);
        assert_eq!(operations(Benchmark::Chase, 1 << 20), 100_000);
        assert_eq!(operations(Benchmark::Random, 128 << 20), 100_000);
    }

    #[test]
    fn synthetic_stand_ins_are_workloads() {
        for benchmark in Benchmark::ALL {
            let name = synthetic(&Row { benchmark, bytes: 1 << 20 });
            let workload = Workload { name: name.clone(), skip: 0, instructions: Some(1000) };
            let memory = MemoryState::of(64 << 20);
            assert!(perforate_sim::open_workload(&workload, &memory, 1).is_ok(), "{name}");
        }
    }
}
