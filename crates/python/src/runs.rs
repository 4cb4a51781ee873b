//! Simulations and measurements.

use std::ffi::OsString;
use std::sync::atomic::Ordering;

use perforate_cli::in_process::{self, Counted, Recorded};
use perforate_commands::{Failure, MachineSettings, Question, RunRequest, json_lines, with_free};
use perforate_config::{Count, OptionTexts};
use perforate_sim::{Observer, Progress, ResolvedRun};
use pyo3::prelude::*;
use serde::Serialize;

use crate::errors::wrong_option;
use crate::work::{Talk, work};

/// Pairs of texts.
pub type Pairs = Vec<(String, String)>;

/// Columns of texts.
const COLUMNS: usize = 100;

/// The run that options, and other values for keys of the machine, ask for.
pub fn request(options: Pairs, settings: Pairs) -> Result<RunRequest, Failure> {
    RunRequest::new(options.into_iter().collect::<OptionTexts>(), MachineSettings(settings))
}

/// What is compared.
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

/// Selection of the schemes that are run.
enum Kind {
    /// The schemes that are named, and free translation, which its cost is measured by.
    Comparison,
    /// Only the schemes that are named.
    Run,
}

impl Compared {
    /// The comparison with the first seed, and pairs that are left out.
    pub fn prepare(&self) -> Result<Prepared, Failure> {
        self.prepare_on(self.workload.as_deref(), Kind::Comparison)
    }

    fn prepare_on(&self, workload: Option<&str>, kind: Kind) -> Result<Prepared, Failure> {
        let request = self.request()?;
        let names = (self.schemes.as_deref(), self.guest.as_deref(), self.host.as_deref());
        let default = request.default_schemes(&|_| false);
        let (schemes, left_out) = perforate_commands::schemes(names.0, names.1, names.2, default)?;
        let schemes = match kind {
            Kind::Comparison => with_free(schemes, request.spec.measuring.functional),
            Kind::Run => schemes,
        };
        let run = request.resolve(workload, schemes, &|_, _| ())?;
        run.measuring.check()?;
        Ok(Prepared { run, seeds: self.seeds, left_out })
    }

    fn request(&self) -> Result<RunRequest, Failure> {
        request(self.options.clone(), self.set.clone())
    }

    /// Records the first instructions of a program that are asked for.
    fn record(&self, program: &[OsString], talk: &Talk) -> Result<Recorded, Failure> {
        // Everything that can be wrong is looked at before.
        self.prepare_on(None, Kind::Comparison)?;
        let placement = self.request()?.spec.placement;
        let (skip, instructions) = (placement.skip.get(), placement.instructions.map(Count::get));
        Recorded::told(program, skip, instructions, &mut talk.clone(), &talk.stop)
    }

    /// The comparison on what was recorded.
    fn prepare_recorded(&self, recorded: &Recorded) -> Result<Prepared, Failure> {
        let mut prepared =
            self.prepare_on(Some(&recorded.path().to_string_lossy()), Kind::Comparison)?;
        prepared.run.workload.skip = 0; // was skipped while recording
        Ok(prepared)
    }
}

/// A comparison that can be run.
pub struct Prepared {
    /// The run with the first seed.
    pub run: ResolvedRun,
    /// Number of seeds.
    pub seeds: u64,
    /// Remarks on pairs of schemes that cannot be.
    left_out: Vec<String>,
}

impl Prepared {
    /// Runs it with each seed, and returns the lines of a results file.
    fn run(
        &mut self,
        recorded: Option<&Recorded>,
        counted: Option<&Counted>,
        talk: &Talk,
    ) -> Result<String, Failure> {
        let first = self.run.seed;
        let mut lines = String::new();
        for repetition in 0..self.seeds {
            self.run.seed = first.wrapping_add(repetition);
            let mut observer = Repetition { talk, seeds: self.seeds, repetition };
            let mut results = perforate_sim::run(&self.run, &mut observer)?;
            if let Some(recorded) = recorded {
                results.iter_mut().for_each(|result| recorded.annotate(result));
            }
            if let Some(counted) = counted {
                counted.annotate(&mut results);
            }
            lines += &json_lines(&results);
        }
        Ok(lines)
    }
}

/// Observer of the run with one of several seeds: progress is that of all.
struct Repetition<'a> {
    talk: &'a Talk,
    seeds: u64,
    repetition: u64,
}

impl Observer for Repetition<'_> {
    fn on_progress(&mut self, Progress { done, total }: Progress) {
        let before = total.unwrap_or(0).saturating_mul(self.repetition);
        let total = total.map(|total| total.saturating_mul(self.seeds));
        self.talk.show(Progress { done: before + done, total });
    }

    fn is_cancelled(&self) -> bool {
        self.talk.stop.load(Ordering::Relaxed)
    }
}

/// Compares schemes on a workload or on a program that is recorded for it, and returns the lines of a
/// results file, and remarks. With `counters` the program also runs once natively, under the machine's
/// hardware counters.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    compared: Compared,
    program: Option<Vec<OsString>>,
    counters: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, Vec<String>)> {
    work(py, progress, move |talk| {
        let program = program.as_deref();
        let recorded = program.map(|program| compared.record(program, talk)).transpose()?;
        let counted = program.filter(|_| counters).map(Counted::of).transpose()?;
        let mut prepared = match &recorded {
            Some(recorded) => compared.prepare_recorded(recorded)?,
            None => compared.prepare()?,
        };
        let lines = prepared.run(recorded.as_ref(), counted.as_ref(), talk)?;
        Ok((lines, prepared.left_out))
    })
}

/// Runs one scheme, and returns its line of a results file.
#[pyfunction]
pub fn run(
    py: Python<'_>,
    compared: Compared,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    work(py, progress, move |talk| {
        compared.prepare_on(compared.workload.as_deref(), Kind::Run)?.run(None, None, talk)
    })
}

/// Explains translations, as JSON and as text.
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
        let found = perforate_commands::explain(&request(options, set)?, &question, &|_, _| ())?;
        Ok((found.record().to_string(), found.text(COLUMNS)))
    })
}

/// Carries out a command that measures or records, with these options and then these words, and
/// returns what it found as JSON and as text.
#[pyfunction]
pub fn carry_out(
    py: Python<'_>,
    command: Vec<String>,
    options: Pairs,
    rest: Vec<OsString>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String)> {
    let names: Vec<&str> = command.iter().map(String::as_str).collect();
    let flags = in_process::flags(&names, &options).map_err(|error| wrong_option(py, error))?;
    let named = std::iter::once("perforate".into()).chain(command.iter().map(OsString::from));
    let words: Vec<OsString> = named.chain(flags).chain(rest).collect();
    work(py, progress, move |talk| {
        let told = in_process::carry_out(&words, &mut talk.clone(), &talk.stop)?;
        Ok((told.json, told.text))
    })
}
