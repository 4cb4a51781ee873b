//! One row of a validation by mosaics: a program with one layout.

use serde::Serialize;

use super::{Cycles, Measured};
use crate::validate::limits::MOSTLY;
use crate::validate::plan::Assumption;
use crate::validate::spread::Spread;
use crate::validate::verdict::Verdict;

/// Measurement and predictions of a program or benchmark with one layout. Serialized as a line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MosaicRow {
    /// Name of the program or benchmark.
    pub program: String,
    /// Name of the layout of 4KB and 2MB pages with which the program ran.
    pub layout: String,
    /// Measured time with 4KB pages only ÷ time with the layout.
    #[serde(rename = "measured_ratio")]
    pub ratio: Option<Spread>,
    /// Memory in 2MB pages within the intervals for which the layout asks for 2MB pages, in bytes.
    pub large_bytes: u64,
    /// Share of the touched memory in the layout's 2MB intervals that is in 2MB pages, 0–1. `None`
    /// if the program touched no memory in these intervals.
    pub obtained_share: Option<f64>,
    /// Predictions of the ratio of times, one per assumption about the host's page tables.
    pub predicted: Vec<MosaicPrediction>,
}

/// Prediction for a program with one layout, under one assumption about the host's page tables.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MosaicPrediction {
    /// Name of the assumption about the host's page tables, as in tables.
    pub assumption: &'static str,
    /// Predicted time with 4KB pages only ÷ time with the layout.
    pub ratio: f64,
    /// Predicted ratio of times minus the median of the measured ratios.
    pub error: Option<f64>,
    /// Agreement of the prediction with the measurement; `None` if the program did not obtain the layout's
    /// 2MB pages.
    pub verdict: Option<Verdict>,
}

impl MosaicRow {
    /// True if the program obtained enough of the layout's 2MB pages.
    pub fn is_obtained(&self) -> bool {
        self.obtained_share.is_some_and(|share| share >= MOSTLY)
    }

    /// Makes the rows of a program: one for each layout except the first, which has only 4KB pages.
    pub(super) fn of_program(
        program: &str,
        measured: &Measured,
        cycles: &[Cycles],
        assumptions: &[Assumption],
    ) -> Vec<Self> {
        let row = |number: usize| {
            let pages = &measured.pages[number];
            let mut row = Self {
                program: program.to_owned(),
                layout: measured.layouts[number].name.clone(),
                ratio: Spread::of(&measured.rounds.ratios(number)),
                large_bytes: pages.large_bytes,
                obtained_share: pages.obtained(),
                predicted: Vec::new(),
            };
            let is_obtained = row.is_obtained();
            for (index, assumption) in assumptions.iter().enumerate() {
                let ratio = cycles[0][index] / cycles[number][index];
                let measured = row.ratio.filter(|_| is_obtained && ratio.is_finite());
                row.predicted.push(MosaicPrediction {
                    assumption: assumption.name,
                    ratio,
                    error: row.ratio.map(|measured| ratio - measured.median),
                    verdict: measured.map(|measured| Verdict::of(&measured, ratio)),
                });
            }
            row
        };
        (1..measured.layouts.len()).map(row).collect()
    }
}
