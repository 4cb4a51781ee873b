//! Follows the critical path back from the last retirement, and charges each cycle to a cause.

use super::*;
use crate::agenda::UNKNOWN;
use crate::pipeline::{HITS, SERIAL, STORES, WAITED, Waiting};
use crate::ring::NONE;

/// Event on the critical path, with the number of its instruction.
#[derive(Clone, Copy, Debug)]
enum Node {
    /// Retirement of an instruction.
    Retirement(u64),
    /// Completion of the instruction with this number: its result is available.
    Result(u64),
    /// All address operands of an instruction are available.
    Addresses(u64),
    /// Dispatch of an instruction.
    Dispatch(u64),
    /// End of a front-end stall, by index in [`CriticalPath::fronts`].
    Front(usize),
}

/// Cycles that determine when an instruction completes: address operands, other operands, and end of its
/// loads.
struct Inputs {
    addresses: u64,
    operands: u64,
    loaded: u64,
    /// Number of the load that ended at `loaded`, or [`NONE`].
    load: u32,
}

/// State of one trace back along the critical path.
struct Tracer<'a> {
    path: &'a CriticalPath,
    times: Times<'a>,
    /// Cycle that the trace has come back to; all later cycles have been charged.
    time: u64,
    cycles: &'a mut [u64; CAUSES],
    /// Buffer for the intervals of the access or fetch that is being charged.
    timeline: Timeline,
}

impl CriticalPath {
    /// Adds to `cycles`, by cause, the cycles from the end of the last trace up to the last retirement.
    pub(super) fn trace(&self, times: Times<'_>, cycles: &mut [u64; CAUSES]) {
        let oldest = times.instructions.oldest;
        if oldest > self.first {
            let time = times.instructions.entries[oldest - 1].retired;
            let timeline = Timeline::default();
            let tracer = Tracer { path: self, times, time, cycles, timeline };
            tracer.follow(Node::Retirement(oldest - 1));
        }
    }

    /// Index of the front-end stall that ended at cycle `time`.
    fn front_at(&self, time: u64) -> Option<usize> {
        let place = self.fronts.partition_point(|front| front.available < time);
        (self.fronts.get(place)?.available == time).then_some(place)
    }
}

impl Tracer<'_> {
    fn follow(mut self, mut node: Node) {
        while self.time > self.path.start {
            let Some(before) = self.step(node) else { break };
            node = before;
        }
        debug_assert!(self.time <= self.path.start, "{node:?} at {} waits for nothing", self.time);
        // The rest, if any: the causes always add up to all cycles.
        self.charge(self.path.start, Cause::BASE);
    }

    /// Charges to `cause` all cycles from `from` up to the cycle that the trace has come back to.
    fn charge(&mut self, from: u64, cause: Cause) {
        let from = from.max(self.path.start);
        if from < self.time {
            self.cycles[cause.index()] += self.time - from;
            self.time = from;
        }
    }

    /// True if this trace (pass back over the critical path) covers the instruction: it has retired, and no
    /// earlier trace charged its cycles.
    fn has(&self, number: u64) -> bool {
        (self.path.first..self.times.instructions.oldest).contains(&number)
    }

    /// Cycle of an instruction's retirement; 0 if an earlier trace over the critical path covered it.
    fn retired(&self, number: Option<u64>) -> u64 {
        let number = number.filter(|&number| self.has(number));
        number.map_or(0, |number| self.times.instructions.entries[number].retired)
    }

    /// Cycle of an instruction's dispatch; 0 if an earlier trace over the critical path covered it.
    fn dispatched(&self, number: Option<u64>) -> u64 {
        let number = number.filter(|&number| self.has(number));
        number.map_or(0, |number| self.times.instructions.entries[number].dispatched)
    }

    /// Details of an instruction that waited for registers or accesses; `None` if it did not.
    fn waiting(&self, number: u64) -> Option<&Waiting> {
        let instructions = self.times.instructions;
        (instructions.entries[number].kind & WAITED != 0).then(|| &instructions.waiting[number])
    }

    /// Instruction that wrote the register of source number `place` of an instruction; `None` if that retired
    /// before the dispatch.
    #[inline(always)]
    fn producer_of(&self, number: u64, place: usize) -> Option<u64> {
        let instructions = self.times.instructions;
        let writer = instructions.entries[number].producers[place];
        let back = (number as u32).wrapping_sub(writer).into();
        // A writer further back than the reorder buffer reaches has retired.
        let is_near = writer != NONE && (1..=instructions.reorder_buffer).contains(&back);
        (is_near && back <= number).then(|| number - back)
    }

    /// Cycles that determine when an instruction completes. If it never waited, they are computed from its
    /// producers.
    fn inputs(&self, number: u64) -> Inputs {
        if let Some(waiting) = self.waiting(number) {
            let Waiting { addresses, operands, loaded, load, .. } = *waiting;
            return Inputs { addresses, operands, loaded, load };
        }
        let instructions = self.times.instructions;
        let entry = &instructions.entries[number];
        let (mut addresses, mut operands) = (entry.dispatched, 0);
        for place in 0..entry.operands.used_sources() {
            let Some(writer) = self.producer_of(number, place) else { continue };
            let ready = instructions.entries[writer].result;
            if ready == UNKNOWN {
                continue;
            }
            let is_data = entry.operands.data_sources >> place & 1 != 0;
            let time = if is_data { &mut operands } else { &mut addresses };
            *time = ready.max(*time);
        }
        let loaded =
            if entry.kind & HITS != 0 { addresses + self.times.accesses.hit_cycles } else { 0 };
        Inputs { addresses, operands, loaded, load: NONE }
    }

    /// Charges the cycles between an event and the event that it waited for last, and returns the latter;
    /// `None` if an earlier trace over the critical path covers it.
    fn step(&mut self, node: Node) -> Option<Node> {
        match node {
            Node::Front(place) => self.front(place),
            Node::Retirement(number)
            | Node::Result(number)
            | Node::Addresses(number)
            | Node::Dispatch(number)
                if !self.has(number) =>
            {
                None
            }
            Node::Retirement(number) => self.retirement(number),
            Node::Result(number) => Some(self.result(number)),
            Node::Addresses(number) => Some(self.producer(number, self.inputs(number).addresses)),
            Node::Dispatch(number) => self.dispatch(number),
        }
    }

    fn retirement(&mut self, number: u64) -> Option<Node> {
        let instructions = self.times.instructions;
        let (retired, result) =
            (instructions.entries[number].retired, instructions.entries[number].result);
        let (stored, store, addresses) = self
            .waiting(number)
            .map_or((0, NONE, 0), |waiting| (waiting.stored, waiting.store, waiting.addresses));
        if retired > result.max(stored) {
            // Nothing else delayed it: retirement was as wide as it can be.
            let before = number.checked_sub(1);
            self.charge(self.retired(before), Cause::BASE);
            return before.map(Node::Retirement);
        }
        if stored > result {
            return Some(self.access(number, addresses, store));
        }
        Some(Node::Result(number))
    }

    fn result(&mut self, number: u64) -> Node {
        let Inputs { addresses, operands, loaded, load, .. } = self.inputs(number);
        let read = loaded.max(addresses).max(operands);
        self.charge(read, Cause::BASE);
        if loaded < read || loaded == addresses {
            return self.producer(number, read);
        }
        if load == NONE {
            self.charge(addresses, Cause::L1D);
        }
        self.access(number, addresses, load)
    }

    /// Charges the intervals of a load or store from cycle `start`, when it had its address; returns the
    /// event before it.
    fn access(&mut self, number: u64, start: u64, access: u32) -> Node {
        if access == NONE {
            return Node::Addresses(number);
        }
        self.timeline.clear();
        let Times { accesses, translation, .. } = self.times;
        accesses.explain(access, translation, &mut self.timeline);
        self.charge_timeline(number, start).unwrap_or(Node::Addresses(number))
    }

    /// Charges the intervals of `timeline`, which begins at cycle `start`, from the last back to the first.
    /// Stops at a wait for forwarded data, and returns the completion of the store that supplied them.
    fn charge_timeline(&mut self, number: u64, start: u64) -> Option<Node> {
        while let Some(Segment { until, cause }) = self.timeline.segments.pop() {
            let begins = self.timeline.segments.last().map_or(start, |it| it.until.max(start));
            if cause == Cause::FORWARDED
                && self.time > begins
                && let Some(store) = self.store_done_at(number, until)
            {
                return Some(Node::Result(store));
            }
            self.charge(begins, cause);
        }
        None
    }

    /// Youngest store before an instruction whose data were available at cycle `time`.
    fn store_done_at(&self, number: u64, time: u64) -> Option<u64> {
        let instructions = self.times.instructions;
        let oldest = number.saturating_sub(instructions.reorder_buffer).max(self.path.first);
        (oldest..number).rev().find(|&store| {
            let entry = &instructions.entries[store];
            entry.kind & STORES != 0 && entry.result == time
        })
    }

    /// Event that made an operand available at cycle `time`: completion of the instruction that produced it,
    /// or, without one, the dispatch of instruction `number` itself.
    fn producer(&self, number: u64, time: u64) -> Node {
        let instructions = self.times.instructions;
        if instructions.entries[number].dispatched == time {
            return Node::Dispatch(number);
        }
        let sources = 0..instructions.entries[number].operands.used_sources();
        let mut producers = sources.filter_map(|place| self.producer_of(number, place));
        let found = producers.find(|&it| self.has(it) && instructions.entries[it].result == time);
        found.map_or(Node::Dispatch(number), Node::Result)
    }

    fn dispatch(&mut self, number: u64) -> Option<Node> {
        let (path, instructions) = (self.path, self.times.instructions);
        let (dispatch, available) =
            (instructions.entries[number].dispatched, instructions.entries[number].available);
        let before = number.checked_sub(1);
        let (dispatch_before, retired_before) = (self.dispatched(before), self.retired(before));
        // The instruction that had the entry of the reorder buffer before.
        let room = number.checked_sub(instructions.reorder_buffer);
        let room_at = self.retired(room);
        if dispatch == dispatch_before {
            return before.map(Node::Dispatch);
        }
        if instructions.entries[number].kind & SERIAL != 0 && dispatch == retired_before {
            return before.map(Node::Retirement);
        }
        if dispatch == available {
            return path.front_at(dispatch).map(Node::Front);
        }
        if dispatch == room_at {
            return room.map(Node::Retirement);
        }
        if dispatch == dispatch_before + 1 {
            // Nothing else delayed it: dispatch was as wide as it can be.
            self.charge(dispatch_before, Cause::BASE);
            return before.map(Node::Dispatch);
        }
        let head = self.head_at(dispatch);
        let store_queue_writer = self.waiting(number).map_or(0, |it| it.store_queue_writer);
        if store_queue_writer > 0 || head >= number {
            let started = dispatch_before.max(available).max(room_at);
            // The entry of the store queue became free when its store had retired and was written. Until it retired, it
            // waited for its translation.
            let writer = match store_queue_writer {
                0 => None,
                distance => number.checked_sub(distance.into()),
            };
            let written_from = self.retired(writer);
            self.charge(started.max(written_from), Cause::STORE_QUEUE);
            if written_from > started {
                return writer.map(Node::Retirement);
            }
            return match started {
                _ if started == dispatch_before => before.map(Node::Dispatch),
                _ if started == room_at => room.map(Node::Retirement),
                _ => path.front_at(started).map(Node::Front),
            };
        }
        // An entry of the scheduler or the load queue: the oldest instruction is to blame.
        Some(self.activity(head))
    }

    /// Oldest instruction that had not retired before cycle `time`.
    fn head_at(&self, time: u64) -> u64 {
        let instructions = self.times.instructions;
        let (mut low, mut high) = (self.path.first, instructions.oldest);
        while low < high {
            let middle = low.midpoint(high);
            if instructions.entries[middle].retired < time {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Event that instruction `number` was next to reach at the cycle that the trace has come back to.
    fn activity(&self, number: u64) -> Node {
        let instructions = self.times.instructions;
        if self.time > instructions.entries[number].result {
            Node::Retirement(number)
        } else if self.time > self.inputs(number).addresses {
            Node::Result(number)
        } else if self.time > instructions.entries[number].dispatched {
            Node::Addresses(number)
        } else {
            Node::Dispatch(number)
        }
    }

    fn front(&mut self, place: usize) -> Option<Node> {
        let path = self.path;
        let Front { available, start, held } = path.fronts[place];
        match held {
            HoldReason::Branch(branch) => {
                self.charge(start, Cause::BRANCH);
                Some(Node::Result(branch))
            }
            HoldReason::Drained(number) => {
                // The pipeline waited until all stores were written.
                self.charge(start, Cause::STORE_QUEUE);
                number.checked_sub(1).map(Node::Retirement)
            }
            HoldReason::Stopped { number, cause } => {
                self.charge(start, cause);
                if let Some(earlier) = path.front_at(start).filter(|&earlier| earlier < place) {
                    return Some(Node::Front(earlier));
                }
                let Some(before) = number.checked_sub(1) else {
                    self.charge(path.start, Cause::IDLE);
                    return None;
                };
                let head = self.head_at(start);
                if head < number {
                    return Some(self.activity(head));
                }
                self.charge(self.retired(Some(before)), cause);
                Some(Node::Retirement(before))
            }
            HoldReason::Code { number, translated_by, translated, from } => {
                self.timeline.clear();
                let translation = self.times.translation;
                self.timeline.add_translation(translation, translated_by, (start, translated));
                self.timeline.push(available, Cause::served_by(from.into()));
                self.charge_timeline(number, start);
                self.charge(start, Cause::L2);
                // Room in the fetch queue, or the wait before this one.
                let room = number.checked_sub(self.times.instructions.fetch_queue);
                if self.dispatched(room) == start {
                    return room.map(Node::Dispatch);
                }
                path.front_at(start).map(Node::Front)
            }
        }
    }
}
