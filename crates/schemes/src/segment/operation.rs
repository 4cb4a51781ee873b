//! Operations on the registers of a direct segment (D §II.B).

use perforate_types::{
    FormatOperation, Frame, PageRun, Permissions, SpaceId, Update, VirtualPage, Written,
};

/// Registers of 64 bits that hold a segment: BASE, LIMIT and OFFSET, and the 256 bits of the escape
/// filter (D §II.B, §V).
pub const SEGMENT_REGISTERS: u64 = 3 + 4;

/// An operation on segment registers and their escape filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentOperation {
    /// The segment registers of the address space are set: BASE is `page`, LIMIT `page` + `pages`,
    /// OFFSET `frame` − `page`; the escape filter is empty (D §II.B, §III). Of its pages only
    /// escaped ones may be mapped elsewhere by paging; others may be mapped in place, for those the
    /// filter takes for escaped. Pages that are mapped elsewhere at this moment escape with the
    /// operations that follow at once. Then everything cached for the address space is shot down.
    Set {
        /// Address space.
        space: SpaceId,
        /// First page.
        page: VirtualPage,
        /// Number of 4KB pages, not 0.
        pages: u64,
        /// Frame of the first page; the others follow.
        frame: Frame,
        /// What the segment allows.
        permissions: Permissions,
    },
    /// The segment registers of the address space are cleared: BASE = LIMIT. Pages mapped by paging
    /// inside it stay mapped. The shootdown of the address space follows.
    Clear {
        /// Address space.
        space: SpaceId,
    },
    /// A page of the segment escapes it: it goes into the escape filter, and paging alone
    /// translates it from now on (D §V): at first as it was mapped in place, if it was. The
    /// shootdown of the address space follows, after further escapes at most.
    Escape {
        /// Address space.
        space: SpaceId,
        /// The 4KB page.
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

    /// A cleared segment is a LIMIT that equals BASE. The operating system does not know the hash
    /// functions of the filter: it has the processor add a page.
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
