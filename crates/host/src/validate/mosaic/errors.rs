//! Summary of prediction errors.

use serde::Serialize;

use super::row::MosaicRow;
use crate::validate::spread::Spread;
use crate::validate::verdict::{Verdict, effect_error};

/// Summary of the prediction errors for several rows (each a program with one layout), under one assumption
/// about the host's page size. Rows that are too noisy, have no effect, or lack the layout's 2MB pages are
/// counted but have no error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// Number of rows (programs with a layout) that have a measured or predicted speed-up, quiet enough
    /// measurements, and the layout's 2MB pages; only these have an error.
    pub judged: usize,
    /// Number of rows (programs with a layout) whose predicted speed-up agrees with the measured one, within
    /// the tolerance.
    pub agrees: usize,
    /// Number of rows (programs with a layout) whose measured run times spread too far for a verdict.
    pub noisy: usize,
    /// Number of rows (programs with a layout) in which neither measurement nor prediction shows a speed-up
    /// or slow-down by the layout.
    pub no_effect: usize,
    /// Number of rows (programs with a layout) whose program did not obtain the layout's 2MB pages.
    pub not_obtained: usize,
    /// Median over the rows of the absolute difference between predicted and measured ratio of the times with
    /// 4KB pages only and with the layout.
    pub median_error: Option<f64>,
    /// Largest absolute difference, in any row, between predicted and measured ratio of the times with 4KB
    /// pages only and with the layout.
    pub worst_error: Option<f64>,
    /// Sum of the absolute differences between predicted and measured effects (speed-up minus 1), divided by
    /// the sum of the absolute measured effects: 1 if no effect is predicted in any row.
    pub effect_error: Option<f64>,
}

impl Errors {
    /// Sums up the errors of these rows under the assumption about the host's page size with index
    /// `assumption`.
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
}
