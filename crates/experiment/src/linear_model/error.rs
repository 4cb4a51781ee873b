//! What can be wrong with the input of the models.

use std::path::PathBuf;

/// Why a prediction cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line of a file is not right.
    #[error("{}, line {line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A file lacks something.
    #[error("{}: {problem}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// What is missing, what would be right, what there is.
        problem: String,
    },
    /// Shares that cannot be.
    #[error("{0}")]
    Share(String),
}
