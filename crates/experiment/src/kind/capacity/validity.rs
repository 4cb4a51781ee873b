//! Share of slices that can contain a superpage (G §3.3, Fig. 7).

use perforate_config::Share;
use perforate_types::{Random, SLICE_BLOCKS};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Bernoulli, Binomial, Estimate, SAMPLES, Samples, Sampling, figures};
use crate::kind::{Measurement, Settings, Study};

/// Share of slices with enough usable B-blocks out of 64. Subjects are the numbers of B-blocks that are
/// enough, 32 to 64.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Validity {
    /// Share of usable B-blocks.
    usable: Share,
    /// Random draws for each point.
    samples: Samples,
}

impl Default for Validity {
    fn default() -> Self {
        Self { usable: Share::NONE, samples: SAMPLES }
    }
}

/// Parses the number of usable B-blocks that a slice needs.
///
/// A superpage takes 32. G's text says "at least half", but its numbers (93.3 % at 60 % usable)
/// correspond to 33 or more; for 32 it would be 96.0 %.
fn threshold(subject: &str) -> Result<u32, String> {
    let number = subject.parse().ok().filter(|number| (32..=64).contains(number));
    number
        .ok_or_else(|| format!("{subject:?}: expected 32 to 64, as a superpage takes 32 B-blocks"))
}

impl Study for Validity {
    const NAME: &'static str = "slice-validity";
    type Settings = Self;

    fn read(settings: &Settings) -> Result<Self, String> {
        settings.read()
    }

    fn check(&self, subject: &str) -> Result<(), String> {
        threshold(subject).map(|_| ())
    }

    fn measure(&self, subject: &str, seed: u64) -> Result<Measurement, String> {
        let (threshold, usable) = (threshold(subject)?, self.usable.value());
        let sampling = Sampling::for_point(self.samples, seed, subject, usable);
        Ok(figures(Some(closed_form(threshold, usable)), estimate(threshold, usable, sampling)))
    }
}

/// Returns the probability that a slice has at least `threshold` usable B-blocks, of 64, if each is usable
/// with probability `usable`.
fn closed_form(threshold: u32, usable: f64) -> f64 {
    Binomial::new(SLICE_BLOCKS, usable).at_least(threshold)
}

/// Estimates the probability that a slice has at least `threshold` usable B-blocks, of 64, from random
/// slices.
fn estimate(threshold: u32, usable: f64, sampling: Sampling) -> Estimate {
    let blocks = Bernoulli::new(usable);
    let is_valid = |random: &mut Random| u64::from(blocks.word(random).count_ones() >= threshold);
    sampling.average(sampling.samples, 1, || is_valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G-C3: share of valid slices at 60 % usable B-blocks, for both interpretations of "at least half".
    #[test]
    fn figure_7_at_60_percent() {
        let printed = closed_form(33, 0.6);
        assert!((printed - 0.933).abs() < 0.0005, "{printed}");
        assert!((printed / 2.0 - 0.466).abs() < 0.0006, "{printed}");
        let mechanism = closed_form(32, 0.6);
        assert!((mechanism - 0.960).abs() < 0.0005, "{mechanism}");
        assert!((mechanism / 2.0 - 0.480).abs() < 0.0005, "{mechanism}");
    }

    #[test]
    fn drawn_slices_agree_with_the_binomial_tail() {
        for threshold in [32, 33, 64] {
            for usable in [0.0, 0.4, 0.5, 0.6, 0.75, 0.99, 1.0] {
                let sampling = Sampling { samples: 200_000, seed: 9 };
                let drawn = estimate(threshold, usable, sampling.of(threshold.into(), usable));
                let exact = closed_form(threshold, usable);
                assert!(drawn.agrees_with(exact), "{threshold} {usable}");
            }
        }
    }
}
