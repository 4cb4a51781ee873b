//! Closed forms to compare results with, because the paper gives no numbers for its Fig. 1.

use crate::kind::case_study::{REGION_PAGES, places_hit};

/// Returns the expected number of 2MB regions in which `throws` uniformly random choices of a page hit more
/// than `most` different pages. Hits are nearly independent, so their number in a region is binomial.
pub fn regions_above(regions: u64, throws: u64, most: u64) -> f64 {
    let pages = regions * REGION_PAGES;
    let hit = places_hit(pages as f64, throws as f64) / pages as f64;
    if hit >= 1.0 {
        return regions as f64;
    }
    let mut log_choose = 0.0;
    let mut at_most = 0.0;
    for count in 0..=most {
        if count > 0 {
            log_choose += ((REGION_PAGES - count + 1) as f64 / count as f64).ln();
        }
        let log_share =
            log_choose + count as f64 * hit.ln() + (REGION_PAGES - count) as f64 * (-hit).ln_1p();
        at_most += log_share.exp();
    }
    regions as f64 * (1.0 - at_most).max(0.0)
}

/// Returns the expected page walks per 1000 uniform reads of a heap, of which `split` regions have 4KB pages
/// and the others 2MB pages. Every 2MB page stays in the TLB of `entries` entries, because it is read 512
/// times as often as a 4KB page. 4KB pages share the remaining entries.
pub fn walks_per_1000(regions: u64, split: f64, entries: u64) -> f64 {
    if split == 0.0 {
        return 0.0;
    }
    let whole = regions as f64 - split;
    let room = (entries as f64 - whole).max(0.0);
    let pages = split * REGION_PAGES as f64;
    1000.0 * split / regions as f64 * (1.0 - room / pages).max(0.0)
}
