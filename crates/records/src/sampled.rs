//! Estimates for a whole program from the windows of a sampled trace, or from sampled timing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Interval;
use crate::lenient::whole;

/// Estimates for the whole program from which the windows were recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sampled {
    /// True for sampled timing: events were counted in all instructions, but only the windows were timed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only_timing: bool,
    /// Number of measured windows of the sampled trace; if only parts of windows are measured, the number of
    /// parts.
    #[serde(deserialize_with = "whole")]
    pub windows: u64,
    /// Number of instructions at the beginning of each window that only warm up caches. The figures exclude
    /// these instructions.
    #[serde(deserialize_with = "whole")]
    pub window_warmup_instructions: u64,
    /// Number of measured instructions, in all windows together.
    #[serde(deserialize_with = "whole")]
    pub instructions_counted: u64,
    /// Number of the program's instructions that the windows represent.
    #[serde(deserialize_with = "whole")]
    pub instructions_represented: u64,
    /// Mean over the windows of each figure (counter or ratio), by the figure's name, which includes the
    /// unit.
    pub figures: BTreeMap<String, Interval>,
    /// Estimated total over the program's instructions that the windows represent, by name of the counter.
    pub extrapolated: BTreeMap<String, Interval>,
}

impl Sampled {
    /// Minimum number of windows for a confidence interval. Means of fewer windows are not normally
    /// distributed, which the interval assumes.
    pub const LEAST_WINDOWS: u64 = 30;
}
