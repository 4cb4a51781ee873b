//! Errors of recording.

use std::io;
use std::path::PathBuf;

use perforate_trace::TraceError;

/// Why a program could not be recorded. Each prints as one line that says what would be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
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
        /// True if PATH was searched because the name has no slash.
        in_path: bool,
    },
    /// The file cannot be recorded.
    #[error("{}: {problem}", path.display())]
    Program {
        /// The file.
        path: PathBuf,
        /// Why it is not an executable for Linux on x86-64, and what was expected.
        problem: String,
    },
    /// The trace cannot be written there.
    #[error("{}: {problem}", path.display())]
    Output {
        /// The trace file.
        path: PathBuf,
        /// The reason.
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
        /// The limit.
        limit: usize,
    },
    /// The program creates more processes than a trace can number.
    #[error("the program makes more than 65536 processes, the most that can be recorded")]
    TooManyProcesses,
    /// The program has more code than can be recorded.
    #[error(
        "the program runs more than {limit_bytes} bytes of code, the most that can be recorded"
    )]
    TooMuchCode {
        /// The limit.
        limit_bytes: usize,
    },
    /// The records make no sense.
    #[error("the emulator's records are damaged: {0}")]
    Damaged(&'static str),
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl RecordError {
    /// For `map_err`: the operating system refused `action`.
    pub(crate) fn system<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System { action, source: error.into() }
    }
}
