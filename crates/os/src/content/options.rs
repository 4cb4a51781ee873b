//! Options of synthetic page contents.

use std::fmt;

use perforate_config::{ConfigError, Share, write};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::space::REGION_PAGES;

/// Distribution of synthetic page contents: shares of the pages that are zero or have content from a common
/// pool. The other pages have unique contents.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContentDistribution {
    /// Share of all pages that are zero.
    pub zero: Share,
    /// Share of all pages whose content is chosen at random from a common pool, so that most of
    /// them have duplicates.
    pub duplicate: Share,
    /// Number of different contents in the pool, which all programs share; 0 without duplicates.
    pub distinct: u64,
    /// Share of the 2MB regions that contain all zero and duplicate pages; other regions in each
    /// program.
    pub regions: Share,
    /// Length of aligned runs of zero and duplicate pages, in pages: a power of two up to 512. The
    /// pages of a run have successive contents, as those of a cached file.
    pub run: u64,
    /// Seed of the random choice of contents.
    pub seed: u64,
}

impl Default for ContentDistribution {
    fn default() -> Self {
        let (zero, duplicate, regions) = (Share::NONE, Share::NONE, Share::WHOLE);
        Self { zero, duplicate, distinct: 0, regions, run: 1, seed: 0 }
    }
}

impl ContentDistribution {
    /// Checks that the options do not contradict each other.
    ///
    /// # Errors
    /// Names the contradiction and the valid range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let together = self.zero.value() + self.duplicate.value();
        let percent = (together * 1e11).round() / 1e9;
        // Shares are written in percent, so their binary sums can have a rounding error.
        let exceeds = |limit: f64| together > limit + 1e-9;
        let problem = match (self.duplicate > Share::NONE, self.distinct) {
            _ if exceeds(1.0) => format!("zero and duplicate are {percent}% together"),
            _ if exceeds(self.regions.value()) => format!(
                "{percent}% zero and duplicate pages do not fit into {} of the regions",
                self.regions
            ),
            (true, 0) => "duplicate pages need at least one distinct content".into(),
            (false, 1..) => "distinct contents without duplicate pages".into(),
            (_, distinct) if distinct >> 48 > 0 => {
                format!("distinct={distinct} is not below 2^48")
            }
            _ if !self.run.is_power_of_two() || self.run > REGION_PAGES => {
                format!("run={} is not a power of two from 1 to 512 pages", self.run)
            }
            _ => return Ok(()),
        };
        Err(ConfigError::new(problem))
    }
}

impl fmt::Display for ContentDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&write(self))
    }
}

#[cfg(test)]
mod tests {
    use perforate_config::read;

    use super::*;

    #[test]
    fn wrong_contents_are_explained() {
        for (text, reason) in [
            ("zero=60%,duplicate=50%,distinct=1", "zero and duplicate are 110% together"),
            ("zero=41%,regions=40%", "41% zero and duplicate pages do not fit into 40%"),
            ("duplicate=1%", "duplicate pages need at least one distinct content"),
            ("zero=1%,distinct=4", "distinct contents without duplicate pages"),
            ("duplicate=1%,distinct=281474976710656", "is not below 2^48"),
            ("zero=1%,run=3", "run=3 is not a power of two"),
            ("zero=1%,run=1024", "run=1024 is not a power of two from 1 to 512 pages"),
        ] {
            let error = read::<ContentDistribution>(text).unwrap().check().expect_err(text);
            assert!(error.to_string().contains(reason), "{error}");
        }
        // 0.1 + 0.2 is more than 0.3 in binary.
        let text = "zero=10%,duplicate=20%,distinct=7,regions=30%,run=8,seed=3";
        let contents: ContentDistribution = read(text).unwrap();
        assert_eq!(contents.check(), Ok(()));
        assert_eq!(contents.to_string(), text);
    }

    #[test]
    fn every_limit_is_exact() {
        let most = (1_u64 << 48) - 1;
        for (text, problem) in [
            ("default".to_owned(), ""),
            ("zero=40%,duplicate=60%,distinct=1".into(), ""),
            (
                "zero=40%,duplicate=60.1%,distinct=1".into(),
                "zero and duplicate are 100.1% together",
            ),
            ("zero=40%,regions=40%".into(), ""),
            (
                "zero=20%,duplicate=20.5%,distinct=1,regions=40%".into(),
                "40.5% zero and duplicate pages do not fit into 40% of the regions",
            ),
            (format!("duplicate=1%,distinct={most}"), ""),
            (
                format!("duplicate=1%,distinct={}", most + 1),
                "distinct=281474976710656 is not below 2^48",
            ),
            ("distinct=1".into(), "distinct contents without duplicate pages"),
            ("zero=1%,run=512".into(), ""),
            ("zero=1%,run=1".into(), ""),
            ("zero=1%,run=0".into(), "run=0 is not a power of two from 1 to 512 pages"),
            ("zero=1%,run=1024".into(), "run=1024 is not a power of two from 1 to 512 pages"),
        ] {
            let read: ContentDistribution = read(&text).expect(&text);
            let found = read.check().err().map_or_else(String::new, |error| error.to_string());
            assert_eq!(found, problem, "{text}");
        }
        let default = ContentDistribution::default();
        assert_eq!(
            default.to_string(),
            "zero=0%,duplicate=0%,distinct=0,regions=100%,run=1,seed=0"
        );
    }
}
