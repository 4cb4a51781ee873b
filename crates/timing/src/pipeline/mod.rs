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
mod front_end;
mod registers;
mod warming;
mod window;

use perforate_types::{Branch, Counters, Instruction, PhysicalAddress, StepLists, Unit};

use crate::LINE_SHIFT;
use crate::agenda::{Agenda, Event, Waiter, Waiters};
use crate::branch::{BranchCounts, BranchPredictor};
use crate::config::TimingConfig;
use crate::counters::TranslationAccesses;
use crate::critical_path::{CAUSES, Cause, CriticalPath};
use crate::error::TimingError;
use crate::forward::Stores;
use crate::hierarchy::Hierarchy;
use crate::queue::Queue;
use crate::scheduler::Scheduler;
use crate::translation::{Parts, Translation};
use accesses::Accesses;
use counting::Counts;
pub(crate) use counting::Factor;
use front_end::FrontEnd;
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
#[derive(Clone, Debug)]
pub struct Core {
    agenda: Agenda,
    waiters: Waiters,
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
    translation: Translation,
    memory: Hierarchy,
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
        let core = &config.core;
        Ok(Self {
            agenda: Agenda::default(),
            waiters: Waiters::default(),
            front_end: FrontEnd::new(config),
            branches: BranchPredictor::new(&config.branch_predictor),
            registers: Registers::new(),
            window: Window::new(core),
            accesses: Accesses::default(),
            stores: Stores::new(),
            dispatch: InOrder::new(core.width),
            retire: InOrder::new(core.retire_width),
            reorder_buffer: Queue::new(core.reorder_buffer_entries),
            scheduler: Scheduler::new(core.scheduler_entries),
            load_queue: Queue::new(core.load_queue_entries),
            store_queue: Queue::new(core.store_queue_entries),
            may_dispatch: true,
            dispatch_alarm: 0,
            translation: Translation::new(&config.walker, slots),
            memory: Hierarchy::new(config),
            path: CriticalPath::new(core.reorder_buffer_entries, core.fetch_queue_entries),
            statistics: CoreStatistics::default(),
            origin: 0,
            earlier_cycles: 0,
            paused: None,
            origin_pending: None,
        })
    }

    /// The next event, and all that follows from it at once.
    fn advance(&mut self) {
        let event = self.agenda.next().expect("whoever waits has put down for what");
        let parts = &mut Parts {
            agenda: &mut self.agenda,
            waiters: &mut self.waiters,
            memory: &mut self.memory,
        };
        match event {
            Event::Miss { fill, waiter } => {
                parts.memory.miss(parts.agenda, parts.waiters, fill, waiter);
            }
            Event::FirstUse { level, line } => {
                parts.memory.prefetch(parts.agenda, parts.waiters, level.into(), line);
            }
            Event::Mshr { level } => {
                parts.memory.mshr_free(parts.agenda, parts.waiters, level.into());
            }
            Event::Translate { walk, wanted } => self.translation.translate(parts, walk, wanted),
            Event::Walker { walk } => self.translation.ask_for_walker(parts, walk),
            Event::WalkerFree => self.translation.walker_free(parts),
            Event::Forward { access } => self.forward_or_read(access),
            Event::Dispatch => self.may_dispatch = true,
        }
        self.settle();
    }

    /// Tells everybody what has become known, until nothing new follows from it.
    fn settle(&mut self) {
        loop {
            while let Some((waiter, time)) = self.agenda.next_news() {
                self.hear(waiter, time);
            }
            self.retire_instructions();
            if self.may_dispatch {
                self.dispatch_instructions();
            }
            if !self.agenda.has_news() && !self.window.can_retire() {
                return;
            }
        }
    }

    fn hear(&mut self, waiter: Waiter, time: u64) {
        let parts = &mut Parts {
            agenda: &mut self.agenda,
            waiters: &mut self.waiters,
            memory: &mut self.memory,
        };
        match waiter {
            Waiter::Nobody => {}
            Waiter::Fill(fill) => parts.memory.served(parts.agenda, parts.waiters, fill, time),
            Waiter::Step { walk, step } => self.translation.step_done(parts, walk, step, time),
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
        while !(self.agenda.is_empty() && self.window.is_empty()) {
            self.advance();
        }
        let time = self.agenda.now.max(self.retire.cycle);
        self.path.drained(self.window.handed_over(), self.retire.cycle, time);
        self.front_end.wait_until(time);
    }

    /// Ends warm-up: cycles and counters start from here, all state stays.
    pub fn start_measuring(&mut self) {
        self.statistics = CoreStatistics::default();
        self.translation.statistics = Default::default();
        self.memory.reset_statistics();
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
            self.translation.statistics.reset_times();
            self.memory.reset_times();
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
        let stack = self.cycle_stack();
        Cause::translation().map(|cause| stack[cause.index()]).sum()
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
        crate::counters::core(&self.statistics, self.cycles(), out);
        crate::counters::cycle_stack(&self.cycle_stack(), self.translation_stall_cycles(), out);
        crate::counters::branches(&self.branches.counts, self.statistics.instructions, out);
        crate::counters::translation(&self.translation.statistics, out);
        let (instructions, cycles) = (self.statistics.instructions, self.cycles());
        crate::counters::memory(&self.memory, instructions, cycles, out);
        crate::counters::occupancy(&self.translation, &self.memory, cycles, out);
    }
}
