//! Out-of-order core.
//!
//! | cycle of | not before |
//! |---|---|
//! | dispatch | the instruction before it (`width` per cycle), a free reorder-buffer, scheduler, load-queue and store-queue entry, its code line, a redirect by a mispredicted branch |
//! | issue | dispatch, the registers it reads |
//! | complete | issue + operation latency; for loads issue + translation + caches |
//! | retire | complete, the retirement of the instruction before it (`retire_width` per cycle) |
//!
//! Execution units are not limited. Integer work on a loaded operand counts as part of the load, as a trace
//! does not tell `mov` from `add`.
//!
//! The caller hands instructions over in program order ([`hand_over`]), long before they are dispatched.
//! After each batch, the simulator handles events until most of them are dispatched. Most instructions need
//! only registers: one loop computes their cycles from each other ([`dispatch`]). Only an instruction that
//! waits for something gets a list of what it waits for ([`instructions::Waiting`]).

mod accesses;
mod completion;
mod counting;
mod demands;
mod dispatch;
mod feed;
mod front_end;
mod hand_over;
mod instructions;
mod processors;
mod stores;
mod warming;
mod wrong_path;

use std::collections::VecDeque;

use perforate_types::{Branch, Counters, Instruction, Operation, PhysicalAddress, StepLists, Unit};

use crate::LINE_SHIFT;
use crate::agenda::{Event, Thread, UNKNOWN, Waiter, Wakeup};
use crate::branch::{BranchCounts, BranchPredictor};
use crate::config::TimingConfig;
use crate::counters::TranslationAccesses;
use crate::critical_path::{CAUSES, Cause, CriticalPath, TRACED, Times};
use crate::error::TimingError;
use crate::hierarchy::{Hierarchy, OwnLevels};
use crate::queue::Queue;
use crate::ring::NONE;
use crate::scheduler::Scheduler;
use crate::shared::Shared;
use crate::shortcuts::Shortcuts;
use crate::translation::{Translation, TranslationStatistics};
pub(crate) use accesses::Accesses;
use counting::Counts;
pub(crate) use counting::Factor;
use demands::{Demand, Demands, First};
use front_end::{Code, FrontEnd};
use instructions::Reader;
pub(crate) use instructions::{HITS, Instructions, SERIAL, STORES, WAITED, Waiting};
use processors::Interrupted;
pub use processors::{Processors, Shootdown, Topology};
use stores::{Store, Stores};
use wrong_path::WrongPath;

/// Counts of a core since measuring began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CoreStatistics {
    pub(crate) instructions: u64,
    pub(crate) loads: u64,
    pub(crate) load_cycles: u64,
    pub(crate) load_translation_cycles: u64,
    pub(crate) stores: u64,
    pub(crate) forwarded_loads: u64,
    pub(crate) fetch_stall_cycles: u64,
}

impl CoreStatistics {
    /// Sets the counts that depend on timing to 0; keeps those made in program order (instructions, loads,
    /// stores).
    fn reset_times(&mut self) {
        let Self { instructions, loads, stores, .. } = *self;
        *self = Self { instructions, loads, stores, ..Self::default() };
    }

    fn add(&mut self, more: &Self) {
        self.instructions += more.instructions;
        self.loads += more.loads;
        self.load_cycles += more.load_cycles;
        self.load_translation_cycles += more.load_translation_cycles;
        self.stores += more.stores;
        self.forwarded_loads += more.forwarded_loads;
        self.fetch_stall_cycles += more.fetch_stall_cycles;
    }

    fn scale(&mut self, factor: &Factor) {
        let Self {
            instructions,
            loads,
            load_cycles,
            load_translation_cycles,
            stores,
            forwarded_loads,
            fetch_stall_cycles,
        } = self;
        factor.scale([instructions, loads, load_cycles, load_translation_cycles]);
        factor.scale([stores, forwarded_loads, fetch_stall_cycles]);
    }
}

/// State up to which a core handles events.
#[derive(Clone, Copy, Debug)]
enum Until {
    /// At most this many of the instructions handed over are still to be dispatched.
    Waiting(u64),
    /// The next instruction can be accepted: see [`Core::is_fetched`].
    Fetched,
    /// All instructions handed over have retired, and no event is left.
    AtRest,
}

/// Limit of dispatch or retirement: at most `width` instructions per cycle, in program order.
#[derive(Clone, Copy, Debug)]
struct InOrder {
    width: u32,
    cycle: u64,
    used: u32,
}

impl InOrder {
    fn new(width: u32) -> Self {
        Self { width, cycle: 0, used: 0 }
    }

    /// Goes back to `cycle`, in which one slot is taken.
    fn restart(&mut self, cycle: u64) {
        (self.cycle, self.used) = (cycle, 1);
    }

    /// Assigns the next instruction the first cycle, not before `earliest`, that has a slot left, and returns
    /// that cycle.
    #[inline]
    fn pass(&mut self, earliest: u64) -> u64 {
        if earliest > self.cycle {
            self.cycle = earliest;
            self.used = 0;
        } else if self.used == self.width {
            self.cycle += 1;
            self.used = 0;
        }
        self.used += 1;
        self.cycle
    }
}

/// Timing model of one core with its caches, memory and page walkers.
///
/// For each instruction in program order, call [`Core::fetch`] (only where the code line or page changes),
/// [`Core::begin`], [`Core::load`] and [`Core::store`] for its accesses, [`Core::finish`]; at the end of the
/// program [`Core::drain`]. Pass an access that crosses a page as two.
///
/// In a machine of several hardware threads ([`Processors`]), each thread is a `Core`. Only the thread being
/// simulated holds the state that the threads share (caches, memory, page walkers); the others hold empty
/// stand-ins.
#[derive(Clone, Debug)]
pub struct Core {
    /// Number of the hardware thread.
    number: Thread,
    /// Number of the core that the thread runs on.
    core: usize,
    levels: OwnLevels,
    shared: Box<Shared>,
    shortcuts: Shortcuts,
    /// Instructions are taken from the caller before the fetch queue has room: see
    /// [`Shortcuts::instructions_come_early`].
    comes_early: bool,
    /// The machine has no other hardware thread.
    is_alone: bool,
    branches: BranchPredictor,
    front_end: FrontEnd,
    /// `None` if nothing is fetched while a mispredicted branch waits.
    wrong_path: Option<Box<WrongPath>>,
    /// Number of instructions handed over at which the simulator next handles events.
    runs_from: u64,
    /// Number of instructions handed over at which the next batch begins, or the simulator handles events.
    pauses_at: u64,
    /// Code line that the front end has to fetch for the next instruction, if any.
    wanted: Option<Code>,
    /// The instruction handed over last serializes, so that the next waits for its retirement.
    after_serializing: bool,
    /// Instruction that is being handed over, with its accesses so far.
    in_hand: Demand,
    /// For each batch of instructions the number of the first, and the oldest fill, walk and access that it
    /// and younger ones may refer to.
    batches: VecDeque<(u64, First)>,
    instructions: Instructions,
    demands: Demands,
    accesses: Accesses,
    stores: Stores,
    /// Operands whose producer has completed, and the cycles at which they are ready.
    woken: Vec<(Reader, u64)>,
    dispatch: InOrder,
    retire: InOrder,
    /// Cycle from which the front end can deliver the next instruction to dispatch.
    available: u64,
    scheduler: Scheduler,
    load_queue: Queue,
    store_queue: Queue,
    /// Retirement or the front end may be able to make progress, and is to be tried again.
    may_retire: bool,
    /// Dispatch may be able to make progress, and is to be tried again.
    may_dispatch: bool,
    /// Cycle of the next event that tries dispatch again; in the past if no such event is planned.
    dispatch_alarm: u64,
    /// TLB shootdowns by which the thread has been interrupted.
    interrupted: Interrupted,
    /// TLBs and page walkers, which the hardware threads of one core share.
    translation: Box<Translation>,
    path: CriticalPath,
    /// Instruction before which retirement pauses so that the critical path can be followed back.
    boundary: u64,
    statistics: CoreStatistics,
    /// Cycle from which cycles are counted: the last retirement before counting began or resumed.
    origin: u64,
    /// Cycles counted before `origin`.
    earlier_cycles: u64,
    /// Counts at the time when counting was paused; `None` while counting.
    paused: Option<Box<Counts>>,
    /// First instruction to be measured, while instructions before it are still to retire.
    origin_pending: Option<u64>,
}

impl Core {
    /// Makes an idle core with empty caches and TLBs. `slots` says how many entries each translation unit
    /// has, indexed by `unit as usize`.
    ///
    /// # Errors
    /// [`TimingError`] if the configuration describes no possible machine.
    pub fn new(config: &TimingConfig, slots: [usize; Unit::COUNT]) -> Result<Self, TimingError> {
        Self::with_shortcuts(config, slots, Shortcuts::ALL)
    }

    /// Like [`Core::new`], with a choice of simulator optimisations, for tests that compare the results with
    /// and without.
    ///
    /// # Errors
    /// As [`Core::new`].
    pub fn with_shortcuts(
        config: &TimingConfig,
        slots: [usize; Unit::COUNT],
        shortcuts: Shortcuts,
    ) -> Result<Self, TimingError> {
        config.validate()?;
        let shortcuts = shortcuts.on(config);
        let shared = Box::new(Shared::new(config, (1, 1), shortcuts));
        let levels = shared.memory.own_levels(0);
        let translation = Translation::new(&config.walker, slots, levels.walker, shortcuts);
        let mut core = Self::of_several(config, (0, 0), shared, Box::new(translation), shortcuts);
        core.is_alone = true;
        core.comes_early =
            shortcuts.instructions_come_early && !core.shared.memory.has_prefetchers();
        Ok(core)
    }

    /// Makes hardware thread `number` of a machine with several, on core `on_core`.
    fn of_several(
        config: &TimingConfig,
        (number, on_core): (Thread, usize),
        shared: Box<Shared>,
        translation: Box<Translation>,
        shortcuts: Shortcuts,
    ) -> Self {
        let core = &config.core;
        Self {
            number,
            core: on_core,
            levels: shared.memory.own_levels(on_core),
            shared,
            shortcuts,
            comes_early: false,
            is_alone: false,
            branches: BranchPredictor::new(&config.branch_predictor),
            front_end: FrontEnd::new(config),
            wrong_path: WrongPath::new(config),
            runs_from: 0,
            pauses_at: 0,
            wanted: None,
            after_serializing: false,
            in_hand: Demand::default(),
            batches: VecDeque::from([(0, First::default())]),
            instructions: Instructions::new(core, config.branch_predictor.follows_wrong_path),
            demands: Demands::new(),
            accesses: Accesses::new(config.cache.l1d.latency_cycles.into()),
            stores: Stores::new(core.store_queue_entries),
            woken: Vec::new(),
            dispatch: InOrder::new(core.width),
            retire: InOrder::new(core.retire_width),
            available: 0,
            scheduler: Scheduler::new(core.scheduler_entries),
            load_queue: Queue::new(core.load_queue_entries),
            store_queue: Queue::new(core.store_queue_entries),
            may_retire: true,
            may_dispatch: true,
            dispatch_alarm: 0,
            interrupted: Interrupted::default(),
            translation,
            path: CriticalPath::new(),
            boundary: TRACED,
            statistics: CoreStatistics::default(),
            origin: 0,
            earlier_cycles: 0,
            paused: None,
            origin_pending: None,
        }
    }

    /// Handles events and all their consequences, one after the other, until `until` is the case.
    #[inline(never)]
    fn advance(&mut self, until: Until) {
        loop {
            let has_arrived = match until {
                Until::Waiting(most) => self.instructions.handed - self.instructions.next <= most,
                Until::Fetched => self.takes_more(),
                Until::AtRest => self.shared.agenda.is_empty() && self.is_at_rest(),
            };
            if has_arrived {
                return;
            }
            let (_, event) = self.shared.agenda.next();
            self.handle(event);
            self.settle_now();
        }
    }

    /// Passes an event to the part that it is for: caches, translation, load or dispatch.
    #[inline(always)]
    fn handle(&mut self, event: Event) {
        let shared = &mut *self.shared;
        let Shared { agenda, memory } = shared;
        match event {
            Event::Miss { fill, waiter } => memory.miss(agenda, fill, waiter),
            Event::Memory { fill } => memory.read_memory(agenda, fill),
            Event::Mshr { level } => memory.mshr_free(agenda, level.into()),
            Event::Walker { walk } => self.translation.ask_for_walker(shared, walk),
            Event::Translate { walk, lends_walker } => {
                self.translation.translate(shared, walk, lends_walker);
            }
            Event::WalkerFree => self.translation.grant_walkers(shared),
            Event::FirstUse { level, line } => memory.prefetch(agenda, level.into(), line),
            Event::Forward { access } => self.forward_or_read(access),
            Event::Dispatch => self.may_dispatch = true,
            Event::Interrupt { .. } => unreachable!("interrupts are handled by processors"),
        }
    }

    /// Tells all waiters whose cycle is known, and advances the pipeline, until nothing more can happen
    /// without an event.
    #[inline(never)]
    fn settle(&mut self) {
        self.settle_now();
    }

    /// Like [`Self::settle`], for the loop over events.
    #[inline(always)]
    fn settle_now(&mut self) {
        loop {
            while let Some(Wakeup { waiter, time, .. }) = self.shared.agenda.next_wakeup() {
                self.wake(waiter, time);
            }
            if !self.has_more() {
                return;
            }
            self.go_on();
        }
    }

    /// True if retirement, fetch, dispatch or a woken operand is still to be tried.
    #[inline]
    fn has_more(&self) -> bool {
        self.may_retire | self.may_dispatch | !self.woken.is_empty()
    }

    /// Wakes, retires, fetches and dispatches instructions as far as their cycles are known.
    fn go_on(&mut self) {
        while let Some((reader, time)) = self.woken.pop() {
            self.source_ready(reader, time);
        }
        if std::mem::take(&mut self.may_retire) {
            let before = self.instructions.oldest;
            self.retire_instructions();
            self.may_dispatch |= self.instructions.oldest != before;
            // The front end may have waited for the result of a branch.
            let looks_ahead = self.is_alone || self.wrong_path.is_some();
            if looks_ahead && !self.front_end.stops.is_empty() {
                self.may_dispatch |= self.fetch_ahead();
                self.look_ahead();
            }
        }
        if std::mem::take(&mut self.may_dispatch) {
            let before = self.instructions.next;
            self.dispatch_instructions();
            if self.instructions.next != before {
                self.note_done(before);
            }
        }
    }

    /// Tells a waiter of this thread that what it waited for comes at cycle `time`.
    #[inline(always)]
    fn wake(&mut self, waiter: Waiter, time: u64) {
        let shared = &mut *self.shared;
        match waiter {
            Waiter::Nobody => {}
            Waiter::Fill(fill) => {
                shared.memory.served(&mut shared.agenda, fill, time);
            }
            Waiter::Step { walk, task } => self.translation.task_done(shared, walk, task, time),
            Waiter::Walker(walk) => self.translation.get_walker(shared, walk, time),
            Waiter::Fetch => {
                self.front_end.fetched = time;
                self.may_retire = true;
            }
            Waiter::Translated(access) => self.translated(access, time),
            Waiter::Ahead(access) => self.read_ahead(access, time),
            Waiter::LineAhead(access) => {
                let number = self.accesses.comes_ahead(access, time);
                self.comes_for_wrong_path(number);
            }
            Waiter::Line(access) => self.line_read(access, time),
            Waiter::Forwarded(access) => self.forwarded(access, time),
            Waiter::Written(store) => self.line_written(store, time),
        }
    }

    /// True if all instructions handed over have retired.
    fn is_at_rest(&self) -> bool {
        self.instructions.oldest == self.instructions.handed
    }

    /// Simulates until all instructions have retired and all stores and fills have completed. Later
    /// instructions start no earlier than that.
    pub fn drain(&mut self) {
        self.may_retire = true;
        self.may_dispatch = true;
        self.settle();
        self.advance(Until::AtRest);
        self.come_to_rest(self.shared.agenda.now.max(self.retire.cycle));
    }

    /// Records that the pipeline was drained and all stores were in the cache at cycle `time`; fetch resumes
    /// then.
    fn come_to_rest(&mut self, time: u64) {
        self.path.drained(self.instructions.handed, self.retire.cycle, time);
        self.front_end.stand_still_until(time);
    }

    /// Data that the critical path is read from; `translation` may be held by another thread of the core.
    fn times_with<'a>(&'a self, translation: &'a Translation) -> Times<'a> {
        Times { instructions: &self.instructions, accesses: &self.accesses, translation }
    }

    /// Follows the critical path back to the end of the last trace, and lets the ring buffers overwrite
    /// accesses and walks that no instruction needs any more.
    #[cold]
    fn reach_boundary(&mut self) {
        let (instructions, accesses) = (&self.instructions, &self.accesses);
        self.path.settle(Times { instructions, accesses, translation: &self.translation });
        self.note_origin();
        let first = self.first_records();
        self.accesses.keep_from(first.access, first.further_line);
        if self.is_alone {
            self.translation.keep_walks_from(first.walk);
        }
        self.set_boundary();
    }

    fn set_boundary(&mut self) {
        let pending = self.origin_pending.unwrap_or(UNKNOWN);
        self.boundary = (self.instructions.oldest + TRACED).min(pending);
    }

    /// Ends warm-up: sets cycles and counters to 0, keeps the contents of caches, TLBs and pipeline.
    pub fn start_measuring(&mut self) {
        self.catch_up();
        self.translation.statistics = Default::default();
        self.shared.memory.reset_statistics();
        self.start_measuring_thread();
    }

    /// Sets the cycles and counters of this thread alone to 0.
    fn start_measuring_thread(&mut self) {
        self.statistics = CoreStatistics::default();
        self.branches.counts = Default::default();
        (self.earlier_cycles, self.paused) = (0, None);
        // Instructions in the pipeline are not measured: [`Self::note_origin`] resets the counts again when they have
        // retired.
        self.origin_pending = Some(self.instructions.handed);
        self.note_origin();
        self.set_boundary();
    }

    /// Starts the cycle count, if all instructions before the first measured one have retired.
    fn note_origin(&mut self) {
        if self.origin_pending.is_some_and(|first| self.instructions.oldest >= first) {
            self.origin = self.retire.cycle;
            self.origin_pending = None;
            self.begin_path([0; CAUSES]);
            self.statistics.reset_times();
            // With other threads, measuring begins when all are at rest.
            if self.number == 0 {
                self.translation.statistics.reset_times();
                self.shared.memory.reset_times();
            }
        }
    }

    /// Starts the critical path anew at `origin`, with `cycles` as the initial cycle stack.
    fn begin_path(&mut self, cycles: [u64; CAUSES]) {
        let (instructions, accesses) = (&self.instructions, &self.accesses);
        let times = Times { instructions, accesses, translation: &self.translation };
        self.path.begin(times, self.origin, cycles);
    }

    /// Cycles from the start of measuring to the last retirement known so far; after [`Core::drain`], to the
    /// retirement of the last instruction.
    pub fn cycles(&self) -> u64 {
        match &self.paused {
            Some(counts) => counts.cycles,
            None if self.origin_pending.is_some() => 0,
            None => self.earlier_cycles + self.retire.cycle - self.origin,
        }
    }

    /// Cycles by cause; the sum is [`Core::cycles`].
    fn cycle_stack(&self) -> [u64; CAUSES] {
        self.cycle_stack_with(&self.translation)
    }

    /// Like [`Self::cycle_stack`]; `translation` may be held by another thread of the core.
    fn cycle_stack_with(&self, translation: &Translation) -> [u64; CAUSES] {
        match &self.paused {
            Some(counts) => counts.stack,
            None if self.origin_pending.is_some() => [0; CAUSES],
            None => self.path.cycles(self.times_with(translation)),
        }
    }

    /// Cycles since measuring began that the run waited for address translation: the translation parts of the
    /// cycle stack.
    pub fn translation_stall_cycles(&self) -> u64 {
        translation_part(&self.cycle_stack())
    }

    /// Sum of the latencies, in cycles, of all translations since measuring began that missed the first-level
    /// TLB.
    pub fn translation_cycles(&self) -> u64 {
        self.translation.statistics.cycles
    }

    /// Accesses by translations to TLBs, walk caches and memory since measuring began.
    pub fn translation_accesses(&self) -> TranslationAccesses {
        TranslationAccesses::of(&self.translation.statistics)
    }

    /// Adds all counters since measuring began to `out`.
    pub fn counters(&self, out: &mut Counters) {
        let figures = Measured {
            statistics: self.statistics,
            branches: self.branches.counts,
            cycles: self.cycles(),
            stack: self.cycle_stack(),
            translation: self.translation.statistics,
            walkers: self.translation.walkers(),
        };
        figures.record(&self.shared.memory, out);
    }
}

/// Cycles of a cycle stack that are charged to address translation.
fn translation_part(stack: &[u64; CAUSES]) -> u64 {
    Cause::translation().map(|cause| stack[cause.index()]).sum()
}

/// Results since measuring began, of one hardware thread or summed over all.
struct Measured {
    statistics: CoreStatistics,
    branches: BranchCounts,
    cycles: u64,
    stack: [u64; CAUSES],
    translation: TranslationStatistics,
    /// Number of page walkers.
    walkers: u64,
}

impl Measured {
    fn record(&self, memory: &Hierarchy, out: &mut Counters) {
        let (cycles, instructions) = (self.cycles, self.statistics.instructions);
        crate::counters::core(&self.statistics, cycles, out);
        crate::counters::cycle_stack(&self.stack, translation_part(&self.stack), out);
        crate::counters::branches(&self.branches, instructions, out);
        crate::counters::translation(&self.translation, out);
        crate::counters::memory(memory, instructions, cycles, out);
        let walkers = (self.translation.walker_cycles, self.walkers);
        crate::counters::occupancy(walkers, memory, cycles, out);
    }
}
