//! Whether a prediction and a measurement agree. The limits stand here, and nothing else knows
//! them.

use std::fmt;

use super::spread::Spread;

/// A prediction this close to the measured median agrees.
pub const TOLERANCE: f64 = 0.10;
/// A ratio this close to 1 is no effect.
pub const NO_EFFECT: f64 = 0.05;
/// Measurements that lie further apart than this share of their median say nothing.
pub const WIDEST: f64 = 0.50;

/// What a prediction is worth beside a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Within [`TOLERANCE`] of the measured median.
    Agrees,
    /// Both say that large pages help, both that they harm, or both that they do neither; the size
    /// differs.
    SameDirection,
    /// They contradict each other.
    Disagrees,
    /// The measurements lie too far apart to say.
    Noisy,
}

impl Verdict {
    /// Judges a predicted ratio by the measured ones.
    pub fn of(measured: &Spread, predicted: f64) -> Self {
        if measured.width() > WIDEST {
            return Self::Noisy;
        }
        let direction = |ratio: f64| match ratio - 1.0 {
            effect if effect.abs() <= NO_EFFECT => 0,
            effect if effect > 0.0 => 1,
            _ => -1,
        };
        if deviation(measured, predicted).abs() <= TOLERANCE {
            Self::Agrees
        } else if direction(measured.median) == direction(predicted) {
            Self::SameDirection
        } else {
            Self::Disagrees
        }
    }

    /// The name in JSON lines.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::SameDirection => "same_direction",
            Self::Disagrees => "disagrees",
            Self::Noisy => "noisy",
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

/// By how much a prediction exceeds the measured median, as a share of it.
pub fn deviation(measured: &Spread, predicted: f64) -> f64 {
    predicted / measured.median - 1.0
}

/// The typical factor, less 1, by which predictions miss: e to the mean of |ln(predicted ÷
/// measured)|, less 1. 0 without any.
pub fn typical_miss(pairs: &[(f64, f64)]) -> f64 {
    if pairs.is_empty() {
        return 0.0;
    }
    let logarithms = pairs.iter().map(|(measured, predicted)| (predicted / measured).ln().abs());
    (logarithms.sum::<f64>() / pairs.len() as f64).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(least: f64, median: f64, most: f64, predicted: f64) -> Verdict {
        Verdict::of(&Spread { least, median, most }, predicted)
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
    fn wide_measurements_say_nothing() {
        assert_eq!(verdict(1.0, 2.0, 2.1, 2.0), Verdict::Noisy);
        assert_eq!(verdict(1.5, 2.0, 2.5, 2.0), Verdict::Agrees, "half of the median is allowed");
    }

    #[test]
    fn misses_in_both_directions_add_up() {
        // Twice too large and twice too small: a factor of 2 each.
        assert!((typical_miss(&[(1.0, 2.0), (2.0, 1.0)]) - 1.0).abs() < 1e-12);
        // One right, one by a factor of 4: √4 = 2.
        assert!((typical_miss(&[(3.0, 3.0), (1.0, 4.0)]) - 1.0).abs() < 1e-12);
        assert_eq!(typical_miss(&[]), 0.0);
    }
}
