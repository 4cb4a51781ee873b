//! Measuring: each row natively, with and without large pages in turn.

use std::path::Path;

use perforate_capture::native::{Job, Measured, Paging, Worker};
use perforate_sim::Progress;

use super::plan::Row;
use super::spread::Spread;
use crate::failure::Failure;
use crate::output::Bar;

/// Operations before anything is timed, and to find out how many to time.
const FIRST_OPERATIONS: u64 = 200_000;

/// How often and how long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Times that the processes are started anew, with new memory.
    pub rounds: u32,
    /// Blocks of four runs (4KB, 2MB, 2MB, 4KB, or the other way round) in each round.
    pub blocks: u32,
    /// Nanoseconds that one run is to take.
    pub run_nanoseconds: u64,
    /// Processor to measure on.
    pub processor: usize,
}

/// What a row took natively.
#[derive(Clone, Debug, Default)]
pub struct Measurement {
    /// Nanoseconds per operation with 4KB pages, one value per run.
    pub small_ns: Vec<f64>,
    /// The same with large pages.
    pub large_ns: Vec<f64>,
    /// Time with 4KB pages ÷ time with large pages, one value per block.
    pub ratios: Vec<f64>,
    /// Share of the memory in 2MB pages where large pages were asked for: the least.
    pub large_share: Option<f64>,
    /// Share of groups of four small pages in consecutive frames, where frames may be known.
    pub grouped_share: Option<f64>,
    /// Misses in the data TLB per operation, with 4KB and with large pages.
    pub tlb_misses: Option<(f64, f64)>,
    /// Time that passed ÷ processor time, over all runs: over 1 where others had the processor.
    pub waiting: f64,
}

impl Measurement {
    /// 4KB ÷ large.
    pub fn ratio(&self) -> Option<Spread> {
        Spread::of(&self.ratios)
    }
}

/// The four runs of a block: whether each has large pages.
pub fn order(block: u32) -> [bool; 4] {
    if block.is_multiple_of(2) { [false, true, true, false] } else { [true, false, false, true] }
}

/// Measures one row. `program` with the words `first` is a worker.
pub fn measure(
    program: &Path,
    first: &[&str],
    row: &Row,
    effort: &Effort,
) -> Result<Measurement, Failure> {
    let bar = Bar::of(&format!("measuring {}", row.name()), "runs");
    let total = u64::from(effort.rounds) * u64::from(effort.blocks) * 4;
    let mut sums = Sums::default();
    let mut measurement = Measurement::default();
    for _ in 0..effort.rounds {
        let start = |paging| {
            let processor = Some(effort.processor);
            let Row { benchmark, bytes } = *row;
            let job = Job { benchmark, bytes, paging, processor, recorded_operations: None };
            Worker::start(program, first, &job)
        };
        let (mut small, mut large) = (start(Paging::Small)?, start(Paging::Large)?);
        let share = large.state.large_share;
        measurement.large_share = Some(measurement.large_share.map_or(share, |old| old.min(share)));
        measurement.grouped_share = small.state.grouped_share;
        let slowest = small.run(FIRST_OPERATIONS)?.max_nanoseconds(large.run(FIRST_OPERATIONS)?);
        let operations = operations(slowest, effort.run_nanoseconds);
        for block in 0..effort.blocks {
            let mut times = [0.0; 2];
            for is_large in order(block) {
                let worker = if is_large { &mut large } else { &mut small };
                let measured = worker.run(operations)?;
                let nanoseconds = measured.processor_nanoseconds as f64 / operations as f64;
                times[usize::from(is_large)] += nanoseconds;
                let list =
                    if is_large { &mut measurement.large_ns } else { &mut measurement.small_ns };
                list.push(nanoseconds);
                sums.add(&measured, is_large, operations);
                bar.show(Progress { done: sums.runs, total: Some(total) });
            }
            measurement.ratios.push(times[0] / times[1]);
        }
    }
    measurement.waiting = sums.wall as f64 / sums.processor.max(1) as f64;
    measurement.tlb_misses = sums.misses();
    Ok(measurement)
}

/// Operations for a run of `wanted` nanoseconds where [`FIRST_OPERATIONS`] took `first`.
fn operations(first: u64, wanted: u64) -> u64 {
    let operations = u128::from(FIRST_OPERATIONS) * u128::from(wanted) / u128::from(first.max(1));
    (operations as u64).clamp(FIRST_OPERATIONS / 2, 1 << 32)
}

trait Slowest {
    fn max_nanoseconds(self, other: Self) -> u64;
}

impl Slowest for Measured {
    fn max_nanoseconds(self, other: Self) -> u64 {
        self.processor_nanoseconds.max(other.processor_nanoseconds)
    }
}

#[derive(Default)]
struct Sums {
    runs: u64,
    processor: u64,
    wall: u64,
    operations: [u64; 2],
    counted: [Option<u64>; 2],
}

impl Sums {
    fn add(&mut self, measured: &Measured, is_large: bool, operations: u64) {
        let which = usize::from(is_large);
        self.runs += 1;
        self.processor += measured.processor_nanoseconds;
        self.wall += measured.wall_nanoseconds;
        self.operations[which] += operations;
        if let Some(misses) = measured.tlb_misses {
            *self.counted[which].get_or_insert(0) += misses;
        }
    }

    fn misses(&self) -> Option<(f64, f64)> {
        let of =
            |which: usize| Some(self.counted[which]? as f64 / self.operations[which].max(1) as f64);
        of(0).zip(of(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_balanced() {
        assert_eq!(order(0), [false, true, true, false]);
        assert_eq!(order(3), [true, false, false, true]);
    }

    #[test]
    fn runs_of_the_length_wanted() {
        // 200,000 operations in 1 ms are 5 ns each: 20 ms are 4 million.
        assert_eq!(operations(1_000_000, 20_000_000), 4_000_000);
        assert_eq!(operations(u64::MAX, 1), 100_000);
        assert_eq!(operations(0, u64::MAX), 1 << 32);
    }

    #[test]
    fn misses_need_counters_on_both_sides() {
        let measured =
            |tlb_misses| Measured { processor_nanoseconds: 10, wall_nanoseconds: 15, tlb_misses };
        let mut sums = Sums::default();
        sums.add(&measured(Some(50)), false, 100);
        sums.add(&measured(None), true, 100);
        assert_eq!(sums.misses(), None);
        sums.add(&measured(Some(10)), true, 100);
        assert_eq!(sums.misses(), Some((0.5, 0.05)));
        assert_eq!((sums.runs, sums.wall, sums.processor), (3, 45, 30));
    }
}
