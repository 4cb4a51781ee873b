//! What the windows of a sampled trace say of the whole program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Interval;
use crate::lenient::whole;

/// Estimates for the program of which windows were recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sampled {
    /// Only the clock was sampled: every instruction ran, and what needs no clock was counted in all.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only_timing: bool,
    /// Windows, or parts of them, that were measured.
    #[serde(deserialize_with = "whole")]
    pub windows: u64,
    /// Instructions at the beginning of each window that were simulated and are not counted here.
    #[serde(deserialize_with = "whole")]
    pub window_warmup_instructions: u64,
    /// Instructions counted in all windows.
    #[serde(deserialize_with = "whole")]
    pub instructions_counted: u64,
    /// Instructions of the program that they stand for.
    #[serde(deserialize_with = "whole")]
    pub instructions_represented: u64,
    /// Mean figures, units in the names.
    pub figures: BTreeMap<String, SampledFigure>,
    /// Counts of the represented instructions.
    pub extrapolated: BTreeMap<String, SampledFigure>,
}

impl Sampled {
    /// Fewest windows of which an interval is made: below, means of windows are not distributed as the
    /// interval assumes.
    pub const LEAST_WINDOWS: u64 = 30;
}

/// A mean over windows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampledFigure {
    /// The mean, each window weighted by its instructions.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval around it; none of a single window.
    #[serde(default)]
    pub half_width_95: Option<f64>,
}

impl From<Interval> for SampledFigure {
    fn from(Interval { mean, half_width_95 }: Interval) -> Self {
        Self { mean, half_width_95 }
    }
}

impl SampledFigure {
    /// The figure and its interval, multiplied.
    pub fn times(self, factor: f64) -> Self {
        Self {
            mean: self.mean * factor,
            half_width_95: self.half_width_95.map(|half| half * factor),
        }
    }
}
