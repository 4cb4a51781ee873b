//! The front end: code lines, mispredicted branches, the fetch queue.

use super::*;
use crate::agenda::UNKNOWN;
use crate::critical_path::{Cause, Timeline};
use crate::hierarchy::{Data, Origin};
use crate::translation::Translated;

/// An instruction that is fetched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetched {
    /// When it may be dispatched.
    pub(super) available: u64,
    /// It is dispatched only after all before it have retired.
    pub(super) waits_for_retirement: bool,
}

/// How far the fetch of the next instruction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing is done for it.
    Start,
    /// The branch before it was mispredicted and is yet to be resolved.
    Branch,
    /// It needs a place in the fetch queue.
    Room,
    /// Its code line is being translated, since `start`.
    Translating { start: u64, translated: Translated, data: Data },
    /// Its code line is being read, since `time`.
    Reading { start: u64, time: u64, data: Data },
}

#[derive(Clone, Debug)]
pub(super) struct FrontEnd {
    stage: Stage,
    /// Instructions fetched and not dispatched.
    pub(super) queue: Queue,
    /// The code line of the next instruction, if it is another than that of the last.
    wanted: Option<(Translated, Data)>,
    /// When what was asked for is there, or [`UNKNOWN`].
    pub(super) fetched: u64,
    /// When the last code line was there.
    fetch_time: u64,
    /// When the next instruction may be dispatched.
    available: u64,
    penalty: u64,
    /// A hit in the instruction cache.
    hit_cycles: u64,
    /// The last branch: its number, and when it is resolved.
    branch: (u64, u64),
    /// It was mispredicted.
    is_mispredicted: bool,
    /// The last instruction lets none overtake it.
    after_serializing: bool,
    /// What the last fetch did when.
    timeline: Timeline,
}

impl FrontEnd {
    pub(super) fn new(config: &TimingConfig) -> Self {
        Self {
            stage: Stage::Start,
            queue: Queue::new(config.core.fetch_queue_entries),
            wanted: None,
            fetched: 0,
            fetch_time: 0,
            available: 0,
            hit_cycles: config.cache.l1i.latency_cycles.into(),
            penalty: config.branch_predictor.mispredict_penalty_cycles.into(),
            branch: (0, 0),
            is_mispredicted: false,
            after_serializing: false,
            timeline: Timeline::default(),
        }
    }

    /// Whether something could be fetched before `time`.
    pub(super) fn waits_until(&self, time: u64) -> bool {
        self.available < time
    }

    /// Nothing is fetched before `time`.
    pub(super) fn wait_until(&mut self, time: u64) {
        self.fetch_time = self.fetch_time.max(time);
        self.available = self.available.max(time);
    }

    /// A branch is handed over.
    pub(super) fn branch(&mut self, number: u64, result: u64, is_mispredicted: bool) {
        self.branch = (number, result);
        self.is_mispredicted = is_mispredicted;
    }

    /// An instruction is done at `result`.
    #[inline]
    pub(super) fn resolve(&mut self, number: u64, result: u64) {
        if self.branch.0 == number {
            self.branch.1 = result;
        }
    }
}

impl Core {
    /// The code line of the next instruction, translated by `steps` from entry `slot` of the
    /// first-level instruction TLB. Called before [`Core::begin`], only where the line or page
    /// changes. A hit costs nothing; the front end stalls for what a miss takes longer.
    pub fn fetch<'a>(
        &mut self,
        address: PhysicalAddress,
        slot: u32,
        steps: impl Into<StepLists<'a>>,
    ) {
        let steps = steps.into();
        let (unit, now) = (Unit::L1InstructionTlb, self.shared.agenda.now);
        let translated = self.translation.prepare(&mut self.shared.memory, unit, slot, steps, now);
        let line = address.value() >> LINE_SHIFT;
        let data =
            self.shared.memory.locate(self.levels.l1i, line, false, Origin::Program, now).data;
        self.front_end.wanted = Some((translated, data));
    }

    /// Fetches the next instruction, as far as times are known: `None` if it has to wait for one, and
    /// goes on when asked again.
    #[inline]
    pub(super) fn fetch_next(&mut self, instruction: &Instruction) -> Option<Fetched> {
        if !self.goes_on(instruction) && !self.fetch_in_steps(instruction) {
            return None;
        }
        let is_serializing = instruction.operation == perforate_types::Operation::Serializing;
        let after = std::mem::replace(&mut self.front_end.after_serializing, is_serializing);
        let available = self.front_end.available;
        Some(Fetched { available, waits_for_retirement: is_serializing || after })
    }

    /// Most instructions are in the code line of the one before, and need but a place in the queue;
    /// whether this is one of them, and has it.
    #[inline]
    fn goes_on(&mut self, instruction: &Instruction) -> bool {
        let front = &mut self.front_end;
        let is_plain =
            front.stage == Stage::Start && !front.is_mispredicted && front.wanted.is_none();
        if !is_plain || front.queue.free_at(1).is_none() {
            return false;
        }
        if self.branches.check_target(instruction.ip.value()) {
            self.front_end.stage = Stage::Branch;
            return false;
        }
        self.front_end.queue.take(1);
        true
    }

    /// The same for any instruction, as far as times are known; whether it is fetched.
    #[inline(never)]
    fn fetch_in_steps(&mut self, instruction: &Instruction) -> bool {
        if self.front_end.stage == Stage::Start {
            let missed_target = self.branches.check_target(instruction.ip.value());
            let is_mispredicted = std::mem::take(&mut self.front_end.is_mispredicted);
            let waits = is_mispredicted || missed_target;
            self.front_end.stage = if waits { Stage::Branch } else { Stage::Room };
        }
        if self.front_end.stage == Stage::Branch {
            let (number, resolved) = self.front_end.branch;
            if resolved == UNKNOWN {
                return false;
            }
            let available = resolved + self.front_end.penalty;
            self.path.mispredicted(number, resolved, available);
            self.front_end.wait_until(available);
            self.front_end.stage = Stage::Room;
        }
        if self.front_end.stage == Stage::Room {
            let Some(room) = self.front_end.queue.free_at(1) else { return false };
            self.front_end.queue.take(1);
            if let Some((translated, data)) = self.front_end.wanted.take() {
                let start = self.front_end.fetch_time.max(room);
                let agenda = &mut self.shared.agenda;
                let known = self.translation.access(agenda, translated, start, Waiter::Fetch);
                self.front_end.fetched = known.unwrap_or(UNKNOWN);
                self.front_end.stage = Stage::Translating { start, translated, data };
            }
        }
        if self.front_end.stage != Stage::Room && !self.fetch_line() {
            return false;
        }
        self.front_end.stage = Stage::Start;
        true
    }

    /// Goes on with a code line; whether it is there.
    fn fetch_line(&mut self) -> bool {
        if let Stage::Translating { start, translated, data } = self.front_end.stage {
            let time = self.front_end.fetched;
            if time == UNKNOWN {
                return false;
            }
            if translated.is_first_level_hit() {
                self.translation.waited(time - start);
            }
            let timeline = &mut self.front_end.timeline;
            timeline.clear();
            if time > start {
                self.translation.explain(translated, start, time, timeline);
            }
            let Shared { memory, agenda, waiters } = &mut *self.shared;
            let known = memory.access(agenda, waiters, self.levels.l1i, data, time, Waiter::Fetch);
            self.front_end.fetched = known.unwrap_or(UNKNOWN);
            self.front_end.stage = Stage::Reading { start, time, data };
        }
        let Stage::Reading { start, time, data } = self.front_end.stage else { return true };
        let done = self.front_end.fetched;
        if done == UNKNOWN {
            return false;
        }
        let memory = &self.shared.memory;
        // A hit is part of the front end's depth. What is known only now is not there before.
        let available = (done - self.front_end.hit_cycles).max(self.shared.agenda.now);
        self.statistics.fetch_stall_cycles += available - start;
        let served = memory.served_how(self.levels.l1i, data, time, done);
        let mut timeline = std::mem::take(&mut self.front_end.timeline);
        timeline.push(available, Cause::served_by(served.from));
        self.path.fetched(self.window.handed_over(), start, available, &timeline);
        self.front_end.timeline = timeline;
        self.front_end.wait_until(available);
        true
    }

    /// Lets time go on until what the fetch of the next instruction waits for is known.
    pub(super) fn await_fetch(&mut self) {
        loop {
            self.advance();
            let front = &self.front_end;
            let is_known = match front.stage {
                Stage::Start | Stage::Room => front.queue.free_at(1).is_some(),
                Stage::Branch => front.branch.1 != UNKNOWN,
                Stage::Translating { .. } | Stage::Reading { .. } => front.fetched != UNKNOWN,
            };
            if is_known {
                return;
            }
        }
    }

    /// The earliest time at which something can follow from fetching the next instruction; `None`
    /// while that is not known.
    pub(super) fn next_fetch(&self) -> Option<u64> {
        let front = &self.front_end;
        let known = |time| (time != UNKNOWN).then_some(time);
        match front.stage {
            Stage::Translating { .. } => known(front.fetched),
            Stage::Reading { .. } => Some(known(front.fetched)? - front.hit_cycles),
            Stage::Start | Stage::Branch | Stage::Room => {
                let waits = front.is_mispredicted || front.stage == Stage::Branch;
                let resolved = if waits { known(front.branch.1)? + front.penalty } else { 0 };
                Some(front.fetch_time.max(front.queue.free_at(1)?).max(resolved))
            }
        }
    }
}
