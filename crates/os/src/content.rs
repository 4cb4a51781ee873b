//! What is on a page, as far as anybody compares it: an identity of 64 bits. Two pages have equal
//! identities exactly if they have equal contents.
//!
//! Identities come from outside (hashes in a trace or snapshot) or from a synthetic distribution:
//! a pure function of its seed, the program and the page.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::OsError;
use crate::fragmentation::parse_share;
use crate::random::Random;
use crate::space::{REGION_PAGES, region_of};

/// Identity of a page of zeros.
pub const ZERO_PAGE: u64 = 0;

/// The two top bits say where an identity of ours comes from. A hash from outside meets one of
/// them by accident only, as it may meet another hash.
const DUPLICATE: u64 = 1 << 62;
const UNIQUE: u64 = 2 << 62;
const WRITTEN: u64 = 3 << 62;

/// Bits of a page number in a 48-bit address space.
const PAGE_BITS: u32 = 36;

const REGIONS: u64 = 3;
const RUNS: u64 = 4;

/// Content of the `count`-th page that was written since: equal to no other.
pub(crate) fn written(count: u64) -> u64 {
    WRITTEN | count
}

/// Content of a page that nobody else has.
pub(crate) fn unique(stream: u64, page: u64) -> u64 {
    let stream = stream & ((1 << (62 - PAGE_BITS)) - 1);
    UNIQUE | stream << PAGE_BITS | (page & ((1 << PAGE_BITS) - 1))
}

/// Synthetic contents: which pages are zero, which have a content out of a common pool, and which
/// have one of their own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentDistribution {
    /// Share of all pages that are zero, 0–1.
    pub zero: f64,
    /// Share of all pages whose content is drawn from the pool, 0–1. A draw that no other page
    /// has drawn as well has no duplicate after all.
    pub duplicate: f64,
    /// Contents in the pool, which all programs share. 0 without duplicates.
    pub distinct: u64,
    /// Share of the 2MB regions in which all zero and duplicate pages lie, 0–1. Programs differ
    /// in which regions these are.
    #[serde(default = "whole")]
    pub regions: f64,
    /// Zero and duplicate pages come in aligned runs of this many pages with successive contents
    /// (files in a page cache, buffers): a power of two up to 512.
    #[serde(default = "one")]
    pub run: u64,
    /// Seed of the draws.
    #[serde(default)]
    pub seed: u64,
}

fn whole() -> f64 {
    1.0
}

fn one() -> u64 {
    1
}

impl ContentDistribution {
    /// Content of `page` as the program that draws from `stream` has written it.
    pub(crate) fn identity(&self, stream: u64, page: u64) -> u64 {
        let seed = self.seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if self.regions < 1.0
            && fraction(Random::new(seed, REGIONS, region_of(page)).next()) >= self.regions
        {
            return unique(stream, page);
        }
        let mut random = Random::new(seed, RUNS, page / self.run);
        let place = fraction(random.next()) * self.regions;
        if place < self.zero {
            ZERO_PAGE
        } else if place < self.zero + self.duplicate {
            let first = random.below(self.distinct);
            DUPLICATE | ((first + page % self.run) % self.distinct)
        } else {
            unique(stream, page)
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        for share in [self.zero, self.duplicate, self.regions] {
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("{}% is not between 0% and 100%", percent(share)));
            }
        }
        let together = self.zero + self.duplicate;
        // Shares are written in percent, so their binary sums may be a trifle off.
        let exceeds = |limit: f64| together > limit + 1e-9;
        if exceeds(1.0) {
            return Err(format!("zero and duplicate are {}% together", percent(together)));
        }
        if exceeds(self.regions) {
            let (together, regions) = (percent(together), percent(self.regions));
            return Err(format!(
                "{together}% zero and duplicate pages do not fit into {regions}% of the regions"
            ));
        }
        match (self.duplicate > 0.0, self.distinct) {
            (true, 0) => Err("duplicate pages need at least one distinct content".into()),
            (false, 1..) => Err("distinct contents without duplicate pages".into()),
            (_, distinct) if distinct >> 48 > 0 => {
                Err(format!("distinct={distinct} is not below 2^48"))
            }
            _ if !self.run.is_power_of_two() || self.run > REGION_PAGES => {
                Err(format!("run={} is not a power of two from 1 to 512 pages", self.run))
            }
            _ => Ok(()),
        }
    }
}

/// A share as it was written.
fn percent(share: f64) -> f64 {
    (share * 1e11).round() / 1e9
}

/// A number from 0 up to 1.
fn fraction(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

impl FromStr for ContentDistribution {
    type Err = OsError;

    /// Reads `zero=5%,duplicate=20%,distinct=64[,regions=40%][,run=8][,seed=1]`.
    fn from_str(text: &str) -> Result<Self, OsError> {
        parse(text).map_err(|reason| OsError::InvalidContents { text: text.to_string(), reason })
    }
}

fn parse(text: &str) -> Result<ContentDistribution, String> {
    let (mut zero, mut duplicate, mut regions) = (None, None, None);
    let (mut distinct, mut run, mut seed) = (None, None, None);
    for word in text.split(',').map(str::trim) {
        let Some((key, value)) = word.split_once('=') else {
            return Err(format!("\"{word}\" is not key=value"));
        };
        let repeated = match key {
            "zero" => zero.replace(parse_share(value)?).is_some(),
            "duplicate" => duplicate.replace(parse_share(value)?).is_some(),
            "regions" => regions.replace(parse_share(value)?).is_some(),
            "distinct" => distinct.replace(parse_count(key, value)?).is_some(),
            "run" => run.replace(parse_count(key, value)?).is_some(),
            "seed" => seed.replace(parse_count(key, value)?).is_some(),
            _ => return Err(format!("unknown key \"{key}\"")),
        };
        if repeated {
            return Err(format!("{key} is given twice"));
        }
    }
    let distribution = ContentDistribution {
        zero: zero.unwrap_or(0.0),
        duplicate: duplicate.unwrap_or(0.0),
        distinct: distinct.unwrap_or(0),
        regions: regions.unwrap_or(1.0),
        run: run.unwrap_or(1),
        seed: seed.unwrap_or(0),
    };
    distribution.check()?;
    Ok(distribution)
}

/// Reads a whole number.
pub(crate) fn parse_count(key: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{key} is a whole number, not \"{value}\""))
}

impl fmt::Display for ContentDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zero={}%,duplicate={}%", percent(self.zero), percent(self.duplicate))?;
        write!(f, ",distinct={},regions={}%", self.distinct, percent(self.regions))?;
        write!(f, ",run={},seed={}", self.run, self.seed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn contents(text: &str) -> ContentDistribution {
        text.parse().expect("valid")
    }

    #[test]
    fn shares_are_those_asked_for() {
        let contents = contents("zero=5%,duplicate=20%,distinct=64,seed=7");
        let drawn: Vec<u64> = (0..100_000).map(|page| contents.identity(1, page)).collect();
        let count = |wanted: fn(u64) -> bool| drawn.iter().filter(|&&id| wanted(id)).count();
        // Binomial(100,000, p): deviations 69, 126 and 137; five of them.
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
        // 10,000 draws out of 1000 leave e⁻¹⁰ of them undrawn.
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
        // Binomial(1000, 0.4): deviation 15.5.
        assert!(regions.abs_diff(400) < 78, "{regions}");
        let pages = (0..512_000).filter(|&page| shared(page)).count() as f64 / 512_000.0;
        assert!((pages - 0.2).abs() < 0.04, "20 % of all pages: {pages}");
    }

    #[test]
    fn text_round_trips_and_errors_say_what_is_wrong() {
        let text = "zero=5%,duplicate=20%,distinct=64,regions=40%,run=8,seed=3";
        assert_eq!(contents(text).to_string(), text);
        assert_eq!(contents("zero=25%").distinct, 0);
        for (text, reason) in [
            ("zero=101%", "101% is not between 0% and 100%"),
            ("zero=60%,duplicate=50%,distinct=4", "zero and duplicate are 110% together"),
            ("zero=50%,regions=25%", "50% zero and duplicate pages do not fit into 25% of the"),
            ("duplicate=5%", "duplicate pages need at least one distinct content"),
            ("duplicate=5%,distinct=0", "duplicate pages need at least one distinct content"),
            ("zero=5%,distinct=9", "distinct contents without duplicate pages"),
            ("duplicate=5%,distinct=-1", "distinct is a whole number, not \"-1\""),
            ("duplicate=5%,distinct=281474976710656", "is not below 2^48"),
            ("zero=5%,run=3", "run=3 is not a power of two from 1 to 512 pages"),
            ("zero=5%,run=1024", "run=1024 is not a power of two"),
            ("zero=5%,zero=6%", "zero is given twice"),
            ("zeros=5%", "unknown key \"zeros\""),
            ("zero", "\"zero\" is not key=value"),
            ("", "\"\" is not key=value"),
        ] {
            let error = text.parse::<ContentDistribution>().expect_err(text).to_string();
            assert!(error.contains(reason), "{error}");
            assert!(!error.contains('\n'));
        }
    }
}
