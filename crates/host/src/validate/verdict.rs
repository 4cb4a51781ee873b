//! Agreement of a prediction with a measurement.

use std::fmt;

use serde::Serialize;

use super::limits::{MAX_SPREAD, NO_EFFECT, TOLERANCE};
use super::spread::Spread;

/// Agreement of a predicted ratio with measured ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Within [`TOLERANCE`] of the measured median.
    Agrees,
    /// Both show that large pages help, that they harm, or that they do neither; the size differs.
    SameDirection,
    /// They contradict each other.
    Disagrees,
    /// The measurements spread too far.
    Noisy,
}

impl Verdict {
    /// Judges a predicted ratio by the measured ones.
    pub fn of(measured: &Spread, predicted: f64) -> Self {
        if measured.width() > MAX_SPREAD {
            return Self::Noisy;
        }
        let direction = |ratio: f64| match ratio - 1.0 {
            effect if effect.abs() <= NO_EFFECT => 0,
            effect if effect > 0.0 => 1,
            _ => -1,
        };
        if (predicted / measured.median - 1.0).abs() <= TOLERANCE {
            Self::Agrees
        } else if direction(measured.median) == direction(predicted) {
            Self::SameDirection
        } else {
            Self::Disagrees
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Agrees => "agrees",
            Self::SameDirection => "same way",
            Self::Disagrees => "disagrees",
            Self::Noisy => "too noisy",
        })
    }
}

/// The geometric mean of the factors by which predictions are off, less 1, from pairs of measured and
/// predicted ratios. 0 without any.
pub(super) fn typical_error(pairs: &[(f64, f64)]) -> f64 {
    if pairs.is_empty() {
        return 0.0;
    }
    let logarithms = pairs.iter().map(|(measured, predicted)| (predicted / measured).ln().abs());
    (logarithms.sum::<f64>() / pairs.len() as f64).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(min: f64, median: f64, max: f64, predicted: f64) -> Verdict {
        Verdict::of(&Spread { min, median, max }, predicted)
    }

    #[test]
    fn agreement_is_within_a_tenth() {
        assert_eq!(verdict(1.9, 2.0, 2.1, 2.19), Verdict::Agrees);
        assert_eq!(verdict(1.9, 2.0, 2.1, 1.81), Verdict::Agrees);
        assert_eq!(verdict(1.9, 2.0, 2.1, 2.3), Verdict::SameDirection);
        // Inside the measured values is not enough.
        assert_eq!(verdict(1.7, 2.0, 2.4, 2.3), Verdict::SameDirection);
    }

    #[test]
    fn directions() {
        assert_eq!(verdict(1.1, 1.2, 1.3, 1.5), Verdict::SameDirection);
        assert_eq!(verdict(1.1, 1.2, 1.3, 1.04), Verdict::Disagrees, "an effect and none");
        assert_eq!(verdict(1.1, 1.2, 1.3, 0.8), Verdict::Disagrees);
        assert_eq!(verdict(0.7, 0.8, 0.9, 0.6), Verdict::SameDirection);
        assert_eq!(verdict(0.9, 0.94, 1.0, 1.06), Verdict::Disagrees);
        assert_eq!(verdict(0.9, 0.97, 1.0, 1.04), Verdict::Agrees, "no effect either way");
    }

    #[test]
    fn wide_spreads_give_no_verdict() {
        assert_eq!(verdict(1.0, 2.0, 2.1, 2.0), Verdict::Noisy);
        assert_eq!(verdict(1.5, 2.0, 2.5, 2.0), Verdict::Agrees, "half of the median is allowed");
    }

    #[test]
    fn errors_in_both_directions_add_up() {
        // Twice too large and twice too small: a factor of 2 each.
        assert!((typical_error(&[(1.0, 2.0), (2.0, 1.0)]) - 1.0).abs() < 1e-12);
        // One right, one by a factor of 4: √4 = 2.
        assert!((typical_error(&[(3.0, 3.0), (1.0, 4.0)]) - 1.0).abs() < 1e-12);
        assert_eq!(typical_error(&[]), 0.0);
    }
}
