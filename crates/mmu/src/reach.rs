//! Result of a walk: the range of pages that one page-table entry maps.

use perforate_types::{Frame, PageSize, VirtualPage};

/// Result of a walk: the aligned range of pages that a leaf maps to consecutive frames, except for
/// holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Size and alignment of the range of pages.
    pub size: PageSize,
    /// Frame to which the range's first page is mapped.
    pub frame: Frame,
    /// Accesses that may complete at once, as bits of [`allow`]. A store to a clean page, for
    /// example, must first set the dirty bit.
    pub allows: u8,
    /// Eight-bit hole filter of a 2MB range (P §IV.B); 0 if the range has no holes.
    pub filter: u8,
}

impl Reach {
    /// Creates the mapping of one 4KB page to `frame`.
    pub const fn of_page(frame: Frame, allows: u8) -> Self {
        Self { size: PageSize::Size4K, frame, allows, filter: 0 }
    }

    /// Frame of a 4KB page in the range, ignoring holes.
    #[inline]
    pub fn frame_of(&self, page: VirtualPage) -> Frame {
        self.frame.add(page.index_in(self.size) as u64)
    }
}

/// Bits for the accesses that a translation lets complete at once.
pub mod allow {
    use perforate_types::{AccessKind, Permissions};

    /// Loads are allowed: the page is present.
    pub const READ: u8 = 1;
    /// Stores are allowed by the permissions; the dirty bit may still have to be set.
    pub const WRITE: u8 = 2;
    /// Instruction fetches are allowed.
    pub const FETCH: u8 = 4;
    /// The dirty bit of the leaf entry is set, so a store need not set it.
    pub const DIRTY: u8 = 8;

    /// Returns the bits for a leaf entry with these permissions and this dirty bit.
    pub fn of_leaf(permissions: Permissions, dirty: bool) -> u8 {
        let bit = |kind, bit| if permissions.allow(kind) { bit } else { 0 };
        bit(AccessKind::Read, READ)
            | bit(AccessKind::Write, WRITE)
            | bit(AccessKind::Fetch, FETCH)
            | if dirty { DIRTY } else { 0 }
    }

    /// Returns the bits that a first-level TLB entry must have to complete an access of this kind.
    #[inline]
    pub const fn needed(kind: AccessKind) -> u8 {
        match kind {
            AccessKind::Read => READ,
            AccessKind::Write => WRITE | DIRTY,
            AccessKind::Fetch => FETCH,
        }
    }

    /// True if the permissions allow an access of this kind, ignoring the dirty bit.
    #[inline]
    pub const fn permits(allows: u8, kind: AccessKind) -> bool {
        let needed = needed(kind) & !DIRTY;
        allows & needed == needed
    }
}
