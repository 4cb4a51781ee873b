//! Translation that takes no time: the bound that shows what translation costs.
//!
//! The program lies in the frames that 4KB pages have, so that its own data meet in the same sets of the
//! caches and rows of memory. `ideal` differs in that: its data lie in contiguous frames.

use super::BASE_PAGES;
use crate::Scheme;

/// 4KB pages, translated in no time.
pub const FREE_TRANSLATION: Scheme = Scheme {
    name: "free",
    summary: "4KB pages whose translation takes no time: what other schemes could save at most",
    source: "a bound of ours: 4k without its TLB look-ups and page walks",
    other_names: &[],
    colour: "free",
    free_translation: true,
    ..BASE_PAGES
};
