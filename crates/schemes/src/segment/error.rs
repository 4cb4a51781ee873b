//! Errors of direct segments, each as one line for the user.

use perforate_os::mechanism::size;
use perforate_os::{MechanismError, OsError};
use perforate_types::{SpaceId, VirtualPage};
use thiserror::Error;

/// Reason why an operation on a direct segment is impossible.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SegmentError {
    /// The segment that the user prescribed extends beyond the mapped area that it overlaps.
    #[error(
        "the segment from BASE {base:#x} to LIMIT {limit:#x} covers memory that is not mapped: the \
         area there reaches from {start:#x} to {end:#x}"
    )]
    BeyondArea {
        /// First byte of the segment that the user prescribed.
        base: u64,
        /// First byte after the segment that the user prescribed.
        limit: u64,
        /// First byte of the area that contains part of the segment.
        start: u64,
        /// First byte after the area that contains part of the segment.
        end: u64,
    },
    /// No area satisfies the conditions for a direct segment.
    #[error(
        "address space {} has no private anonymous area of {} or more to make a segment of",
        .space.0, size(*least_bytes)
    )]
    NoArea {
        /// Address space in which no area is suitable.
        space: SpaceId,
        /// Minimum size of an area that may get a segment, in bytes.
        least_bytes: u64,
    },
    /// The address space already has a direct segment.
    #[error("address space {} has a segment already", .space.0)]
    Second {
        /// Address space that already has a segment.
        space: SpaceId,
    },
    /// The address space has no direct segment.
    #[error("address space {} has no segment", .space.0)]
    None {
        /// Address space without a segment.
        space: SpaceId,
    },
    /// The segment does not translate the page: it is outside the segment, or has escaped.
    #[error("{page:?} of address space {} is not translated by a segment", .space.0)]
    Outside {
        /// Address space of the page.
        space: SpaceId,
        /// Page that the segment does not translate.
        page: VirtualPage,
    },
}

impl From<SegmentError> for OsError {
    fn from(error: SegmentError) -> Self {
        MechanismError::new(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_is_where() {
        let (space, page) = (SpaceId(3), VirtualPage::new(5));
        let (base, limit, start, end) = (0x1000, 0x9000, 0x2000, 0x8000);
        for (error, text) in [
            (
                SegmentError::BeyondArea { base, limit, start, end },
                "the segment from BASE 0x1000 to LIMIT 0x9000 covers memory that is not mapped: the area \
                 there reaches from 0x2000 to 0x8000",
            ),
            (
                SegmentError::NoArea { space, least_bytes: 64 << 20 },
                "address space 3 has no private anonymous area of 64M or more to make a segment of",
            ),
            (SegmentError::Second { space }, "address space 3 has a segment already"),
            (SegmentError::None { space }, "address space 3 has no segment"),
            (
                SegmentError::Outside { space, page },
                "va-page:0x5 of address space 3 is not translated by a segment",
            ),
        ] {
            assert_eq!(error.to_string(), text);
            assert_eq!(OsError::from(error).to_string(), text);
        }
    }
}
