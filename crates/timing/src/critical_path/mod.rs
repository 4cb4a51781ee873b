//! Critical path: a cycle stack that adds up to the run time.
//!
//! Each time of an instruction equals another time plus a latency: what it waited for last. Followed from the last
//! retirement back to the beginning, these last waits form the critical path (Fields et al., "Focusing processor
//! policies via critical-path prediction", ISCA 2001), which covers every cycle of the run exactly once. Each piece
//! has a cause; the sums by cause are the stack. Work that overlaps with something longer is not on the path and
//! counts nothing.
//!
//! A wait for a shared part (page walker, MSHR) counts from the request on; the path does not go on to the party that
//! has the part. An access to a line, or a hit of a TLB entry, that another access brings counts for what that
//! access did meanwhile.
//!
//! Nothing is recorded for the path: times stay in the lanes of the instructions and in the rings of their accesses
//! and walks. Every [`TRACED`] instructions the path is followed back to the end of the stretch before.

mod cause;
mod trace;

use crate::pipeline::{Accesses, Instructions};
use crate::translation::{Translated, Translation};
pub(crate) use cause::{CAUSES, Cause};

/// Instructions after which the path is followed back.
pub(crate) const TRACED: u64 = 2048;

/// Stretch of time with one cause; it begins where the one before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    until: u64,
    cause: Cause,
}

/// Stretches that follow each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    segments: Vec<Segment>,
}

impl Timeline {
    pub(crate) fn clear(&mut self) {
        self.segments.clear();
    }

    /// Adds a stretch from the end of the stretch before.
    #[inline]
    pub(crate) fn push(&mut self, until: u64, cause: Cause) {
        if self.segments.last().is_none_or(|last| last.until < until) {
            self.segments.push(Segment { until, cause });
        }
    }

    /// Adds the part of a translation that was waited for from `start` until `end`.
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

/// Reason for which the front end had nothing before a certain time.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// The pipeline was filled again after this branch.
    Branch(u64),
    /// Code was fetched for this instruction: its translation and the time of that, and the level that had the line.
    Code { number: u64, translated_by: Translated, translated: u64, from: u8 },
    /// All instructions before this one had to retire, and their stores to be written.
    Drained(u64),
    /// The thread ran nothing before this instruction.
    Stopped { number: u64, cause: Cause },
}

/// Time before which the front end had nothing more.
#[derive(Clone, Copy, Debug)]
struct Front {
    available: u64,
    /// Beginning of the wait.
    start: u64,
    held: Held,
}

/// Rings and lanes with the times of instructions.
#[derive(Clone, Copy)]
pub(crate) struct Times<'a> {
    pub(crate) instructions: &'a Instructions,
    pub(crate) accesses: &'a Accesses,
    pub(crate) translation: &'a Translation,
}

/// Causes of the path's cycles so far, and waits of the front end.
#[derive(Clone, Debug)]
pub(crate) struct CriticalPath {
    /// First instruction after the last stretch.
    first: u64,
    fronts: Vec<Front>,
    /// Until here the cycles are accounted for.
    start: u64,
    cycles: [u64; CAUSES],
}

impl CriticalPath {
    pub(crate) fn new() -> Self {
        Self { first: 0, fronts: Vec::new(), start: 0, cycles: [0; CAUSES] }
    }

    /// A branch, resolved at `start`, was mispredicted.
    pub(crate) fn mispredicted(&mut self, branch: u64, start: u64, available: u64) {
        self.hold(available, start, Held::Branch(branch));
    }

    /// The code of an instruction was asked for at `start`, translated at `translated`, and came from level `from`.
    pub(crate) fn fetched(
        &mut self,
        number: u64,
        (start, available): (u64, u64),
        (translated_by, translated): (Translated, u64),
        from: usize,
    ) {
        let held = Held::Code { number, translated_by, translated, from: from as u8 };
        self.hold(available, start, held);
    }

    /// All before instruction `number` had retired at `start`, and their stores were written at `available`.
    pub(crate) fn drained(&mut self, number: u64, start: u64, available: u64) {
        self.hold(available, start, Held::Drained(number));
    }

    /// From `start` on the thread ran nothing; earlier, it ran the instructions before `number`.
    pub(crate) fn stopped(&mut self, number: u64, (start, available): (u64, u64), cause: Cause) {
        self.hold(available, start, Held::Stopped { number, cause });
    }

    fn hold(&mut self, available: u64, start: u64, held: Held) {
        if self.fronts.last().is_none_or(|last| last.available < available) {
            self.fronts.push(Front { available, start, held });
        }
    }

    /// Begins to count, or goes on after so many `cycles`, at `origin`: the last retirement so far.
    pub(crate) fn begin(&mut self, times: Times<'_>, origin: u64, cycles: [u64; CAUSES]) {
        self.settle(times);
        self.start = origin;
        self.cycles = cycles;
    }

    /// Cycles by cause, up to the last retirement.
    pub(crate) fn cycles(&self, times: Times<'_>) -> [u64; CAUSES] {
        let mut cycles = self.cycles;
        self.trace(times, &mut cycles);
        cycles
    }

    /// Follows the path back to the end of the stretch before.
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
