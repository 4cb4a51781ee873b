//! A time series of bounded length.

use perforate_mmu::L2Contents;

use crate::results::SeriesPoint;

/// Points kept at most; when there are more, every second one goes and the interval doubles.
const MOST_POINTS: usize = 128;

/// What the second-level TLB held over time (P Fig. 8).
pub(crate) struct Samples {
    interval: u64,
    next: u64,
    points: Vec<SeriesPoint>,
}

impl Samples {
    pub(crate) fn new() -> Self {
        Self { interval: 50_000, next: 0, points: Vec::new() }
    }

    /// Whether a sample is due after this many instructions.
    pub(crate) fn is_due(&self, instruction: u64) -> bool {
        instruction >= self.next
    }

    pub(crate) fn add(&mut self, instruction: u64, contents: L2Contents) {
        self.points.push(SeriesPoint { instruction, contents });
        if self.points.len() >= MOST_POINTS {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.interval *= 2;
        }
        self.next = instruction + self.interval;
    }

    pub(crate) fn into_points(self) -> Vec<SeriesPoint> {
        self.points
    }
}
