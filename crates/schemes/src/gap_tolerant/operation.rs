//! Operations on gap-tolerant superpages (G §3).

use perforate_types::{
    FormatOperation, Frame, GapTolerance, PageRun, Permissions, SpaceId, Update, VirtualPage,
    Written,
};

/// A change of a gap-tolerant page-directory entry by the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperpageOperation {
    /// Maps a gap-tolerant entry: one superpage, or the two of a pair (G §3.3, §3.6). Virtual block
    /// *k* of a superpage is in the B-block of the *k*-th set bit of the selection. The affected
    /// 2MB regions must have no level-1 node.
    Map {
        /// Address space of the gap-tolerant entry.
        space: SpaceId,
        /// First page that the gap-tolerant entry maps; aligned to `mode.entry_pages()`.
        page: VirtualPage,
        /// Mode of the address space's page directories: size of B-blocks, single or paired
        /// entries.
        mode: GapTolerance,
        /// First frame of the slice of the (first) superpage; aligned to `mode.slice_frames()`.
        slice: Frame,
        /// First frame of the slice of a pair's second superpage, in the same chunk of 128MB. Equal
        /// to `slice` for a single entry or a self-paired slice.
        second: Frame,
        /// Selection bitmap: bit *i* selects B-block *i*. 32 bits are set, or all 64 for a
        /// self-paired slice.
        selection: u64,
        /// Accesses that the gap-tolerant entry allows.
        permissions: Permissions,
    },
    /// Removes the gap-tolerant entry at `page`.
    Unmap {
        /// Address space of the gap-tolerant entry.
        space: SpaceId,
        /// First page that the gap-tolerant entry maps.
        page: VirtualPage,
        /// Mode of the address space's page directories: size of B-blocks, single or paired
        /// entries.
        mode: GapTolerance,
    },
    /// Changes the permissions of the gap-tolerant entry at `page`.
    Protect {
        /// Address space of the gap-tolerant entry.
        space: SpaceId,
        /// First page that the gap-tolerant entry maps.
        page: VirtualPage,
        /// Mode of the address space's page directories: size of B-blocks, single or paired
        /// entries.
        mode: GapTolerance,
        /// Accesses that the gap-tolerant entry allows from now on.
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
