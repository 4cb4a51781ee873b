//! Changes that make no sense.

use perforate_types::{GapTolerance, PageSize, SpaceId, VirtualPage};
use thiserror::Error;

/// A mapping change that contradicts the changes before it: a bug of whoever sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{change} of {page:?} in address space {}: {reason}", .space.0)]
pub struct OracleError {
    /// Kind of the change.
    pub change: &'static str,
    /// Address space.
    pub space: SpaceId,
    /// First page of the change.
    pub page: VirtualPage,
    /// What contradicts it.
    pub reason: Reason,
}

/// Why a change makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Reason {
    /// The page number is not a multiple of the page's size.
    #[error("the page is not aligned to {0:?}")]
    PageUnaligned(PageSize),
    /// The frame number is not a multiple of the page's size.
    #[error("the frame is not aligned to {0:?}")]
    FrameUnaligned(PageSize),
    /// Part of the range is mapped already.
    #[error("part of it is mapped already")]
    Mapped,
    /// No page of that size starts there.
    #[error("no page of {0:?} starts there")]
    NotMapped(PageSize),
    /// The sub-page lies in no 2MB page.
    #[error("it is not part of a 2MB page")]
    NotLarge,
    /// The sub-page is a hole already.
    #[error("it is a hole already")]
    AlreadyHole,
    /// The sub-page is no hole.
    #[error("it is not a hole")]
    NotHole,
    /// The hole is allocated already.
    #[error("the hole is allocated already")]
    HoleAllocated,
    /// The hole is not allocated.
    #[error("the hole is not allocated")]
    HoleUnallocated,
    /// A perforated page without holes.
    #[error("a perforated page needs a hole")]
    NoHoles,
    /// A segment without pages.
    #[error("a segment needs a page")]
    EmptySegment,
    /// The segment ends beyond the last page or frame there can be.
    #[error("the segment ends beyond the last page or frame")]
    SegmentTooLong,
    /// The address space has no segment.
    #[error("the address space has no segment")]
    NoSegment,
    /// The page lies outside the segment.
    #[error("it is not part of the segment")]
    NotInSegment,
    /// The page has escaped already.
    #[error("it has escaped already")]
    AlreadyEscaped,
    /// Paging would translate a page otherwise than the segment does, and it did not escape.
    #[error("paging and segment translate {0:?} differently")]
    SegmentDiffers(VirtualPage),
    /// The page number is not a multiple of what an entry of the mode maps.
    #[error("the page is not aligned to what a {} maps", .0.label())]
    SuperpageUnaligned(GapTolerance),
    /// A frame number is not a multiple of the mode's slice.
    #[error("a slice is not aligned to {} frames", .0.slice_frames())]
    SliceUnaligned(GapTolerance),
    /// A single entry with two slices.
    #[error("a single entry has one slice")]
    SecondSlice,
    /// The slices of a pair lie too far apart for one entry.
    #[error("its two slices lie in two chunks of 128MB")]
    TwoChunks,
    /// Not as many B-blocks as there are virtual blocks.
    #[error("{selected} B-blocks are selected, not {wanted}")]
    Selection {
        /// Selected ones.
        selected: u32,
        /// How many it takes.
        wanted: u32,
    },
    /// No gap-tolerant entry starts there.
    #[error("no {} starts there", .0.label())]
    NotSuperpage(GapTolerance),
    /// One value of GTPTCR holds for an address space.
    #[error("the address space has gap-tolerant entries of another mode, {}", .0.label())]
    OtherMode(GapTolerance),
    /// GTPTCR lets an address space have 2MB pages or gap-tolerant entries.
    #[error("2MB pages and gap-tolerant entries exclude each other")]
    LargeAndSuperpage,
    /// 4KB pages and gap-tolerant entries in one 2MB region of a page directory.
    #[error("4KB pages and gap-tolerant entries share no 2MB")]
    SharedRegion,
}
