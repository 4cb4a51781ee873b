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
    /// A line of a file is not right.
    #[error("{}, line {line}: {problem}", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line number, counted from 1.
        line: usize,
        /// Problem, and what would be right.
        problem: String,
    },
    /// A file lacks something.
    #[error("{}: {problem}", path.display())]
    Missing {
        /// Path of the file.
        path: PathBuf,
        /// Missing events, what would be right, and the events found.
        problem: String,
    },
    /// Shares that cannot be.
    #[error("{0}")]
    Share(String),
}
