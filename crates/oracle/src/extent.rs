//! A page of any size as the oracle remembers it.

use perforate_types::{Frame, PageSize, Permissions, VirtualPage};

/// One ordinary or perforated page: a linear mapping of a run of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First page.
    pub page: VirtualPage,
    /// Page size.
    pub size: PageSize,
    /// First frame.
    pub frame: Frame,
    /// What the pages that are not holes allow.
    pub permissions: Permissions,
    /// Number of holes.
    pub holes: u32,
}

impl Extent {
    /// Whether the page covers `page`.
    pub fn covers(&self, page: VirtualPage) -> bool {
        page.align_down(self.size) == self.page
    }

    /// The frame of a covered page that is not a hole.
    pub fn frame_of(&self, page: VirtualPage) -> Frame {
        self.frame.add(page.index_in(self.size) as u64)
    }
}
