//! A run of pages in the oracle.

use perforate_types::{Frame, Permissions, VirtualPage};

/// A run of consecutive pages with consecutive frames and equal permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First page of the run.
    pub page: VirtualPage,
    /// Number of 4KB pages in the run.
    pub pages: u64,
    /// Frame of the first page of the run.
    pub frame: Frame,
    /// Permissions of all pages of the run.
    pub permissions: Permissions,
}

impl Extent {
    /// Returns the page after the last page of the run.
    pub const fn end(&self) -> VirtualPage {
        self.page.add(self.pages)
    }

    /// Returns the frame of `page`, which must be in the run.
    pub const fn frame_of(&self, page: VirtualPage) -> Frame {
        self.frame.add(page.number() - self.page.number())
    }

    /// True if `next`, which begins after the last page of `self`, continues its frames with equal
    /// permissions.
    pub(crate) fn is_continued_by(&self, next: &Self) -> bool {
        self.frame.add(self.pages) == next.frame && self.permissions == next.permissions
    }

    /// Splits the run at a page inside it, into the pages before `page` and the rest.
    pub(crate) fn split_at(&self, page: VirtualPage) -> (Self, Self) {
        let below = page.number() - self.page.number();
        let rest = Self { page, pages: self.pages - below, frame: self.frame_of(page), ..*self };
        (Self { pages: below, ..*self }, rest)
    }
}
