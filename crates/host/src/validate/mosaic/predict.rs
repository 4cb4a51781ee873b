//! Predictions with layouts: one recording, simulated with each layout.

use perforate_record::{RecordOptions, Region, Selection, TemporaryTrace};
use perforate_sim::{RunResult, Workload};

use super::Cycles;
use super::program::Program;
use crate::benchmark::Job;
use crate::layout::{Intervals, LARGE_BYTES, Layout, Pools, replace_advice};
use crate::validate::ProgramSample;
use crate::validate::plan::Row;
use crate::validate::predict::{Predictor, record_once};
use crate::{HostError, Reporter};

/// Simulated cycles of all layouts under each assumption about the host's page size, and the results of the
/// simulations.
type Predictions = (Vec<Cycles>, Vec<RunResult>);

/// Recording of a program that is simulated with several layouts.
struct Recording {
    name: String,
    trace: TemporaryTrace,
    /// Approximate amount of memory that the recorded program touches, in bytes.
    bytes: u64,
    /// Number of recorded instructions, of which the first half warms up the caches; `None` to warm
    /// up by the default, the first fifth.
    instructions: Option<u64>,
}

/// Records the code of a benchmark, and simulates the recording with all layouts.
pub(super) fn predict_row(
    predictor: &Predictor<'_>,
    row: &Row,
    layouts: &[Layout],
    reporter: &mut dyn Reporter,
) -> Result<Predictions, HostError> {
    let trace = TemporaryTrace::new("recorded.trace")?;
    let recorded_operations = Some(predictor.operations_of(row));
    let job = Job { recorded_operations, ..super::benchmark::job(row, &layouts[0]) };
    let selection = Selection { region: Some(Region::Markers), ..Selection::default() };
    let options = RecordOptions { selection, ..trace.options(predictor.worker.words(&job)) };
    let instructions = Some(record_once(options, &row.name(), reporter)?.instructions);
    let mut recording = Recording { name: row.name(), trace, bytes: row.bytes, instructions };
    let pool_bytes = row.bytes.next_multiple_of(LARGE_BYTES);
    let pools = |layout: &Layout| vec![(pool_bytes, layout.mapped.clone())];
    recording.simulate(predictor, layouts, &pools, reporter)
}

/// Records the chosen part of a program, and simulates the recording with all layouts.
pub(super) fn predict_program(
    predictor: &Predictor<'_>,
    sample: &ProgramSample,
    program: &Program<'_>,
    reporter: &mut dyn Reporter,
) -> Result<Predictions, HostError> {
    let trace = TemporaryTrace::new("recorded.trace")?;
    let options = RecordOptions {
        selection: sample.selection(),
        environment: program.preload.environment(program.pools, &program.layouts[0], false)?,
        ..trace.options(sample.words.clone())
    };
    let name = sample.name();
    record_once(options, &name, reporter)?;
    // At least 1GB, which the predictor doubles: a program's address space is larger than its resident
    // memory.
    let bytes = program.resident_bytes.max(1 << 30);
    let mut recording = Recording { name, trace, bytes, instructions: None };
    let Pools { heap_bytes, mapped_bytes } = program.pools;
    let pools = |layout: &Layout| {
        let both = [(heap_bytes, layout.heap.clone()), (mapped_bytes, layout.mapped.clone())];
        both.into_iter().filter(|(bytes, _)| *bytes > 0).collect()
    };
    recording.simulate(predictor, &program.layouts, &pools, reporter)
}

impl Recording {
    /// Simulates the recording with all layouts. `pools` returns the sizes and intervals of a
    /// layout's pools.
    fn simulate(
        &mut self,
        predictor: &Predictor<'_>,
        layouts: &[Layout],
        pools: &dyn Fn(&Layout) -> Vec<(u64, Intervals)>,
        reporter: &mut dyn Reporter,
    ) -> Result<Predictions, HostError> {
        let (mut cycles, mut results) = (Vec::new(), Vec::new());
        for layout in layouts {
            reporter.stage(&format!("simulating {}, {}", self.name, layout.name), "instructions");
            let runs = self.with_layout(predictor, &pools(layout), reporter)?;
            let schemes = predictor.assumptions.iter().map(|assumption| assumption.layout_scheme());
            let of = |scheme: String| {
                let run = runs.iter().find(|run| run.scheme == scheme);
                run.and_then(|run| run.cycles).map_or(f64::NAN, |cycles| cycles as f64)
            };
            cycles.push(schemes.map(of).collect());
            results.extend(runs);
        }
        Ok((cycles, results))
    }

    fn with_layout(
        &mut self,
        predictor: &Predictor<'_>,
        pools: &[(u64, Intervals)],
        reporter: &mut dyn Reporter,
    ) -> Result<Vec<RunResult>, HostError> {
        let copy = self.trace.path().with_file_name("layout.trace");
        replace_advice(self.trace.path(), &copy, pools)?;
        let name = copy.to_string_lossy().into_owned();
        let workload = Workload { instructions: self.instructions, ..Workload::named(name) };
        let schemes = predictor.assumptions.iter().map(|assumption| assumption.layout_scheme());
        let schemes = schemes.collect::<Vec<_>>().join(",");
        predictor.simulate_schemes(&schemes, workload, self.bytes, &mut |progress| {
            reporter.progress(progress);
            self.trace.end_if_interrupted();
        })
    }
}
