//! Errors of snapshots and measurements.

use std::io;
use std::path::{Path, PathBuf};

use perforate_os::OsError;
use perforate_record::RecordError;
use perforate_sim::SimError;

/// Why something of the real machine could not be read or measured. Each prints as one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A file of `/proc`, or a copy of one, cannot be read.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason, and what was expected.
        problem: String,
    },
    /// The operating system refused something.
    #[error("{action}: {source}")]
    System {
        /// The attempted action.
        action: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// The requested memory is too small or too large.
    #[error("{0}")]
    Size(String),
    /// The requested processor cannot be used.
    #[error("{number}: {source}; expected a processor we may run on")]
    Processor {
        /// Its number.
        number: usize,
        /// The operating system's error.
        source: io::Error,
    },
    /// The process of a benchmark ended or answered something unexpected.
    #[error("the benchmark's process ended or answered {answer:?}; expected a measurement")]
    Benchmark {
        /// Its answer.
        answer: String,
    },
    /// No bundled machine is of this processor's maker.
    #[error(
        "no bundled machine is of the maker of {processor}, and none of another maker stands in: \
         name one with --machine or --base, or measure this one with `perforate calibrate --base \
         NAME` (see `perforate list machines`)"
    )]
    UnknownProcessor {
        /// The processor.
        processor: String,
    },
    /// A machine file cannot be changed.
    #[error("machine {name}: {problem}")]
    MachineFile {
        /// Its name or path.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A signal ended the program that was measured.
    #[error("a signal ended the program while it was measured; expected it to exit")]
    ProgramKilled,
    /// A program cannot have a layout, or a layout cannot be had.
    #[error("{0}")]
    Layout(String),
    /// A recording cannot be read or copied.
    #[error(transparent)]
    Trace(#[from] perforate_trace::TraceError),
    /// A program could not be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A prediction could not be simulated.
    #[error(transparent)]
    Simulation(#[from] SimError),
    /// The memory of a machine is not one that can be simulated.
    #[error(transparent)]
    Memory(#[from] OsError),
}

impl HostError {
    pub(crate) fn file(path: &Path, problem: impl Into<String>) -> Self {
        Self::File { path: path.to_owned(), problem: problem.into() }
    }

    /// For `map_err`: the operating system refused `action`.
    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { action, source }
    }
}
