//! Zipf-distributed random numbers, in constant memory and time.

use perforate_config::ConfigError;

use crate::random::{Random, scale};

/// Number of ranks that are drawn individually. Higher ranks are drawn by ranges.
const EXACT_RANKS: u64 = 1024;
/// A range spans 1/64 of its first rank, so probabilities within a range differ by less than 1.6 % ×
/// the exponent. Ranks within a range are equally likely.
const RANGE_SHIFT: u32 = 6;

/// Checks the option `exponent` of a workload.
pub(crate) fn check_exponent(exponent: f64) -> Result<(), ConfigError> {
    if (0.0..=10.0).contains(&exponent) {
        return Ok(());
    }
    let problem = format!("expected a number from 0 to 10, not {exponent}");
    Err(ConfigError::new(problem).under("exponent"))
}

/// Zipf distribution: draws rank r of `count` with probability proportional to r to the power of
/// −exponent.
///
/// Uses Walker's alias method over ranges of ranks. It is exact for the first 1024 ranks and for the
/// weight of every range.
pub(super) struct Zipf {
    ranges: Vec<Range>,
}

struct Range {
    /// This range is drawn if the fraction is at most this (scaled to 2⁶⁴).
    threshold: u64,
    /// Range that is drawn otherwise.
    alias: u32,
    first: u64,
    count: u64,
}

impl Zipf {
    pub(super) fn new(count: u64, exponent: f64) -> Self {
        let mut ranges = Vec::new();
        let mut weights = Vec::new();
        let mut first = 1;
        while first <= count {
            let width = if first <= EXACT_RANKS { 1 } else { first >> RANGE_SHIFT };
            let width = width.min(count - first + 1);
            weights.push(weight(first, width, exponent));
            ranges.push(Range { threshold: u64::MAX, alias: 0, first: first - 1, count: width });
            first += width;
        }
        fill_aliases(&mut ranges, &weights);
        Self { ranges }
    }

    /// Draws a rank, counted from 0.
    #[inline]
    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        let place = u128::from(random.next()) * self.ranges.len() as u128;
        let mut range = &self.ranges[(place >> 64) as usize];
        if place as u64 > range.threshold {
            range = &self.ranges[range.alias as usize];
        }
        if range.count == 1 { range.first } else { range.first + scale(random.next(), range.count) }
    }
}

/// Sum of r^−exponent over `width` ranks from `first`. For one rank, the term itself; otherwise the
/// integral from half a rank before to half a rank after, which is equal to six digits beyond rank
/// 1024.
fn weight(first: u64, width: u64, exponent: f64) -> f64 {
    let rank = first as f64;
    if width == 1 {
        return rank.powf(-exponent);
    }
    let (low, high) = (rank - 0.5, rank + width as f64 - 0.5);
    if (exponent - 1.0).abs() < 1e-9 {
        (high / low).ln()
    } else {
        (high.powf(1.0 - exponent) - low.powf(1.0 - exponent)) / (1.0 - exponent)
    }
}

fn fill_aliases(ranges: &mut [Range], weights: &[f64]) {
    let total: f64 = weights.iter().sum();
    let mut shares: Vec<f64> =
        weights.iter().map(|weight| weight / total * weights.len() as f64).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..shares.len()).partition(|&range| shares[range] < 1.0);
    while let (Some(&less), Some(&more)) = (small.last(), large.last()) {
        small.pop();
        ranges[less].threshold = (shares[less] * 2f64.powi(64)) as u64;
        ranges[less].alias = more as u32;
        shares[more] -= 1.0 - shares[less];
        if shares[more] < 1.0 {
            large.pop();
            small.push(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws from a Zipf distribution and compares with the closed form.
    #[test]
    fn frequencies_follow_the_power_law() {
        const DRAWS: u64 = 2_000_000;
        for exponent in [0.5, 0.99, 1.0, 1.5] {
            let count = 100_000;
            let zipf = Zipf::new(count, exponent);
            let mut random = Random::new(7);
            let mut drawn = vec![0u64; count as usize];
            for _ in 0..DRAWS {
                drawn[zipf.draw(&mut random) as usize] += 1;
            }
            let sum: f64 = (1..=count).map(|rank| (rank as f64).powf(-exponent)).sum();
            for (first, last) in [(1, 1), (2, 2), (10, 20), (1000, 2000), (50_000, 100_000)] {
                let expected: f64 =
                    (first..=last).map(|rank| (rank as f64).powf(-exponent)).sum::<f64>() / sum
                        * DRAWS as f64;
                let found: u64 = drawn[first as usize - 1..last as usize].iter().sum();
                // Five standard deviations of a binomial count, and 1 % for the uniform draws within
                // ranges.
                let tolerance = 5.0 * expected.sqrt() + 0.01 * expected;
                assert!(
                    (found as f64 - expected).abs() < tolerance,
                    "exponent {exponent}, ranks {first}–{last}: {found}, expected {expected:.0}"
                );
            }
        }
    }
}
