//! What direct segments cannot do, each as one line for the user.

use perforate_os::mechanism::size;
use perforate_os::{MechanismError, OsError};
use perforate_types::{SpaceId, VirtualPage};
use thiserror::Error;

/// An error of direct segments.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SegmentError {
    /// A direct segment over memory that is not mapped.
    #[error(
        "the segment from BASE {base:#x} to LIMIT {limit:#x} covers memory that is not mapped: the \
         area there reaches from {start:#x} to {end:#x}"
    )]
    BeyondArea {
        /// First byte of the segment.
        base: u64,
        /// First byte after it.
        limit: u64,
        /// First byte of the area.
        start: u64,
        /// First byte after it.
        end: u64,
    },
    /// No area that a direct segment could hold.
    #[error(
        "address space {} has no private anonymous area of {} or more to make a segment of",
        .space.0, size(*least_bytes)
    )]
    NoArea {
        /// Address space.
        space: SpaceId,
        /// The least size of a segment.
        least_bytes: u64,
    },
    /// A second segment.
    #[error("address space {} has a segment already", .space.0)]
    Second {
        /// Address space.
        space: SpaceId,
    },
    /// No segment.
    #[error("address space {} has no segment", .space.0)]
    None {
        /// Address space.
        space: SpaceId,
    },
    /// The page is outside the segment or has escaped it.
    #[error("{page:?} of address space {} is not translated by a segment", .space.0)]
    Outside {
        /// Address space.
        space: SpaceId,
        /// The page.
        page: VirtualPage,
    },
}

impl From<SegmentError> for OsError {
    fn from(error: SegmentError) -> Self {
        MechanismError::new(error).into()
    }
}
