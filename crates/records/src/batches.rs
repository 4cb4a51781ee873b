//! Cycle counts of consecutive batches of a run, from which confidence intervals are computed.

use serde::{Deserialize, Serialize};

use crate::Interval;
use crate::lenient::wholes;

/// The measured instructions divided into consecutive batches. In a sampled trace the batches are
/// its windows, otherwise there are 20 to 63 of equal length. Runs of one comparison have the same
/// batches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Batches {
    /// Number of executed instructions in each batch (consecutive part of the run).
    #[serde(deserialize_with = "wholes")]
    pub instructions: Vec<u64>,
    /// Length of each batch in cycles.
    #[serde(deserialize_with = "wholes")]
    pub cycles: Vec<u64>,
    /// Number of cycles in each batch in which the run waited for address translation.
    #[serde(deserialize_with = "wholes")]
    pub translation_stall_cycles: Vec<u64>,
}

impl Batches {
    /// Appends one batch; the three arguments are elements of the lists of the same names.
    pub fn push(&mut self, instructions: u64, cycles: u64, translation_stall_cycles: u64) {
        self.instructions.push(instructions);
        self.cycles.push(cycles);
        self.translation_stall_cycles.push(translation_stall_cycles);
    }

    /// True if the run is not divided into batches.
    pub fn is_empty(&self) -> bool {
        self.cycles.is_empty()
    }

    /// Returns the share of the run's cycles, 0–1, in which it waited for address translation. `None` if
    /// there are no cycles.
    pub fn translation_share(&self) -> Option<Interval> {
        Interval::of_quotient(&self.translation_stall_cycles, &self.cycles)
    }

    /// Returns the cycles of `other` ÷ the cycles of this run, with an interval from pairs of batches. `None`
    /// unless both runs have batches of the same instruction counts.
    pub fn speed_over(&self, other: &Self) -> Option<Interval> {
        let is_paired = self.instructions == other.instructions;
        is_paired.then(|| Interval::of_quotient(&other.cycles, &self.cycles))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates batches from pairs of instructions and cycles; an eighth of the cycles is
    /// translation stall.
    fn batches(parts: &[(u64, u64)]) -> Batches {
        let mut batches = Batches::default();
        parts
            .iter()
            .for_each(|&(instructions, cycles)| batches.push(instructions, cycles, cycles / 8));
        batches
    }

    #[test]
    fn equal_parts_are_paired() {
        let fast = batches(&[(1000, 800), (1000, 1600)]);
        let slow = batches(&[(1000, 1600), (1000, 3200)]);
        // Each batch of `slow` takes twice as long. The paired estimate has no variance, although
        // the batches differ.
        let twice = Interval { mean: 2.0, half_width_95: Some(0.0) };
        assert_eq!(fast.speed_over(&slow), Some(twice));
        assert_eq!(slow.speed_over(&fast), Some(Interval { mean: 0.5, ..twice }));
        let eighth = Interval { mean: 0.125, ..twice };
        assert_eq!(fast.translation_share(), Some(eighth));
    }

    /// Batches with other instruction counts, and lists with fewer batches.
    #[test]
    fn other_parts_are_not_paired() {
        let parts = batches(&[(1000, 800), (1000, 1600)]);
        for others in
            [&[(1000, 800), (2000, 1600)][..], &[(2000, 800), (2000, 1600)], &[(1000, 800)], &[]]
        {
            let others = batches(others);
            assert_eq!(parts.speed_over(&others), None, "{others:?}");
            assert_eq!(others.speed_over(&parts), None, "{others:?}");
        }
        assert!(batches(&[]).is_empty() && batches(&[]).translation_share().is_none());
    }
}
