//! Validation: benchmarks and a program are measured on this machine with and without 2MB pages, the
//! same code is simulated, and the two ratios are compared.
//!
//! Benchmarks run in worker processes ([`Worker`](crate::benchmark::Worker)). So PR_SET_THP_DISABLE
//! ends with a worker, memory with and without 2MB pages exists at the same time, and the recorder can
//! run the same code. Two workers run alternately (ABBA). Times are processor time, because on a shared
//! machine, elapsed time includes other programs. A verdict depends only on the two effects (ratios
//! minus 1); absolute times are judged separately.

mod limits;
mod measure;
mod mosaic;
mod outcome;
mod plan;
mod predict;
mod program;
mod row;
mod spread;
mod verdict;

use std::ffi::OsString;

use perforate_config::Size;
use perforate_os::Ageing;
use perforate_record::Selection;
use perforate_sim::{Machine, RunResult};

use crate::benchmark::{Prepared, WorkerCommand};
use crate::counters::Counting;
use crate::machine::{Headroom, Processor, bounded, clock_ghz_of};
use crate::process_settings::last_allowed_processor;
use crate::{HostError, Reporter};

pub use limits::{EFFECT_TOLERANCE, TIME_TOLERANCE};
pub use measure::Effort;
pub(crate) use measure::order;
pub use mosaic::{
    Errors, MosaicOutcome, MosaicPrediction, MosaicRow, MosaicScore, Mosaics, validate_mosaics,
};
pub use outcome::{Outcome, Score};
pub(crate) use plan::assumption_of;
pub use plan::{Assumption, Row};
pub use predict::{Origin, Prediction};
pub use row::RowOutcome;
pub use spread::Spread;
pub use verdict::Verdict;

use predict::Predictor;

/// Program to measure, and the part to record.
#[derive(Clone, Debug)]
pub struct ProgramSample {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Number of instructions to skip before the recorded part.
    pub skip: u64,
    /// Maximum number of instructions to record, after which the program is killed. `None` records windows
    /// (samples) of the whole program.
    pub instructions: Option<u64>,
}

impl ProgramSample {
    /// Selection of the program's part to record.
    fn selection(&self) -> Selection {
        let Self { skip, instructions, .. } = *self;
        match instructions {
            Some(_) => Selection { skip, instructions, ..Selection::default() },
            None => Selection { skip, ..Selection::whole_program() },
        }
    }

    /// Command line of the program, shortened for tables.
    pub fn name(&self) -> String {
        let words: Vec<_> = self.words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ").chars().filter(|c| !c.is_control()).take(60).collect()
    }
}

/// Options of a validation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number and duration of measured runs.
    pub effort: Effort,
    /// Number of the processor to measure on.
    pub processor: usize,
    /// Size of the largest benchmarks' memory in bytes; `None` to skip the benchmarks.
    pub size_bytes: Option<u64>,
    /// Machine for predictions. By default, the bundled machine that describes this processor, or the
    /// nearest of its maker.
    pub machine: Option<Machine>,
    /// Simulated past use of memory before the run, after which 4KB frames lie scattered (option `--age`).
    /// `None` for memory in which frames follow each other as pages do.
    pub age: Option<Ageing>,
    /// Minimum number of operations to record of each benchmark; the first half warms up the
    /// caches.
    pub operations: u64,
    /// Program to measure in addition to the benchmarks.
    pub program: Option<ProgramSample>,
}

impl Options {
    /// Default options of a validation; `is_quick` for one of about a minute.
    pub fn new(is_quick: bool) -> Self {
        Self {
            effort: Effort::new(is_quick, None),
            processor: last_allowed_processor(),
            size_bytes: Some(if is_quick { 256 << 20 } else { 1 << 30 }),
            machine: None,
            age: None,
            operations: if is_quick { 500_000 } else { 2_000_000 },
            program: None,
        }
    }
}

/// Measures benchmarks and programs, simulates them, and compares the ratios of the times with 4KB and with
/// 2MB pages. Also returns the results of the simulations. `worker` is the command that starts this program
/// as a worker.
///
/// # Errors
/// If a measurement, a recording or a simulation fails.
pub fn validate(
    options: &Options,
    worker: &WorkerCommand,
    reporter: &mut dyn Reporter,
) -> Result<(Outcome, Vec<RunResult>), HostError> {
    let processor = Processor::own();
    let (machine, notes) = plan::machine(options.machine.as_ref(), &processor)?;
    let assumptions = plan::assumptions(&processor);
    let mut outcome = Outcome::new(&processor, &machine, &assumptions, notes);
    outcome.absence = Counting::of_thread().err();
    outcome.clock_ghz = clock_ghz_of(options.processor)?;
    let Options { effort, operations, .. } = *options;
    let age = options.age;
    let predictor =
        Predictor { machine: &machine, assumptions: &assumptions, age, operations, worker };
    let mut results = Vec::new();
    if let Some(wanted) = options.size_bytes {
        let bytes = benchmark_size(wanted, 2, &mut outcome.notes)?;
        for row in plan::rows(&machine, bytes) {
            let measured = measure::measure(worker, &row, effort, options.processor, reporter)?;
            let (both, runs, origin) = predictor.predict_row(&row, reporter)?;
            results.extend(runs);
            let outcome_of_row =
                RowOutcome::of_benchmark(&row, measured, &assumptions, both, origin);
            outcome.rows.push(outcome_of_row);
        }
    }
    if let Some(sample) = &options.program {
        let measured = program::measure(&sample.words, effort, options.processor, reporter)?;
        let mut predicted =
            program::predict(&predictor, sample, measured.resident_bytes, reporter)?;
        results.append(&mut predicted.results);
        outcome.rows.push(RowOutcome::of_program(sample.name(), measured, &assumptions, predicted));
    }
    outcome.add_notes();
    Ok((outcome, results))
}

/// Size of a benchmark's memory in bytes: a power of two, so that `processes` benchmarks fit in the
/// available memory.
fn benchmark_size(wanted: u64, processes: u64, notes: &mut Vec<String>) -> Result<u64, HostError> {
    let power = 1 << wanted.max(1).ilog2();
    if power < Prepared::MIN_BYTES {
        return Err(HostError::Size(format!("expected at least 64K, not {}", Size(wanted))));
    }
    if power != wanted {
        let [wanted, below, above] = [wanted, power, power.saturating_mul(2)].map(Size);
        let problem = format!("expected a power of two, such as {below} or {above}, not {wanted}");
        return Err(HostError::Size(problem));
    }
    let all = power.saturating_mul(processes);
    let Some(headroom) = Headroom::now() else { return Ok(power) };
    match bounded(all, headroom, processes * Prepared::MIN_BYTES) {
        Some(allowed) if allowed >= all => Ok(power),
        Some(allowed) => {
            let power = 1 << (allowed / processes).ilog2();
            notes.push(format!(
                "half of the memory available is {} MB; benchmarks take {} MB at most",
                headroom.bytes >> 20,
                power >> 20
            ));
            Ok(power)
        }
        None => Err(HostError::Size("there is no memory left to measure in".into())),
    }
}
