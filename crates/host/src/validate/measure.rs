//! Native measurement of a benchmark at one size of memory (a row of the result), alternately with 4KB and
//! with 2MB pages.

use perforate_sim::Progress;

use super::plan::Row;
use crate::benchmark::{Job, Measured, Paging, Worker, WorkerCommand};
use crate::counters::{Rates, Readings};
use crate::{HostError, Reporter};

/// Number of operations in the trial run that determines the number of timed operations.
pub(super) const FIRST_OPERATIONS: u64 = 200_000;

/// Number and duration of the native runs of each benchmark or program.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Number of times that the workers are started, each time with new memory.
    pub rounds: u32,
    /// Number of blocks in each round. A block has four runs, such as 4KB, 2MB, 2MB, 4KB pages, so that
    /// steady drift cancels.
    pub blocks: u32,
    /// Duration of one run in nanoseconds.
    pub run_nanoseconds: u64,
}

impl Effort {
    /// Default effort; `is_quick` reduces it, and `blocks` overrides the total number of blocks (of four
    /// runs) in all rounds.
    pub fn new(is_quick: bool, blocks: Option<u32>) -> Self {
        let (all_blocks, rounds, run_nanoseconds) =
            if is_quick { (6, 1, 60_000_000) } else { (6, 2, 200_000_000) };
        let all_blocks = blocks.unwrap_or(all_blocks);
        let rounds = rounds.min(all_blocks);
        Self { rounds, blocks: all_blocks.div_ceil(rounds), run_nanoseconds }
    }

    /// Number of runs in one round, and in all rounds.
    fn runs(self) -> (u64, u64) {
        let of_round = u64::from(self.blocks) * 4;
        (of_round, of_round * u64::from(self.rounds))
    }
}

/// Page sizes of the four runs of a block: true for 2MB pages.
pub(crate) fn order(block: u32) -> [bool; 4] {
    if block.is_multiple_of(2) { [false, true, true, false] } else { [true, false, false, true] }
}

/// Native measurements of a benchmark. Arrays have the value for 4KB pages first, then the value
/// for 2MB pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Measurement {
    /// Measured nanoseconds per operation, one value per run.
    pub nanoseconds: [Vec<f64>; 2],
    /// Measured time with 4KB pages ÷ time with 2MB pages, one value per block of four runs.
    pub ratios: Vec<f64>,
    /// Share of the memory that is in 2MB pages where the worker requests them, 0–1; the lowest of
    /// all rounds.
    pub large_share: Option<f64>,
    /// Share of the aligned groups of four 4KB pages that lie in four consecutive frames, which one TLB entry
    /// of AMD's processors can map, 0–1. `None` if frame numbers are hidden.
    pub grouped_share: Option<f64>,
    wall_nanoseconds: u64,
    processor_nanoseconds: u64,
    operations: [u64; 2],
    counters: [Option<Readings>; 2],
}

impl Measurement {
    fn add(&mut self, measured: &Measured, is_large: bool, operations: u64) -> f64 {
        let which = usize::from(is_large);
        let nanoseconds = measured.processor_nanoseconds as f64 / operations as f64;
        self.nanoseconds[which].push(nanoseconds);
        self.processor_nanoseconds += measured.processor_nanoseconds;
        self.wall_nanoseconds += measured.wall_nanoseconds;
        self.operations[which] += operations;
        let counted = self.counters[which];
        self.counters[which] =
            Some(counted.map_or(measured.counters, |counted| counted.plus(measured.counters)));
        nanoseconds
    }

    /// Elapsed time ÷ processor time; above 1 if other programs used the processor during the runs.
    pub fn waiting(&self) -> f64 {
        self.wall_nanoseconds as f64 / self.processor_nanoseconds.max(1) as f64
    }

    /// Readings of hardware counters per operation; `None` if nothing was counted.
    pub fn rates(&self) -> Option<[Rates; 2]> {
        let both = [self.counters[0]?, self.counters[1]?];
        let rates = |which: usize| both[which].per(self.operations[which] as f64);
        both.iter().any(|readings| !readings.is_empty()).then(|| [rates(0), rates(1)])
    }
}

/// Measures a benchmark of the plan natively.
pub(super) fn measure(
    worker: &WorkerCommand,
    row: &Row,
    effort: Effort,
    processor: usize,
    reporter: &mut dyn Reporter,
) -> Result<Measurement, HostError> {
    reporter.stage(&format!("measuring {}", row.name()), "runs");
    let (runs_of_round, total) = effort.runs();
    let mut measurement = Measurement::default();
    for round in 0..u64::from(effort.rounds) {
        let start = |paging| {
            let Row { benchmark, bytes } = *row;
            let processor = Some(processor);
            let (layout, recorded_operations) = (None, None);
            let job = Job { benchmark, bytes, paging, layout, processor, recorded_operations };
            Worker::start(worker, &job)
        };
        let mut workers = [start(Paging::Small)?, start(Paging::Large)?];
        let [small, large] = &workers;
        let share = large.state.large_share;
        measurement.large_share = Some(measurement.large_share.map_or(share, |old| old.min(share)));
        measurement.grouped_share = small.state.grouped_share;
        let done_before = round * runs_of_round;
        let mut report = |done| {
            reporter.progress(Progress { done: done_before + done, total: Some(total) });
        };
        measure_round(&mut workers, effort, &mut measurement, &mut report)?;
    }
    Ok(measurement)
}

fn measure_round(
    workers: &mut [Worker; 2],
    effort: Effort,
    measurement: &mut Measurement,
    report: &mut dyn FnMut(u64),
) -> Result<(), HostError> {
    let mut slowest = 0;
    for worker in workers.iter_mut() {
        slowest = slowest.max(worker.run(FIRST_OPERATIONS)?.processor_nanoseconds);
    }
    let operations = operations_for(effort.run_nanoseconds, slowest);
    let mut done = 0;
    for block in 0..effort.blocks {
        let mut times = [0.0; 2];
        for is_large in order(block) {
            let which = usize::from(is_large);
            let measured = workers[which].run(operations)?;
            times[which] += measurement.add(&measured, is_large, operations);
            done += 1;
            report(done);
        }
        measurement.ratios.push(times[0] / times[1]);
    }
    Ok(())
}

/// Number of operations for a run of `wanted` nanoseconds, if [`FIRST_OPERATIONS`] took `first`
/// nanoseconds.
pub(super) fn operations_for(wanted: u64, first: u64) -> u64 {
    let operations = u128::from(FIRST_OPERATIONS) * u128::from(wanted) / u128::from(first.max(1));
    (operations as u64).clamp(FIRST_OPERATIONS / 2, 1 << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_balanced() {
        assert_eq!(order(0), [false, true, true, false]);
        assert_eq!(order(3), [true, false, false, true]);
        let effort = Effort::new(false, Some(5));
        assert_eq!((effort.rounds, effort.blocks), (2, 3));
        assert_eq!(Effort::new(false, Some(1)).runs(), (4, 4));
    }

    #[test]
    fn runs_have_the_wanted_length() {
        // 200,000 operations in 1 ms are 5 ns each, so 20 ms are 4 million operations.
        assert_eq!(operations_for(20_000_000, 1_000_000), 4_000_000);
        assert_eq!(operations_for(1, u64::MAX), 100_000);
        assert_eq!(operations_for(u64::MAX, 0), 1 << 32);
    }

    #[test]
    fn counters_are_per_operation_of_each_kind_of_run() {
        let measured = |tlb_misses| Measured {
            processor_nanoseconds: 10,
            wall_nanoseconds: 15,
            counters: Readings { tlb_misses, ..Readings::default() },
        };
        let mut measurement = Measurement::default();
        measurement.add(&measured(Some(50)), false, 100);
        measurement.add(&measured(Some(70)), false, 100);
        assert_eq!(measurement.rates(), None, "of 4KB pages only");
        measurement.add(&measured(Some(10)), true, 100);
        let [small, large] = measurement.rates().unwrap();
        assert_eq!((small.tlb_misses, large.tlb_misses), (Some(0.6), Some(0.1)));
        assert_eq!((small.cycles, measurement.waiting()), (None, 1.5));
        let mut uncounted = Measurement::default();
        uncounted.add(&measured(None), false, 100);
        uncounted.add(&measured(None), true, 100);
        assert_eq!(uncounted.rates(), None);
    }
}
