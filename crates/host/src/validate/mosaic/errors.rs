//! Errors of predictions, summarised.

use serde::Serialize;

use super::row::MosaicRow;
use crate::validate::spread::Spread;
use crate::validate::verdict::{Verdict, effect_error};

/// Errors of the predicted effects of some rows under one assumption. Rows that are too noisy, that have
/// no effect to predict, or whose layout was not obtained are counted and have no error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// Rows with an error.
    pub judged: usize,
    /// Rows whose effects agree.
    pub agrees: usize,
    /// Rows whose measurements are too noisy.
    pub noisy: usize,
    /// Rows without an effect to predict.
    pub no_effect: usize,
    /// Rows whose layout was not obtained.
    pub not_obtained: usize,
    /// Median of the differences of predicted and measured effects, without their signs.
    pub median_error: Option<f64>,
    /// The largest of them.
    pub worst_error: Option<f64>,
    /// Sum of these differences, as a share of the sum of the measured effects: 1 if no effect is
    /// predicted anywhere.
    pub effect_error: Option<f64>,
}

impl Errors {
    /// Of these rows under the assumption with this number.
    pub(super) fn of<'a>(rows: impl Iterator<Item = &'a MosaicRow>, assumption: usize) -> Self {
        let mut errors = Self::default();
        let (mut sizes, mut pairs) = (Vec::new(), Vec::new());
        for row in rows {
            let predicted = &row.predicted[assumption];
            match (predicted.verdict, row.ratio) {
                (Some(Verdict::Noisy), _) => errors.noisy += 1,
                (Some(Verdict::NoEffect), _) => errors.no_effect += 1,
                (Some(verdict), Some(measured)) => {
                    errors.judged += 1;
                    errors.agrees += usize::from(verdict == Verdict::Agrees);
                    sizes.push((predicted.ratio - measured.median).abs());
                    pairs.push((measured.median, predicted.ratio));
                }
                _ => errors.not_obtained += 1,
            }
        }
        let spread = Spread::of(&sizes);
        errors.median_error = spread.map(|spread| spread.median);
        errors.worst_error = spread.map(|spread| spread.max);
        errors.effect_error = effect_error(&pairs);
        errors
    }

    /// The effects' error; of one that predicts effects where there are none, endless.
    pub(super) fn error(&self) -> f64 {
        self.effect_error.unwrap_or(f64::INFINITY)
    }
}
