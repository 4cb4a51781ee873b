//! A run of pages as the oracle remembers it.

use perforate_types::{Frame, Permissions, VirtualPage};

/// Consecutive pages that are mapped to consecutive frames and allow the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First page.
    pub page: VirtualPage,
    /// Number of pages.
    pub pages: u64,
    /// First frame.
    pub frame: Frame,
    /// What the pages allow.
    pub permissions: Permissions,
}

impl Extent {
    /// The page after the last.
    pub const fn end(&self) -> VirtualPage {
        self.page.add(self.pages)
    }

    /// The frame of a page inside.
    pub const fn frame_of(&self, page: VirtualPage) -> Frame {
        self.frame.add(page.number() - self.page.number())
    }

    /// Whether `next`, which begins where this one ends, goes on as this one.
    pub(crate) fn goes_on_as(&self, next: &Self) -> bool {
        self.frame.add(self.pages) == next.frame && self.permissions == next.permissions
    }

    /// Those of its pages that lie below `page`, which is inside, and the others.
    pub(crate) fn split_at(&self, page: VirtualPage) -> (Self, Self) {
        let below = page.number() - self.page.number();
        let others = Self { page, pages: self.pages - below, frame: self.frame_of(page), ..*self };
        (Self { pages: below, ..*self }, others)
    }
}
