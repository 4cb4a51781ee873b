//! What can be wrong with a results file.

/// Why a results file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file holds no runs.
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
    /// A line is not a result.
    #[error("line {line}: {cause}; expected one JSON object with at least scheme and workload")]
    Line {
        /// Line number, counted from 1.
        line: usize,
        /// What the JSON reader says.
        cause: serde_json::Error,
    },
}
