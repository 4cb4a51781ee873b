//! Counts in parts of a run: equal slices of the measured part, from which the end of the warm-up
//! is detected, and windows of a sampled trace. The run loop stops at the beginning and end of each
//! part, so single accesses need no extra work.

use std::ops::Sub;

use crate::sampled::Windows;
use crate::warmup::Slices;

/// Counts of a run at one moment (instructions since the run began, all other counts since
/// measuring started), or counts within one part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartCounts {
    pub(crate) instructions: u64,
    /// Number of cycles; 0 without a timing model, as are the next two counts.
    pub(crate) cycles: u64,
    /// Sum of the latencies of translations that missed in the first-level TLB.
    pub(crate) translation_cycles: u64,
    /// Cycles in which the run waited for translation. May fall slightly between two moments of a
    /// run, because the timing model may later attribute a few of these cycles to another cause.
    pub(crate) translation_stall_cycles: u64,
    pub(crate) l2_tlb_misses: u64,
    pub(crate) walks: u64,
}

impl Sub for PartCounts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            instructions: self.instructions - before.instructions,
            cycles: self.cycles - before.cycles,
            // These counts restart once all instructions before measuring have retired.
            translation_cycles: self.translation_cycles.saturating_sub(before.translation_cycles),
            translation_stall_cycles: self
                .translation_stall_cycles
                .saturating_sub(before.translation_stall_cycles),
            l2_tlb_misses: self.l2_tlb_misses - before.l2_tlb_misses,
            walks: self.walks - before.walks,
        }
    }
}

/// Slices of the measured part of one run, and windows of its sampled trace, with their counts.
pub(crate) struct RunParts {
    slices: Slices,
    windows: Windows,
}

impl RunParts {
    /// Creates the slices and windows of a run. `timed` is true for a run with a timing model. The
    /// first `window_warmup` instructions of each window do not count.
    pub(crate) fn new(timed: bool, window_warmup: u64) -> Self {
        Self { slices: Slices::new(timed), windows: Windows::new(window_warmup) }
    }

    /// Starts measuring after `done` instructions. The caller resets the run's counts to 0 at the
    /// same moment.
    pub(crate) fn start_measuring(&mut self, done: u64) {
        self.slices.start(done);
        self.windows.start_measuring(done);
    }

    /// Returns the number of instructions after which a slice or window begins or ends, so that the
    /// run's counts are needed.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.slices.next().min(self.windows.next())
    }

    /// Ends and begins the slices and windows that end or begin at this moment. `now` are the run's
    /// counts.
    pub(crate) fn reach(&mut self, now: &PartCounts) {
        self.slices.reach(now);
        self.windows.reach(now);
    }

    /// Ends a window, because the recorder skipped instructions here.
    pub(crate) fn gap(&mut self, now: &PartCounts) {
        self.windows.gap(now);
    }

    /// Ends the run, and returns the counts of all slices and of all windows.
    pub(crate) fn finish(mut self, now: &PartCounts) -> (Slices, Vec<PartCounts>) {
        self.reach(now);
        (self.slices, self.windows.finish(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(values: [u64; 6]) -> PartCounts {
        let [instructions, cycles, translation_cycles, stall, l2_tlb_misses, walks] = values;
        let translation_stall_cycles = stall;
        PartCounts {
            instructions,
            cycles,
            translation_cycles,
            translation_stall_cycles,
            l2_tlb_misses,
            walks,
        }
    }

    #[test]
    fn every_count_of_a_part_is_a_difference() {
        let before = counts([100, 200, 70, 50, 8, 5]);
        assert_eq!(counts([110, 230, 120, 57, 19, 18]) - before, counts([10, 30, 50, 7, 11, 13]));
        // Two counts may have restarted or fallen in between.
        assert_eq!(counts([110, 230, 60, 48, 19, 18]) - before, counts([10, 30, 0, 0, 11, 13]));
    }
}
