//! Operations on the registers of a direct segment (D §II.B).

use perforate_types::{
    FormatOperation, Frame, PageRun, Permissions, SpaceId, Update, VirtualPage, Written,
};

/// Number of 64-bit registers of a segment: BASE, LIMIT and OFFSET, and the 256 bits of the escape
/// filter (D §II.B, §V).
pub const SEGMENT_REGISTERS: u64 = 3 + 4;

/// An operation on segment registers and their escape filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentOperation {
    /// Sets the segment registers of the address space: BASE is `page`, LIMIT `page` + `pages`,
    /// OFFSET `frame` − `page`. The escape filter becomes empty (D §II.B, §III). Page tables may
    /// map pages of the segment to other frames only if these escape. They may map other pages in
    /// place, for false positives of the filter. Pages that are mapped to other frames at present
    /// escape by the operations that follow immediately. Then a shootdown of the whole address
    /// space follows.
    Set {
        /// Address space of the segment.
        space: SpaceId,
        /// First page of the segment.
        page: VirtualPage,
        /// Number of 4KB pages in the segment, not 0.
        pages: u64,
        /// Frame of the segment's first page; the frames of the other pages are consecutive.
        frame: Frame,
        /// Accesses that the segment allows.
        permissions: Permissions,
    },
    /// Clears the segment registers of the address space: BASE = LIMIT. Pages that page tables map
    /// stay mapped. A shootdown of the address space follows.
    Clear {
        /// Address space of the segment.
        space: SpaceId,
    },
    /// Makes a page escape from the segment: the page is added to the escape filter, and only page
    /// tables translate it from now on (D §V). If page tables map it in place, that mapping remains
    /// at first. A shootdown of the address space follows, with at most further escapes in between.
    Escape {
        /// Address space of the segment.
        space: SpaceId,
        /// The 4KB page that escapes.
        page: VirtualPage,
    },
}

impl FormatOperation for SegmentOperation {
    fn pages(&self) -> PageRun {
        match *self {
            Self::Set { space, page, pages, .. } => PageRun::new(space, page, pages),
            Self::Clear { space } => PageRun::whole(space),
            Self::Escape { space, page } => PageRun::new(space, page, 1),
        }
    }

    /// Tells a hypervisor with shadow tables which state changes. Clearing a segment writes LIMIT =
    /// BASE. An escape writes one register, because the processor adds the page to the filter: the
    /// operating system does not know the hash functions.
    fn written(&self) -> Written {
        match self {
            Self::Set { .. } => Written::Registers(SEGMENT_REGISTERS),
            Self::Clear { .. } | Self::Escape { .. } => Written::Registers(1),
        }
    }
}

impl From<SegmentOperation> for Update {
    fn from(operation: SegmentOperation) -> Self {
        Self::Format(Box::new(operation))
    }
}
