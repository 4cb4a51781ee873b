//! Closed form of the frames that merging saves.

use perforate_os::{ContentDistribution, KsmConfig};

use crate::kind::case_study::places_hit;

/// Returns the expected number of frames that merging frees among `pages` pages. Zero pages keep one frame
/// for every `max_page_sharing` pages. Duplicates form runs of r pages with r successive contents of a pool
/// of D. Every content is in a run with probability r/D, so they keep D·(1 − (1 − r/D)^runs) frames.
pub fn saved_pages(contents: &ContentDistribution, pages: u64) -> f64 {
    let limit = KsmConfig::default().max_page_sharing.get() as f64;
    let zero = contents.zero.value() * pages as f64;
    let drawn = contents.duplicate.value() * pages as f64;
    let run = contents.run as f64;
    let (pool, runs) = (contents.distinct as f64, drawn / run);
    let kept = if drawn == 0.0 { 0.0 } else { run * places_hit(pool / run, runs) };
    (zero - (zero / limit).ceil()) + (drawn - kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(text: &str) -> ContentDistribution {
        perforate_config::read(text).unwrap()
    }

    /// Of 1024 pages, 512 are zero, of which two stay. Four random choices of two contents leave 2·(1 − 1/16)
    /// = 1.875.
    #[test]
    fn savings_by_hand() {
        assert_eq!(saved_pages(&contents("zero=50%"), 1024), 510.0);
        let saved = saved_pages(&contents("duplicate=50%,distinct=2"), 8);
        assert!((saved - (4.0 - 1.875)).abs() < 1e-9, "{saved}");
        // Two runs of 2 out of 4 contents miss each content with probability 1/4.
        let saved = saved_pages(&contents("duplicate=50%,distinct=4,run=2"), 8);
        assert!((saved - (4.0 - 3.0)).abs() < 1e-9, "{saved}");
    }
}
