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
    pub figures: BTreeMap<String, Interval>,
    /// Totals for the represented instructions, by counter.
    pub extrapolated: BTreeMap<String, Interval>,
}

impl Sampled {
    /// Fewest windows for a confidence interval. With fewer windows, their means are not distributed as the
    /// interval assumes.
    pub const LEAST_WINDOWS: u64 = 30;
}
