//! Range translations: redundant memory mappings (RMM; Karakostas et al., ISCA 2015).
//!
//! A *range* is a run of pages of any length, contiguous in virtual and physical memory, with equal
//! permissions. The kernel backs memory when it is mapped, in as few contiguous pieces as possible
//! (eager paging, §5). It keeps the ranges of an address space in a *range table*, a B-tree in
//! memory (§4.2). Page tables map these pages as well, so any page may leave its range at any time.
//! The hardware has a small fully associative *range TLB*, looked up in parallel with the
//! second-level TLB (§4.1). It is filled from the range table in the background, after the page
//! walk for a miss (§4.3).
//!
//! - `kernel`: eager paging, and the ranges of an address space as an overlay of its page tables.
//! - `table`: layout of the range table in memory, and its search by hardware.
//! - `tlb`: the range TLB.
//! - `dimension`: page tables with range table and range TLB.
//!
//! Choices of this model where the paper leaves one:
//! - The walker searches a node of the range table by bisection.
//! - Memory with MADV_HUGEPAGE has 2MB pages in the page tables.
//! - Page-table entries have no bit for pages in ranges, so the range table is read after every
//!   page walk.
//! - Ranges have at least two pages.
//! - The child of a fork gets separate ranges over the pages that it shares with its parent.

mod dimension;
mod kernel;
mod table;
#[cfg(test)]
mod tests;
mod tlb;

use perforate_types::registered;

use crate::Scheme;
use crate::pages::BASE_PAGES;

/// Schemes with range translations.
pub(crate) const SCHEMES: &[&Scheme] = &[&RANGE];

/// Scheme with 4KB pages, backed when they are mapped, and range translations.
const RANGE: Scheme = Scheme {
    name: "range",
    summary: "4KB pages backed in advance, a range TLB for contiguous runs of any length",
    source: "RMM, Karakostas et al., ISCA 2015",
    other_names: &[],
    colour: "other",
    counters: || [registered(dimension::RANGE_TLB), registered(kernel::RANGES)].concat(),
    policy: |_| Ok(Box::new(kernel::EagerPaging)),
    dimension: dimension::ranged,
    ..BASE_PAGES
};
