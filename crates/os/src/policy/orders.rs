//! Page sizes as orders: a page of order n has 2ⁿ pages of 4KB. An area may allow several.

use std::fmt::{self, Debug};

use crate::mechanism::{Area, PhysicalMemory};

/// A set of orders: a page of order n is 2ⁿ pages of 4KB. Every set contains order 0, since 4KB
/// pages are the fallback.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Orders(u32);

impl Orders {
    /// Order 0: 4KB pages only.
    pub const BASE: Self = Self(1);
    /// The order of 2MB.
    pub const LARGE: u32 = 9;
    /// The order of 1GB.
    pub const HUGE: u32 = 18;

    /// Returns the set with one more order.
    #[must_use]
    pub const fn with(self, order: u32) -> Self {
        Self(self.0 | 1 << order)
    }

    /// True if the set contains the order.
    pub const fn contains(self, order: u32) -> bool {
        self.0 >> order & 1 == 1
    }

    /// The orders of the set, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..u32::BITS).filter(move |&order| self.contains(order))
    }
}

impl Debug for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Part of the kernel that requests page sizes (orders) from the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderPurpose {
    /// Page fault, at the first touch of a page.
    Fault,
    /// khugepaged, before it looks at a region of 4KB pages.
    Khugepaged,
}

/// Request for the orders (page sizes) that memory may have (Linux: `thp_vma_allowable_orders`). The kernel
/// makes the request only if there is a choice: the memory area is private or shared anonymous memory without
/// MADV_NOHUGEPAGE, and it spans the largest of the orders around the page.
pub struct OrderRequest<'a> {
    /// The memory area that contains the page.
    pub area: &'a Area,
    /// Number of the touched page (address ÷ 4KB), or of the first page of the region.
    pub page: u64,
    /// Part of the kernel that makes the request.
    pub purpose: OrderPurpose,
    /// Orders whose aligned pages around `page` fit into the memory area.
    pub offered: Orders,
    /// Physical memory. It may lack a free page of an offered order.
    pub memory: &'a PhysicalMemory,
}

/// A 2MB region that reclaim may take from its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim<'a> {
    /// The first memory area in the 2MB region; `None` if none overlaps the region.
    pub area: Option<&'a Area>,
    /// Number of the region (address ÷ 2MB).
    pub number: u64,
    /// Number of mapped 4KB pages in the region; sub-pages of a larger page count, holes do not.
    pub pages: u64,
    /// True if a page of 2MB or more maps the region.
    pub is_large: bool,
    /// Number of holes of the perforated page that maps the region; otherwise 0.
    pub holes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_0_is_in_every_set() {
        assert_eq!(Orders::BASE.iter().collect::<Vec<_>>(), [0]);
        let both = Orders::BASE.with(Orders::HUGE).with(Orders::LARGE);
        assert_eq!(both.iter().collect::<Vec<_>>(), [0, 9, 18]);
        assert!(both.contains(9) && !both.contains(10));
        assert_eq!(format!("{both:?}"), "{0, 9, 18}");
    }
}
