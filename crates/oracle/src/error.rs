//! Errors of truths (changes of the intended mapping) that contradict earlier ones.

use std::fmt;

use perforate_types::Truth;
use thiserror::Error;

/// Error of a truth (change of the intended mapping) that contradicts earlier ones: a bug of the simulated
/// OS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub struct OracleError {
    /// Change of the intended mapping that was refused.
    pub truth: Truth,
    /// Reason why the change was refused.
    pub reason: Reason,
}

impl fmt::Display for OracleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { truth, reason } = self;
        let change = match truth {
            Truth::Map { .. } => "mapping",
            Truth::Unmap { .. } => "unmapping",
            Truth::Protect { .. } => "protecting",
        };
        let run = truth.run();
        let (page, pages, space) = (run.page, run.pages, run.space.0);
        write!(f, "{change} {pages} pages from {page:?} on in address space {space}: {reason}")
    }
}

/// Reason why the oracle refuses a change of the intended mapping of a run of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Reason {
    /// The run of pages is empty.
    #[error("there are no pages")]
    Empty,
    /// The run of pages ends beyond the largest page or frame number.
    #[error("they end beyond the last page or frame")]
    TooLong,
    /// Part of the run of pages is mapped already.
    #[error("part of them is mapped already")]
    Mapped,
    /// Part of the run of pages is not mapped.
    #[error("part of them is not mapped")]
    NotMapped,
}
