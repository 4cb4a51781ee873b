//! Page sizes by address range, chosen by the user.

use perforate_os::layout_counters;

use super::TRANSPARENT_LARGE_PAGES;
use crate::Scheme;

/// Pages of 4KB, 2MB and 1GB in the intervals of a layout (`--layout`); without one, 4KB pages.
pub(crate) const LAID_OUT: Scheme = Scheme {
    name: "layout",
    summary: "4KB, 2MB and 1GB pages in the parts of memory that --layout says",
    source: "Mosalloc (Agbarya, Yaniv and others, MICRO 2020) over Linux hugetlbfs",
    other_names: &["mosaic"],
    colour: "layout",
    counters: layout_counters,
    policy: |options| Ok(Box::new(options.layout.clone().unwrap_or_default())),
    ..TRANSPARENT_LARGE_PAGES
};
