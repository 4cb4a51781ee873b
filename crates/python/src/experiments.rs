//! Experiments whose points are measured by several processes.

use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};

use perforate_cli::actions::Failure;
use perforate_cli::python::{ExperimentRun, plan_experiment};
use perforate_experiment::{Job, Measurement};
use perforate_host::Reporter;
use perforate_sim::Progress;
use pyo3::prelude::*;

use crate::points::own_build;
use crate::runs::Pairs;
use crate::work::{guarded, work};

/// Number of steps into which a job is divided for its progress, which is known only as a share from 0 to 1.
const WHOLE: u64 = 10_000;

/// A planned run of an experiment. Its jobs (points that are measured together) are measured by [`measure`],
/// in any process.
#[pyclass]
pub struct PlannedExperiment {
    run: Mutex<ExperimentRun>,
    /// Jobs (points that are measured together) that were not measured when the run was planned.
    missing: Vec<Job>,
}

#[pymethods]
impl PlannedExperiment {
    /// Plans an experiment by its name or file, with options of `perforate experiment run`. Files are
    /// written only if `out` is given.
    #[new]
    fn new(py: Python<'_>, name: String, options: Pairs, out: Option<OsString>) -> PyResult<Self> {
        let run = work(py, None, move |_| plan_experiment(name, &options, out))?;
        Ok(Self { missing: run.missing_jobs(), run: Mutex::new(run) })
    }

    /// Jobs that are not measured: the name of each, and the job as JSON for [`measure`], the longest first.
    fn missing(&self) -> Vec<(String, String)> {
        let text = |job| serde_json::to_string(job).expect("jobs are plain data");
        self.missing.iter().map(|job| (job.name(), text(job))).collect()
    }

    /// Stores the measurements that [`measure`] returned for the missing job at this index.
    fn keep(&self, py: Python<'_>, index: usize, measured: &str) -> PyResult<()> {
        guarded(py, || {
            let wrong = |problem: String| Failure::Internal(format!("job {index}: {problem}"));
            let job = self.missing.get(index).ok_or_else(|| wrong("there is none".into()))?;
            let measured: Vec<Measurement> =
                serde_json::from_str(measured).map_err(|error| wrong(error.to_string()))?;
            self.run.lock().unwrap_or_else(PoisonError::into_inner).keep(job, measured)
        })
    }

    /// Writes the files if `out` was given. Returns records and tables.
    fn finish(&self, py: Python<'_>) -> PyResult<(String, String)> {
        guarded(py, || {
            let run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
            run.finish().map(|output| (output.json, output.text))
        })
    }
}

/// Measures a job of [`PlannedExperiment`], and returns the measurements as JSON. Refuses a job of another
/// build.
#[pyfunction]
pub fn measure(py: Python<'_>, job: String) -> PyResult<String> {
    work(py, None, move |state| {
        let job: Job = serde_json::from_str(&job)
            .map_err(|error| Failure::Usage(format!("this is no job: {error}")))?;
        job.check(&own_build()?)?;
        // `progress` unwinds if the job is cancelled.
        let mut state = state.clone();
        let measured = job.measure(&mut |share| {
            state.progress(Progress { done: (share * WHOLE as f64) as u64, total: Some(WHOLE) });
        })?;
        Ok(serde_json::to_string(&measured).expect("measurements are plain data"))
    })
}
