//! Page sizes as orders.

use serde::{Deserialize, Serialize};

/// Page size as an order: a page of order n has 2ⁿ pages of 4KB. Linux numbers its page sizes in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageOrder(pub u8);

impl PageOrder {
    /// 4KB pages.
    pub const BASE: Self = Self(0);
    /// 2MB pages.
    pub const LARGE: Self = Self(9);
    /// 1GB pages.
    pub const HUGE: Self = Self(18);

    /// Size of the page in bytes.
    pub const fn bytes(self) -> u64 {
        4096 << self.0
    }
}
