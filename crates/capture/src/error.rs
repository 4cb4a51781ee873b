//! What can go wrong while recording.

use std::io;
use std::path::PathBuf;

use perforate_trace::TraceError;

/// Why a program could not be recorded. Each prints as one line: what, and what would be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// There is no user-mode emulator.
    #[error("recording needs qemu-x86_64, which is not installed; apt-get install qemu-user")]
    EmulatorMissing,
    /// There is an emulator, but built without plugins, as Debian's qemu-user-static is.
    #[error(
        "recording needs qemu-x86_64 with plugins, and {} has none; apt-get install qemu-user",
        path.display()
    )]
    EmulatorWithoutPlugins {
        /// The emulator found.
        path: PathBuf,
    },
    /// The emulator gave up before the program ran; its own message went to standard error.
    #[error(
        "{} ended before the program started ({status}); QEMU 7.2 is known to work \
         (Debian 12: apt-get install qemu-user)",
        path.display()
    )]
    EmulatorFailed {
        /// The emulator.
        path: PathBuf,
        /// How it ended.
        status: String,
    },
    /// No program was named.
    #[error("no program to record; expected -- PROGRAM ARGUMENTS…")]
    NoProgram,
    /// The program does not exist.
    #[error("{name}: not found{}", if *.in_path { " in PATH" } else { "" })]
    ProgramNotFound {
        /// The name as given.
        name: String,
        /// Whether PATH was searched (the name has no slash).
        in_path: bool,
    },
    /// The file cannot be recorded.
    #[error("{}: {problem}", path.display())]
    Program {
        /// The file.
        path: PathBuf,
        /// What it is instead of an executable for Linux on x86-64, and what would be right.
        problem: String,
    },
    /// The trace cannot be written there.
    #[error("{}: {problem}", path.display())]
    Output {
        /// The trace file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The operating system refused something.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// The program ended while instructions were still being skipped.
    #[error(
        "the program ended ({status}) after about {executed} instructions; \
         nothing is left to record after skipping {skip}"
    )]
    EndedWhileSkipping {
        /// How the program ended.
        status: String,
        /// Instructions it executed.
        executed: u64,
        /// Instructions that were to be skipped.
        skip: u64,
    },
    /// The region to record was never entered.
    #[error("the program ended ({status}) and what was to be recorded never began: {region}")]
    RegionNeverBegan {
        /// The region in words.
        region: String,
        /// How the program ended.
        status: String,
    },
    /// Stopped before the first instruction was recorded.
    #[error("stopped before the first instruction was recorded; there is no trace")]
    StoppedEarly,
    /// The program has more threads at one time than can be recorded.
    #[error(
        "the program runs more than {limit} threads at one time, the most that can be recorded"
    )]
    TooManyThreads {
        /// The most that can be recorded.
        limit: usize,
    },
    /// The program makes more processes than can be told apart.
    #[error("the program makes more than 65536 processes, the most that can be recorded")]
    TooManyProcesses,
    /// The program has more code than can be recorded.
    #[error(
        "the program runs more than {limit_bytes} bytes of code, the most that can be recorded"
    )]
    TooMuchCode {
        /// The most that can be recorded.
        limit_bytes: usize,
    },
    /// The process of a benchmark ended or said something else than a measurement.
    #[error("the benchmark's process ended or answered {answer:?}; expected a measurement")]
    Benchmark {
        /// What it said.
        answer: String,
    },
    /// The records make no sense.
    #[error("the emulator's records are damaged: {0}")]
    Damaged(&'static str),
    /// What the kernel tells of a machine or process cannot be read.
    #[error("{}: {problem}", path.display())]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// What is wrong with it and where, and what would be right.
        problem: String,
    },
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl CaptureError {
    pub(crate) fn system(action: &'static str, source: io::Error) -> Self {
        Self::System { action, source }
    }
}
