//! Machines of several hardware threads: cores with private caches, walkers and TLBs, each with one or
//! several threads, and a last-level cache and memory that all share.
//!
//! The caller passes the instructions of all threads in one global order, with all accesses translated. Each
//! thread then runs at its own speed; events of all threads are handled in order of time ([`crate::agenda`]).
//! No thread begins an instruction that lies more than [`Topology::lead`] instructions further in the global
//! order than one that another thread has yet to begin.
//!
//! Threads of one core share its translation hardware, caches and MSHRs, and have equal parts of its queues
//! (reorder buffer, scheduler, load and store queue). The width of the core is not shared: each thread
//! dispatches and retires as many instructions per cycle as a thread alone.

use perforate_records::HardwareThread;

use super::feed::{Item, Stream};
use super::*;
use crate::ring::further_back;

/// Number of instructions after which the ring buffers are allowed to overwrite fills and walks no longer
/// needed.
const LET_GO: u64 = 4096;

/// Maximum number of hardware threads: the targets of a shootdown are a 64-bit mask.
const MOST_THREADS: usize = 64;

/// Numbers of cores and hardware threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Number of cores, at least one.
    pub cores: usize,
    /// Hardware threads per core, at least one.
    pub threads_per_core: usize,
    /// Number of instructions, in the global order, by which one thread may run ahead of another.
    pub lead: u64,
}

impl Topology {
    /// Number of hardware threads. Those of one core have consecutive numbers.
    pub fn threads(&self) -> usize {
        self.cores * self.threads_per_core
    }
}

/// TLB shootdown: other threads are interrupted to invalidate translations, and the sending thread waits
/// until all have answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shootdown {
    /// Threads to interrupt, one bit each; the sender is not among them.
    pub targets: u64,
    /// Cycles from the start of the shootdown until the first thread is interrupted.
    pub delivery_cycles: u32,
    /// Cycles between the interrupts of two target threads.
    pub interrupt_cycles: u32,
    /// Cycles that an interrupted thread spends on invalidating and answering.
    pub handler_cycles: u32,
}

/// Shootdown whose answers the sending thread waits for: how many, and since which cycle.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    answers: u32,
    since: u64,
    /// Cycle of the last answer so far.
    until: u64,
}

/// TLB shootdowns by which a thread is interrupted. The thread answers at once, without waiting for its
/// instructions in flight. When these have retired, it stalls for as many cycles as the answers took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interrupted {
    /// Cycle at which the thread has answered all shootdowns so far.
    until: u64,
    /// Arrival of the first shootdown that the thread has not stalled for yet, and the cycles to stall.
    since: u64,
    owed_cycles: u64,
}

/// Timing model of several hardware threads. Call [`Processors::run_on`] to choose the thread, then the same
/// functions as for [`Core`] for each of its instructions.
#[derive(Clone, Debug)]
pub struct Processors {
    topology: Topology,
    threads: Vec<Core>,
    streams: Vec<Stream>,
    waiting: Vec<Waiting>,
    figures: Vec<HardwareThread>,
    /// Thread that currently holds the state shared by all: events, caches, memory.
    holder: usize,
    /// For each core, the thread that currently holds its TLBs and page walkers.
    holders: Vec<usize>,
    /// Thread that the next instruction belongs to.
    current: usize,
    /// Number of instructions passed so far, over all threads.
    position: u64,
    /// Cycle at which measuring began, and cycle at which all threads were last drained.
    origin: u64,
    rest: u64,
}

impl Processors {
    /// Makes idle threads with empty caches and TLBs. `slots` says how many entries each translation unit of
    /// a core has, indexed by `unit as usize`.
    ///
    /// # Errors
    /// [`TimingError`] if the configuration describes no possible machine.
    ///
    /// # Panics
    /// If there are no threads, or more than 64.
    pub fn new(
        config: &TimingConfig,
        topology: Topology,
        slots: [usize; Unit::COUNT],
    ) -> Result<Self, TimingError> {
        let threads = topology.threads();
        assert!((1..=MOST_THREADS).contains(&threads), "{topology:?}");
        config.validate()?;
        let mut config = config.clone();
        share_queues(&mut config, topology.threads_per_core as u32);
        let shortcuts = Shortcuts::ALL.on(&config);
        let shape = (topology.cores, topology.threads_per_core);
        let shared = Box::new(Shared::new(&config, shape, shortcuts));
        let stand_in = shared.without_caches();
        let mut shared = Some(shared);
        let threads = (0..threads).map(|number| {
            let core = number / topology.threads_per_core;
            let walker = stand_in.memory.own_levels(core).walker;
            let translation = Box::new(Translation::new(&config.walker, slots, walker, shortcuts));
            let shared = shared.take().unwrap_or_else(|| Box::new(stand_in.clone()));
            Core::of_several(&config, (number as Thread, core), shared, translation, shortcuts)
        });
        let threads: Vec<Core> = threads.collect();
        let count = threads.len();
        Ok(Self {
            topology,
            threads,
            streams: vec![Stream::default(); count],
            waiting: vec![Waiting::default(); count],
            figures: vec![HardwareThread::default(); count],
            holder: 0,
            holders: (0..topology.cores).map(|core| core * topology.threads_per_core).collect(),
            current: 0,
            position: 0,
            origin: 0,
            rest: 0,
        })
    }

    /// Swaps the state shared between threads to this thread, and returns its core model for simulation.
    fn at(&mut self, thread: usize) -> &mut Core {
        if thread != self.holder {
            let [one, other] = self.pair(self.holder, thread);
            std::mem::swap(&mut one.shared, &mut other.shared);
            other.shared.agenda.thread = other.number;
            self.holder = thread;
        }
        let core = self.threads[thread].core;
        if self.holders[core] != thread {
            let [one, other] = self.pair(self.holders[core], thread);
            std::mem::swap(&mut one.translation, &mut other.translation);
            self.holders[core] = thread;
        }
        &mut self.threads[thread]
    }

    fn pair(&mut self, one: usize, other: usize) -> [&mut Core; 2] {
        self.threads.get_disjoint_mut([one, other]).expect("they are two threads")
    }

    fn shared(&self) -> &Shared {
        &self.threads[self.holder].shared
    }

    /// Chooses the hardware thread that the next instructions belong to.
    pub fn run_on(&mut self, thread: usize) {
        self.current = thread;
    }

    /// As [`Core::fetch`], for the current thread.
    pub fn fetch<'a>(
        &mut self,
        address: PhysicalAddress,
        slot: u32,
        steps: impl Into<StepLists<'a>>,
    ) {
        self.streams[self.current].fetch(address, slot, steps.into());
    }

    /// As [`Core::begin`], for the current thread; only queues the instruction.
    pub fn begin(&mut self, instruction: &Instruction) {
        self.streams[self.current].begin(self.position, instruction);
    }

    /// As [`Core::load`], for the current thread.
    pub fn load<'a>(
        &mut self,
        address: PhysicalAddress,
        size: u16,
        slot: u32,
        steps: impl Into<StepLists<'a>>,
    ) {
        self.streams[self.current].data_access(false, (address, size), slot, steps.into());
    }

    /// As [`Core::store`], for the current thread.
    pub fn store<'a>(
        &mut self,
        address: PhysicalAddress,
        size: u16,
        slot: u32,
        steps: impl Into<StepLists<'a>>,
    ) {
        self.streams[self.current].data_access(true, (address, size), slot, steps.into());
    }

    /// Ends the instruction that [`Processors::begin`] began. Simulates until no thread is more than
    /// [`Topology::lead`] instructions behind.
    pub fn finish(&mut self) {
        self.position += 1;
        if self.position.is_multiple_of(LET_GO) {
            self.let_go();
        }
        while self.oldest().is_some_and(|oldest| self.position - oldest > self.topology.lead) {
            self.go_on();
        }
    }

    /// Charges the critical path of each thread, and lets the ring buffers overwrite fills and walks that no
    /// thread needs any more.
    fn let_go(&mut self) {
        let next_fill = self.shared().memory.next_fill();
        let mut first_fill = next_fill;
        for core in 0..self.topology.cores {
            let threads = self.topology.threads_per_core;
            let next_walk = self.threads[self.holders[core]].translation.next_walk();
            let mut first_walk = next_walk;
            for thread in core * threads..(core + 1) * threads {
                let core = self.at(thread);
                core.reach_boundary();
                let first = core.first_records();
                first_fill = further_back(next_fill, first_fill, first.fill);
                first_walk = further_back(next_walk, first_walk, first.walk);
            }
            self.threads[self.holders[core]].translation.keep_walks_from(first_walk);
        }
        self.at(0).shared.memory.keep_fills_from(first_fill);
    }

    /// Makes the current thread send a TLB shootdown before its next instruction, and wait for all answers.
    pub fn shoot_down(&mut self, shootdown: Shootdown) {
        if shootdown.targets != 0 {
            self.streams[self.current].push(self.position, Item::Shootdown(shootdown));
        }
    }

    /// Interrupts these threads (one bit each), each before its next queued item, for a shootdown by a
    /// processor that is not simulated; the handler takes `handler_cycles`.
    pub fn interrupt(&mut self, targets: u64, handler_cycles: u32) {
        for thread in bits(targets) {
            self.streams[thread].push(self.position, Item::Interrupted(handler_cycles));
        }
    }

    /// Position, in the global order, of the oldest item still queued in any thread.
    fn oldest(&self) -> Option<u64> {
        self.streams.iter().filter_map(Stream::position).min()
    }

    /// Simulates until all queued instructions have entered their cores; they need not have completed.
    fn flush(&mut self) {
        while self.oldest().is_some() {
            self.go_on();
        }
    }

    /// Does what comes next in time: moves the first item of a thread's queue into its core, or handles an
    /// event.
    fn go_on(&mut self) {
        let ready = (0..self.threads.len())
            .filter_map(|thread| Some((self.ready_at(thread)?, thread)))
            .min();
        let next_event = self.shared().agenda.next_time();
        match ready {
            Some((time, thread)) if next_event.is_none_or(|event| time <= event) => {
                self.hand_over(thread);
            }
            _ => self.advance(),
        }
    }

    /// Cycle from which a thread can take the next item of its queue, if known.
    fn ready_at(&self, thread: usize) -> Option<u64> {
        let core = &self.threads[thread];
        let item = self.streams[thread].front().filter(|_| self.waiting[thread].answers == 0)?;
        let now = self.shared().agenda.now;
        match item {
            Item::Interrupted(_) => Some(now),
            Item::Instruction(..) if core.interrupted.owed_cycles == 0 => core.next_fetch(),
            _ => core.is_at_rest().then(|| core.retire.cycle.max(now)),
        }
    }

    fn hand_over(&mut self, thread: usize) {
        let mut stream = std::mem::take(&mut self.streams[thread]);
        let core = self.at(thread);
        let now = core.shared.agenda.now;
        if std::mem::take(&mut stream.is_starved) {
            core.was_idle(now);
        }
        let is_interrupted = core.interrupted.owed_cycles > 0;
        match stream.front().copied() {
            Some(Item::Interrupted(cycles)) => {
                stream.pop();
                self.answer(thread, cycles);
            }
            _ if is_interrupted => core.stand_still(),
            Some(Item::Shootdown(shootdown)) => {
                stream.pop();
                self.send(thread, shootdown);
            }
            _ => {
                if stream.hand_over(core) && core.may_dispatch {
                    self.settle(thread);
                }
            }
        }
        self.streams[thread] = stream;
    }

    /// Handles the next event and all its consequences.
    fn advance(&mut self) {
        let agenda = &mut self.threads[self.holder].shared.agenda;
        let (thread, event) = agenda.next();
        let thread = usize::from(thread);
        if let Event::Interrupt { sender, cycles } = event {
            let answered = self.answer(thread, cycles);
            self.hear_answer(usize::from(sender), answered);
        } else {
            self.at(thread).handle(event);
            self.settle(thread);
        }
    }

    /// Tells all waiters whose cycle is known, and advances the pipelines of `thread` and of the waiters'
    /// threads, until nothing more can happen without an event.
    fn settle(&mut self, thread: usize) {
        let mut concerned = 1_u64 << thread;
        while concerned != 0 {
            while let Some(wakeup) = self.threads[self.holder].shared.agenda.next_wakeup() {
                let thread = usize::from(wakeup.thread);
                concerned |= 1 << thread;
                self.at(thread).wake(wakeup.waiter, wakeup.time);
            }
            for thread in bits(concerned) {
                let core = self.at(thread);
                core.go_on();
                if !core.has_more() {
                    concerned &= !(1 << thread);
                }
            }
            if self.shared().agenda.has_wakeup() {
                concerned |= 1 << thread;
            }
        }
    }

    /// Sends a shootdown from a thread whose instructions have all retired: schedules an interrupt in each
    /// target.
    fn send(&mut self, thread: usize, shootdown: Shootdown) {
        let Shootdown { targets, delivery_cycles, interrupt_cycles, handler_cycles } = shootdown;
        let core = self.at(thread);
        let since = core.retire.cycle.max(core.shared.agenda.now);
        let (sender, agenda) = (core.number, &mut core.shared.agenda);
        let mut arrival = since + u64::from(delivery_cycles);
        for target in bits(targets) {
            let event = Event::Interrupt { sender, cycles: handler_cycles };
            agenda.schedule_for(target as Thread, arrival, event);
            arrival += u64::from(interrupt_cycles);
        }
        self.waiting[thread] = Waiting { answers: targets.count_ones(), since, until: since };
        self.figures[thread].shootdowns_waited_for += 1;
    }

    /// Interrupts a thread now for `cycles`; returns the cycle at which it has answered.
    fn answer(&mut self, thread: usize, cycles: u32) -> u64 {
        let figures = &mut self.figures[thread];
        figures.shootdown_interrupts += 1;
        figures.shootdown_interrupt_cycles += u64::from(cycles);
        let now = self.shared().agenda.now;
        let interrupted = &mut self.threads[thread].interrupted;
        if interrupted.owed_cycles == 0 {
            interrupted.since = now;
        }
        interrupted.owed_cycles += u64::from(cycles);
        interrupted.until = interrupted.until.max(now) + u64::from(cycles);
        interrupted.until
    }

    fn hear_answer(&mut self, thread: usize, answered: u64) {
        let waiting = &mut self.waiting[thread];
        waiting.answers -= 1;
        waiting.until = waiting.until.max(answered);
        if waiting.answers == 0 {
            let Waiting { since, until, .. } = *waiting;
            self.figures[thread].shootdown_wait_cycles += until - since;
            self.at(thread).stop(since, until, Cause::SHOOTDOWN);
        }
    }

    /// Simulates until all threads have retired all instructions, and all stores and fills have completed.
    /// Later instructions start no earlier than that.
    pub fn drain(&mut self) {
        self.flush();
        while !self.shared().agenda.is_empty() || self.threads.iter().any(Core::is_busy) {
            self.advance();
        }
        let retired = self.threads.iter().map(|core| core.retire.cycle).max();
        let rest = retired.unwrap_or_default().max(self.shared().agenda.now);
        for thread in 0..self.threads.len() {
            let core = self.at(thread);
            core.stand_still();
            core.was_idle(rest);
        }
        self.rest = rest;
    }

    /// Ends warm-up: drains all threads, sets cycles and counters to 0, keeps the contents of caches and
    /// TLBs.
    pub fn start_measuring(&mut self) {
        self.drain();
        self.figures.fill(HardwareThread::default());
        let rest = self.rest;
        for thread in 0..self.threads.len() {
            let core = self.at(thread);
            core.translation.statistics = Default::default();
            core.retire.pass(rest);
            core.start_measuring_thread();
        }
        self.threads[self.holder].shared.memory.reset_statistics();
        self.origin = self.rest;
    }

    /// Cycles from the start of measuring to the last retirement of any thread so far.
    pub fn cycles(&self) -> u64 {
        let last = self.threads.iter().map(|core| core.retire.cycle).max();
        last.unwrap_or_default().max(self.origin) - self.origin
    }

    /// Cycles of one thread by cause; the sum is [`Self::cycles`], as the rest counts as idle.
    fn stack_of(&self, thread: usize) -> [u64; CAUSES] {
        let core = &self.threads[thread];
        let holder = self.holders[core.core];
        let mut stack = core.cycle_stack_with(&self.threads[holder].translation);
        let idle = &mut stack[Cause::IDLE.index()];
        *idle = 0;
        let busy: u64 = stack.iter().sum();
        stack[Cause::IDLE.index()] = self.cycles().saturating_sub(busy);
        stack
    }

    /// Cycles by cause, averaged over the threads; the sum is [`Self::cycles`].
    fn cycle_stack(&self) -> [u64; CAUSES] {
        let mut sum = [0; CAUSES];
        for thread in 0..self.threads.len() {
            for (sum, cycles) in sum.iter_mut().zip(self.stack_of(thread)) {
                *sum += cycles;
            }
        }
        Factor::mean_of(self.threads.len() as u64).scale_parts(&mut sum);
        sum
    }

    /// As [`Core::translation_stall_cycles`], averaged over the threads.
    pub fn translation_stall_cycles(&self) -> u64 {
        translation_part(&self.cycle_stack())
    }

    /// As [`Core::translation_cycles`], summed over all cores.
    pub fn translation_cycles(&self) -> u64 {
        self.translation_statistics().cycles
    }

    /// As [`Core::translation_accesses`], summed over all cores.
    pub fn translation_accesses(&self) -> TranslationAccesses {
        TranslationAccesses::of(&self.translation_statistics())
    }

    fn translations(&self) -> impl Iterator<Item = &Translation> {
        self.holders.iter().map(|&thread| &*self.threads[thread].translation)
    }

    fn translation_statistics(&self) -> TranslationStatistics {
        let mut sum = TranslationStatistics::default();
        self.translations().for_each(|translation| sum.add(&translation.statistics));
        sum
    }

    /// Counts and cycles of each thread since measuring began.
    pub fn threads(&self) -> Vec<HardwareThread> {
        let of_thread = |(thread, figures): (usize, &HardwareThread)| {
            let stack = self.stack_of(thread);
            let idle_cycles = stack[Cause::IDLE.index()];
            HardwareThread {
                core: (thread / self.topology.threads_per_core) as u64,
                instructions: self.threads[thread].statistics.instructions,
                cycles: self.cycles() - idle_cycles,
                idle_cycles,
                translation_stall_cycles: translation_part(&stack),
                ..*figures
            }
        };
        self.figures.iter().enumerate().map(of_thread).collect()
    }

    /// Adds the counters of the whole machine since measuring began to `out`.
    pub fn counters(&self, out: &mut Counters) {
        let mut statistics = CoreStatistics::default();
        let mut branches = BranchCounts::default();
        for core in &self.threads {
            statistics.add(&core.statistics);
            branches.add(&core.branches.counts);
        }
        let figures = Measured {
            statistics,
            branches,
            cycles: self.cycles(),
            stack: self.cycle_stack(),
            translation: self.translation_statistics(),
            walkers: self.translations().map(Translation::walkers).sum(),
        };
        figures.record(&self.shared().memory, out);
    }
}

impl Core {
    /// Charges the cycles since the thread last had work, until `now`, as idle.
    fn was_idle(&mut self, now: u64) {
        let since = self.dispatch.cycle.max(self.retire.cycle).min(now);
        self.stop(since, now, Cause::IDLE);
    }

    /// Stalls the thread, whose instructions have all retired, for the shootdowns that it has answered.
    fn stand_still(&mut self) {
        let Interrupted { until, since, owed_cycles } = self.interrupted;
        self.interrupted.owed_cycles = 0;
        let start = self.retire.cycle.max(since);
        self.stop(start, until.max(start + owed_cycles), Cause::SHOOTDOWN);
    }

    /// Stalls the front end from cycle `start` until `end`, and records the cause for the critical path.
    fn stop(&mut self, start: u64, end: u64, cause: Cause) {
        // Even if that is no time at all: an instruction that comes at `end` waited for it.
        if self.front_end.waits_until(end) {
            self.path.stopped(self.instructions.handed, (start.min(end), end), cause);
        }
        self.front_end.stand_still_until(end);
    }

    fn is_busy(&self) -> bool {
        !self.is_at_rest()
    }
}

/// Divides the queue sizes of a core equally among its threads; each gets at least one entry.
fn share_queues(config: &mut TimingConfig, threads: u32) {
    let core = &mut config.core;
    let share = |entries: &mut u32| *entries = (*entries / threads).max(1);
    share(&mut core.reorder_buffer_entries);
    share(&mut core.load_queue_entries);
    share(&mut core.store_queue_entries);
    core.scheduler_entries.iter_mut().for_each(share);
}

/// Indices of the set bits, lowest first.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = set.trailing_zeros();
        (set != 0).then(|| {
            set &= set - 1;
            first as usize
        })
    })
}
