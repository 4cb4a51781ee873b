//! Quotients with confidence intervals: the ratio estimator of survey sampling (Cochran, Sampling
//! Techniques, 3rd edition 1977, chapter 6).

use serde::{Deserialize, Serialize};

use crate::student::deviations_95;

/// An estimate with half the width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The estimate: a ratio or a mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; `None` if there are too few values to estimate it.
    #[serde(default)]
    pub half_width_95: Option<f64>,
}

impl Interval {
    /// Estimates the ratio of two sums from pairs of batches: the sum of `counts` ÷ the sum of
    /// `bases`. `None` if the bases add up to 0, or if the lists differ in length. Residuals are
    /// computed in integers, so batches with equal ratios have no residual at all.
    pub fn of_quotient(counts: &[u64], bases: &[u64]) -> Option<Self> {
        let sum = |parts: &[u64]| parts.iter().map(|&part| i128::from(part)).sum::<i128>();
        let (count, base) = (sum(counts), sum(bases));
        if counts.len() != bases.len() || base == 0 {
            return None;
        }
        let mean = count as f64 / base as f64;
        let parts = counts.len() as f64;
        if counts.len() < 2 {
            return Some(Self { mean, half_width_95: None });
        }
        let residual = |(&own, &own_base): (&u64, &u64)| {
            (i128::from(own) * base - count * i128::from(own_base)) as f64 / base as f64
        };
        let squares: f64 = counts.iter().zip(bases).map(|pair| residual(pair).powi(2)).sum();
        let error = (squares / (parts - 1.0) * parts).sqrt() / base as f64;
        let half = deviations_95(counts.len() - 1) * error;
        Some(Self { mean, half_width_95: Some(half) })
    }

    /// Estimates the mean of a few values, such as those of several seeds; `None` if there are
    /// none.
    pub fn of_values(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        if values.len() < 2 {
            return values.first().map(|&mean| Self { mean, half_width_95: None });
        }
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let half = deviations_95(values.len() - 1) * (squares / (count - 1.0) / count).sqrt();
        Some(Self { mean, half_width_95: Some(half) })
    }

    /// Multiplies the estimate and its interval by `factor`.
    pub fn times(self, factor: f64) -> Self {
        let half_width_95 = self.half_width_95.map(|half| half * factor);
        Self { mean: self.mean * factor, half_width_95 }
    }

    /// True if `value` is inside the interval, ends included. If the interval is unknown, true only if
    /// `value` equals the estimate.
    pub fn holds(&self, value: f64) -> bool {
        (self.mean - value).abs() <= self.half_width_95.unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_an_interval_belong_to_it() {
        let interval = Interval { mean: 2.0, half_width_95: Some(0.5) };
        let held = [1.49, 1.5, 2.0, 2.5, 2.51].map(|value| interval.holds(value));
        assert_eq!(held, [false, true, true, true, false]);
        let figure = Interval { half_width_95: None, ..interval };
        assert_eq!([1.9, 2.0].map(|value| figure.holds(value)), [false, true]);
    }

    /// Ratio 3, from 1200 cycles in 400 instructions. Residuals from 3 cycles per instruction are
    /// −100, 0 and +100. Their variance is 20000 ÷ 2, so the variance of the ratio is 10000 ÷ 3 ÷
    /// (400 ÷ 3)² = 0.1875. With two degrees of freedom, half the width is 4.3027 × √0.1875.
    #[test]
    fn parts_of_unequal_length() {
        let found = Interval::of_quotient(&[200, 300, 700], &[100, 100, 200]).unwrap();
        assert_eq!(found.mean, 3.0);
        assert!((found.half_width_95.unwrap() - 4.3027 * 0.1875f64.sqrt()).abs() < 1e-12);
        assert!(found.holds(3.5) && !found.holds(5.0));
    }

    #[test]
    fn equal_parts_have_no_width_and_one_part_no_interval() {
        // One third is not a binary fraction, so rounding would make the width nonzero.
        let found = Interval::of_quotient(&[100_000_003; 7], &[300_000_001; 7]).unwrap();
        assert_eq!(found.half_width_95, Some(0.0));
        let same = Interval::of_quotient(&[1, 100], &[3, 300]).unwrap();
        assert_eq!(same.half_width_95, Some(0.0), "the same ratio");
        let single = Interval::of_quotient(&[10], &[4]).unwrap();
        assert_eq!(single, Interval { mean: 2.5, half_width_95: None });
        assert_eq!(Interval::of_quotient(&[10], &[0]), None);
        assert_eq!(Interval::of_quotient(&[10], &[1, 2]), None);
    }

    /// Mean 2, variance 1, variance of the mean 1/3, with two degrees of freedom.
    #[test]
    fn values_of_seeds() {
        let found = Interval::of_values(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(found.mean, 2.0);
        assert!((found.half_width_95.unwrap() - 4.3027 / 3f64.sqrt()).abs() < 1e-12);
        assert_eq!(Interval::of_values(&[2.0]).unwrap().half_width_95, None);
        assert_eq!(Interval::of_values(&[]), None);
    }

    #[test]
    fn an_interval_is_scaled_with_its_estimate() {
        let one = Interval { mean: 2.0, half_width_95: Some(0.5) };
        assert_eq!(one.times(100.0), Interval { mean: 200.0, half_width_95: Some(50.0) });
        let alone = Interval { mean: 2.0, half_width_95: None };
        assert_eq!(alone.times(0.5), Interval { mean: 1.0, half_width_95: None });
        assert_eq!(serde_json::from_str::<Interval>(r#"{"mean":2}"#).unwrap(), alone);
        assert_eq!(Interval::of_quotient(&[], &[]), None);
        assert_eq!(
            Interval::of_quotient(&[0, 0], &[1, 2]).unwrap(),
            Interval { mean: 0.0, half_width_95: Some(0.0) }
        );
    }
}
