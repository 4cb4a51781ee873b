//! Out-of-order core.
//!
//! | time | not before |
//! |---|---|
//! | dispatch | the instruction before it (`width` per cycle), a free reorder-buffer, scheduler, load-queue and store-queue entry, its code line, a redirect by a mispredicted branch |
//! | issue | dispatch, the registers it reads |
//! | complete | issue + operation latency; for loads issue + translation + caches |
//! | retire | complete, the retirement of the instruction before it (`retire_width` per cycle) |
//!
//! Execution units are not limited. Integer work on a loaded operand counts as part of the load, as a trace does not
//! tell `mov` from `add`.
//!
//! Instructions are handed over in program order ([`hand_over`]), long before they are dispatched. After
//! a batch, time goes on by events until most are dispatched. Most instructions need only registers: their times follow
//! from each other in one loop ([`dispatch`]). A record is made for those that wait for something
//! ([`instructions::Waiting`]).

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

use std::collections::VecDeque;

use perforate_types::{Branch, Counters, Instruction, Operation, PhysicalAddress, StepLists, Unit};

use crate::LINE_SHIFT;
use crate::agenda::{Event, News, Thread, UNKNOWN, Waiter};
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
    /// Resets counts of events in time. Counts in program order stay.
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

/// At most `width` instructions per cycle, in order.
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

    /// Cycle in which the next instruction passes, not before `earliest`.
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
/// For each instruction in program order the caller does [`Core::fetch`] (only where the code line or page changes),
/// [`Core::begin`], [`Core::load`] and [`Core::store`] for its accesses, [`Core::finish`]; at the end of the program
/// [`Core::drain`]. An access that crosses a page is passed as two.
///
/// In a machine of several hardware threads ([`Processors`]) this is one of them. The parts that they share go from
/// hand to hand: the thread at work has them, and the others have stand-ins.
#[derive(Clone, Debug)]
pub struct Core {
    /// Number among the hardware threads.
    number: Thread,
    /// Number of its core.
    core: usize,
    levels: OwnLevels,
    shared: Box<Shared>,
    shortcuts: Shortcuts,
    /// Instructions are handed over before the fetch queue has room.
    comes_early: bool,
    /// No other hardware thread.
    is_alone: bool,
    branches: BranchPredictor,
    front_end: FrontEnd,
    /// Time goes on when so many instructions have been handed over.
    runs_from: u64,
    /// Code line of the next instruction if it differs from the last one.
    wanted: Option<Code>,
    /// The last instruction lets none overtake it.
    after_serializing: bool,
    /// Instruction that is being handed over.
    in_hand: Demand,
    /// First instructions of batches, and the first records that each and those after it may refer to.
    batches: VecDeque<(u64, First)>,
    instructions: Instructions,
    demands: Demands,
    accesses: Accesses,
    stores: Stores,
    /// Readers of results that have become known, and when the results are there.
    woken: Vec<(Reader, u64)>,
    dispatch: InOrder,
    retire: InOrder,
    /// Time from which the front end has the next instruction.
    available: u64,
    scheduler: Scheduler,
    load_queue: Queue,
    store_queue: Queue,
    /// Something has happened that retirement, or the front end, may have waited for.
    may_retire: bool,
    /// Something has happened that dispatch may have waited for.
    may_dispatch: bool,
    /// Time at which dispatch is tried again, if one is set.
    dispatch_alarm: u64,
    /// Shootdowns that it answers.
    interrupted: Interrupted,
    /// Page walkers and TLB entries, which hardware threads of one core share.
    translation: Box<Translation>,
    path: CriticalPath,
    /// Instruction before which retirement pauses to follow the critical path back.
    boundary: u64,
    statistics: CoreStatistics,
    /// Retirement of the last instruction before counting began, or went on.
    origin: u64,
    /// Cycles counted before that.
    earlier_cycles: u64,
    /// Counts at the moment when counting paused.
    paused: Option<Box<Counts>>,
    /// Measuring began before this instruction, and those before it have not retired.
    origin_pending: Option<u64>,
}

impl Core {
    /// A core in its reset state. `slots` says how many entries each translation unit has, indexed by
    /// `unit as usize`.
    ///
    /// # Errors
    /// [`TimingError`] if the configuration describes no possible machine.
    pub fn new(config: &TimingConfig, slots: [usize; Unit::COUNT]) -> Result<Self, TimingError> {
        Self::with_shortcuts(config, slots, Shortcuts::ALL)
    }

    /// A core with these rules that leave events out, for tests that compare.
    ///
    /// # Errors
    /// As [`Core::new`].
    pub fn with_shortcuts(
        config: &TimingConfig,
        slots: [usize; Unit::COUNT],
        shortcuts: Shortcuts,
    ) -> Result<Self, TimingError> {
        config.validate()?;
        let shared = Box::new(Shared::new(config, (1, 1), shortcuts));
        let levels = shared.memory.own_levels(0);
        let translation = Translation::new(&config.walker, slots, levels.walker, shortcuts);
        let mut core = Self::of_several(config, (0, 0), shared, Box::new(translation), shortcuts);
        core.is_alone = true;
        core.comes_early =
            shortcuts.instructions_come_early && !core.shared.memory.has_prefetchers();
        Ok(core)
    }

    /// Hardware thread of this number, on the core of this number.
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
            runs_from: 0,
            wanted: None,
            after_serializing: false,
            in_hand: Demand::default(),
            batches: VecDeque::from([(0, First::default())]),
            instructions: Instructions::new(core),
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

    /// Handles the next event, and does everything that follows at once.
    #[inline(never)]
    fn advance(&mut self) {
        let (_, event) = self.shared.agenda.next().expect("an instruction waits for an event");
        self.handle(event);
        self.settle();
    }

    /// Handles an event of this thread or of a cache.
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

    /// Does everything that follows from known times.
    fn settle(&mut self) {
        loop {
            while let Some(News { waiter, time, .. }) = self.shared.agenda.next_news() {
                self.hear(waiter, time);
            }
            if !self.has_more() {
                return;
            }
            self.go_on();
        }
    }

    /// True if an instruction may go on.
    #[inline]
    fn has_more(&self) -> bool {
        self.may_retire | self.may_dispatch | !self.woken.is_empty()
    }

    /// Wakes, retires, fetches and dispatches instructions as far as times are known.
    fn go_on(&mut self) {
        while let Some((reader, time)) = self.woken.pop() {
            self.source_ready(reader, time);
        }
        if std::mem::take(&mut self.may_retire) {
            let before = self.instructions.oldest;
            self.retire_instructions();
            self.may_dispatch |= self.instructions.oldest != before;
            // The front end may have waited for the result of a branch.
            if self.is_alone && !self.front_end.stops.is_empty() {
                self.may_dispatch |= self.fetch_ahead();
            }
        }
        if std::mem::take(&mut self.may_dispatch) {
            let before = self.instructions.next;
            self.dispatch_instructions();
            if self.instructions.next != before {
                self.is_done(before);
            }
        }
    }

    /// The time that a waiter waited for is known.
    #[inline]
    fn hear(&mut self, waiter: Waiter, time: u64) {
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
            Waiter::Line(access) => self.line_read(access, time),
            Waiter::Forwarded(access) => self.forwarded(access, time),
            Waiter::Written(store) => self.line_written(store, time),
        }
    }

    /// True if no instruction is under way.
    fn is_at_rest(&self) -> bool {
        self.instructions.oldest == self.instructions.handed
    }

    /// Lets everything finish that is under way. What comes next starts no earlier.
    pub fn drain(&mut self) {
        self.may_retire = true;
        self.may_dispatch = true;
        self.settle();
        while !(self.shared.agenda.is_empty() && self.is_at_rest()) {
            self.advance();
        }
        self.come_to_rest(self.shared.agenda.now.max(self.retire.cycle));
    }

    /// All instructions have retired, and their stores are written at `time`.
    fn come_to_rest(&mut self, time: u64) {
        self.path.drained(self.instructions.handed, self.retire.cycle, time);
        self.front_end.stand_still_until(time);
    }

    /// Rings and lanes with times for the critical path. Another thread may have the translation hardware.
    fn times_with<'a>(&'a self, translation: &'a Translation) -> Times<'a> {
        Times { instructions: &self.instructions, accesses: &self.accesses, translation }
    }

    /// Follows the critical path back, and lets go of records that it does not need any more.
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

    /// Ends warm-up: cycles and counters start from here, all state stays.
    pub fn start_measuring(&mut self) {
        self.catch_up();
        self.translation.statistics = Default::default();
        self.shared.memory.reset_statistics();
        self.start_measuring_thread();
    }

    /// Resets the figures of this thread.
    fn start_measuring_thread(&mut self) {
        self.statistics = CoreStatistics::default();
        self.branches.counts = Default::default();
        (self.earlier_cycles, self.paused) = (0, None);
        // Later events of instructions before this one are left out when these have retired.
        self.origin_pending = Some(self.instructions.handed);
        self.note_origin();
        self.set_boundary();
    }

    /// Measuring begins when all instructions before have retired.
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

    /// The critical path begins at the origin, after these cycles.
    fn begin_path(&mut self, cycles: [u64; CAUSES]) {
        let (instructions, accesses) = (&self.instructions, &self.accesses);
        let times = Times { instructions, accesses, translation: &self.translation };
        self.path.begin(times, self.origin, cycles);
    }

    /// Retire time of the last instruction known to retire, in cycles since measuring began; of
    /// the last one of all after [`Core::drain`].
    pub fn cycles(&self) -> u64 {
        match &self.paused {
            Some(counts) => counts.cycles,
            None if self.origin_pending.is_some() => 0,
            None => self.earlier_cycles + self.retire.cycle - self.origin,
        }
    }

    /// Cycles by cause: they add up to [`Core::cycles`].
    fn cycle_stack(&self) -> [u64; CAUSES] {
        self.cycle_stack_with(&self.translation)
    }

    /// As [`Self::cycle_stack`]; another thread may have the translation hardware.
    fn cycle_stack_with(&self, translation: &Translation) -> [u64; CAUSES] {
        match &self.paused {
            Some(counts) => counts.stack,
            None if self.origin_pending.is_some() => [0; CAUSES],
            None => self.path.cycles(self.times_with(translation)),
        }
    }

    /// Cycles since measuring began for which the run waited for address translation: its parts of
    /// the cycle stack.
    pub fn translation_stall_cycles(&self) -> u64 {
        translation_part(&self.cycle_stack())
    }

    /// Latencies of translations beyond the first-level TLB since measuring began, summed, in
    /// cycles.
    pub fn translation_cycles(&self) -> u64 {
        self.translation.statistics.cycles
    }

    /// Accesses to each structure by translations since measuring began.
    pub fn translation_accesses(&self) -> TranslationAccesses {
        TranslationAccesses::of(&self.translation.statistics)
    }

    /// Adds the figures since measuring began to `out`.
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

/// The part of a cycle stack that is address translation.
fn translation_part(stack: &[u64; CAUSES]) -> u64 {
    Cause::translation().map(|cause| stack[cause.index()]).sum()
}

/// Figures since measuring began, of one hardware thread or of all.
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
