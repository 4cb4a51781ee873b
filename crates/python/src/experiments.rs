//! Experiments whose points any process measures.

use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};

use perforate_cli::in_process::{self, ExperimentRun};
use perforate_commands::Failure;
use perforate_experiment::{Job, Measurement};
use perforate_host::Reporter;
use perforate_sim::Progress;
use pyo3::prelude::*;

use crate::errors::{failed, wrong_option};
use crate::points::own_build;
use crate::runs::Pairs;
use crate::work::{guarded, work};

/// What shares of progress are counted in.
const WHOLE: u64 = 10_000;

/// An experiment, and what was measured of it.
#[pyclass]
pub struct PlannedExperiment {
    run: Mutex<ExperimentRun>,
    /// What is missing.
    missing: Vec<Job>,
}

#[pymethods]
impl PlannedExperiment {
    /// The experiment of this name or in this file, with options of `perforate experiment run`. Files
    /// are written only where a folder is named.
    #[new]
    fn new(py: Python<'_>, name: String, options: Pairs, out: Option<OsString>) -> PyResult<Self> {
        let command = ["experiment", "run"];
        let flags =
            in_process::flags(&command, &options).map_err(|error| wrong_option(py, error))?;
        let named = ["perforate", "experiment", "run", &name].map(OsString::from);
        let files = out.map_or_else(|| vec!["--json".into()], |out| vec!["--out".into(), out]);
        let words: Vec<OsString> = named.into_iter().chain(flags).chain(files).collect();
        let run = work(py, None, move |_| ExperimentRun::prepare(&words))?;
        Ok(Self { missing: run.missing(), run: Mutex::new(run) })
    }

    /// What is to be measured: names, and jobs as JSON for [`measure`], the longest first.
    fn missing(&self) -> Vec<(String, String)> {
        let text = |job| serde_json::to_string(job).expect("jobs are plain data");
        self.missing.iter().map(|job| (job.name(), text(job))).collect()
    }

    /// Keeps what [`measure`] found of the job at this place among those that are missing.
    fn keep(&self, py: Python<'_>, place: usize, measured: &str) -> PyResult<()> {
        let kept = || {
            let wrong = |problem: String| Failure::Internal(format!("job {place}: {problem}"));
            let job = self.missing.get(place).ok_or_else(|| wrong("there is none".into()))?;
            let measured: Vec<Measurement> =
                serde_json::from_str(measured).map_err(|error| wrong(error.to_string()))?;
            self.run.lock().unwrap_or_else(PoisonError::into_inner).keep(job, measured)
        };
        kept().map_err(|failure| failed(py, &failure))
    }

    /// Writes the files if there is a folder for them, and returns records and tables.
    fn finish(&self, py: Python<'_>) -> PyResult<(String, String)> {
        guarded(py, || {
            let run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
            let told = run.finish().map_err(|failure| failed(py, &failure))?;
            Ok((told.json, told.text))
        })
    }
}

/// Measures a job if this process measures just what was planned, and returns what it found as JSON.
#[pyfunction]
pub fn measure(py: Python<'_>, job: String) -> PyResult<String> {
    work(py, None, move |talk| {
        let job: Job = serde_json::from_str(&job)
            .map_err(|error| Failure::Usage(format!("this is no job: {error}")))?;
        job.check(&own_build()?)?;
        // Whoever no longer wants it unwinds it here.
        let mut talk = talk.clone();
        let measured = job.measure(&mut |share| {
            talk.progress(Progress { done: (share * WHOLE as f64) as u64, total: Some(WHOLE) });
        })?;
        Ok(serde_json::to_string(&measured).expect("measurements are plain data"))
    })
}
