//! Flat nested page tables (D §X; Ahn, Jin and Huh, ISCA 2012): only hosts have them.
//!
//! One array of entries, indexed by the guest's frame number, takes the place of the nested page table:
//! a guest-physical address is translated with one reference instead of four, and a walk of a guest's
//! four levels reads 9 entries where nothing is cached instead of 24. `dimension` is the array; the
//! kernel reserves the top of memory for it ([`TableFormat::flat_pages`]).
//!
//! The paper's array has an entry for each 4KB page. Where the host has a 2MB page, each of its 512
//! entries says so here, and TLBs get an entry for 2MB.
//!
//! [`TableFormat::flat_pages`]: perforate_os::TableFormat::flat_pages

mod dimension;

use crate::Scheme;
use crate::pages::{BASE_PAGES, TRANSPARENT_LARGE_PAGES};
pub use dimension::Flat;

/// The schemes, which only hosts can have.
pub(crate) const SCHEMES: &[&Scheme] = &[&FLAT_BASE_PAGES, &FLAT_LARGE_PAGES];

/// A flat table of 4KB pages.
const FLAT_BASE_PAGES: Scheme = Scheme {
    name: "flat-4k",
    summary: "for hosts only: a flat nested page table, one reference, 4KB pages",
    source: "D §X; Ahn et al., ISCA 2012",
    other_names: &[],
    flat_table: true,
    dimension: dimension::flat,
    ..BASE_PAGES
};

/// A flat table of 2MB pages where the block is whole.
const FLAT_LARGE_PAGES: Scheme = Scheme {
    name: "flat-thp",
    summary: "for hosts only: a flat nested page table, 2MB pages where the block is whole",
    source: "D §X; Ahn et al., ISCA 2012",
    other_names: &[],
    flat_table: true,
    dimension: dimension::flat,
    ..TRANSPARENT_LARGE_PAGES
};
