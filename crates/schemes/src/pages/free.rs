//! Translation that takes no time: a bound that shows the cost of translation.
//!
//! In all other respects it equals `4k`. The program has the same frames, so that its data use the
//! same cache sets and DRAM rows, and TLBs have the same misses. `ideal` differs in both.

use super::BASE_PAGES;
use crate::Scheme;

/// 4KB pages with translation in no time.
pub const FREE_TRANSLATION: Scheme = Scheme {
    name: "free",
    summary: "4KB pages whose translation takes no time: shows what translation costs",
    source: "a bound of ours: TLBs and walks as in 4k, in no time",
    other_names: &[],
    colour: "free",
    free_translation: true,
    ..BASE_PAGES
};
