//! What can be wrong with what is read.

use perforate_records::{ResultsError, RunResult};

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file holds no records.
    #[error("no results: expected one JSON object per line, found none")]
    Empty,
    /// A line is not a record of an experiment.
    #[error("line {line}: {cause}")]
    Record {
        /// Line number, counted from 1.
        line: usize,
        /// What is wrong with it.
        cause: String,
    },
    /// A figure could not be drawn as a picture.
    #[error("figure {figure} cannot be drawn: {problem}")]
    Drawing {
        /// Its anchor on the page.
        figure: String,
        /// What the library says.
        problem: String,
    },
    /// It is no results file.
    #[error(transparent)]
    Results(#[from] ResultsError),
}

/// Reads a results file.
///
/// # Errors
/// As [`perforate_records::read_results`].
pub fn read_results(text: &str) -> Result<Vec<RunResult>, ReportError> {
    Ok(perforate_records::read_results(text)?)
}
