//! Errors of reading and running experiments.

use std::path::PathBuf;

use thiserror::Error;

/// Error of loading or measuring an experiment.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// No experiment of this name.
    #[error("no experiment {name:?}; {suggestion}")]
    Unknown {
        /// Name of an experiment as the user wrote it.
        name: String,
        /// Nearest known name, or the command that lists all names.
        suggestion: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// An experiment file is wrong.
    #[error("experiment {name}: {problem}")]
    Wrong {
        /// Name of the experiment.
        name: String,
        /// Place in the file, and the problem there.
        problem: String,
    },
    /// A point could not be measured.
    #[error("experiment {name}: {point}: {problem}")]
    Point {
        /// An experiment that needs it.
        name: String,
        /// Point that could not be measured.
        point: String,
        /// Reason for the failure.
        problem: String,
    },
    /// Measurements that do not fit together.
    #[error("{0}")]
    Parts(String),
}
