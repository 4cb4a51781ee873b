//! Errors of loading and measuring experiments.

use std::path::PathBuf;

use thiserror::Error;

/// Error of loading or measuring an experiment.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// There is no experiment of this name.
    #[error("no experiment {name:?}; {suggestion}")]
    Unknown {
        /// Name of the experiment as the user wrote it.
        name: String,
        /// Nearest known name, or the command that lists all names.
        suggestion: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Path of the file that could not be read or written.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// An experiment file is invalid.
    #[error("experiment {name}: {problem}")]
    Wrong {
        /// Name of the invalid experiment.
        name: String,
        /// Location in the file, and the problem.
        problem: String,
    },
    /// A point (single measurement) of an experiment could not be measured.
    #[error("experiment {name}: {point}: {problem}")]
    Point {
        /// Name of an experiment that needs the point.
        name: String,
        /// Description of the point: its kind, subject and settings.
        point: String,
        /// Reason why the point could not be measured.
        problem: String,
    },
    /// Results of `experiment run --shard` that cannot be merged: message with the reason.
    #[error("{0}")]
    Parts(String),
}
