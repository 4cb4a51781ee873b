//! What can go wrong.

use std::path::PathBuf;

use thiserror::Error;

/// What can go wrong with experiments.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// No experiment of this name.
    #[error("no experiment {name:?}; {suggestion}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The nearest name, or where to find all of them.
        suggestion: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// An experiment file is wrong.
    #[error("experiment {name}: {problem}")]
    Wrong {
        /// The experiment.
        name: String,
        /// Where and what.
        problem: String,
    },
    /// A point could not be measured.
    #[error("experiment {name}: {point}: {problem}")]
    Point {
        /// An experiment that needs it.
        name: String,
        /// What was to be measured.
        point: String,
        /// Why not.
        problem: String,
    },
    /// Measurements that do not fit together.
    #[error("{0}")]
    Parts(String),
}
