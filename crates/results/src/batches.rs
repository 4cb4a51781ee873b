//! Cycles of parts of a run, from which intervals are computed.

use serde::{Deserialize, Serialize};

use crate::Interval;
use crate::lenient::wholes;

/// Parts of the measured instructions, in order: windows of a sampled trace, else batches of equal
/// length, from 20 to 63 of them. Runs of one comparison have the same parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Batches {
    /// Instructions of each.
    #[serde(deserialize_with = "wholes")]
    pub instructions: Vec<u64>,
    /// Cycles of each.
    #[serde(deserialize_with = "wholes")]
    pub cycles: Vec<u64>,
    /// Of those, the cycles for which the run waited for address translation.
    #[serde(deserialize_with = "wholes")]
    pub translation_stall_cycles: Vec<u64>,
}

impl Batches {
    /// Adds a part.
    pub fn push(&mut self, instructions: u64, cycles: u64, translation_stall_cycles: u64) {
        self.instructions.push(instructions);
        self.cycles.push(cycles);
        self.translation_stall_cycles.push(translation_stall_cycles);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.cycles.is_empty()
    }

    /// Share of the cycles for which the run waited for address translation.
    pub fn translation_share(&self) -> Option<Interval> {
        Interval::of_quotient(&self.translation_stall_cycles, &self.cycles)
    }

    /// How many times as fast this run was as another with the same parts, paired part by part.
    pub fn speed_over(&self, other: &Self) -> Option<Interval> {
        let is_paired = self.instructions == other.instructions;
        is_paired.then(|| Interval::of_quotient(&other.cycles, &self.cycles))?
    }
}
