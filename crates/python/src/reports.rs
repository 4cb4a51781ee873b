//! Results of runs as tables and pages.

use std::path::PathBuf;

use perforate_cli::actions::{Failure, title, with_keywords};
use perforate_cli::python;
use perforate_records::{RunResult, read_results};
use perforate_report::{ReportOptions, Rows};
use perforate_sim::vocabulary;
use pyo3::prelude::*;

use crate::work::guarded;

/// Calls `make` with the results in `lines`, the lines of a results file.
fn of_lines<T>(py: Python<'_>, lines: &str, make: impl FnOnce(&[RunResult]) -> T) -> PyResult<T> {
    guarded(py, || Ok(make(&read_results(lines)?)))
}

/// Writes texts to files with these paths: all files or no file.
#[pyfunction]
pub fn write_texts(py: Python<'_>, files: Vec<(PathBuf, String)>) -> PyResult<()> {
    guarded(py, || {
        let written = py.detach(|| perforate_config::write_texts(&files));
        written.map_err(|(index, source)| Failure::Write { path: files[index].0.clone(), source })
    })
}

/// Formats the results as a table, as the command line prints it.
#[pyfunction]
pub fn table(py: Python<'_>, lines: &str, width: usize, all: bool) -> PyResult<String> {
    let rows = if all { Rows::All } else { Rows::Main };
    of_lines(py, lines, |results| perforate_report::table(results, &vocabulary(), width, rows))
}

/// Merges the notes of all runs; `details` says where to find the notes on how a trace was made.
#[pyfunction]
pub fn merged_notes(py: Python<'_>, lines: &str, details: &str) -> PyResult<Vec<String>> {
    of_lines(py, lines, |results| {
        let notes = python::merged_notes(results, Some(details));
        notes.iter().map(|note| with_keywords(note)).collect()
    })
}

/// Formats notes as lines below a table, wrapped at `width` characters.
#[pyfunction]
pub fn notes(notes: Vec<String>, width: usize) -> String {
    python::notes(&notes, width)
}

/// Computes the speed of one scheme divided by the speed of another, with an interval, as JSON.
#[pyfunction]
pub fn speed_over(py: Python<'_>, lines: &str, scheme: &str, other: &str) -> PyResult<String> {
    of_lines(py, lines, |results| {
        let found = perforate_report::speed_over(results, &vocabulary(), scheme, other);
        serde_json::to_string(&found).expect("estimates are plain data")
    })
}

/// Summarizes each comparison in the results, as JSON: speeds, and the time that translation costs.
#[pyfunction]
pub fn summaries(py: Python<'_>, lines: &str) -> PyResult<String> {
    of_lines(py, lines, |results| {
        let found = perforate_report::summaries(results, &vocabulary());
        serde_json::to_string(&found).expect("summaries are plain data")
    })
}

/// Formats the cost of translation in each comparison, in sentences and main figures, as HTML for a notebook.
#[pyfunction]
pub fn summary_html(py: Python<'_>, lines: &str) -> PyResult<String> {
    of_lines(py, lines, |results| perforate_report::summary_html(results, &vocabulary()))
}

/// Makes the report as an HTML page.
#[pyfunction]
pub fn report_html(py: Python<'_>, lines: &str) -> PyResult<String> {
    of_lines(py, lines, |results| {
        let options = ReportOptions {
            title: title(results),
            command: String::new(),
            results: lines.to_owned(),
            vocabulary: vocabulary(),
        };
        perforate_report::html(results, &options)
    })
}
