//! The answer of a dimension: a range around an address, and what may be done there.

use perforate_types::{Frame, PageSize, VirtualPage};

/// The aligned range around an address over which one linear mapping holds, minus its holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Size of the range.
    pub size: PageSize,
    /// Frame that the range's first page maps to.
    pub frame: Frame,
    /// The accesses that need no further work, as bits of [`allow`].
    pub allows: u8,
    /// Hole filter; 0 where the range has no holes.
    pub filter: u8,
}

impl Reach {
    /// One 4KB page.
    pub const fn of_page(frame: Frame, allows: u8) -> Self {
        Self { size: PageSize::Size4K, frame, allows, filter: 0 }
    }

    /// Frame of a 4KB page in the range, holes left aside.
    #[inline]
    pub fn frame_of(&self, page: VirtualPage) -> Frame {
        self.frame.add(page.index_in(self.size) as u64)
    }
}

/// Accesses that a translation allows without further work, as bits.
pub mod allow {
    use perforate_types::{AccessKind, Permissions};

    /// Loads.
    pub const READ: u8 = 1;
    /// Stores, by permission.
    pub const WRITE: u8 = 2;
    /// Fetches.
    pub const FETCH: u8 = 4;
    /// The leaf entry's dirty bit is known to be set.
    pub const DIRTY: u8 = 8;

    /// The bits for a leaf entry.
    pub fn of_leaf(permissions: Permissions, dirty: bool) -> u8 {
        let bit = |kind, bit| if permissions.allow(kind) { bit } else { 0 };
        bit(AccessKind::Read, READ)
            | bit(AccessKind::Write, WRITE)
            | bit(AccessKind::Fetch, FETCH)
            | if dirty { DIRTY } else { 0 }
    }

    /// The bits an access needs to be done by a first-level hit alone.
    #[inline]
    pub const fn needed(kind: AccessKind) -> u8 {
        match kind {
            AccessKind::Read => READ,
            AccessKind::Write => WRITE | DIRTY,
            AccessKind::Fetch => FETCH,
        }
    }

    /// Whether an access of this kind is permitted, its dirty bit set or not.
    #[inline]
    pub const fn permits(allows: u8, kind: AccessKind) -> bool {
        let needed = needed(kind) & !DIRTY;
        allows & needed == needed
    }
}
