//! The out-of-order core: one pass over the instructions, each getting its times.
//!
//! | time | not before |
//! |---|---|
//! | dispatch | the instruction before it (`width` per cycle), a free reorder-buffer, load-queue and store-queue entry, its code line, a redirect by a mispredicted branch |
//! | issue | dispatch, the registers it reads |
//! | complete | issue + operation latency; for loads issue + translation + caches |
//! | retire | complete, the retirement of the instruction before it (`retire_width` per cycle) |
//!
//! Execution units and scheduler entries are not limited. Integer work on a loaded operand
//! counts as part of the load, as a trace does not tell `mov` from `add`.

use perforate_types::{Branch, Counters, Instruction, Operation, PhysicalAddress, Steps, Unit};

use crate::branch::BranchPredictor;
use crate::config::TimingConfig;
use crate::counters::TranslationAccesses;
use crate::error::TimingError;
use crate::forward::RecentStores;
use crate::hierarchy::{Hierarchy, L1D, L1I, Origin};
use crate::queue::Queue;
use crate::translation::Translation;
use crate::{LINE_BYTES, LINE_SHIFT};

const REGISTERS: usize = 256;

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
    /// Retire time of the last instruction before measuring began.
    pub(crate) origin: u64,
}

/// A store whose data are written after retirement.
#[derive(Clone, Copy, Debug)]
struct PendingStore {
    address: u64,
    last_line: u64,
}

/// The instruction in hand, between `begin` and `finish`.
#[derive(Clone, Debug, Default)]
struct Current {
    dispatch: u64,
    issue: u64,
    /// When everything it loads is there.
    loaded: u64,
    /// When its stores are translated.
    stored: u64,
    loads: usize,
    stores: Vec<PendingStore>,
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

    /// The instruction that passed last is held up until `cycle`.
    fn hold(&mut self, cycle: u64) {
        self.cycle = cycle;
        self.used = 1;
    }
}

/// The timing model of one core with its caches, memory and page walkers.
///
/// For each instruction in program order the caller does [`Core::fetch`] (only where the code
/// line or page changes), [`Core::begin`], [`Core::load`] and [`Core::store`] for its accesses,
/// [`Core::finish`]. An access that crosses a page is passed as two.
#[derive(Clone, Debug)]
pub struct Core {
    registers: [u64; REGISTERS],
    latencies: [u64; Operation::ALL.len()],
    current: Current,
    dispatch: InOrder,
    retire: InOrder,
    reorder_buffer: Queue,
    load_queue: Queue,
    store_queue: Queue,
    /// Dispatch times of the last instructions, as many as the fetch queue holds.
    fetch_queue: Queue,
    /// When the front end asked for its last code line.
    fetch_time: u64,
    /// When the code of the next instruction is there.
    front_end: u64,
    /// What a fetch since the last instruction took beyond a hit.
    fetch_delay: u64,
    mispredict_penalty: u64,
    /// When the last branch was resolved.
    resolved: u64,
    /// When the front end was last sent elsewhere by a mispredicted branch, penalty paid.
    redirect: u64,
    last_store_written: u64,
    branches: BranchPredictor,
    recent_stores: RecentStores,
    translation: Translation,
    memory: Hierarchy,
    statistics: CoreStatistics,
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
        let mut latencies = [u64::from(core.integer_cycles); Operation::ALL.len()];
        latencies[Operation::Multiply as usize] = core.multiply_cycles.into();
        latencies[Operation::Divide as usize] = core.divide_cycles.into();
        latencies[Operation::Float as usize] = core.float_cycles.into();
        let memory = Hierarchy::new(config);
        let read_cycles = memory.latency(Hierarchy::walker_level(config.walker.attach));
        Ok(Self {
            registers: [0; REGISTERS],
            latencies,
            current: Current { stores: Vec::with_capacity(256), ..Current::default() },
            dispatch: InOrder::new(core.width),
            retire: InOrder::new(core.retire_width),
            reorder_buffer: Queue::new(core.reorder_buffer_entries),
            load_queue: Queue::new(core.load_queue_entries),
            store_queue: Queue::new(core.store_queue_entries),
            fetch_queue: Queue::new(core.fetch_queue_entries),
            fetch_time: 0,
            front_end: 0,
            fetch_delay: 0,
            mispredict_penalty: config.branch_predictor.mispredict_penalty_cycles.into(),
            resolved: 0,
            redirect: 0,
            last_store_written: 0,
            branches: BranchPredictor::new(&config.branch_predictor),
            recent_stores: RecentStores::new(),
            translation: Translation::new(&config.walker, read_cycles, slots),
            memory,
            statistics: CoreStatistics::default(),
        })
    }

    /// The code line of the next instruction, translated by `steps` from entry `slot` of the
    /// first-level instruction TLB. Called before [`Core::begin`], only where the line or page
    /// changes. A hit costs nothing; the front end stalls for what a miss takes longer.
    pub fn fetch(&mut self, address: PhysicalAddress, slot: u32, steps: &Steps) {
        let start = self.fetch_time.max(self.redirect).max(self.fetch_queue.free_at(0));
        let unit = Unit::L1InstructionTlb;
        let translated = self.translation.translate(&mut self.memory, unit, slot, steps, start);
        let line = address.value() >> LINE_SHIFT;
        let served = self.memory.access(L1I, line, translated, false, Origin::Program);
        let available = served.done - self.memory.latency(L1I);
        self.statistics.fetch_stall_cycles += available - start;
        self.fetch_time = available;
        self.front_end = self.front_end.max(available);
        self.fetch_delay = available - start;
    }

    /// Dispatches an instruction and finds when its operands are ready.
    #[inline]
    pub fn begin(&mut self, instruction: &Instruction) {
        if self.branches.check_target(instruction.ip.value()) {
            // The fetch of this line, if there was one, began from the wrong path's time.
            self.redirect = self.resolved + self.mispredict_penalty;
            self.front_end = self.front_end.max(self.redirect + self.fetch_delay);
        }
        self.fetch_delay = 0;
        let mut earliest = self.front_end.max(self.reorder_buffer.free_at(0));
        if instruction.operation == Operation::Serializing {
            earliest = earliest.max(self.retire.cycle);
        }
        let dispatch = self.dispatch.pass(earliest);
        // Whoever comes later is dispatched no earlier, and fetched no earlier than its fetch
        // queue allows.
        self.memory.horizon = self.fetch_queue.free_at(0);
        let [a, b, c, d] = instruction.sources.map(|source| self.registers[usize::from(source)]);
        let issue = dispatch.max(a).max(b).max(c).max(d);
        self.current.dispatch = dispatch;
        self.current.issue = issue;
        self.current.loaded = issue;
        self.current.stored = 0;
        self.current.loads = 0;
        self.current.stores.clear();
    }

    /// A load of the instruction in hand, translated by `steps` from entry `slot` of the
    /// first-level data TLB.
    #[inline]
    pub fn load(&mut self, address: PhysicalAddress, size: u16, slot: u32, steps: &Steps) {
        if self.current.loads < self.load_queue.entries() {
            let free = self.load_queue.free_at(self.current.loads);
            self.wait_for_queue(free);
            self.current.loads += 1;
        }
        let now = self.current.issue;
        let unit = Unit::L1DataTlb;
        let translated = self.translation.translate(&mut self.memory, unit, slot, steps, now);
        let address = address.value();
        let mut line = address >> LINE_SHIFT;
        let last = last_line(address, size);
        let mut done = self.memory.access(L1D, line, translated, false, Origin::Program).done;
        if let Some(data) = self.recent_stores.forward(address, translated) {
            self.statistics.forwarded_loads += 1;
            done = data + self.memory.latency(L1D);
        }
        while line < last {
            line += 1;
            let part = self.memory.access(L1D, line, translated, false, Origin::Program);
            done = done.max(part.done);
        }
        self.current.loaded = self.current.loaded.max(done);
        self.statistics.loads += 1;
        self.statistics.load_cycles += done - now;
        self.statistics.load_translation_cycles += translated - now;
    }

    /// A store of the instruction in hand, translated by `steps` from entry `slot` of the
    /// first-level data TLB. Its data are written after retirement.
    #[inline]
    pub fn store(&mut self, address: PhysicalAddress, size: u16, slot: u32, steps: &Steps) {
        if self.current.stores.len() < self.store_queue.entries() {
            let free = self.store_queue.free_at(self.current.stores.len());
            self.wait_for_queue(free);
        }
        let now = self.current.issue;
        let unit = Unit::L1DataTlb;
        let translated = self.translation.translate(&mut self.memory, unit, slot, steps, now);
        self.current.stored = self.current.stored.max(translated);
        let address = address.value();
        let last_line = last_line(address, size);
        self.current.stores.push(PendingStore { address, last_line });
        self.statistics.stores += 1;
    }

    /// Dispatch stops until a load- or store-queue entry is free.
    #[inline]
    fn wait_for_queue(&mut self, free: u64) {
        if free > self.current.dispatch {
            self.current.dispatch = free;
            self.dispatch.hold(free);
            self.current.issue = self.current.issue.max(free);
            self.current.loaded = self.current.loaded.max(free);
        }
    }

    /// Completes and retires the instruction in hand and resolves it if it is a branch.
    #[inline]
    pub fn finish(&mut self, instruction: &Instruction) {
        let in_load = self.current.loads > 0 && instruction.operation == Operation::Integer;
        let latency = if in_load { 0 } else { self.latencies[instruction.operation as usize] };
        let result = self.current.loaded + latency;
        for destination in instruction.destinations {
            self.registers[usize::from(destination)] = result;
        }
        self.registers[0] = 0; // "none"
        let retired = self.retire.pass(result.max(self.current.stored));
        self.reorder_buffer.push(retired);
        self.fetch_queue.push(self.current.dispatch);
        for _ in 0..self.current.loads {
            self.load_queue.push(retired);
        }
        if !self.current.stores.is_empty() {
            self.write_stores(result, retired);
        }
        if instruction.operation == Operation::Serializing {
            self.front_end = self.front_end.max(retired);
        }
        if instruction.branch != Branch::None {
            self.resolve(instruction, result);
        }
        self.statistics.instructions += 1;
    }

    /// Stores enter the cache in program order (x86-TSO), but their misses overlap.
    fn write_stores(&mut self, data_ready: u64, retired: u64) {
        for &PendingStore { address, last_line } in &self.current.stores {
            for line in address >> LINE_SHIFT..=last_line {
                let served = self.memory.access(L1D, line, retired, true, Origin::Program);
                self.last_store_written = self.last_store_written.max(served.done);
            }
            self.store_queue.push(self.last_store_written);
            self.recent_stores.push(address, data_ready, self.last_store_written);
        }
    }

    fn resolve(&mut self, instruction: &Instruction, resolved: u64) {
        self.resolved = resolved;
        if self.branches.branch(instruction) {
            self.redirect = resolved + self.mispredict_penalty;
            self.front_end = self.front_end.max(self.redirect);
        }
    }

    /// Ends warm-up: cycles and counters start from here, all state stays.
    pub fn start_measuring(&mut self) {
        self.statistics = CoreStatistics { origin: self.retire.cycle, ..Default::default() };
        self.translation.statistics = Default::default();
        self.memory.reset_statistics();
        self.branches.reset_statistics();
    }

    /// Retire time of the last instruction, in cycles since measuring began.
    pub fn cycles(&self) -> u64 {
        self.retire.cycle - self.statistics.origin
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
        crate::counters::branches(&self.branches, self.statistics.instructions, out);
        crate::counters::translation(&self.translation.statistics, out);
        crate::counters::memory(&self.memory, self.statistics.instructions, out);
    }
}

/// Line of the last byte accessed.
#[inline]
fn last_line(address: u64, size: u16) -> u64 {
    let within = address & (LINE_BYTES - 1);
    (address >> LINE_SHIFT) + ((within + u64::from(size.max(1)) - 1) >> LINE_SHIFT)
}
