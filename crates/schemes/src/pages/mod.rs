//! Ordinary page tables: 4KB pages, large pages where they can be had, and the upper bound that the
//! papers compare with.

mod base;
mod ideal;
mod large;

use perforate_mmu::{Dimension, Radix};

use crate::{Hardware, Scheme};
pub use base::BASE_PAGES;
pub use large::TRANSPARENT_LARGE_PAGES;

/// The schemes with 4KB pages.
pub(crate) const BASE: &[&Scheme] = &[&BASE_PAGES];
/// The schemes with large pages.
pub(crate) const LARGE: &[&Scheme] =
    &[&TRANSPARENT_LARGE_PAGES, &large::ADVISED_LARGE_PAGES, &large::HUGE_PAGES];
/// The upper bound.
pub(crate) const IDEAL: &[&Scheme] = &[&ideal::IDEAL];

/// Ordinary page tables.
pub fn radix(_: &Hardware<'_>) -> Box<dyn Dimension> {
    Box::new(Radix::new())
}
