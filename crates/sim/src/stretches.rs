//! Figures of stretches of a run: equal slices of the measured part, from which the end of the
//! warm-up is seen, and windows of a sampled trace. The run loop stops where a stretch begins or
//! ends; nothing is done per access.

use std::ops::Sub;

use crate::sampled::Windows;
use crate::warmup::Slices;

/// What a run has counted until one moment, or in one stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) instructions: u64,
    /// 0 without a clock, as the next.
    pub(crate) cycles: u64,
    /// Latencies beyond the first-level TLB, summed.
    pub(crate) translation_cycles: u64,
    /// Cycles for which the run waited for translation. A later tally may put some elsewhere, so that
    /// these may fall by a few.
    pub(crate) translation_stall_cycles: u64,
    pub(crate) l2_tlb_misses: u64,
    pub(crate) walks: u64,
}

impl Sub for Tally {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            instructions: self.instructions - before.instructions,
            cycles: self.cycles - before.cycles,
            // These begin anew when the instructions before measuring have retired.
            translation_cycles: self.translation_cycles.saturating_sub(before.translation_cycles),
            translation_stall_cycles: self
                .translation_stall_cycles
                .saturating_sub(before.translation_stall_cycles),
            l2_tlb_misses: self.l2_tlb_misses - before.l2_tlb_misses,
            walks: self.walks - before.walks,
        }
    }
}

/// All stretches of one run.
pub(crate) struct Stretches {
    slices: Slices,
    windows: Windows,
}

impl Stretches {
    /// Of a run with a clock or without; windows begin to count after their own warm-up.
    pub(crate) fn new(timed: bool, window_warmup: u64) -> Self {
        Self { slices: Slices::new(timed), windows: Windows::new(window_warmup) }
    }

    /// Measuring begins after this many instructions; counts begin at 0 there.
    pub(crate) fn start_measuring(&mut self, done: u64) {
        self.slices.start(done);
        self.windows.start_measuring(done);
    }

    /// The number of instructions after which a tally is wanted.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.slices.next().min(self.windows.next())
    }

    /// Takes the tally that was wanted.
    pub(crate) fn reach(&mut self, now: &Tally) {
        self.slices.reach(now);
        self.windows.reach(now);
    }

    /// The recorder passed over instructions here.
    pub(crate) fn gap(&mut self, now: &Tally) {
        self.windows.gap(now);
    }

    /// Ends the run.
    pub(crate) fn finish(mut self, now: &Tally) -> (Slices, Vec<Tally>) {
        self.reach(now);
        (self.slices, self.windows.finish(now))
    }
}
