//! Errors of recording programs.

use std::io;
use std::path::{Path, PathBuf};

use perforate_trace::TraceError;

use crate::layout::{DICTIONARY_BYTES, RINGS};

/// Error of a recording. Each prints as one line that says what was expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// No user-mode emulator was found.
    #[error("recording needs qemu-x86_64, which is not installed; apt-get install qemu-user")]
    EmulatorMissing,
    /// The emulator was built without plugins, as Debian's qemu-user-static is.
    #[error(
        "recording needs qemu-x86_64 with plugins, and {} has none; apt-get install qemu-user",
        .0.display()
    )]
    EmulatorWithoutPlugins(PathBuf),
    /// The emulator ended before the program ran; it printed its own message.
    #[error(
        "{} ended before the program started ({status}); QEMU 7.2 is known to work \
         (Debian 12: apt-get install qemu-user)",
        path.display()
    )]
    EmulatorFailed {
        /// Path of the emulator that ended.
        path: PathBuf,
        /// Exit status of the emulator that ended.
        status: String,
    },
    /// The command line names no program.
    #[error("no program to record; expected -- PROGRAM ARGUMENTS…")]
    NoProgram,
    /// A program cannot be recorded, or a trace cannot be written.
    #[error("{}: {problem}", path.display())]
    File {
        /// Path of the program or the trace.
        path: PathBuf,
        /// Reason for which the file is not usable, with what was expected.
        problem: String,
    },
    /// The operating system refused an action that the recording needs.
    #[error("{action}: {source}")]
    System {
        /// Refused action, such as "starting a thread".
        action: &'static str,
        /// Error that the operating system reported.
        source: io::Error,
    },
    /// The program ended while instructions were still being skipped.
    #[error(
        "the program ended ({status}) after about {executed} instructions; \
         nothing is left to record after skipping {skip}"
    )]
    EndedWhileSkipping {
        /// Exit status of the program.
        status: String,
        /// Approximate number of instructions that the program executed.
        executed: u64,
        /// Number of instructions that the user wanted to skip.
        skip: u64,
    },
    /// The program ended, with this exit status, before the time or the signal that begins the recording.
    #[error("the program ended ({0}) before the recording began; there is no trace")]
    EndedBeforeBegin(String),
    /// The program ended before it entered the region to record; has the region and the exit status.
    #[error("the program ended ({1}) and what was to be recorded never began: {0}")]
    RegionNeverBegan(String, String),
    /// The recording was stopped before the first instruction was recorded.
    #[error("stopped before the first instruction was recorded; there is no trace")]
    StoppedEarly,
    /// The user stopped the recording, and its trace was not to be kept.
    #[error("stopped while recording")]
    Interrupted,
    /// The program has more threads at the same time than there are rings.
    #[error(
        "the program runs more than {RINGS} threads at one time, the most that can be recorded"
    )]
    TooManyThreads,
    /// The program creates more processes than a trace can number.
    #[error("the program makes more than 65536 processes, the most that can be recorded")]
    TooManyProcesses,
    /// The program has more code than the dictionary of executed code in the shared memory can hold.
    #[error(
        "the program runs more than {DICTIONARY_BYTES} bytes of code, the most that can be recorded"
    )]
    TooMuchCode,
    /// The records of the plugin contradict each other or their format.
    #[error("the emulator's records are damaged: {0}")]
    Damaged(&'static str),
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl RecordError {
    pub(crate) fn file(path: impl AsRef<Path>, problem: impl Into<String>) -> Self {
        Self::File { path: path.as_ref().to_owned(), problem: problem.into() }
    }

    /// Makes a function for `map_err`: the operating system refused `action`.
    pub(crate) fn system<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System { action, source: error.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole text of each error.
    #[test]
    fn errors_are_lines_that_name_their_places() {
        let status = || "exit code 3".to_owned();
        let refused = || io::Error::from_raw_os_error(libc::EACCES);
        let rings = RINGS.to_string();
        for (error, expected) in [
            (
                RecordError::EmulatorMissing,
                "recording needs qemu-x86_64, which is not installed; apt-get install qemu-user",
            ),
            (
                RecordError::EmulatorWithoutPlugins("/a/qemu".into()),
                "recording needs qemu-x86_64 with plugins, and /a/qemu has none; apt-get install \
                 qemu-user",
            ),
            (
                RecordError::EmulatorFailed { path: "/a/qemu".into(), status: status() },
                "/a/qemu ended before the program started (exit code 3); QEMU 7.2 is known to work \
                 (Debian 12: apt-get install qemu-user)",
            ),
            (RecordError::NoProgram, "no program to record; expected -- PROGRAM ARGUMENTS…"),
            (RecordError::file("a/b.trace", "cannot be written"), "a/b.trace: cannot be written"),
            (
                RecordError::system("starting a thread")(refused()),
                "starting a thread: Permission denied (os error 13)",
            ),
            (
                RecordError::EndedWhileSkipping { status: status(), executed: 900, skip: 1000 },
                "the program ended (exit code 3) after about 900 instructions; nothing is left to \
                 record after skipping 1000",
            ),
            (
                RecordError::EndedBeforeBegin(status()),
                "the program ended (exit code 3) before the recording began; there is no trace",
            ),
            (
                RecordError::RegionNeverBegan("function f".into(), status()),
                "the program ended (exit code 3) and what was to be recorded never began: function f",
            ),
            (
                RecordError::StoppedEarly,
                "stopped before the first instruction was recorded; there is no trace",
            ),
            (RecordError::Interrupted, "stopped while recording"),
            (
                RecordError::TooManyThreads,
                &format!(
                    "the program runs more than {rings} threads at one time, the most that can be \
                     recorded"
                ),
            ),
            (
                RecordError::TooManyProcesses,
                "the program makes more than 65536 processes, the most that can be recorded",
            ),
            (
                RecordError::TooMuchCode,
                &format!(
                    "the program runs more than {DICTIONARY_BYTES} bytes of code, the most that can \
                     be recorded"
                ),
            ),
            (
                RecordError::Damaged("a record is missing"),
                "the emulator's records are damaged: a record is missing",
            ),
        ] {
            assert_eq!(error.to_string(), expected);
        }
    }
}
