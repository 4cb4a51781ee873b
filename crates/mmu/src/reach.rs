//! The result of a walk: a range of pages with one linear mapping.

use perforate_types::{Frame, PageSize, VirtualPage};

/// The aligned range around an address that has one linear mapping, minus its holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Size and alignment of the range.
    pub size: PageSize,
    /// Frame of the range's first page.
    pub frame: Frame,
    /// Accesses that need no further work, as bits of [`allow`].
    pub allows: u8,
    /// Hole filter of the range; 0 if it has no holes.
    pub filter: u8,
}

impl Reach {
    /// The reach of one 4KB page.
    pub const fn of_page(frame: Frame, allows: u8) -> Self {
        Self { size: PageSize::Size4K, frame, allows, filter: 0 }
    }

    /// Frame of a 4KB page in the range, ignoring holes.
    #[inline]
    pub fn frame_of(&self, page: VirtualPage) -> Frame {
        self.frame.add(page.index_in(self.size) as u64)
    }
}

/// Bits for the accesses that a translation allows without further work.
pub mod allow {
    use perforate_types::{AccessKind, Permissions};

    /// Loads are allowed: the page is present.
    pub const READ: u8 = 1;
    /// Stores are allowed by the permissions.
    pub const WRITE: u8 = 2;
    /// Instruction fetches are allowed.
    pub const FETCH: u8 = 4;
    /// The leaf entry's dirty bit is known to be set.
    pub const DIRTY: u8 = 8;

    /// The bits of a leaf entry.
    pub fn of_leaf(permissions: Permissions, dirty: bool) -> u8 {
        let bit = |kind, bit| if permissions.allow(kind) { bit } else { 0 };
        bit(AccessKind::Read, READ)
            | bit(AccessKind::Write, WRITE)
            | bit(AccessKind::Fetch, FETCH)
            | if dirty { DIRTY } else { 0 }
    }

    /// The bits that a first-level hit must have to complete an access of this kind.
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
