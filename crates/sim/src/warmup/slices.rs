//! Division of the measured part into equal slices.

use std::ops::Add;

use perforate_records::Batches;

use crate::stretches::PartCounts;
use crate::warmup::mser::{self, BATCH};

/// Initial length of a slice (part of the measured run) in instructions.
const FIRST_INTERVAL: u64 = 100;
/// Number of slices at which pairs of slices are merged, so that 32 to 63 complete batches remain
/// at the end.
const MOST: usize = 64 * BATCH;
/// Smallest number of batches from which the end of the warm-up is detected.
const LEAST_BATCHES: usize = 20;

/// Counts in slices of equal length of the measured part: cycles, or misses of the L2 TLB for runs
/// without a timing model.
pub(crate) struct Slices {
    timed: bool,
    interval: u64,
    next: u64,
    /// Counts of the run between the start of measuring and the beginning of the current slice.
    before: Slice,
    slices: Vec<Slice>,
}

/// Counts of one slice of the measured part of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slice {
    /// Number of cycles; of misses of the L2 TLB for runs without a timing model.
    count: u64,
    translation_stall_cycles: u64,
}

impl Slice {
    /// Returns the difference between this count and an earlier one.
    fn since(self, before: Self) -> Self {
        // A later tally may attribute fewer cycles to translation than an earlier one.
        let stall = self.translation_stall_cycles.saturating_sub(before.translation_stall_cycles);
        Self { count: self.count - before.count, translation_stall_cycles: stall }
    }
}

impl Add for Slice {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            translation_stall_cycles: self.translation_stall_cycles
                + other.translation_stall_cycles,
        }
    }
}

/// Conclusion on the steady state of a run, from its slices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Steadiness {
    /// The run has too few instructions for a conclusion.
    Short,
    /// The run is steady after `after` measured instructions. Without these, the mean count of a
    /// batch (cycles, or L2 TLB misses of a functional run) changes by the share `change`.
    Steady { after: u64, change: f64 },
    /// MSER cuts off more than half of the run, so a steady state is not certain. Without the part
    /// before the cut, the mean count of a batch changes by the share `change`.
    Unsteady { change: f64 },
}

impl Slices {
    pub(crate) fn new(timed: bool) -> Self {
        let (before, slices) = (Slice::default(), Vec::new());
        Self { timed, interval: FIRST_INTERVAL, next: u64::MAX, before, slices }
    }

    /// Starts the first slice after `done` instructions. The run's counts must be 0 at this moment.
    pub(crate) fn start(&mut self, done: u64) {
        self.next = done.saturating_add(self.interval);
    }

    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn reach(&mut self, now: &PartCounts) {
        if now.instructions < self.next {
            return;
        }
        let so_far = Slice {
            count: if self.timed { now.cycles } else { now.l2_tlb_misses },
            translation_stall_cycles: now.translation_stall_cycles,
        };
        self.slices.push(so_far.since(self.before));
        self.before = so_far;
        if self.slices.len() == MOST {
            self.slices = self.slices.chunks_exact(2).map(|pair| pair[0] + pair[1]).collect();
            self.interval *= 2;
        }
        self.next = now.instructions.saturating_add(self.interval);
    }

    /// Returns the sum of the slices in each batch; omits an incomplete last batch.
    fn in_batches(&self) -> impl Iterator<Item = Slice> {
        let sum = |batch: &[Slice]| batch.iter().fold(Slice::default(), |sum, &slice| sum + slice);
        self.slices.chunks_exact(BATCH).map(sum)
    }

    /// Returns the batches that the result stores; empty without a timing model or with too few
    /// batches.
    pub(crate) fn batches(&self) -> Batches {
        let mut batches = Batches::default();
        if self.timed && self.slices.len() >= LEAST_BATCHES * BATCH {
            for batch in self.in_batches() {
                let instructions = BATCH as u64 * self.interval;
                batches.push(instructions, batch.count, batch.translation_stall_cycles);
            }
        }
        batches
    }

    /// Returns the conclusion on the steady state of the run, such as when it begins.
    pub(crate) fn course(&self) -> Steadiness {
        let batches: Vec<u64> = self.in_batches().map(|batch| batch.count).collect();
        if batches.len() < LEAST_BATCHES {
            return Steadiness::Short;
        }
        let cut = mser::cut(&batches);
        let mean = |batches: &[u64]| batches.iter().sum::<u64>() as f64 / batches.len() as f64;
        let (whole, rest) = (mean(&batches), mean(&batches[cut..]));
        let change = if whole > 0.0 { rest / whole - 1.0 } else { 0.0 };
        if cut > batches.len() / 2 {
            return Steadiness::Unsteady { change };
        }
        Steadiness::Steady { after: (cut * BATCH) as u64 * self.interval, change }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the slices of a run measured from instruction 7; `cycles` maps instructions to
    /// cycles.
    fn slices(instructions: u64, cycles: impl Fn(u64) -> u64) -> Slices {
        let mut slices = Slices::new(true);
        slices.start(7);
        while slices.next() <= 7 + instructions {
            let done = slices.next() - 7;
            slices.reach(&PartCounts {
                instructions: slices.next(),
                cycles: cycles(done),
                ..PartCounts::default()
            });
        }
        slices
    }

    #[test]
    fn slices_stay_equal_while_they_grow() {
        // 320 slices of 100 are too many from 32,000 on, 320 of 200 from 64,000 on.
        let found = slices(70_000, |done| 3 * done);
        assert_eq!(found.interval, 400);
        assert_eq!(found.slices, vec![Slice { count: 1200, translation_stall_cycles: 0 }; 175]);
        assert_eq!(found.batches().instructions, vec![2000; 35]);
        assert_eq!(found.batches().cycles, vec![6000; 35]);
        assert!(slices(9_999, |done| 3 * done).batches().is_empty());
    }

    /// Twenty batches of five slices of 100 are enough; one slice less is too few. Without a timing
    /// model there are no batches.
    #[test]
    fn twenty_batches_are_enough() {
        let enough = slices(10_000, |done| 3 * done);
        assert_eq!(enough.batches().cycles, vec![1500; 20]);
        assert_eq!(enough.batches().instructions, vec![500; 20]);
        let one_less = slices(9_900, |done| 3 * done);
        assert!(one_less.batches().is_empty());
        assert!(Slices { timed: false, ..enough }.batches().is_empty());
    }

    /// 3 cycles per instruction, and 6 in the first 8,000 of 64,000 less one slice.
    #[test]
    fn a_transient_ends_where_the_figure_settles() {
        let found = slices(63_900, |done| 3 * done + 3 * done.min(8_000));
        assert_eq!(found.interval, 200);
        let Steadiness::Steady { after, change } = found.course() else { panic!() };
        assert_eq!(after, 8_000);
        // 63 batches of 1000 instructions, 8 of them at 6 cycles: (63 × 3) ÷ (63 × 3 + 8 × 3) − 1.
        assert!((change - (189.0 / 213.0 - 1.0)).abs() < 1e-12, "{change}");
        assert_eq!(
            slices(63_900, |done| 3 * done).course(),
            Steadiness::Steady { after: 0, change: 0.0 }
        );
    }

    #[test]
    fn late_changes_and_short_runs_are_detected() {
        let late = slices(63_900, |done| 3 * done.min(50_000) + done);
        assert!(matches!(late.course(), Steadiness::Unsteady { change } if change < -0.5));
        assert_eq!(slices(9_999, |done| done).course(), Steadiness::Short);
        assert!(matches!(
            slices(10_000, |done| done).course(),
            Steadiness::Steady { after: 0, .. }
        ));
        assert!(matches!(
            slices(63_900, |_| 0).course(),
            Steadiness::Steady { after: 0, change: 0.0 }
        ));
    }

    /// Without a timing model, slices count misses; stalls that fall between two moments count as none.
    #[test]
    fn slices_count_cycles_and_stalls_or_misses() {
        let made = |timed| {
            let mut slices = Slices::new(timed);
            assert_eq!(slices.next(), u64::MAX, "not before measuring");
            slices.start(0);
            for number in 1..=100 {
                slices.reach(&PartCounts {
                    instructions: 100 * number,
                    cycles: 300 * number,
                    translation_stall_cycles: if number == 7 { 0 } else { 10 * number },
                    l2_tlb_misses: 2 * number,
                    ..PartCounts::default()
                });
            }
            slices
        };
        let timed = made(true);
        let batches = timed.batches();
        assert_eq!((batches.cycles.len(), batches.cycles[1]), (20, 1_500));
        // The seventh slice has no stall, and the eighth those of eight.
        let stalls = &batches.translation_stall_cycles;
        assert_eq!((stalls[0], stalls[1], stalls[2]), (50, 10 + 80 + 10 + 10, 50));
        let counted = made(false);
        assert_eq!(counted.slices[3].count, 2);
        assert_eq!(timed.slices[3].count, 300);
    }
}
