//! Estimates for a whole program from the windows of a sampled trace, or from sampled timing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Interval;
use crate::lenient::whole;

/// Estimates for the program from which the windows were recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sampled {
    /// True for sampled timing: all instructions ran and were counted, but only windows were timed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only_timing: bool,
    /// Number of measured windows, or of measured sections of windows.
    #[serde(deserialize_with = "whole")]
    pub windows: u64,
    /// Instructions at the beginning of each window that only warm up caches. The figures exclude
    /// them.
    #[serde(deserialize_with = "whole")]
    pub window_warmup_instructions: u64,
    /// Number of measured instructions, in all windows together.
    #[serde(deserialize_with = "whole")]
    pub instructions_counted: u64,
    /// Number of the program's instructions that the windows represent.
    #[serde(deserialize_with = "whole")]
    pub instructions_represented: u64,
    /// Means over the windows, by figure; the names include the unit.
    pub figures: BTreeMap<String, Interval>,
    /// Totals for all represented instructions, by counter.
    pub extrapolated: BTreeMap<String, Interval>,
}

impl Sampled {
    /// Fewest windows for a confidence interval. Means of fewer windows are not normally
    /// distributed, which the interval assumes.
    pub const LEAST_WINDOWS: u64 = 30;
}
