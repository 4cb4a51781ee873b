//! The front end: code lines, mispredicted branches, the fetch queue.

use super::*;
use crate::agenda::UNKNOWN;
use crate::critical_path::{Cause, Timeline};
use crate::hierarchy::{Data, L1I, Origin};
use crate::translation::Translated;

#[derive(Clone, Debug)]
pub(super) struct FrontEnd {
    /// Instructions fetched and not dispatched.
    pub(super) queue: Queue,
    /// The code line of the next instruction, if it is another than that of the last.
    wanted: Option<(Translated, Data)>,
    /// When what was asked for is there.
    pub(super) fetched: u64,
    /// When the last code line was there.
    fetch_time: u64,
    /// When the next instruction may be dispatched.
    available: u64,
    penalty: u64,
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
            queue: Queue::new(config.core.fetch_queue_entries),
            wanted: None,
            fetched: 0,
            fetch_time: 0,
            available: 0,
            penalty: config.branch_predictor.mispredict_penalty_cycles.into(),
            branch: (0, 0),
            is_mispredicted: false,
            after_serializing: false,
            timeline: Timeline::default(),
        }
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
        let (unit, now) = (Unit::L1InstructionTlb, self.agenda.now);
        let translated = self.translation.prepare(&mut self.memory, unit, slot, steps, now);
        let line = address.value() >> LINE_SHIFT;
        let data = self.memory.locate(L1I, line, false, Origin::Program, now).data;
        self.front_end.wanted = Some((translated, data));
    }

    /// Lets time go on until the next instruction is fetched. Returns when it may be dispatched, and
    /// whether only after all before it have retired.
    pub(super) fn fetch_next(&mut self, instruction: &Instruction) -> (u64, bool) {
        let missed_target = self.branches.check_target(instruction.ip.value());
        if std::mem::take(&mut self.front_end.is_mispredicted) || missed_target {
            while self.front_end.branch.1 == UNKNOWN {
                self.advance();
            }
            let (number, resolved) = self.front_end.branch;
            let available = resolved + self.front_end.penalty;
            self.path.mispredicted(number, resolved, available);
            self.front_end.wait_until(available);
        }
        let room = loop {
            match self.front_end.queue.free_at(1) {
                Some(time) => break time,
                None => self.advance(),
            }
        };
        self.front_end.queue.take(1);
        if let Some((translated, data)) = self.front_end.wanted {
            self.front_end.wanted = None;
            let start = self.front_end.fetch_time.max(room);
            self.fetch_line(start, translated, data);
        }
        let is_serializing = instruction.operation == perforate_types::Operation::Serializing;
        let after = std::mem::replace(&mut self.front_end.after_serializing, is_serializing);
        (self.front_end.available, is_serializing || after)
    }

    fn fetch_line(&mut self, start: u64, translated: Translated, data: Data) {
        let known = self.translation.access(&mut self.agenda, translated, start, Waiter::Fetch);
        let time = self.fetched(known);
        if translated.is_first_level_hit() {
            self.translation.waited(time - start);
        }
        let mut timeline = std::mem::take(&mut self.front_end.timeline);
        timeline.clear();
        if time > start {
            self.translation.explain(translated, start, time, &mut timeline);
        }
        let Self { memory, agenda, waiters, .. } = self;
        let known = memory.access(agenda, waiters, L1I, data, time, Waiter::Fetch);
        // A hit is part of the front end's depth. What is known only now is not there before.
        let available = self.fetched(known) - self.memory.latency(L1I);
        let available = available.max(self.agenda.now);
        self.statistics.fetch_stall_cycles += available - start;
        let done = self.front_end.fetched;
        let served = self.memory.served_how(L1I, data, time, done);
        timeline.push(available, Cause::served_by(served.from));
        self.path.fetched(self.window.handed_over(), start, available, &timeline);
        self.front_end.timeline = timeline;
        self.front_end.wait_until(available);
    }

    /// When what the front end asked for is there; time goes on until that is known.
    fn fetched(&mut self, known: Option<u64>) -> u64 {
        self.front_end.fetched = known.unwrap_or(UNKNOWN);
        while self.front_end.fetched == UNKNOWN {
            self.advance();
        }
        self.front_end.fetched
    }
}
