//! Content of pages, reduced to an identity of 64 bits. Two pages have equal identities exactly if
//! they have equal contents.
//!
//! Identities are external (hashes in a trace or snapshot), or come from a synthetic distribution:
//! a pure function of the seed, the program and the page.

mod options;

use perforate_config::Share;
use perforate_types::Random;

use crate::space::region_of;
pub use options::ContentDistribution;

/// Content identity (equal for equal contents) of a page of zeros.
pub const ZERO_PAGE: u64 = 0;

/// Tag in the two top bits of a synthetic content identity of a page from the common pool of duplicates. The
/// tags keep the kinds apart; a hash from a trace equals a synthetic identity only by coincidence.
const DUPLICATE: u64 = 1 << 62;
const UNIQUE: u64 = 2 << 62;
const WRITTEN: u64 = 3 << 62;

/// Number of bits of a page number in a 48-bit address space.
const PAGE_BITS: u32 = 36;

const REGIONS: u64 = 3;
const RUNS: u64 = 4;

/// Content identity that the `count`-th write of the run gives to a page; differs from every other identity.
pub(crate) fn written(count: u64) -> u64 {
    WRITTEN | count
}

/// Identity of a page content that no other page has: `page` of the program with random stream `stream`.
pub(crate) fn unique(stream: u64, page: u64) -> u64 {
    let stream = stream & ((1 << (62 - PAGE_BITS)) - 1);
    UNIQUE | stream << PAGE_BITS | (page & ((1 << PAGE_BITS) - 1))
}

impl ContentDistribution {
    /// Content identity of `page` before the first write, in the program with random stream `stream`.
    pub(crate) fn identity(&self, stream: u64, page: u64) -> u64 {
        let Self { zero, duplicate, regions, distinct, run, seed } = *self;
        let [zero, duplicate, regions] = [zero, duplicate, regions].map(Share::value);
        let seed = seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if regions < 1.0 && Random::keyed(seed, REGIONS, region_of(page)).fraction() >= regions {
            return unique(stream, page);
        }
        let mut random = Random::keyed(seed, RUNS, page / run);
        let place = random.fraction() * regions;
        if place < zero {
            ZERO_PAGE
        } else if place < zero + duplicate {
            let first = random.below(distinct);
            DUPLICATE | ((first + page % run) % distinct)
        } else {
            unique(stream, page)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn contents(text: &str) -> ContentDistribution {
        perforate_config::read(text).expect("valid")
    }

    #[test]
    fn shares_are_those_asked_for() {
        let contents = contents("zero=5%,duplicate=20%,distinct=64,seed=7");
        let drawn: Vec<u64> = (0..100_000).map(|page| contents.identity(1, page)).collect();
        let count = |wanted: fn(u64) -> bool| drawn.iter().filter(|&&id| wanted(id)).count();
        // Binomial(100,000, p): standard deviations 69, 126 and 137. The bounds are five of them.
        assert!(count(|id| id == ZERO_PAGE).abs_diff(5_000) < 345);
        assert!(count(|id| id >> 62 == 1).abs_diff(20_000) < 632);
        assert!(count(|id| id >> 62 == 2).abs_diff(75_000) < 685);
        let pool: BTreeSet<u64> = drawn.iter().copied().filter(|id| id >> 62 == 1).collect();
        assert_eq!(pool.len(), 64);
        let unique: Vec<u64> = drawn.iter().copied().filter(|id| id >> 62 == 2).collect();
        assert_eq!(unique.iter().collect::<BTreeSet<_>>().len(), unique.len());
    }

    #[test]
    fn programs_share_the_pool_and_nothing_else() {
        let contents = contents("duplicate=50%,distinct=1000,seed=7");
        let drawn = |stream| -> BTreeSet<u64> {
            (0..20_000).map(|page| contents.identity(stream, page)).collect()
        };
        let common: Vec<u64> = drawn(0).intersection(&drawn(1)).copied().collect();
        // 10,000 draws from 1000 contents leave a share of e⁻¹⁰ undrawn.
        assert!(common.len() > 990 && common.iter().all(|id| id >> 62 == 1));
        assert_eq!(drawn(1), drawn(1));
    }

    #[test]
    fn regions_and_runs_concentrate_them() {
        let contents = contents("zero=4%,duplicate=16%,distinct=4096,regions=40%,run=8,seed=3");
        let shared = |page| contents.identity(0, page) >> 62 != 2;
        let mut regions = 0;
        for region in 0..1000 {
            let pages = region * 512..(region + 1) * 512;
            regions += u64::from(pages.clone().any(shared));
            for first in pages.step_by(8) {
                let run: Vec<bool> = (first..first + 8).map(shared).collect();
                assert!(run.iter().all(|&is| is == run[0]), "a run is all or nothing");
            }
        }
        // Binomial(1000, 0.4): standard deviation 15.5.
        assert!(regions.abs_diff(400) < 78, "{regions}");
        let pages = (0..512_000).filter(|&page| shared(page)).count() as f64 / 512_000.0;
        assert!((pages - 0.2).abs() < 0.04, "20 % of all pages: {pages}");
        let zero = (0..512_000).filter(|&page| contents.identity(0, page) == ZERO_PAGE).count();
        assert!((zero as f64 / 512_000.0 - 0.04).abs() < 0.01, "4 % of all pages: {zero}");
    }

    #[test]
    fn kinds_of_content_never_meet() {
        assert_eq!(written(5), 3 << 62 | 5);
        assert_eq!(unique(3, 7), 2 << 62 | 3 << 36 | 7);
        // 26 bits of the stream and 36 of the page, which has 52 in the upper half.
        assert_eq!(unique(u64::MAX, u64::MAX), 2 << 62 | ((1 << 62) - 1));
        assert_eq!(unique(1 << 26, 1 << 36), 2 << 62);
        let of = |text: &str, stream, pages: std::ops::Range<u64>| -> Vec<u64> {
            pages.map(|page| contents(text).identity(stream, page)).collect()
        };
        assert!(of("zero=100%", 0, 0..600).iter().all(|&identity| identity == ZERO_PAGE));
        let run = of("duplicate=100%,distinct=5,run=8", 0, 8..16);
        assert!(run.iter().all(|identity| identity >> 62 == 1 && identity << 2 >> 2 < 5));
        // A run goes through the pool and begins again at its end.
        assert!(run.windows(2).all(|pair| (pair[0] + 1 - pair[1]) % 5 == 0), "{run:x?}");
        let none = of("zero=0%", 6, 0..3);
        assert_eq!(none, [unique(6, 0), unique(6, 1), unique(6, 2)]);
        let (text, other) = ("zero=50%,seed=1", "zero=50%,seed=2");
        assert_ne!(of(text, 0, 0..64), of(other, 0, 0..64), "seeds differ");
        assert_ne!(of(text, 0, 0..64), of(text, 1, 0..64), "programs differ");
    }
}
