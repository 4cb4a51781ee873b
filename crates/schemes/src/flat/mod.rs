//! Flat nested page tables (D §X; Ahn, Jin and Huh, ISCA 2012), for hosts only.
//!
//! One array of entries, indexed by guest frame number, replaces the nested page table. A
//! guest-physical address takes one memory reference instead of four. An uncached walk of a
//! four-level guest reads 9 entries instead of 24. `dimension` implements the array; the kernel
//! reserves the top of memory for it ([`TableFormat::flat_pages`]).
//!
//! The paper's array has an entry for each 4KB page. In this model, a 2MB page of the host has 512
//! entries, all marked as large, and a TLB gets one 2MB entry.
//!
//! [`TableFormat::flat_pages`]: perforate_os::TableFormat::flat_pages

mod dimension;

use crate::Scheme;
use crate::pages::{BASE_PAGES, TRANSPARENT_LARGE_PAGES};
pub use dimension::Flat;

/// Schemes with flat nested page tables, for hosts only.
pub(crate) const SCHEMES: &[&Scheme] = &[&FLAT_BASE_PAGES, &FLAT_LARGE_PAGES];

/// Scheme of a flat nested page table with 4KB pages.
const FLAT_BASE_PAGES: Scheme = Scheme {
    name: "flat-4k",
    summary: "for hosts only: a flat nested page table, one reference, 4KB pages",
    source: "D §X; Ahn et al., ISCA 2012",
    other_names: &[],
    flat_table: true,
    dimension: dimension::flat,
    ..BASE_PAGES
};

/// Scheme of a flat nested page table with 2MB pages where a whole 2MB block of memory is free.
const FLAT_LARGE_PAGES: Scheme = Scheme {
    name: "flat-thp",
    summary: "for hosts only: a flat nested page table, 2MB pages where the block is whole",
    source: "D §X; Ahn et al., ISCA 2012",
    other_names: &[],
    flat_table: true,
    dimension: dimension::flat,
    ..TRANSPARENT_LARGE_PAGES
};
