//! Page sizes of x86-64.

use serde::{Deserialize, Serialize};

use crate::Level;

/// A page size of x86-64: base page, large page or huge page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PageSize {
    /// 4KB base page, mapped by a page-table entry (level 1).
    #[serde(rename = "4K")]
    Size4K,
    /// 2MB large page, mapped by a page-directory entry (level 2).
    #[serde(rename = "2M")]
    Size2M,
    /// 1GB huge page, mapped by a page-directory-pointer entry (level 3).
    #[serde(rename = "1G")]
    Size1G,
}

impl PageSize {
    /// All page sizes, smallest first.
    pub const ALL: [Self; 3] = [Self::Size4K, Self::Size2M, Self::Size1G];

    /// Base-2 logarithm of the page size in bytes.
    pub const fn shift(self) -> u32 {
        match self {
            Self::Size4K => 12,
            Self::Size2M => 21,
            Self::Size1G => 30,
        }
    }

    /// Page size in bytes.
    pub const fn bytes(self) -> u64 {
        1 << self.shift()
    }

    /// Page size as a number of 4KB pages.
    pub const fn pages(self) -> u64 {
        1 << (self.shift() - 12)
    }

    /// Level of the page table whose entries map pages of this size.
    pub const fn leaf_level(self) -> Level {
        match self {
            Self::Size4K => 1,
            Self::Size2M => 2,
            Self::Size1G => 3,
        }
    }
}
