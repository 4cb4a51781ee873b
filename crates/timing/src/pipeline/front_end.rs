//! Front end: fetch of code lines, refill after mispredicted branches, fetch queue.
//!
//! Most instructions lie in the same code line as the one before and take no time here. For the others there
//! is a [`StallPoint`]: a point in the program at which the front end stalls for a code line or a branch.

use std::collections::VecDeque;

use super::*;
use crate::hierarchy::Data;
use crate::translation::{Request, Translated};

/// Code line to be fetched: its translation, number, and state in the L1I.
#[derive(Clone, Copy, Debug)]
pub(super) struct Code {
    pub(super) translated_by: Translated,
    pub(super) data: Data,
    pub(super) line: u64,
}

/// Point at which the front end may stall: before instruction `number`, for a mispredicted branch or a code
/// line.
#[derive(Clone, Copy, Debug)]
pub(super) struct StallPoint {
    pub(super) number: u64,
    /// The instruction before is a mispredicted branch, whose resolution the front end has not accounted for
    /// yet.
    pub(super) is_mispredicted: bool,
    pub(super) code: Option<Code>,
}

/// Progress of the front end at the first [`StallPoint`] (possible stall) of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waiting for a mispredicted branch to resolve, or for room in the fetch queue.
    Waiting,
    /// Translation of the code line requested at cycle `start`.
    Translating { start: u64 },
    /// Code line translated at cycle `translated`, and being read from the L1I.
    Reading { start: u64, translated: u64 },
}

#[derive(Clone, Debug)]
pub(super) struct FrontEnd {
    pub(super) stops: VecDeque<StallPoint>,
    stage: Stage,
    /// Cycle at which the translation or code line requested last is available, or [`UNKNOWN`].
    pub(super) fetched: u64,
    /// Cycle before which the next code line cannot be requested.
    fetch_time: u64,
    /// Cycle from which the next instruction can be dispatched.
    available: u64,
    /// Resolved stops: instruction number, and first cycle at which the instruction can be dispatched.
    over: VecDeque<(u64, u64)>,
    penalty: u64,
    /// Latency of an L1I hit, in cycles.
    hit_cycles: u64,
    /// The next instruction may have to wait before it enters the pipeline, and is to be announced.
    pub(super) may_stop: bool,
    /// True if the instruction handed over last is a mispredicted branch.
    pub(super) is_mispredicted: bool,
    /// The thread was idle, drained or interrupted before the next instruction, which may delay its dispatch.
    pub(super) has_stood_still: bool,
}

impl FrontEnd {
    pub(super) fn new(config: &TimingConfig) -> Self {
        Self {
            stops: VecDeque::new(),
            stage: Stage::Waiting,
            fetched: 0,
            fetch_time: 0,
            available: 0,
            over: VecDeque::new(),
            hit_cycles: config.cache.l1i.latency_cycles.into(),
            penalty: config.branch_predictor.mispredict_penalty_cycles.into(),
            may_stop: false,
            is_mispredicted: false,
            has_stood_still: false,
        }
    }

    /// True if the front end could deliver an instruction before cycle `time`.
    pub(super) fn waits_until(&self, time: u64) -> bool {
        self.available < time
    }

    /// Delays all further fetches to cycle `time` or later.
    pub(super) fn wait_until(&mut self, time: u64) {
        self.fetch_time = self.fetch_time.max(time);
        self.available = self.available.max(time);
    }

    /// Delays all further fetches to cycle `time` or later, because the thread is idle, drained or
    /// interrupted.
    pub(super) fn stand_still_until(&mut self, time: u64) {
        self.wait_until(time);
        (self.has_stood_still, self.may_stop) = (true, true);
    }

    /// First cycle at which instruction `number`, before which the front end stalled, can be dispatched;
    /// `None` if the end of the stall is not known yet.
    #[inline]
    pub(super) fn is_over(&self, number: u64) -> Option<u64> {
        self.over.front().filter(|over| over.0 == number).map(|over| over.1)
    }

    pub(super) fn pass_stop(&mut self) {
        self.over.pop_front();
    }
}

impl Core {
    /// Works through the list of stops (possible stalls) as far as cycles are known; returns true if at least
    /// one was resolved.
    pub(super) fn fetch_ahead(&mut self) -> bool {
        let mut is_one_over = false;
        while let Some(&stop) = self.front_end.stops.front() {
            if !self.go_on_with(stop) {
                break;
            }
            self.front_end.stage = Stage::Waiting;
            self.front_end.stops.pop_front();
            self.front_end.over.push_back((stop.number, self.front_end.available));
            is_one_over = true;
        }
        is_one_over
    }

    /// Advances the first stop (possible stall) through branch resolution, translation and L1I read, as far
    /// as cycles are known; returns true if it is resolved.
    fn go_on_with(&mut self, stop: StallPoint) -> bool {
        let number = stop.number;
        if self.front_end.stage == Stage::Waiting {
            if stop.is_mispredicted {
                let branch = number - 1;
                let Some(resolved) = self.instructions.result_of(branch) else { return false };
                let available = resolved + self.front_end.penalty;
                self.path.mispredicted(branch, resolved, available);
                self.front_end.wait_until(available);
                self.front_end.stops[0].is_mispredicted = false;
            }
            let Some(room) = self.instructions.fetch_room(number) else { return false };
            let Some(Code { translated_by, .. }) = stop.code else { return true };
            let start = self.front_end.fetch_time.max(room);
            let request = Request::new(start, Waiter::Fetch);
            let known = self.translation.request(&mut self.shared, translated_by, request);
            self.front_end.fetched = known.unwrap_or(UNKNOWN);
            self.front_end.stage = Stage::Translating { start };
        }
        let Some(code) = stop.code else { return true };
        if let Stage::Translating { start } = self.front_end.stage {
            let translated = self.front_end.fetched;
            if translated == UNKNOWN {
                return false;
            }
            if code.translated_by.is_first_level_hit() {
                self.translation.statistics.add_fill_wait(translated - start);
            }
            let Shared { memory, agenda } = &mut *self.shared;
            let line = (code.data, code.line);
            let known = memory.access(agenda, self.levels.l1i, line, translated, Waiter::Fetch);
            self.front_end.fetched = known.unwrap_or(UNKNOWN);
            self.front_end.stage = Stage::Reading { start, translated };
        }
        let Stage::Reading { start, translated } = self.front_end.stage else { return false };
        let done = self.front_end.fetched;
        if done == UNKNOWN {
            return false;
        }
        // A hit is part of the front end's depth. A time that becomes known now is not earlier than now.
        let available = (done - self.front_end.hit_cycles).max(self.shared.agenda.now);
        self.statistics.fetch_stall_cycles += available - start;
        if available > start {
            let memory = &self.shared.memory;
            let from = memory.served_how(self.levels.l1i, code.data, translated, done).from;
            let translation = (code.translated_by, translated);
            self.path.fetched(number, (start, available), translation, from);
        }
        self.front_end.wait_until(available);
        true
    }

    /// Mispredicted branch whose result is still to become known, and for which the front end waits, if any.
    #[inline(never)]
    pub(super) fn unresolved_branch(&self) -> Option<u64> {
        let FrontEnd { stops, is_mispredicted, .. } = &self.front_end;
        let behind = match stops.front() {
            Some(stop) => stop.is_mispredicted.then_some(stop.number),
            // The instruction behind the branch has not been announced yet.
            None => is_mispredicted.then_some(self.instructions.handed),
        };
        let branch = behind? - 1;
        let is_unresolved = self.instructions.result_of(branch).is_none();
        (branch < self.instructions.next && is_unresolved).then_some(branch)
    }

    /// Earliest cycle at which the fetch of the next instruction can make progress, if known.
    pub(super) fn next_fetch(&self) -> Option<u64> {
        let front = &self.front_end;
        if self.follows_wrong_path() {
            return Some(self.shared.agenda.now);
        }
        if front.stops.front().is_some_and(|stop| stop.number < self.instructions.handed) {
            // Instructions were taken from a wrong path: first, the front end gets as far as they are.
            return None;
        }
        let known = |time| (time != UNKNOWN).then_some(time);
        match front.stage {
            Stage::Translating { .. } => known(front.fetched),
            Stage::Reading { .. } => Some(known(front.fetched)? - front.hit_cycles),
            Stage::Waiting => {
                let number = self.instructions.handed;
                let waits = front.is_mispredicted
                    || front.stops.front().is_some_and(|stop| stop.is_mispredicted);
                let resolved = if waits {
                    self.instructions.result_of(number - 1)? + front.penalty
                } else {
                    0
                };
                Some(front.fetch_time.max(self.instructions.fetch_room(number)?).max(resolved))
            }
        }
    }
}
