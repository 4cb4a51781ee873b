//! Schedule of sampled timing: where windows begin and end.

use perforate_types::Random;

use crate::sampled::TimedWindows;

/// Identifier of the sequence of random numbers that places windows.
const PURPOSE: u64 = 0x77_696e;

/// Way in which instructions are simulated in sampled timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Instructions update caches and predictors in no time (functional warming).
    Warming,
    /// Instructions are timed but not counted, to fill the queues (detailed warming).
    Filling,
    /// Instructions are timed and counted.
    Counting,
}

/// Schedule of the windows of sampled timing. Each period has one window at a random place, so that
/// periodic behaviour of the program does not bias the sample (stratified sampling; Cochran,
/// Sampling Techniques, chapter 5). The same seed gives the same places under every scheme.
pub(crate) struct Schedule {
    windows: TimedWindows,
    /// Smallest number of instructions timed before each window. The largest is twice this number.
    warmup: u64,
    random: Random,
    /// First instruction of the next period; `None` before measuring starts.
    next_period: Option<u64>,
    /// Current or next window, as the numbers of its first timed instruction, its first counted
    /// instruction, and its end (exclusive).
    window: (u64, u64, u64),
}

impl Schedule {
    /// Creates a schedule, which has no windows until measuring starts. A window and its warm-up
    /// must fit into the period.
    pub(crate) fn new(windows: TimedWindows, warmup: u64, seed: u64) -> Self {
        let random = Random::keyed(seed, PURPOSE, windows.period);
        Self { windows, warmup, random, next_period: None, window: (u64::MAX, u64::MAX, u64::MAX) }
    }

    /// Starts measuring after `done` instructions, and places the first window.
    pub(crate) fn start_measuring(&mut self, done: u64) {
        self.next_period = Some(done);
        self.place_window();
    }

    fn place_window(&mut self) {
        let Some(period) = self.next_period else { return };
        let TimedWindows { window, period: length } = self.windows;
        let room = length.saturating_sub(window.saturating_add(self.warmup));
        let offset = self.random.below(room.saturating_add(1));
        // Loops stall at equal distances from the beginning of timing. A window at a fixed distance
        // would always begin at the same point between two stalls.
        let more = self.random.below(self.warmup + 1).min(offset);
        let start = period.saturating_add(self.warmup + offset);
        self.window = (start - self.warmup - more, start, start.saturating_add(window));
        self.next_period = Some(period.saturating_add(length));
    }

    /// Returns the phase of instruction `now`, and the instruction at which the phase ends. Calls
    /// must be in the order of instructions.
    pub(crate) fn phase(&mut self, now: u64) -> (Phase, u64) {
        while now >= self.window.2 {
            self.place_window();
        }
        let (timed_from, start, end) = self.window;
        if now < timed_from {
            (Phase::Warming, timed_from)
        } else if now < start {
            (Phase::Filling, start)
        } else {
            (Phase::Counting, end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all phases up to instruction `until`, with their first instruction and their end.
    fn phases(schedule: &mut Schedule, until: u64) -> Vec<(Phase, u64, u64)> {
        let (mut now, mut phases) = (0, Vec::new());
        while now < until {
            let (phase, end) = schedule.phase(now);
            assert!(end > now, "phases go on");
            phases.push((phase, now, end));
            now = end;
        }
        phases
    }

    #[test]
    fn there_is_one_window_in_each_period_after_the_warm_up() {
        let windows = TimedWindows { window: 10, period: 100 };
        let mut schedule = Schedule::new(windows, 5, 1);
        assert_eq!(schedule.phase(70), (Phase::Warming, u64::MAX), "not measuring");
        schedule.start_measuring(70);
        let mut places = Vec::new();
        for period in 0..50 {
            let from = 70 + 100 * period;
            let (phase, filled_from) = schedule.phase(from);
            let start = if phase == Phase::Warming {
                assert_eq!(schedule.phase(filled_from).0, Phase::Filling);
                schedule.phase(filled_from).1
            } else {
                filled_from
            };
            assert_eq!(schedule.phase(start), (Phase::Counting, start + 10));
            assert!((from + 5..=from + 90).contains(&start), "{start} after {from}");
            places.push(start - from);
        }
        assert!(places.iter().min() < Some(&20) && places.iter().max() > Some(&75), "{places:?}");
    }

    #[test]
    fn the_whole_of_a_period_may_be_timed() {
        let mut schedule = Schedule::new(TimedWindows { window: 95, period: 100 }, 5, 1);
        schedule.start_measuring(0);
        let found = phases(&mut schedule, 200);
        assert_eq!(
            found,
            [
                (Phase::Filling, 0, 5),
                (Phase::Counting, 5, 100),
                (Phase::Filling, 100, 105),
                (Phase::Counting, 105, 200),
            ]
        );
    }
}
