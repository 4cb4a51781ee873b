//! Errors of predictions, summarised.

use serde::Serialize;

use super::row::MosaicRow;
use crate::validate::spread::Spread;
use crate::validate::verdict::{Verdict, typical_error};

/// Errors of the predictions of some rows under one assumption. Rows that are too noisy, and those
/// whose layout was not obtained, are counted and have no error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// Rows with an error.
    pub judged: usize,
    /// Rows whose measurements are too noisy.
    pub noisy: usize,
    /// Rows whose layout was not obtained.
    pub not_obtained: usize,
    /// Median of the errors without their signs.
    pub median_error: Option<f64>,
    /// The largest of them.
    pub worst_error: Option<f64>,
    /// Geometric mean of the factors by which predictions are off, less 1.
    pub typical_error: f64,
}

impl Errors {
    /// Of these rows under the assumption with this number.
    pub(super) fn of<'a>(rows: impl Iterator<Item = &'a MosaicRow>, assumption: usize) -> Self {
        Self::count(
            rows.map(|row| {
                (row, row.predicted[assumption].verdict, row.predicted[assumption].ratio)
            }),
        )
    }

    /// Of these rows if every layout is predicted to have no effect: what a prediction has to be better
    /// than.
    pub(super) fn of_no_effect<'a>(rows: impl Iterator<Item = &'a MosaicRow>) -> Self {
        let verdict = |row: &MosaicRow| row.predicted.first()?.verdict;
        Self::count(rows.map(|row| (row, verdict(row), 1.0)))
    }

    fn count<'a>(rows: impl Iterator<Item = (&'a MosaicRow, Option<Verdict>, f64)>) -> Self {
        let mut errors = Self::default();
        let (mut sizes, mut pairs) = (Vec::new(), Vec::new());
        for (row, verdict, predicted) in rows {
            match (verdict, row.ratio) {
                (Some(Verdict::Noisy), _) => errors.noisy += 1,
                (Some(_), Some(measured)) => {
                    errors.judged += 1;
                    sizes.push((predicted / measured.median - 1.0).abs());
                    pairs.push((measured.median, predicted));
                }
                _ => errors.not_obtained += 1,
            }
        }
        let spread = Spread::of(&sizes);
        errors.median_error = spread.map(|spread| spread.median);
        errors.worst_error = spread.map(|spread| spread.max);
        errors.typical_error = typical_error(&pairs);
        errors
    }
}
