//! Translation that takes no time: the bound that shows what translation costs.
//!
//! Everything else is as in `4k`: the program lies in the same frames, so that its data meet in the same sets
//! of the caches and rows of memory, and TLBs miss as often. `ideal` differs in both.

use super::BASE_PAGES;
use crate::Scheme;

/// 4KB pages, translated in no time.
pub const FREE_TRANSLATION: Scheme = Scheme {
    name: "free",
    summary: "4KB pages whose translation takes no time: shows what translation costs",
    source: "a bound of ours: TLBs and walks as in 4k, in no time",
    other_names: &[],
    colour: "free",
    free_translation: true,
    ..BASE_PAGES
};
