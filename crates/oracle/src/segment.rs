//! The segment of an address space (D §II.B) as the oracle remembers it.

use std::collections::BTreeSet;
use std::ops::Range;

use perforate_types::{Frame, Permissions, VirtualPage};

/// A linear mapping of a run of pages, beside whatever paging maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First page.
    pub page: VirtualPage,
    /// Number of 4KB pages.
    pub pages: u64,
    /// Frame of the first page.
    pub frame: Frame,
    /// What the pages that did not escape allow.
    pub permissions: Permissions,
    /// Pages that paging alone translates (D §V).
    pub escaped: BTreeSet<VirtualPage>,
    /// Pages that were mapped elsewhere when the segment was set: they must escape before anything
    /// else happens.
    pub(crate) to_escape: BTreeSet<VirtualPage>,
}

impl Segment {
    /// Its page numbers.
    pub(crate) fn range(&self) -> Range<u64> {
        self.page.number()..self.page.number() + self.pages
    }

    /// Whether the segment translates `page`.
    pub fn translates(&self, page: VirtualPage) -> bool {
        self.range().contains(&page.number()) && !self.escaped.contains(&page)
    }

    /// The frame of a page inside, escaped or not.
    pub fn frame_of(&self, page: VirtualPage) -> Frame {
        self.frame.add(page.number() - self.page.number())
    }

    /// Those of `pages` pages from `page` on that the segment translates.
    pub(crate) fn translated(
        &self,
        page: VirtualPage,
        pages: u64,
    ) -> impl Iterator<Item = VirtualPage> + '_ {
        let range = self.range();
        let start = range.start.max(page.number());
        let end = range.end.min(page.number() + pages);
        (start..end).map(VirtualPage::new).filter(|page| !self.escaped.contains(page))
    }
}
