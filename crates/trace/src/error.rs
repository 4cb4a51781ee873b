//! Errors of reading and writing traces, and of making workloads.

use std::path::{Path, PathBuf};

/// Error of reading or writing a trace, or of making a workload.
///
/// Each prints as one line: the problem, its place, and what was expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The operating system refused an action on a file.
    #[error("{}: {action}: {source}", path.display())]
    Io {
        /// Path of the file on which the action was refused.
        path: PathBuf,
        /// Refused action, such as "open" or "read".
        action: &'static str,
        /// Error that the operating system reported.
        source: std::io::Error,
    },
    /// The file has no format that Perforate can read.
    #[error("{}: {found}; expected {EXPECTED_FORMATS}", path.display())]
    Unrecognized {
        /// Path of the file of unknown format.
        path: PathBuf,
        /// Description of the file's actual content.
        found: String,
    },
    /// The file or folder is of a known kind but cannot be read in its present form, such as a raw trace of
    /// DynamoRIO.
    #[error("{}: {problem}; expected {expected}", path.display())]
    Unsuitable {
        /// Path of the file or folder that cannot be read.
        path: PathBuf,
        /// Reason for which the file or folder cannot be read.
        problem: String,
        /// Form in which the file or folder could be read.
        expected: String,
    },
    /// The file has a known format, but contains invalid bytes.
    #[error("{}: byte {offset}: {problem}; expected {expected}", path.display())]
    Damaged {
        /// Path of the damaged file.
        path: PathBuf,
        /// Byte offset of the problem in the file; in the uncompressed content for compressed foreign
        /// traces.
        offset: u64,
        /// Problem of the content at the offset.
        problem: String,
        /// Content that was expected at the offset.
        expected: String,
    },
    /// A line of a trace in text is invalid.
    #[error("{}: line {line}: {problem}; expected {expected}", path.display())]
    Line {
        /// Path of the trace.
        path: PathBuf,
        /// Number of the line with the problem, from 1.
        line: u64,
        /// Problem of the line.
        problem: String,
        /// Content that was expected in the line.
        expected: String,
    },
    /// An instruction that a trace cannot represent was given to the writer of a trace.
    #[error("instruction {number} at {ip:#x}: {problem}")]
    Instruction {
        /// Number of instructions written before this one.
        number: u64,
        /// Address of the instruction that was refused.
        ip: u64,
        /// Problem of the instruction, and what was expected.
        problem: String,
    },
    /// A file is not a valid layout of a program's memory.
    #[error("{}: line {line}, column {column}: {problem}", path.display())]
    Layout {
        /// Path of the layout file.
        path: PathBuf,
        /// Number of the line with the problem, from 1.
        line: usize,
        /// Position of the problem in the line in characters, from 1.
        column: usize,
        /// Problem of the layout file, and what was expected.
        problem: String,
    },
    /// The specification of a synthetic workload, such as `gups:size=1G`, is invalid.
    #[error("workload '{spec}': {problem}")]
    Workload {
        /// Text of the invalid specification.
        spec: String,
        /// Problem of the specification, and what was expected.
        problem: String,
    },
}

/// Formats that [`crate::open`] can read, for error messages.
pub(crate) const EXPECTED_FORMATS: &str = "a trace of Perforate, ChampSim, DynamoRIO drmemtrace, \
     gem5 (packets) or valgrind lackey, or a list of accesses (docs/foreign-traces.md)";

impl TraceError {
    /// True if the file could not grow: the disk or quota is full, or the file-size limit is reached.
    pub fn is_without_room(&self) -> bool {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let Self::Io { source, .. } = self else { return false };
        matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge)
    }

    /// Makes [`TraceError::Io`]: the operating system refused `action`, such as "open" or "read".
    pub fn io(path: &Path, action: &'static str, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), action, source }
    }

    pub(crate) fn unrecognized(path: &Path, found: impl Into<String>) -> Self {
        Self::Unrecognized { path: path.to_owned(), found: found.into() }
    }

    /// Makes [`TraceError::Unsuitable`]: the file, folder or source cannot be used in its present form.
    pub fn unsuitable(path: &Path, problem: impl Into<String>, expected: &str) -> Self {
        let (problem, expected) = (problem.into(), expected.to_owned());
        Self::Unsuitable { path: path.to_owned(), problem, expected }
    }

    pub(crate) fn damaged(
        path: &Path,
        offset: u64,
        problem: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        let problem = in_one_line(problem.into());
        Self::Damaged { path: path.to_owned(), offset, problem, expected: expected.into() }
    }

    pub(crate) fn line(path: &Path, line: u64, problem: String, expected: &str) -> Self {
        let (problem, expected) = (in_one_line(problem), expected.to_owned());
        Self::Line { path: path.to_owned(), line, problem, expected }
    }
}

/// Replaces line breaks and the like, which a problem may quote from the file.
fn in_one_line(problem: String) -> String {
    problem.replace(char::is_control, " ")
}
