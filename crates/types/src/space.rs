//! Address spaces, and runs of their pages.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::VirtualPage;

/// An address space as the hardware tags it (ASID, PCID).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SpaceId(pub u16);

/// Consecutive 4KB pages of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageRun {
    /// Address space.
    pub space: SpaceId,
    /// First page.
    pub page: VirtualPage,
    /// Number of pages.
    pub pages: u64,
}

impl PageRun {
    /// `pages` pages from `page` on.
    pub const fn new(space: SpaceId, page: VirtualPage, pages: u64) -> Self {
        Self { space, page, pages }
    }

    /// Every page of an address space.
    pub const fn whole(space: SpaceId) -> Self {
        Self { space, page: VirtualPage::new(0), pages: 1 << 52 }
    }

    /// The page after the last.
    pub const fn end(&self) -> VirtualPage {
        self.page.add(self.pages)
    }

    /// Its page numbers.
    pub const fn numbers(&self) -> Range<u64> {
        self.page.number()..self.end().number()
    }

    /// Whether it holds this page of this address space.
    pub fn contains(&self, space: SpaceId, page: VirtualPage) -> bool {
        self.space == space && self.numbers().contains(&page.number())
    }
}
