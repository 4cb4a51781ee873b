//! Results as tables and pages.

use std::path::PathBuf;

use perforate_cli::in_process;
use perforate_commands::{title, with_keywords};
use perforate_records::{RunResult, read_results};
use perforate_report::{ReportOptions, Rows};
use perforate_sim::vocabulary;
use pyo3::prelude::*;

use crate::errors::{exception, wrong_results};
use crate::work::guarded;

/// Does something with the results in these lines.
fn of_lines<T>(py: Python<'_>, lines: &str, make: impl FnOnce(&[RunResult]) -> T) -> PyResult<T> {
    guarded(py, || {
        let results = read_results(lines).map_err(|error| wrong_results(py, error))?;
        Ok(make(&results))
    })
}

/// Writes files, all or none, each whole: paths and texts.
#[pyfunction]
pub fn write_texts(py: Python<'_>, files: Vec<(PathBuf, String)>) -> PyResult<()> {
    py.detach(|| perforate_config::write_texts(&files)).map_err(|(number, error)| {
        let path = files[number].0.display();
        exception(py, "RunError", format!("{path}: cannot be written: {error}"))
    })
}

/// The table that the command line prints.
#[pyfunction]
pub fn table(py: Python<'_>, lines: &str, width: usize, all: bool) -> PyResult<String> {
    let rows = if all { Rows::All } else { Rows::Main };
    of_lines(py, lines, |results| perforate_report::table(results, &vocabulary(), width, rows))
}

/// The notes of all runs, each once; `rest` says where notes on how a trace was made are.
#[pyfunction]
pub fn remarks(py: Python<'_>, lines: &str, rest: &str) -> PyResult<Vec<String>> {
    of_lines(py, lines, |results| {
        let found = in_process::remarks(results, rest);
        found.iter().map(|remark| with_keywords(remark)).collect()
    })
}

/// Notes as lines below a table.
#[pyfunction]
pub fn notes(remarks: Vec<String>, width: usize) -> String {
    in_process::notes_text(&remarks, width)
}

/// Speed of one scheme divided by the speed of another, with an interval, as JSON.
#[pyfunction]
pub fn speed_over(py: Python<'_>, lines: &str, scheme: &str, other: &str) -> PyResult<String> {
    of_lines(py, lines, |results| {
        let found = perforate_report::speed_over(results, &vocabulary(), scheme, other);
        serde_json::to_string(&found).expect("estimates are plain data")
    })
}

/// The comparisons in short, as JSON.
#[pyfunction]
pub fn summaries(py: Python<'_>, lines: &str) -> PyResult<String> {
    of_lines(py, lines, |results| {
        let found = perforate_report::summaries(results, &vocabulary());
        serde_json::to_string(&found).expect("summaries are plain data")
    })
}

/// The answer and the main figures as a piece of HTML.
#[pyfunction]
pub fn summary_html(py: Python<'_>, lines: &str) -> PyResult<String> {
    of_lines(py, lines, |results| perforate_report::summary_html(results, &vocabulary()))
}

/// The whole report as a page.
#[pyfunction]
pub fn report_html(py: Python<'_>, lines: &str) -> PyResult<String> {
    of_lines(py, lines, |results| {
        let (title, vocabulary) = (title(results), vocabulary());
        let options = ReportOptions {
            title,
            results: lines.to_owned(),
            vocabulary,
            ..ReportOptions::default()
        };
        perforate_report::html(results, &options)
    })
}
