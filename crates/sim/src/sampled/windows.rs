//! Counts of instructions, cycles, TLB misses and page walks in each window of a sampled trace.

use crate::stretches::PartCounts;

/// Windows of one run; only their measured parts count. A window begins after a gap, or at the
/// start of the trace.
pub(crate) struct Windows {
    /// Number of instructions at the beginning of each window that are not counted.
    warmup: u64,
    /// Number of instructions executed before the current window.
    start: u64,
    /// Number of instructions executed when measuring started; `None` before.
    measured_from: Option<u64>,
    /// Counts of the run at the moment from which the current window counts; `None` before that
    /// moment.
    open: Option<PartCounts>,
    /// Instruction at which counting in the current window starts; [`u64::MAX`] once it has started.
    next: u64,
    closed: Vec<PartCounts>,
}

impl Windows {
    pub(crate) fn new(warmup: u64) -> Self {
        let closed = Vec::new();
        Self { warmup, start: 0, measured_from: None, open: None, next: u64::MAX, closed }
    }

    pub(crate) fn start_measuring(&mut self, done: u64) {
        self.measured_from = Some(done);
        self.await_opening();
    }

    fn await_opening(&mut self) {
        self.next = match self.measured_from {
            Some(from) => self.start.saturating_add(self.warmup).max(from),
            None => u64::MAX,
        };
    }

    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn reach(&mut self, now: &PartCounts) {
        if now.instructions >= self.next {
            self.open = Some(*now);
            self.next = u64::MAX;
        }
    }

    pub(crate) fn gap(&mut self, now: &PartCounts) {
        self.close(now);
        self.start = now.instructions;
        self.await_opening();
    }

    fn close(&mut self, now: &PartCounts) {
        let counted = self.open.take().map(|open| *now - open);
        self.closed.extend(counted.filter(|window| window.instructions > 0));
    }

    pub(crate) fn finish(mut self, now: &PartCounts) -> Vec<PartCounts> {
        self.close(now);
        self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a tally with two cycles per instruction until instruction 100, then three.
    fn at(instructions: u64) -> PartCounts {
        let cycles = 2 * instructions + instructions.saturating_sub(100);
        PartCounts { instructions, cycles, ..PartCounts::default() }
    }

    /// Runs windows that end after these numbers of instructions, the last one without a gap.
    fn windows(warmup: u64, measured_from: u64, ends: &[u64]) -> Vec<(u64, u64)> {
        let mut windows = Windows::new(warmup);
        let (last, gaps) = ends.split_last().unwrap();
        for instruction in 0..*last {
            if instruction == measured_from {
                windows.start_measuring(instruction);
            }
            if gaps.contains(&instruction) {
                windows.gap(&at(instruction));
            }
            if instruction >= windows.next() {
                windows.reach(&at(instruction));
            }
        }
        let closed = windows.finish(&at(*last));
        closed.iter().map(|window| (window.instructions, window.cycles)).collect()
    }

    #[test]
    fn windows_end_at_gaps_and_begin_with_measuring() {
        assert_eq!(windows(0, 0, &[50, 100, 120]), [(50, 100), (50, 100), (20, 60)]);
        assert_eq!(windows(0, 60, &[50, 100, 120]), [(40, 80), (20, 60)], "cut by the warm-up");
        assert_eq!(windows(0, 100, &[50, 100, 120]), [(20, 60)], "begins with a gap");
    }

    #[test]
    fn the_beginning_of_each_window_is_not_counted() {
        assert_eq!(windows(30, 0, &[50, 100, 120]), [(20, 40), (20, 40)], "the last is too short");
        assert_eq!(windows(10, 65, &[50, 100, 120]), [(35, 70), (10, 30)], "65 is after 60");
    }
}
