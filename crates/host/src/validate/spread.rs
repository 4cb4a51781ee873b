//! Summaries of repeated measurements.

use serde::Serialize;

/// Minimum, median and maximum of repeated measurements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Smallest of the measured values.
    #[serde(rename = "least")]
    pub min: f64,
    /// Median; for an even number of values, the mean of the two middle values.
    pub median: f64,
    /// Largest of the measured values.
    #[serde(rename = "most")]
    pub max: f64,
}

impl Spread {
    /// Summary of these values; `None` without values, or if a value is not finite.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        sorted.iter().all(|value| value.is_finite()).then_some(Self { min, median, max })
    }

    /// Distance between minimum and maximum, as a share of the median.
    pub fn width(&self) -> f64 {
        (self.max - self.min) / self.median
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers() {
        let spread = Spread::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!(spread, Spread { min: 1.0, median: 2.0, max: 3.0 });
        assert_eq!(spread.width(), 1.0);
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 8.0]).unwrap().median, 3.0);
        assert_eq!(Spread::of(&[5.0]), Some(Spread { min: 5.0, median: 5.0, max: 5.0 }));
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[1.0, f64::NAN]), None);
        assert_eq!(Spread::of(&[1.0, f64::INFINITY]), None);
    }
}
