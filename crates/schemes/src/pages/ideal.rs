//! The upper bound that the papers compare with.

use perforate_os::Thp;

use super::TRANSPARENT_LARGE_PAGES;
use crate::Scheme;

/// 2MB pages with unfragmented memory.
pub(crate) const IDEAL: Scheme = Scheme {
    name: "ideal",
    summary: "2MB pages on unfragmented memory: every large page contiguous",
    source: "P §VII",
    other_names: &[],
    colour: "ideal",
    ideal_memory: true,
    policy: |_| Ok(Box::new(Thp::new("ideal"))),
    ..TRANSPARENT_LARGE_PAGES
};
