//! Shadow paging, the alternative to nested paging, for hosts only.
//!
//! The host has the pages of an ordinary scheme and keeps shadow tables for its guest. `dimension`
//! is the hardware half; the hypervisor is in `perforate_os`.

mod dimension;

use crate::Scheme;
use crate::pages::{BASE_PAGES, TRANSPARENT_LARGE_PAGES};
pub use dimension::Shadow;

/// Schemes with shadow paging, for hosts only.
pub(crate) const SCHEMES: &[&Scheme] = &[&SHADOW_BASE_PAGES, &SHADOW_LARGE_PAGES];

/// Scheme of a host with shadow paging and 4KB pages.
const SHADOW_BASE_PAGES: Scheme = Scheme {
    name: "shadow-4k",
    summary: "for hosts only: shadow paging, 4KB pages; walks of one dimension, exits for updates",
    source: "D §II.A, §IX.D",
    other_names: &[],
    shadow_paging: true,
    ..BASE_PAGES
};

/// Scheme of a host with shadow paging and 2MB pages.
const SHADOW_LARGE_PAGES: Scheme = Scheme {
    name: "shadow-thp",
    summary: "for hosts only: shadow paging, 2MB pages where the block is whole",
    source: "D §II.A, §IX.D",
    other_names: &[],
    shadow_paging: true,
    ..TRANSPARENT_LARGE_PAGES
};
