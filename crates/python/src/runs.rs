//! Simulations of one or several schemes, for Python.

use std::ffi::OsString;
use std::sync::atomic::Ordering;

use perforate_cli::actions::{
    Failure, MachineSettings, Question, RunRequest, json_lines, with_free,
};
use perforate_cli::python::{NativeCounters, ProgramRecording};
use perforate_config::OptionTexts;
use perforate_sim::{Observer, Progress, ResolvedRun};
use pyo3::prelude::*;
use serde::Serialize;

use crate::work::{WorkState, work};

/// Options or overrides as pairs of name and value.
pub type Pairs = Vec<(String, String)>;

/// Width of an explanation as text, in characters.
const COLUMNS: usize = 100;

/// Makes a request for a run from options and overrides of machine keys.
pub fn request(options: Pairs, settings: Pairs) -> Result<RunRequest, Failure> {
    RunRequest::new(options.into_iter().collect::<OptionTexts>(), MachineSettings(settings))
}

/// Arguments of a comparison, as Python passes them.
#[derive(Clone, FromPyObject, Serialize)]
pub struct Compared {
    workload: Option<String>,
    schemes: Option<String>,
    guest: Option<String>,
    host: Option<String>,
    seeds: u64,
    options: Pairs,
    set: Pairs,
}

impl Compared {
    /// Resolves the comparison, with the scheme `free` (free translation) added.
    pub fn prepare(&self) -> Result<Prepared, Failure> {
        self.prepare_on(self.workload.as_deref(), true)
    }

    fn prepare_on(&self, workload: Option<&str>, adds_free: bool) -> Result<Prepared, Failure> {
        let request = self.request()?;
        let names = (self.schemes.as_deref(), self.guest.as_deref(), self.host.as_deref());
        let default = request.default_schemes(&|_| false);
        let (schemes, left_out) =
            perforate_cli::actions::schemes(names.0, names.1, names.2, default)?;
        let schemes = match adds_free {
            true => with_free(schemes, request.spec.measuring.functional),
            false => schemes,
        };
        let run = request.resolve(workload, schemes, &|_, _| ())?;
        run.measuring.check()?;
        Ok(Prepared { run, seeds: self.seeds, left_out })
    }

    fn request(&self) -> Result<RunRequest, Failure> {
        request(self.options.clone(), self.set.clone())
    }

    /// Records a trace of the program on which schemes are compared.
    fn record(&self, program: &[OsString], state: &WorkState) -> Result<ProgramRecording, Failure> {
        // All checks come before long work.
        self.prepare_on(None, true)?;
        let part = self.request()?.spec.placement;
        ProgramRecording::with_reporter(program, &part, &mut state.clone(), &state.stop)
    }

    /// Resolves the comparison with a recording as its workload.
    fn prepare_recorded(&self, recording: &ProgramRecording) -> Result<Prepared, Failure> {
        let mut prepared = self.prepare_on(Some(&recording.path().to_string_lossy()), true)?;
        prepared.run.workload.skip = 0; // skipped while recording
        Ok(prepared)
    }
}

/// A comparison that is ready to run.
pub struct Prepared {
    /// Resolved run with the first seed.
    pub run: ResolvedRun,
    /// Number of seeds with which the comparison runs.
    pub seeds: u64,
    /// Notes on pairs of guest and host schemes that cannot be combined.
    left_out: Vec<String>,
}

impl Prepared {
    /// Runs the comparison with each seed. Returns the lines of a results file.
    fn run(
        &mut self,
        recording: Option<&ProgramRecording>,
        counters: Option<&NativeCounters>,
        state: &WorkState,
    ) -> Result<String, Failure> {
        let first = self.run.seed;
        let mut lines = String::new();
        for repetition in 0..self.seeds {
            self.run.seed = first.wrapping_add(repetition);
            let mut observer = Repetition { state, seeds: self.seeds, repetition };
            let mut results = perforate_sim::run(&self.run, &mut observer)?;
            if let Some(recording) = recording {
                results.iter_mut().for_each(|result| recording.annotate(result));
            }
            if let Some(counters) = counters {
                counters.annotate(&mut results);
            }
            lines += &json_lines(&results);
        }
        Ok(lines)
    }
}

/// Observer of the run with one of several seeds, which shows the progress of all seeds.
struct Repetition<'a> {
    state: &'a WorkState,
    seeds: u64,
    repetition: u64,
}

impl Observer for Repetition<'_> {
    fn on_progress(&mut self, Progress { done, total }: Progress) {
        let before = total.unwrap_or(0).saturating_mul(self.repetition);
        let total = total.map(|total| total.saturating_mul(self.seeds));
        self.state.show(Progress { done: before + done, total });
    }

    fn is_cancelled(&self) -> bool {
        self.state.stop.load(Ordering::Relaxed)
    }
}

/// Compares schemes on a workload or on a recording of `program`. Returns the lines of a results file, and
/// notes on pairs of schemes that cannot be combined. With `counters` the program also runs once natively,
/// with hardware counters.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    compared: Compared,
    program: Option<Vec<OsString>>,
    counters: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, Vec<String>)> {
    work(py, progress, move |state| {
        let program = program.as_deref();
        let recording = program.map(|program| compared.record(program, state)).transpose()?;
        let counters = program.filter(|_| counters).map(NativeCounters::measure).transpose()?;
        let mut prepared = match &recording {
            Some(recording) => compared.prepare_recorded(recording)?,
            None => compared.prepare()?,
        };
        let lines = prepared.run(recording.as_ref(), counters.as_ref(), state)?;
        Ok((lines, prepared.left_out))
    })
}

/// Runs one scheme, and returns its result as a line of a results file.
#[pyfunction]
pub fn run(
    py: Python<'_>,
    compared: Compared,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    work(py, progress, move |state| {
        compared.prepare_on(compared.workload.as_deref(), false)?.run(None, None, state)
    })
}

/// Explains the translations of these addresses after a run of the workload, as JSON and as text.
#[pyfunction]
pub fn explain(
    py: Python<'_>,
    addresses: Vec<u64>,
    workload: String,
    scheme: String,
    options: Pairs,
    set: Pairs,
) -> PyResult<(String, String)> {
    work(py, None, move |_| {
        let question = Question { addresses: &addresses, workload: &workload, scheme: &scheme };
        let found =
            perforate_cli::actions::explain(&request(options, set)?, &question, &|_, _| ())?;
        Ok((found.record().to_string(), found.text(COLUMNS)))
    })
}
