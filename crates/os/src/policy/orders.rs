//! Page sizes as the kernel has them: orders, of which an area may have several.

use std::fmt::{self, Debug};

use crate::mechanism::{Area, PhysicalMemory};

/// A set of orders: a page of order n is 2ⁿ pages of 4KB. Order 0 is in every set, as 4KB pages are
/// what is left where nothing larger can be had.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Orders(u32);

impl Orders {
    /// 4KB pages only.
    pub const BASE: Self = Self(1);
    /// The order of 2MB.
    pub const LARGE: u32 = 9;
    /// The order of 1GB.
    pub const HUGE: u32 = 18;

    /// The set with an order besides.
    #[must_use]
    pub const fn with(self, order: u32) -> Self {
        Self(self.0 | 1 << order)
    }

    /// Whether an order is in the set.
    pub const fn contains(self, order: u32) -> bool {
        self.0 >> order & 1 == 1
    }

    /// Its orders, the smallest first.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..u32::BITS).filter(move |&order| self.contains(order))
    }
}

impl Debug for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Who asks for orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderPurpose {
    /// A first touch.
    Fault,
    /// khugepaged, before it looks at a region of 4KB pages.
    Khugepaged,
}

/// The question which orders memory may have (Linux: `thp_vma_allowable_orders`). It is asked where
/// there is a choice: the area is private or shared anonymous memory that was not advised
/// MADV_NOHUGEPAGE, and spans the largest of the orders around the page.
pub struct OrderRequest<'a> {
    /// The area.
    pub area: &'a Area,
    /// The page that is touched, or the first of the region.
    pub page: u64,
    /// Who asks.
    pub purpose: OrderPurpose,
    /// The orders that fit.
    pub offered: Orders,
    /// Memory, of which it is not said that it has such a page.
    pub memory: &'a PhysicalMemory,
}

/// A 2MB region that reclaim may take from its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim<'a> {
    /// The first area in it.
    pub area: Option<&'a Area>,
    /// The region.
    pub number: u64,
    /// Pages of 4KB that are mapped on their own; of a larger page, those that are no holes.
    pub pages: u64,
    /// Whether a page of 2MB or more maps it.
    pub is_large: bool,
    /// Holes of that page.
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
