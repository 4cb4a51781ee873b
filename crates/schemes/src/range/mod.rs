//! Range translations: redundant memory mappings (RMM; Karakostas et al., ISCA 2015).
//!
//! A *range* is a run of pages of any length that lie one after the other in virtual and in physical
//! memory, with the same permissions. The kernel backs memory when it is mapped, in as few pieces as
//! there is contiguous memory for (eager paging, §5), and keeps the ranges of an address space in a
//! *range table*, a B-tree in memory (§4.2). Page tables say the same: a range only repeats them, so
//! that any page may leave its range at any time. The hardware has a small fully associative *range
//! TLB* beside the second-level TLB (§4.1), which is filled from the range table in the background,
//! after the page walk that a miss takes (§4.3).
//!
//! - `kernel`: eager paging, and the ranges of an address space as an overlay of its page tables.
//! - `table`: the range table in memory: how the kernel lays it out, and how the hardware reads it.
//! - `tlb`: the range TLB. `dimension`: page tables with range table and range TLB beside them.
//!
//! Where the paper leaves a choice: the walker of the range table searches a node by halves; memory
//! that the program advises to be in large pages (MADV_HUGEPAGE) has 2MB pages in the page tables;
//! there is no bit in page-table entries that says that a page is in no range, so the range table is
//! read after every page walk; ranges have two pages at least; the child of a fork gets ranges of
//! its own over the pages that it shares.

mod dimension;
mod kernel;
mod table;
#[cfg(test)]
mod tests;
mod tlb;

use perforate_types::registered;

use crate::Scheme;
use crate::pages::BASE_PAGES;

/// The schemes.
pub(crate) const SCHEMES: &[&Scheme] = &[&RANGE];

/// 4KB pages, backed when they are mapped, with ranges over them.
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
