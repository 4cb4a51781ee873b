//! Errors in the input of the linear models.

use std::path::PathBuf;

/// Reason why a prediction cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A line of a file is invalid.
    #[error("{}, line {line}: {problem}", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line number, counted from 1.
        line: usize,
        /// Problem, with the expected form.
        problem: String,
    },
    /// A file lacks required events or runs.
    #[error("{}: {problem}", path.display())]
    Missing {
        /// Path of the file.
        path: PathBuf,
        /// Missing events, the alternatives, and the events that were found.
        problem: String,
    },
    /// Shares that are contradictory or outside 0 to 1.
    #[error("{0}")]
    Share(String),
}
