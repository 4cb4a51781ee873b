//! Follows the critical path back through the instructions that are kept.

use super::*;

/// A time on the path, and what it belongs to. Instructions are numbered in program order.
#[derive(Clone, Copy, Debug)]
enum Node {
    /// An instruction retires.
    Retirement(u64),
    /// Its operation is done.
    Result(u64),
    /// What it reads from registers for its addresses is there.
    Addresses(u64),
    /// It is dispatched.
    Dispatch(u64),
    /// The front end goes on, after it had to wait.
    Front(usize),
}

/// A walk back along the path.
struct Tracer<'a> {
    path: &'a CriticalPath,
    /// Everything later is accounted for.
    time: u64,
    cycles: &'a mut [u64; CAUSES],
}

impl CriticalPath {
    /// Adds the cycles from where the last stretch ended to the last retirement, by their causes.
    pub(super) fn trace(&self, cycles: &mut [u64; CAUSES]) {
        let Some(last) = self.retired.last() else { return };
        let number = self.first + self.retired.len() as u64 - 1;
        Tracer { path: self, time: last.times.retired, cycles }.follow(Node::Retirement(number));
    }

    /// An instruction, if it is kept.
    fn at(&self, number: u64) -> Option<&Retired> {
        self.retired.get(number.checked_sub(self.first)? as usize)
    }

    /// When an instruction did what; if it is not kept, all is long ago.
    fn times(&self, number: Option<u64>) -> Times {
        number.and_then(|number| self.at(number)).map(|it| it.times).unwrap_or_default()
    }

    /// The oldest instruction that had not retired before `time`.
    fn head_at(&self, time: u64) -> u64 {
        self.first + self.retired.partition_point(|it| it.times.retired < time) as u64
    }

    /// What ended the wait of the front end at `time`.
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
        // It adds up in any case.
        self.charge(self.path.start, Cause::BASE);
    }

    /// The cycles since `from` that are not accounted for pass for this.
    fn charge(&mut self, from: u64, cause: Cause) {
        let from = from.max(self.path.start);
        if from < self.time {
            self.cycles[cause.index()] += self.time - from;
            self.time = from;
        }
    }

    /// From one time to that which it waited for last; none if that is not kept.
    fn step(&mut self, node: Node) -> Option<Node> {
        match node {
            Node::Retirement(number) => self.retirement(number),
            Node::Result(number) => self.result(number),
            Node::Addresses(number) => {
                let times = self.path.at(number)?.times;
                Some(self.producer(number, times.addresses))
            }
            Node::Dispatch(number) => self.dispatch(number),
            Node::Front(place) => self.front(place),
        }
    }

    fn retirement(&mut self, number: u64) -> Option<Node> {
        let Retired { times, store, .. } = *self.path.at(number)?;
        if times.retired > times.result.max(times.stored) {
            // The width of retirement.
            let before = number.checked_sub(1);
            self.charge(self.path.times(before).retired, Cause::BASE);
            return before.map(Node::Retirement);
        }
        if times.stored > times.result {
            return Some(self.access(number, times.addresses, store));
        }
        Some(Node::Result(number))
    }

    fn result(&mut self, number: u64) -> Option<Node> {
        let Retired { times, load, .. } = *self.path.at(number)?;
        let read = times.loaded.max(times.addresses).max(times.operands);
        self.charge(read, Cause::BASE);
        if times.loaded < read || times.loaded == times.addresses {
            return Some(self.producer(number, read));
        }
        if load.0 == load.1 {
            self.charge(times.addresses, Cause::L1D);
        }
        Some(self.access(number, times.addresses, load))
    }

    /// Charges what a load or store did from `start` on, when it had its address.
    fn access(&mut self, number: u64, start: u64, timeline: Place) -> Node {
        let path = self.path;
        for (begins, segment) in backwards(of(&path.segments, timeline), start) {
            if segment.cause == Cause::FORWARDED
                && self.time > begins
                && let Some(store) = self.store_done_at(number, segment.until)
            {
                return Node::Result(store);
            }
            self.charge(begins, segment.cause);
        }
        Node::Addresses(number)
    }

    /// A store before an instruction that had what it writes at `time`.
    fn store_done_at(&self, number: u64, time: u64) -> Option<u64> {
        let oldest = number.saturating_sub(self.path.reorder_buffer);
        (oldest..number).rev().find(|&store| {
            let times = self.path.times(Some(store));
            times.has_stores && times.result == time
        })
    }

    /// Who wrote the register that an instruction had at `time`, or its own dispatch.
    fn producer(&self, number: u64, time: u64) -> Node {
        let times = self.path.times(Some(number));
        if times.dispatch == time {
            return Node::Dispatch(number);
        }
        let written = |distance: u16| {
            let producer = number.checked_sub(distance.into())?;
            let is_it = distance > 0 && self.path.times(Some(producer)).result == time;
            is_it.then_some(Node::Result(producer))
        };
        times.producers.into_iter().find_map(written).unwrap_or(Node::Dispatch(number))
    }

    fn dispatch(&mut self, number: u64) -> Option<Node> {
        let path = self.path;
        let times = path.at(number)?.times;
        let dispatch = times.dispatch;
        let before = number.checked_sub(1);
        let Times { dispatch: dispatch_before, retired: retired_before, .. } = path.times(before);
        // The entry of the reorder buffer was that of this one.
        let room = number.checked_sub(path.reorder_buffer);
        let room_at = path.times(room).retired;
        if dispatch == dispatch_before {
            return before.map(Node::Dispatch);
        }
        if times.waited_for_retirement && dispatch == retired_before {
            return before.map(Node::Retirement);
        }
        if dispatch == times.available {
            return path.front_at(dispatch).map(Node::Front);
        }
        if dispatch == room_at {
            return room.map(Node::Retirement);
        }
        if dispatch == dispatch_before + 1 {
            // The width of dispatch.
            self.charge(dispatch_before, Cause::BASE);
            return before.map(Node::Dispatch);
        }
        let head = path.head_at(dispatch);
        if times.store_queue_writer > 0 || head >= number {
            let started = dispatch_before.max(times.available).max(room_at);
            // The store is written once it has retired, and retires once it is translated.
            let writer = match times.store_queue_writer {
                0 => None,
                distance => number.checked_sub(distance.into()),
            };
            let written_from = path.times(writer).retired;
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
        // An entry of the scheduler or the load queue: whatever held up the oldest instruction is to
        // blame.
        Some(self.activity(head))
    }

    /// What an instruction was doing at the time to which the walk has come.
    fn activity(&self, number: u64) -> Node {
        let times = self.path.times(Some(number));
        if self.time > times.result {
            Node::Retirement(number)
        } else if self.time > times.addresses {
            Node::Result(number)
        } else if self.time > times.dispatch {
            Node::Addresses(number)
        } else {
            Node::Dispatch(number)
        }
    }

    fn front(&mut self, place: usize) -> Option<Node> {
        let path = self.path;
        let Front { start, held, .. } = path.fronts[place];
        match held {
            Held::Branch(branch) => {
                self.charge(start, Cause::BRANCH);
                Some(Node::Result(branch))
            }
            Held::Drained(number) => {
                // Stores were written.
                self.charge(start, Cause::STORE_QUEUE);
                number.checked_sub(1).map(Node::Retirement)
            }
            Held::Stopped { number, cause } => {
                self.charge(start, cause);
                if let Some(earlier) = path.front_at(start).filter(|&earlier| earlier < place) {
                    return Some(Node::Front(earlier));
                }
                let Some(before) = number.checked_sub(1) else {
                    self.charge(path.start, Cause::IDLE);
                    return None;
                };
                // What was under way then.
                let head = path.head_at(start);
                if head < number {
                    return Some(self.activity(head));
                }
                self.charge(path.times(Some(before)).retired, cause);
                Some(Node::Retirement(before))
            }
            Held::Code { number, timeline } => {
                for (begins, segment) in backwards(of(&path.front_segments, timeline), start) {
                    self.charge(begins, segment.cause);
                }
                self.charge(start, Cause::L2);
                // Room in the fetch queue, or the wait before this one.
                let room = number.checked_sub(path.fetch_queue);
                if path.times(room).dispatch == start {
                    return room.map(Node::Dispatch);
                }
                path.front_at(start).map(Node::Front)
            }
        }
    }
}

/// The segments of a timeline that begins at `start`, the last first, and when each begins.
fn backwards(timeline: &[Segment], start: u64) -> impl Iterator<Item = (u64, Segment)> {
    let segments = timeline.iter().enumerate().rev();
    segments.map(move |(index, segment)| {
        let before = index.checked_sub(1).map_or(start, |before| timeline[before].until);
        (before.max(start), *segment)
    })
}
