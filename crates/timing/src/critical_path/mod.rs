//! Critical path: a cycle stack that adds up to the run time.
//!
//! Each event of an instruction (dispatch, result, retirement) happens at the cycle of another event plus a
//! latency: the event that it waited for last. Followed from the last retirement back to the beginning, these
//! last waits form the critical path (Fields et al., "Focusing processor policies via critical-path
//! prediction", ISCA 2001), which covers every cycle of the run exactly once. Each section of the path has a
//! cause; the sums by cause are the cycle stack. Work that overlaps with something longer is not on the path
//! and counts nothing.
//!
//! A wait for a shared resource (page walker, MSHR) counts from the request on; the path does not continue
//! into the party that occupies the resource. An access that waits for a line or TLB entry which an earlier
//! access is bringing is charged with what that earlier access did meanwhile.
//!
//! Nothing is recorded for the path alone: cycles stay in the arrays of the latest instructions
//! ([`crate::ring::Lane`]) and in the ring buffers of their accesses and walks. After every [`TRACED`]
//! retired instructions the path is followed back through these, to where the last such trace began.

mod cause;
mod trace;

use crate::pipeline::{Accesses, Instructions};
use crate::translation::{Translated, Translation};
pub(crate) use cause::{CAUSES, Cause};

/// Retired instructions after which the critical path through them is followed back and charged.
pub(crate) const TRACED: u64 = 2048;

/// Interval of cycles with one cause: from the end of the segment before it until cycle `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    until: u64,
    cause: Cause,
}

/// Consecutive intervals of cycles, each with its cause.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    segments: Vec<Segment>,
}

impl Timeline {
    pub(crate) fn clear(&mut self) {
        self.segments.clear();
    }

    /// Appends the interval from the end of the last one until cycle `until`; nothing if that would be empty.
    #[inline]
    pub(crate) fn push(&mut self, until: u64, cause: Cause) {
        if self.segments.last().is_none_or(|last| last.until < until) {
            self.segments.push(Segment { until, cause });
        }
    }

    /// Appends the intervals of a translation that lie between `start` and `end`, the cycles in which it was
    /// waited for.
    pub(crate) fn add_translation(
        &mut self,
        translation: &Translation,
        translated: Translated,
        (start, end): (u64, u64),
    ) {
        if end > start {
            if !translated.is_here() {
                translation.explain(translated.walk, |until, cause| {
                    if until > start {
                        self.push(until.min(end), cause);
                    }
                });
            }
            self.push(end, Cause::FILL_WAIT);
        }
    }
}

/// Reason for which the front end delivered no instruction before a certain cycle.
#[derive(Clone, Copy, Debug)]
enum HoldReason {
    /// Branch of this number was mispredicted, and the pipeline refilled.
    Branch(u64),
    /// The code line of instruction `number` was fetched: it was translated at cycle `translated`, and came
    /// from cache level `from`.
    Code { number: u64, translated_by: Translated, translated: u64, from: u8 },
    /// Pipeline drained: all instructions before this one had to retire, and their stores to reach the cache.
    Drained(u64),
    /// The hardware thread stood idle or handled a shootdown before instruction `number`.
    Stopped { number: u64, cause: Cause },
}

/// Stall of the front end that ended at cycle `available`.
#[derive(Clone, Copy, Debug)]
struct Front {
    available: u64,
    /// Cycle at which the stall began.
    start: u64,
    held: HoldReason,
}

/// Cycles of the latest instructions, their accesses and translations, which the critical path is read from.
#[derive(Clone, Copy)]
pub(crate) struct Times<'a> {
    pub(crate) instructions: &'a Instructions,
    pub(crate) accesses: &'a Accesses,
    pub(crate) translation: &'a Translation,
}

/// Cycle stack of the critical path so far, and the stalls of the front end since the last trace.
#[derive(Clone, Debug)]
pub(crate) struct CriticalPath {
    /// First instruction whose cycles have not been charged yet.
    first: u64,
    fronts: Vec<Front>,
    /// Cycle up to which all cycles have been charged.
    start: u64,
    cycles: [u64; CAUSES],
}

impl CriticalPath {
    pub(crate) fn new() -> Self {
        Self { first: 0, fronts: Vec::new(), start: 0, cycles: [0; CAUSES] }
    }

    /// Records the stall after a mispredicted branch: resolved at cycle `start`, next instruction available
    /// at `available`.
    pub(crate) fn mispredicted(&mut self, branch: u64, start: u64, available: u64) {
        self.hold(available, start, HoldReason::Branch(branch));
    }

    /// Records a stall for the code line of instruction `number`: from its request at `start`, over the end
    /// of its translation at `translated`, until it is available; `from` is the cache level that had the
    /// line.
    pub(crate) fn fetched(
        &mut self,
        number: u64,
        (start, available): (u64, u64),
        (translated_by, translated): (Translated, u64),
        from: usize,
    ) {
        let held = HoldReason::Code { number, translated_by, translated, from: from as u8 };
        self.hold(available, start, held);
    }

    /// Records a drain of the pipeline before instruction `number`: the last one before it retired at cycle
    /// `start`, and all their stores were in the cache at `available`.
    pub(crate) fn drained(&mut self, number: u64, start: u64, available: u64) {
        self.hold(available, start, HoldReason::Drained(number));
    }

    /// Records that the thread ran nothing from cycle `start` until `available`, before instruction `number`.
    pub(crate) fn stopped(&mut self, number: u64, (start, available): (u64, u64), cause: Cause) {
        self.hold(available, start, HoldReason::Stopped { number, cause });
    }

    fn hold(&mut self, available: u64, start: u64, held: HoldReason) {
        if self.fronts.last().is_none_or(|last| last.available < available) {
            self.fronts.push(Front { available, start, held });
        }
    }

    /// Charges what has retired so far, then starts the cycle stack anew at cycle `origin`, the last
    /// retirement, with `cycles` as its initial values.
    pub(crate) fn begin(&mut self, times: Times<'_>, origin: u64, cycles: [u64; CAUSES]) {
        self.settle(times);
        self.start = origin;
        self.cycles = cycles;
    }

    /// Cycle stack up to the last retirement, indexed by cause.
    pub(crate) fn cycles(&self, times: Times<'_>) -> [u64; CAUSES] {
        let mut cycles = self.cycles;
        self.trace(times, &mut cycles);
        cycles
    }

    /// Follows the path back from the last retirement and charges all cycles not charged yet; drops old
    /// front-end stalls.
    pub(crate) fn settle(&mut self, times: Times<'_>) {
        let oldest = times.instructions.oldest;
        if oldest == self.first {
            return;
        }
        let end = times.instructions.entries[oldest - 1].retired;
        self.cycles = self.cycles(times);
        self.start = self.start.max(end);
        self.first = oldest;
        // Instructions that have not retired may have waited for these.
        self.fronts.retain(|front| front.available > end);
    }
}
