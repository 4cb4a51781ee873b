//! Where the cycles of a run go: a stack that adds up to its run time.
//!
//! An instruction's times each equal another time plus a latency: what it waited for last. Followed
//! from the last retirement back to the beginning, these last waits form the critical path (Fields et
//! al., "Focusing processor policies via critical-path prediction", ISCA 2001), which covers every
//! cycle of the run exactly once. Each piece of it has a cause; the sums by cause are the stack.
//! What overlaps with something longer is not on the path and counts nothing.
//!
//! Whoever waits for a shared part (a page walker, an MSHR) is charged that wait from the moment of
//! asking; the path does not go on to those who hold the part.
//!
//! The times of instructions are kept when they retire. Every [`TRACED`] instructions the path is
//! followed back to where the last such stretch ended.

mod cause;
mod trace;

pub(crate) use cause::{CAUSES, Cause};

/// Instructions after which the path is followed back.
const TRACED: usize = 2048;
/// Registers that an instruction reads.
const SOURCES: usize = 4;

/// A stretch of time with one cause; it begins where the one before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) until: u64,
    pub(crate) cause: Cause,
}

/// Stretches that follow each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    segments: Vec<Segment>,
}

impl Timeline {
    /// What happened until then, from the end of the stretch before on.
    #[inline]
    pub(crate) fn push(&mut self, until: u64, cause: Cause) {
        if self.segments.last().is_none_or(|last| last.until < until) {
            self.segments.push(Segment { until, cause });
        }
    }

    /// The part of another timeline that lies between two times.
    pub(crate) fn extend(&mut self, other: &Self, from: u64, until: u64) {
        for segment in &other.segments {
            if segment.until > from {
                self.push(segment.until.min(until), segment.cause);
            }
            if segment.until >= until {
                return;
            }
        }
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.segments.clear();
    }
}

/// When an instruction did what, and what it read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// The front end had it.
    pub(crate) available: u64,
    pub(crate) dispatch: u64,
    /// The registers for its addresses were there.
    pub(crate) addresses: u64,
    /// The registers for its operation were there; 0 without any.
    pub(crate) operands: u64,
    /// What it loads was there; 0 without loads.
    pub(crate) loaded: u64,
    /// Its stores were translated; 0 without stores.
    pub(crate) stored: u64,
    pub(crate) result: u64,
    pub(crate) retired: u64,
    /// How far back in the program the instructions lie that wrote its sources; 0 for none.
    pub(crate) producers: [u16; SOURCES],
    /// It was dispatched after all before it had retired.
    pub(crate) waited_for_retirement: bool,
    /// How far back the instruction lies whose store had to be written before this one was
    /// dispatched; 0 if it did not wait for room in the store queue.
    pub(crate) store_queue_writer: u32,
    pub(crate) has_stores: bool,
}

/// A retired instruction.
#[derive(Clone, Copy, Debug)]
struct Retired {
    times: Times,
    /// The timeline of its last load.
    load: Place,
    /// The timeline of its last store's translation.
    store: Place,
}

/// Why the front end had nothing before a certain time.
#[derive(Clone, Copy, Debug)]
enum Held {
    /// A branch was resolved, and the pipeline filled again: the branch's number.
    Branch(u64),
    /// Code was fetched for this instruction, from the place of a timeline on.
    Code { number: u64, timeline: Place },
    /// All instructions before this one had to retire, and their stores to be written.
    Drained(u64),
    /// The thread ran nothing before this instruction.
    Stopped { number: u64, cause: Cause },
}

/// A time before which the front end had nothing more.
#[derive(Clone, Copy, Debug)]
struct Front {
    available: u64,
    /// When what it waited for began.
    start: u64,
    held: Held,
}

/// What is needed to follow the critical path, and its causes so far.
#[derive(Clone, Debug)]
pub(crate) struct CriticalPath {
    reorder_buffer: u64,
    fetch_queue: u64,
    /// Number of the first of `retired`.
    first: u64,
    retired: Vec<Retired>,
    segments: Vec<Segment>,
    fronts: Vec<Front>,
    front_segments: Vec<Segment>,
    /// Until here the cycles are accounted for.
    start: u64,
    cycles: [u64; CAUSES],
}

impl CriticalPath {
    pub(crate) fn new(reorder_buffer: u32, fetch_queue: u32) -> Self {
        Self {
            reorder_buffer: reorder_buffer.into(),
            fetch_queue: fetch_queue.into(),
            first: 0,
            retired: Vec::with_capacity(TRACED),
            segments: Vec::new(),
            fronts: Vec::new(),
            front_segments: Vec::new(),
            start: 0,
            cycles: [0; CAUSES],
        }
    }

    /// An instruction retires. If it has loads or stores that took longer than a hit, `timelines` are
    /// those of the last load and of the last store.
    #[inline]
    pub(crate) fn retire(&mut self, times: Times, timelines: Option<(&Timeline, &Timeline)>) {
        if self.retired.len() == TRACED {
            self.settle();
        }
        let (mut load, mut store) = ((0, 0), (0, 0));
        if let Some((of_load, of_store)) = timelines {
            load = keep(&mut self.segments, &of_load.segments);
            store = keep(&mut self.segments, &of_store.segments);
        }
        self.retired.push(Retired { times, load, store });
    }

    /// The branch with this number, resolved at `start`, was mispredicted.
    pub(crate) fn mispredicted(&mut self, number: u64, start: u64, available: u64) {
        self.hold(available, start, Held::Branch(number));
    }

    /// The code of this instruction was asked for at `start`.
    pub(crate) fn fetched(&mut self, number: u64, start: u64, available: u64, code: &Timeline) {
        if available > start {
            let timeline = keep(&mut self.front_segments, &code.segments);
            self.hold(available, start, Held::Code { number, timeline });
        }
    }

    /// All before the instruction with this number had retired at `start`, and its stores were
    /// written at `available`.
    pub(crate) fn drained(&mut self, number: u64, start: u64, available: u64) {
        self.hold(available, start, Held::Drained(number));
    }

    /// From `start` on the thread ran nothing; before, it ran what comes before this instruction.
    pub(crate) fn stopped(&mut self, number: u64, (start, available): (u64, u64), cause: Cause) {
        self.hold(available, start, Held::Stopped { number, cause });
    }

    fn hold(&mut self, available: u64, start: u64, held: Held) {
        if self.fronts.last().is_none_or(|last| last.available < available) {
            self.fronts.push(Front { available, start, held });
        }
    }

    /// Counting begins, or goes on after so many `cycles`, at `origin`: when the last instruction so
    /// far retired.
    pub(crate) fn begin(&mut self, origin: u64, cycles: [u64; CAUSES]) {
        self.settle();
        self.start = origin;
        self.cycles = cycles;
    }

    /// Cycles by cause, up to the last instruction that has retired.
    pub(crate) fn cycles(&self) -> [u64; CAUSES] {
        let mut cycles = self.cycles;
        self.trace(&mut cycles);
        cycles
    }

    /// Follows the path back, and forgets what lies behind.
    fn settle(&mut self) {
        let Some(last) = self.retired.last() else { return };
        let end = last.times.retired;
        self.cycles = self.cycles();
        self.start = self.start.max(end);
        self.first += self.retired.len() as u64;
        self.retired.clear();
        self.segments.clear();
        // Instructions that have not retired may have waited for these.
        self.fronts.retain(|front| front.available > end);
        let all = std::mem::take(&mut self.front_segments);
        for front in &mut self.fronts {
            if let Held::Code { timeline, .. } = &mut front.held {
                *timeline = keep(&mut self.front_segments, of(&all, *timeline));
            }
        }
    }
}

/// The place of a timeline among all segments: its first, and one behind its last.
type Place = (u32, u32);

/// Copies a timeline to the end of all segments.
#[inline]
fn keep(all: &mut Vec<Segment>, timeline: &[Segment]) -> Place {
    let first = all.len() as u32;
    all.extend_from_slice(timeline);
    (first, all.len() as u32)
}

/// The timeline at a place.
fn of(all: &[Segment], (first, end): Place) -> &[Segment] {
    &all[first as usize..end as usize]
}
