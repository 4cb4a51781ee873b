//! Address spaces, and runs of pages in an address space.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::VirtualPage;

/// Address-space identifier of the hardware (ASID, PCID).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SpaceId(pub u16);

/// Consecutive 4KB pages of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageRun {
    /// Address space of the pages.
    pub space: SpaceId,
    /// First of the consecutive pages.
    pub page: VirtualPage,
    /// Number of 4KB pages.
    pub pages: u64,
}

impl PageRun {
    /// The run of `pages` 4KB pages from `page` on.
    pub const fn new(space: SpaceId, page: VirtualPage, pages: u64) -> Self {
        Self { space, page, pages }
    }

    /// The run of all pages of address space `space`.
    pub const fn whole(space: SpaceId) -> Self {
        Self { space, page: VirtualPage::new(0), pages: 1 << 52 }
    }

    /// The page after the last page of the run.
    pub const fn end(&self) -> VirtualPage {
        self.page.add(self.pages)
    }

    /// Numbers of the 4KB pages in the run.
    pub const fn numbers(&self) -> Range<u64> {
        self.page.number()..self.end().number()
    }

    /// True if the run contains `page` of `space`.
    pub fn contains(&self, space: SpaceId, page: VirtualPage) -> bool {
        self.space == space && self.numbers().contains(&page.number())
    }
}
