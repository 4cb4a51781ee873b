//! Estimates for a whole program from the windows of a sampled trace, or from sampled timing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Interval;
use crate::lenient::whole;

/// Estimates for the program that the windows were recorded from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sampled {
    /// True for sampled timing: all instructions ran and were counted, but only windows were timed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only_timing: bool,
    /// Number of measured windows, or of measured parts of windows.
    #[serde(deserialize_with = "whole")]
    pub windows: u64,
    /// Instructions at the beginning of each window that only warm up caches; not counted in the figures.
    #[serde(deserialize_with = "whole")]
    pub window_warmup_instructions: u64,
    /// Instructions counted, in all windows together.
    #[serde(deserialize_with = "whole")]
    pub instructions_counted: u64,
    /// Instructions of the program that the windows represent.
    #[serde(deserialize_with = "whole")]
    pub instructions_represented: u64,
    /// Means over the windows by name; names include the unit.
    pub figures: BTreeMap<String, SampledFigure>,
    /// Totals for the represented instructions, by counter.
    pub extrapolated: BTreeMap<String, SampledFigure>,
}

impl Sampled {
    /// Fewest windows for a confidence interval. With fewer windows, their means are not distributed as the
    /// interval assumes.
    pub const LEAST_WINDOWS: u64 = 30;
}

/// A mean over windows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampledFigure {
    /// Mean over the windows, each weighted by its instructions.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval around the mean; `None` for a single window.
    #[serde(default)]
    pub half_width_95: Option<f64>,
}

impl From<Interval> for SampledFigure {
    fn from(Interval { mean, half_width_95 }: Interval) -> Self {
        Self { mean, half_width_95 }
    }
}

impl SampledFigure {
    /// Multiplies the mean and its interval by `factor`.
    pub fn times(self, factor: f64) -> Self {
        Self {
            mean: self.mean * factor,
            half_width_95: self.half_width_95.map(|half| half * factor),
        }
    }
}
