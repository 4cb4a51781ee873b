//! The out-of-order core.
//!
//! | time | not before |
//! |---|---|
//! | dispatch | the instruction before it (`width` per cycle), a free reorder-buffer, scheduler, load-queue and store-queue entry, its code line, a redirect by a mispredicted branch |
//! | issue | dispatch, the registers it reads |
//! | complete | issue + operation latency; for loads issue + translation + caches |
//! | retire | complete, the retirement of the instruction before it (`retire_width` per cycle) |
//!
//! Execution units are not limited. Integer work on a loaded operand counts as part of the load, as
//! a trace does not tell `mov` from `add`.
//!
//! Instructions are handed over in program order; [`Core::begin`] lets time go on until the front
//! end has room for another. What an instruction waits for is told to it ([`Waiter`]); it then gets
//! its next time, and tells those who wait for it.

mod accesses;
mod counting;
mod feed;
mod front_end;
mod processors;
mod registers;
mod warming;
mod window;

use perforate_types::{Branch, Counters, Instruction, PhysicalAddress, StepLists, Unit};

use crate::LINE_SHIFT;
use crate::agenda::{Event, Thread, Waiter};
use crate::branch::{BranchCounts, BranchPredictor};
use crate::config::TimingConfig;
use crate::counters::TranslationAccesses;
use crate::critical_path::{CAUSES, Cause, CriticalPath};
use crate::error::TimingError;
use crate::forward::Stores;
use crate::hierarchy::{Hierarchy, OwnLevels};
use crate::queue::Queue;
use crate::scheduler::Scheduler;
use crate::shared::Shared;
use crate::translation::{Translation, TranslationStatistics};
use accesses::Accesses;
use counting::Counts;
pub(crate) use counting::Factor;
use front_end::FrontEnd;
use processors::Interrupted;
pub use processors::{Processors, Shootdown, Topology};
use registers::{Read, Registers};
use window::Window;

/// What the core did since measuring began.
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
    /// Forgets what is counted when it happens, and keeps what is counted in program order.
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

    /// The cycle in which an instruction passes that cannot before `earliest`.
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

/// The timing model of one core with its caches, memory and page walkers.
///
/// For each instruction in program order the caller does [`Core::fetch`] (only where the code
/// line or page changes), [`Core::begin`], [`Core::load`] and [`Core::store`] for its accesses,
/// [`Core::finish`]; at the end of the program [`Core::drain`]. An access that crosses a page is
/// passed as two.
///
/// In a machine of several hardware threads ([`Processors`]) this is one of them. What they share goes
/// from hand to hand: the thread at work has it, the others have stand-ins that nobody asks.
#[derive(Clone, Debug)]
pub struct Core {
    /// Its number among the hardware threads.
    number: Thread,
    /// Its core's number.
    core: usize,
    levels: OwnLevels,
    shared: Box<Shared>,
    front_end: FrontEnd,
    branches: BranchPredictor,
    registers: Registers,
    window: Window,
    accesses: Accesses,
    stores: Stores,
    dispatch: InOrder,
    retire: InOrder,
    reorder_buffer: Queue,
    scheduler: Scheduler,
    load_queue: Queue,
    store_queue: Queue,
    /// Something has happened for which dispatch may have waited.
    may_dispatch: bool,
    /// When dispatch is tried again, if a time is set.
    dispatch_alarm: u64,
    /// Shootdowns that it answers.
    interrupted: Interrupted,
    /// Page walkers and TLB entries, which hardware threads of one core share.
    translation: Box<Translation>,
    path: CriticalPath,
    statistics: CoreStatistics,
    /// Retire time of the last instruction before counting began, or went on.
    origin: u64,
    /// Cycles counted before that.
    earlier_cycles: u64,
    /// What was counted when counting paused.
    paused: Option<Box<Counts>>,
    /// Measuring began before this instruction, and those before it have not retired.
    origin_pending: Option<u64>,
}

impl Core {
    /// A core in its reset state. `slots` says how many entries each translation unit has,
    /// indexed by `unit as usize`.
    ///
    /// # Errors
    /// [`TimingError`] if the configuration describes no possible machine.
    pub fn new(config: &TimingConfig, slots: [usize; Unit::COUNT]) -> Result<Self, TimingError> {
        config.validate()?;
        let shared = Box::new(Shared::new(config, 1));
        let levels = shared.memory.own_levels(0);
        let translation = Translation::new(&config.walker, slots, levels.walker);
        Ok(Self::with(config, (0, 0), shared, Box::new(translation)))
    }

    /// The hardware thread of this number, on the core of this number.
    fn with(
        config: &TimingConfig,
        (number, on_core): (Thread, usize),
        shared: Box<Shared>,
        translation: Box<Translation>,
    ) -> Self {
        let core = &config.core;
        Self {
            number,
            core: on_core,
            levels: shared.memory.own_levels(on_core),
            shared,
            front_end: FrontEnd::new(config),
            branches: BranchPredictor::new(&config.branch_predictor),
            registers: Registers::new(),
            window: Window::new(core),
            accesses: Accesses::default(),
            stores: Stores::new(core.store_queue_entries),
            dispatch: InOrder::new(core.width),
            retire: InOrder::new(core.retire_width),
            reorder_buffer: Queue::new(core.reorder_buffer_entries),
            scheduler: Scheduler::new(core.scheduler_entries),
            load_queue: Queue::new(core.load_queue_entries),
            store_queue: Queue::new(core.store_queue_entries),
            may_dispatch: true,
            dispatch_alarm: 0,
            interrupted: Interrupted::default(),
            translation,
            path: CriticalPath::new(core.reorder_buffer_entries, core.fetch_queue_entries),
            statistics: CoreStatistics::default(),
            origin: 0,
            earlier_cycles: 0,
            paused: None,
            origin_pending: None,
        }
    }

    /// The next event, and all that follows from it at once.
    fn advance(&mut self) {
        let (_, event) = self.shared.agenda.next().expect("whoever waits has put down for what");
        self.deal_with(event);
        self.settle();
    }

    /// An event of this thread, or of a cache.
    #[inline(always)]
    fn deal_with(&mut self, event: Event) {
        let shared = &mut *self.shared;
        match event {
            Event::Miss { fill, waiter } => {
                shared.memory.miss(&mut shared.agenda, &mut shared.waiters, fill, waiter);
            }
            Event::FirstUse { level, line } => {
                let Shared { memory, agenda, waiters } = shared;
                memory.prefetch(agenda, waiters, level.into(), line);
            }
            Event::Mshr { level } => {
                shared.memory.mshr_free(&mut shared.agenda, &mut shared.waiters, level.into());
            }
            Event::Translate { walk, wanted } => self.translation.translate(shared, walk, wanted),
            Event::Walker { walk } => self.translation.ask_for_walker(shared, walk),
            Event::WalkerFree => self.translation.walker_free(shared),
            Event::Forward { access } => self.forward_or_read(access),
            Event::Dispatch => self.may_dispatch = true,
            Event::Interrupt { .. } => unreachable!("processors deal with it"),
        }
    }

    /// Tells everybody what has become known, until nothing new follows from it.
    fn settle(&mut self) {
        loop {
            while let Some(news) = self.shared.agenda.next_news() {
                self.hear(news.waiter, news.time);
            }
            self.go_on();
            if !self.shared.agenda.has_news() && !self.window.can_retire() {
                return;
            }
        }
    }

    /// Retires and dispatches what it can.
    #[inline(always)]
    fn go_on(&mut self) {
        self.retire_instructions();
        if self.may_dispatch {
            self.dispatch_instructions();
        }
    }

    #[inline(always)]
    fn hear(&mut self, waiter: Waiter, time: u64) {
        let shared = &mut *self.shared;
        match waiter {
            Waiter::Nobody => {}
            Waiter::Fill(fill) => {
                let Shared { memory, agenda, waiters } = shared;
                memory.served(agenda, waiters, fill, time);
            }
            Waiter::Step { walk, step } => self.translation.step_done(shared, walk, step, time),
            Waiter::Fetch => self.front_end.fetched = time,
            Waiter::Address(slot) => self.address_ready(slot, time),
            Waiter::Operand(slot) => self.operand_ready(slot, time),
            Waiter::Translated(access) => self.translated(access, time),
            Waiter::Line(access) => self.line_read(access, time),
            Waiter::Forwarded(access) => self.forwarded(access, time),
            Waiter::Written(store) => self.line_written(store, time),
        }
    }

    /// Lets everything finish that is under way. What comes next starts no earlier.
    pub fn drain(&mut self) {
        while !(self.shared.agenda.is_empty() && self.window.is_empty()) {
            self.advance();
        }
        self.come_to_rest(self.shared.agenda.now.max(self.retire.cycle));
    }

    /// All instructions have retired, and their stores are written at `time`.
    fn come_to_rest(&mut self, time: u64) {
        self.path.drained(self.window.handed_over(), self.retire.cycle, time);
        self.front_end.wait_until(time);
    }

    /// Ends warm-up: cycles and counters start from here, all state stays.
    pub fn start_measuring(&mut self) {
        self.translation.statistics = Default::default();
        self.shared.memory.reset_statistics();
        self.start_measuring_thread();
    }

    /// The same of what is this thread's own.
    fn start_measuring_thread(&mut self) {
        self.statistics = CoreStatistics::default();
        self.branches.counts = Default::default();
        (self.earlier_cycles, self.paused) = (0, None);
        // What instructions before this one still do is left out when they have retired.
        self.origin_pending = Some(self.window.handed_over());
        self.note_origin();
    }

    /// Measuring begins when all instructions before have retired.
    fn note_origin(&mut self) {
        if self.origin_pending.is_some_and(|first| self.window.retired() >= first) {
            self.origin = self.retire.cycle;
            self.origin_pending = None;
            self.path.begin(self.origin, [0; CAUSES]);
            self.statistics.reset_times();
            // Together with other threads it begins when all are at rest.
            if self.number == 0 {
                self.translation.statistics.reset_times();
                self.shared.memory.reset_times();
            }
        }
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

    /// Where those cycles went: they add up to [`Core::cycles`].
    fn cycle_stack(&self) -> [u64; CAUSES] {
        match &self.paused {
            Some(counts) => counts.stack,
            None if self.origin_pending.is_some() => [0; CAUSES],
            None => self.path.cycles(),
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

    /// What translations accessed since measuring began.
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

/// What was counted since measuring began, of one hardware thread or of all.
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
