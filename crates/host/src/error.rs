//! Errors of snapshots and measurements.

use std::io;
use std::path::{Path, PathBuf};

use perforate_os::OsError;
use perforate_record::RecordError;
use perforate_sim::SimError;

/// Error of reading, measuring or predicting the real machine, printed as one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A file of `/proc`, or a copy of one, cannot be read or is invalid.
    #[error("{}: {problem}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Reason why the file cannot be read, with what was expected.
        problem: String,
    },
    /// The operating system refused an action.
    #[error("{action}: {source}")]
    System {
        /// Action that was refused, such as "starting the program".
        action: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// The memory requested for a measurement is too small or too large; the text says which size is possible
    /// or why none is.
    #[error("{0}")]
    Size(String),
    /// More layouts of memory are requested than can be measured; the text says how many can be.
    #[error("{0}")]
    Layouts(String),
    /// The requested processor cannot be used.
    #[error("{number}: {source}; expected a processor we may run on")]
    Processor {
        /// Number of the processor.
        number: usize,
        /// The operating system's error.
        source: io::Error,
    },
    /// A worker process that runs a benchmark exited or sent an unexpected message.
    #[error("the benchmark's process ended or answered {answer:?}; expected a measurement")]
    Benchmark {
        /// Message of the worker; empty if it exited.
        answer: String,
    },
    /// No bundled machine is of this processor's maker.
    #[error(
        "no bundled machine is of the maker of {processor}, and none of another maker stands in: \
         name one with --machine or --base, or measure this one with `perforate calibrate --base \
         NAME` (see `perforate list machines`)"
    )]
    UnknownProcessor {
        /// Vendor, family and model of the processor.
        processor: String,
    },
    /// A signal killed the measured program.
    #[error("a signal ended the program while it was measured; expected it to exit")]
    ProgramKilled,
    /// A program does not support layouts (2MB pages for chosen parts of its memory), or the layout cannot be
    /// applied; the text says why.
    #[error("{0}")]
    Layout(String),
    /// Advice on large pages cannot be given to a program, or the program cannot be measured with it; the
    /// text says why.
    #[error("{0}")]
    Verify(String),
    /// The user stopped the measurement of a program.
    #[error("stopped while the program was measured")]
    Stopped,
    /// A recorded trace cannot be read or copied.
    #[error(transparent)]
    Trace(#[from] perforate_trace::TraceError),
    /// No trace of a program could be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The simulation of a prediction failed.
    #[error(transparent)]
    Simulation(#[from] SimError),
    /// The physical memory of a machine is not one that can be simulated.
    #[error(transparent)]
    Memory(#[from] OsError),
}

impl HostError {
    pub(crate) fn file(path: &Path, problem: impl Into<String>) -> Self {
        Self::File { path: path.to_owned(), problem: problem.into() }
    }

    /// Returns a closure for `map_err` that reports that the operating system refused `action`.
    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { action, source }
    }
}
