//! Operations on gap-tolerant superpages (G §3).

use perforate_types::{
    FormatOperation, Frame, GapTolerance, PageRun, Permissions, SpaceId, Update, VirtualPage,
    Written,
};

/// An operation on a gap-tolerant entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperpageOperation {
    /// A gap-tolerant entry: one superpage, or the two of a pair (G §3.3, §3.6). Virtual block *k*
    /// of a superpage lies in the B-block of its slice that the *k*-th set bit of the selection
    /// names. There is no level-1 node and no 2MB page in the 2MB regions it touches.
    Map {
        /// Address space.
        space: SpaceId,
        /// First page; aligned to `mode.entry_pages()`.
        page: VirtualPage,
        /// Mode of the address space's page directories.
        mode: GapTolerance,
        /// First frame of the slice of the (first) superpage; aligned to `mode.slice_frames()`.
        slice: Frame,
        /// First frame of the slice of a pair's second superpage, in the same chunk of 128MB; the
        /// first slice itself where it is whole and paired with itself. Of single entries `slice`.
        second: Frame,
        /// B-blocks used, bit *i* for the *i*-th: 32 bits, or all 64 of a slice paired with itself.
        selection: u64,
        /// What it allows.
        permissions: Permissions,
    },
    /// The gap-tolerant entry at `page` is gone.
    Unmap {
        /// Address space.
        space: SpaceId,
        /// First page.
        page: VirtualPage,
        /// Mode of the address space's page directories.
        mode: GapTolerance,
    },
    /// The gap-tolerant entry at `page` has new permissions.
    Protect {
        /// Address space.
        space: SpaceId,
        /// First page.
        page: VirtualPage,
        /// Mode of the address space's page directories.
        mode: GapTolerance,
        /// New permissions.
        permissions: Permissions,
    },
}

impl FormatOperation for SuperpageOperation {
    fn pages(&self) -> PageRun {
        match *self {
            Self::Map { space, page, mode, .. }
            | Self::Unmap { space, page, mode }
            | Self::Protect { space, page, mode, .. } => {
                PageRun::new(space, page, mode.entry_pages())
            }
        }
    }

    fn written(&self) -> Written {
        Written::Entry(2)
    }
}

impl From<SuperpageOperation> for Update {
    fn from(operation: SuperpageOperation) -> Self {
        Self::Format(Box::new(operation))
    }
}
