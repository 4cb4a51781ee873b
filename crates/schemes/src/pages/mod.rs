//! Ordinary page tables: 4KB pages, large pages where available, and two bounds (the papers' ideal
//! large pages, and translation in no time).

mod base;
mod free;
mod ideal;
mod large;
mod layout;

use perforate_mmu::{Dimension, Radix};

use crate::{Hardware, Scheme};
pub use base::BASE_PAGES;
pub use free::FREE_TRANSLATION;
pub use large::TRANSPARENT_LARGE_PAGES;

/// The schemes with 4KB pages.
pub(crate) const BASE: &[&Scheme] = &[&BASE_PAGES];
/// The schemes with large pages.
pub(crate) const LARGE: &[&Scheme] =
    &[&TRANSPARENT_LARGE_PAGES, &large::ADVISED_LARGE_PAGES, &large::HUGE_PAGES, &layout::LAID_OUT];
/// The bounds that limit the other schemes.
pub(crate) const BOUNDS: &[&Scheme] = &[&ideal::IDEAL, &free::FREE_TRANSLATION];

/// Linux settings that give these schemes on current systems.
const SETTINGS: [(&Scheme, &str); 5] = [
    (&BASE_PAGES, "transparent_hugepage/enabled=never"),
    (&TRANSPARENT_LARGE_PAGES, "transparent_hugepage/enabled=always"),
    (&large::ADVISED_LARGE_PAGES, "transparent_hugepage/enabled=madvise"),
    (&large::HUGE_PAGES, "hugetlbfs with 1GB pages"),
    (&layout::LAID_OUT, "hugetlbfs by Mosalloc with this layout"),
];

/// Linux setting for the scheme called `name`; `None` if no current system has it.
pub(crate) fn setting(name: &str) -> Option<&'static str> {
    SETTINGS.iter().find(|(scheme, _)| scheme.name == name).map(|&(_, setting)| setting)
}

/// Builds ordinary page tables.
pub fn radix(_: &Hardware<'_>) -> Box<dyn Dimension> {
    Box::new(Radix::new())
}
