//! Commands that measure this machine, or record or analyse a program. Each returns JSON and text.

use std::ffi::OsString;

use perforate_cli::actions::Failure;
use perforate_cli::python::{self, CommandOutput};
use pyo3::prelude::*;

use crate::runs::Pairs;
use crate::work::{WorkState, work};

fn output(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    command: impl FnOnce(&mut WorkState) -> Result<CommandOutput, Failure> + Send + 'static,
) -> PyResult<(String, String)> {
    let CommandOutput { json, text } = work(py, progress, |state| command(&mut state.clone()))?;
    Ok((json, text))
}

/// Measures this machine, and writes a machine file. Returns JSON and text.
#[pyfunction]
pub fn calibrate(
    py: Python<'_>,
    options: Pairs,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String)> {
    output(py, progress, move |state| python::calibrate(&options, state))
}

/// Compares measurements of this machine, and of a program unless `program` is empty, with predictions.
#[pyfunction]
pub fn validate(
    py: Python<'_>,
    program: Vec<OsString>,
    options: Pairs,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String)> {
    output(py, progress, move |state| python::validate(program, &options, state))
}

/// Advises on large pages for a trace or workload, or for a program unless `program` is empty.
#[pyfunction]
pub fn advise(
    py: Python<'_>,
    workload: Option<OsString>,
    program: Vec<OsString>,
    options: Pairs,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String)> {
    output(py, progress, move |state| {
        let stop = state.stop.clone();
        python::advise(workload, program, &options, state, &stop)
    })
}

/// Records a program into a trace. Returns JSON and text.
#[pyfunction]
pub fn record(
    py: Python<'_>,
    program: Vec<OsString>,
    options: Pairs,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String)> {
    output(py, progress, move |state| {
        let stop = state.stop.clone();
        python::record(program, &options, state, &stop)
    })
}

/// Makes the miss-ratio curves of a workload or trace. Returns JSON and text.
#[pyfunction]
pub fn curves(
    py: Python<'_>,
    workload: Option<OsString>,
    options: Pairs,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String)> {
    output(py, progress, move |state| python::curves(workload, &options, state))
}

/// Describes the memory of this machine, of a process, or of a stored snapshot.
#[pyfunction]
pub fn snapshot(
    py: Python<'_>,
    process: Option<OsString>,
    file: Option<OsString>,
    options: Pairs,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String)> {
    output(py, progress, move |state| match (process, file) {
        (Some(pid), _) => python::snapshot_process(pid, &options, state),
        (None, Some(file)) => python::snapshot_file(file, &options),
        (None, None) => python::snapshot_host(&options, state),
    })
}
