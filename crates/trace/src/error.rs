//! What can go wrong with a trace or a workload.

use std::path::{Path, PathBuf};

/// Why a trace could not be read or written, or a workload not be made.
///
/// Each prints as one line: what, where, and what would be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The operating system refused.
    #[error("{}: {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file is of no format that can be read.
    #[error("{}: {found}; expected {EXPECTED_FORMATS}", path.display())]
    Unrecognized {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        found: String,
    },
    /// What the path names is of a known kind, but cannot be read as it is.
    #[error("{}: {problem}; expected {expected}", path.display())]
    Unsuitable {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        problem: String,
        /// What would be right.
        expected: String,
    },
    /// The file is of a known format, but some of its bytes are wrong.
    #[error("{}: byte {offset}: {problem}; expected {expected}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in the file (of a compressed foreign trace: in its uncompressed content).
        offset: u64,
        /// What is wrong.
        problem: String,
        /// What would be right.
        expected: String,
    },
    /// An instruction that no trace can hold was pushed.
    #[error("instruction {number} at {ip:#x}: {problem}")]
    Instruction {
        /// How many instructions came before it.
        number: u64,
        /// Its address.
        ip: u64,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A file is no layout of a program's memory.
    #[error("{}: line {line}, column {column}: {problem}", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The character in the line, from 1.
        column: usize,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// The text that names a synthetic workload is wrong.
    #[error("workload '{spec}': {problem}")]
    Workload {
        /// The text.
        spec: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

/// What [`crate::open`] can read.
pub(crate) const EXPECTED_FORMATS: &str = "a trace of Perforate, ChampSim, DynamoRIO drmemtrace, \
     gem5 (packets) or valgrind lackey, or a list of accesses (docs/foreign-traces.md)";

impl TraceError {
    /// True if the file could not grow: the disk or a quota is full, or files may not be so large.
    pub fn is_without_room(&self) -> bool {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let Self::Io { source, .. } = self else { return false };
        matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge)
    }

    pub(crate) fn io(path: &Path, action: &'static str, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), action, source }
    }

    pub(crate) fn unrecognized(path: &Path, found: impl Into<String>) -> Self {
        Self::Unrecognized { path: path.to_owned(), found: found.into() }
    }

    pub(crate) fn unsuitable(path: &Path, problem: impl Into<String>, expected: &str) -> Self {
        let (problem, expected) = (problem.into(), expected.to_owned());
        Self::Unsuitable { path: path.to_owned(), problem, expected }
    }

    pub(crate) fn damaged(
        path: &Path,
        offset: u64,
        problem: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        // It may quote the file, and an error is one line.
        let problem = problem.into().replace(char::is_control, " ");
        Self::Damaged { path: path.to_owned(), offset, problem, expected: expected.into() }
    }

    pub(crate) fn workload(spec: &str, problem: impl Into<String>) -> Self {
        Self::Workload { spec: spec.to_owned(), problem: problem.into() }
    }
}
