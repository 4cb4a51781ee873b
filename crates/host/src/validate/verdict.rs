//! Agreement of predictions with measurements: of the effect of 2MB pages, and of times.
//!
//! The effect is the time with 4KB pages ÷ the time with 2MB pages, minus 1. Ratios near 1 differ
//! little from each other for any model; effects differ. The interval of a measured effect spans all of
//! its repetitions. With six repetitions, it contains the true median in 97 of 100 cases (1 − 2 ×
//! 0.5⁶).

use std::fmt;

use serde::Serialize;

use super::limits::{EFFECT_TOLERANCE, MAX_NOISE, NO_EFFECT, TIME_TOLERANCE};
use super::spread::Spread;

/// Agreement of a predicted effect of 2MB pages with the measured effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The predicted effect (speed-up by 2MB pages, minus 1) differs from the measured effect by at most the
    /// share [`EFFECT_TOLERANCE`] of the measured effect.
    Agrees,
    /// 2MB pages help in measurement and prediction, or harm in both, but the size of the effect
    /// differs.
    SameDirection,
    /// Only one of measurement and prediction shows an effect of 2MB pages, or the effects have opposite
    /// signs.
    Disagrees,
    /// The measurements spread too far to judge the prediction.
    Noisy,
    /// No effect of 2MB pages was measured and none is predicted; a model that predicts nothing is right as
    /// well.
    NoEffect,
}

impl Verdict {
    /// Judges a predicted ratio of the times with 4KB and with 2MB pages by the spread of the measured
    /// ratios.
    pub fn of(measured: &Spread, predicted: f64) -> Self {
        let (least, effect, most) = (measured.min - 1.0, measured.median - 1.0, measured.max - 1.0);
        let predicted = predicted - 1.0;
        let is_measured = effect.abs() > NO_EFFECT && !(least..=most).contains(&0.0);
        let is_predicted = predicted.abs() > NO_EFFECT;
        let is_inside = (least..=most).contains(&predicted);
        if !is_measured && !is_predicted {
            return Self::NoEffect;
        }
        let is_same_way = is_measured && is_predicted && effect * predicted > 0.0;
        if is_same_way && (predicted - effect).abs() <= EFFECT_TOLERANCE * effect.abs() {
            let noise = (most - effect).max(effect - least);
            return if noise > MAX_NOISE * effect.abs() { Self::Noisy } else { Self::Agrees };
        }
        match (is_inside, is_same_way) {
            (true, _) => Self::Noisy,
            (false, true) => Self::SameDirection,
            (false, false) => Self::Disagrees,
        }
    }

    /// True if the prediction is judged right or wrong: an effect was measured or predicted, and the
    /// measurements are not too noisy.
    pub fn is_judged(self) -> bool {
        matches!(self, Self::Agrees | Self::SameDirection | Self::Disagrees)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Agrees => "agrees",
            Self::SameDirection => "same way",
            Self::Disagrees => "disagrees",
            Self::Noisy => "too noisy",
            Self::NoEffect => "no effect",
        })
    }
}

/// Sum of the absolute differences between predicted and measured effects (ratio minus 1), divided by the sum
/// of the absolute measured effects, from pairs of measured and predicted ratios. 0 if all predictions are
/// right; 1 if no effect is predicted anywhere. `None` without measured effects.
pub(super) fn effect_error(pairs: &[(f64, f64)]) -> Option<f64> {
    let effects: f64 = pairs.iter().map(|(measured, _)| (measured - 1.0).abs()).sum();
    let errors: f64 = pairs.iter().map(|(measured, predicted)| (predicted - measured).abs()).sum();
    (effects > 0.0).then(|| errors / effects)
}

/// Returns the factor that is farther from 1, where 1/2 is as far as 2.
pub(super) fn farther(one: f64, other: f64) -> f64 {
    if other.ln().abs() > one.ln().abs() { other } else { one }
}

/// True if this ratio of predicted to measured time is near enough to 1.
pub(super) fn is_near(factor: f64) -> bool {
    factor.ln().abs() <= TIME_TOLERANCE.ln_1p() + 1e-9
}

/// Geometric mean of the factors by which predicted times are too long or too short; `None` without
/// factors.
pub(super) fn typical_factor(factors: &[f64]) -> Option<f64> {
    let sum: f64 = factors.iter().map(|factor| factor.ln().abs()).sum();
    (!factors.is_empty()).then(|| (sum / factors.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(min: f64, median: f64, max: f64, predicted: f64) -> Verdict {
        Verdict::of(&Spread { min, median, max }, predicted)
    }

    #[test]
    fn agreement_is_within_a_quarter_of_the_effect() {
        assert_eq!(verdict(1.9, 2.0, 2.1, 2.24), Verdict::Agrees);
        assert_eq!(verdict(1.9, 2.0, 2.1, 1.76), Verdict::Agrees);
        assert_eq!(verdict(1.9, 2.0, 2.1, 2.3), Verdict::SameDirection);
        // A tenth of the ratio is far more than a quarter of the effect.
        assert_eq!(verdict(1.09, 1.1, 1.11, 1.2), Verdict::SameDirection);
        assert_eq!(verdict(0.79, 0.8, 0.81, 0.78), Verdict::Agrees);
    }

    #[test]
    fn no_effect_is_no_success() {
        assert_eq!(verdict(0.97, 1.0, 1.04, 1.0), Verdict::NoEffect);
        assert_eq!(verdict(0.8, 1.1, 1.4, 1.01), Verdict::NoEffect, "within its noise of none");
        assert_eq!(verdict(1.005, 1.01, 1.015, 1.0), Verdict::NoEffect, "too small to matter");
        for measured in [1.05, 1.11, 1.41] {
            let always_one = verdict(measured - 0.01, measured, measured + 0.01, 1.0);
            assert_eq!(always_one, Verdict::Disagrees, "{measured}");
        }
        assert_eq!(
            verdict(0.99, 1.0, 1.01, 1.1),
            Verdict::Disagrees,
            "an effect that is not there"
        );
    }

    #[test]
    fn directions() {
        assert_eq!(verdict(1.1, 1.2, 1.3, 1.5), Verdict::SameDirection);
        assert_eq!(verdict(1.1, 1.2, 1.3, 0.8), Verdict::Disagrees);
        assert_eq!(verdict(0.7, 0.8, 0.9, 0.6), Verdict::SameDirection);
    }

    #[test]
    fn wide_spreads_confirm_nothing() {
        assert_eq!(verdict(1.0, 2.0, 2.1, 2.0), Verdict::Noisy, "as far as to no effect");
        assert_eq!(verdict(1.6, 2.0, 2.6, 2.0), Verdict::Noisy);
        assert_eq!(verdict(1.5, 2.0, 2.5, 2.0), Verdict::Agrees, "half of the effect is allowed");
        assert_eq!(verdict(1.5, 2.0, 2.5, 2.4), Verdict::Noisy, "inside, but not near");
        assert_eq!(verdict(1.5, 2.0, 2.5, 3.0), Verdict::SameDirection, "outside whatever it is");
        assert_eq!(verdict(0.9, 1.1, 1.4, 1.3), Verdict::Noisy);
    }

    #[test]
    fn a_prediction_of_nothing_misses_all_of_the_effects() {
        let measured = [1.5, 1.1, 0.9, 1.0];
        let nothing: Vec<_> = measured.iter().map(|measured| (*measured, 1.0)).collect();
        assert!((effect_error(&nothing).unwrap() - 1.0).abs() < 1e-12);
        let right: Vec<_> = measured.iter().map(|measured| (*measured, *measured)).collect();
        assert_eq!(effect_error(&right), Some(0.0));
        // Errors of 0.1 and 0.2 for effects of 0.5 and 0.1.
        assert!((effect_error(&[(1.5, 1.4), (1.1, 1.3)]).unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(effect_error(&[]), None);
    }

    #[test]
    fn times_are_off_in_both_directions() {
        assert!(is_near(1.25) && is_near(0.8) && !is_near(1.26) && !is_near(0.79));
        assert_eq!((farther(0.5, 1.5), farther(0.9, 1.5)), (0.5, 1.5));
        assert!((typical_factor(&[2.0, 0.5]).unwrap() - 2.0).abs() < 1e-12);
        assert!((typical_factor(&[1.0, 4.0]).unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(typical_factor(&[]), None);
    }
}
