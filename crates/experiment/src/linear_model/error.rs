//! Errors in the input of the linear models of page-walk cycles.

use std::path::PathBuf;

/// Reason why the linear models cannot make a prediction.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// An input file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file that cannot be read.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A line of a file is invalid.
    #[error("{}, line {line}: {problem}", path.display())]
    Line {
        /// Path of the file with the invalid line.
        path: PathBuf,
        /// Number of the invalid line, counted from 1.
        line: usize,
        /// Problem with the line, and the expected form.
        problem: String,
    },
    /// A file lacks required events or runs.
    #[error("{}: {problem}", path.display())]
    Missing {
        /// Path of the incomplete file.
        path: PathBuf,
        /// Missing events, alternative events, and the events that were found.
        problem: String,
    },
    /// Shares of misses that are contradictory or outside 0 to 1.
    #[error("{0}")]
    Share(String),
}
