//! TLB coalescing (G §5.7): 4KB pages, with entries of the second-level TLB that hold runs of
//! pages.

use perforate_mmu::{Coalescing, CoalescingForm};

use crate::Scheme;
use crate::pages::BASE_PAGES;

/// Schemes with TLB coalescing, in ascending order of window size.
pub(crate) const SCHEMES: &[&Scheme] = &[&COALESCED_4, &COALESCED_8, &COALESCED_32];

/// Scheme that coalesces runs of pages in windows of 4 pages, the smallest in CoLT.
const COALESCED_4: Scheme = Scheme {
    name: "4k-colt-4",
    summary: "4KB pages; an entry of the L2 TLB holds up to 4 contiguous ones",
    source: "G §5.7; CoLT-SA, Pham et al., MICRO 2012",
    other_names: &["colt-4"],
    colour: "coalesced",
    coalescing: Some(Coalescing { pages: 4, form: CoalescingForm::Runs }),
    ..BASE_PAGES
};

/// Scheme that coalesces runs in windows of 8 pages: one cache line of level-1 entries.
const COALESCED_8: Scheme = Scheme {
    name: "4k-colt-8",
    summary: "4KB pages; an entry of the L2 TLB holds up to 8 contiguous ones",
    other_names: &["colt-8"],
    coalescing: Some(Coalescing { pages: 8, form: CoalescingForm::Runs }),
    ..COALESCED_4
};

/// Scheme that coalesces runs in windows of 32 pages: the limit of coalescing in the paper on
/// gap-tolerant superpages (G).
const COALESCED_32: Scheme = Scheme {
    name: "4k-colt-32",
    summary: "4KB pages; an entry of the L2 TLB holds up to 32 contiguous ones",
    other_names: &["colt-32"],
    coalescing: Some(Coalescing { pages: 32, form: CoalescingForm::Runs }),
    ..COALESCED_4
};
