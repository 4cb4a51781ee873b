//! Instructions from fetch to retirement.

use perforate_types::{Branch, Operation};

use super::front_end::Fetched;
use super::*;
use crate::agenda::{List, UNKNOWN};
use crate::config::CoreConfig;
use crate::critical_path::{Timeline, Times};
use crate::hierarchy::L1D;

/// One instruction.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    /// When the front end has it.
    available: u64,
    /// It is dispatched when all before it have retired.
    waits_for_retirement: bool,
    is_branch: bool,
    /// Its dispatch, and registers for its addresses, that are not known.
    missing_addresses: u8,
    /// Registers for its operation that are not known.
    missing_operands: u8,
    pub(super) dispatch: u64,
    /// When everything known of its addresses is there.
    pub(super) addresses: u64,
    /// When everything known of its operands is there.
    operands: u64,
    latency: u64,
    loads: u16,
    /// Loads that hit the first-level TLB and the L1D.
    quick_loads: u16,
    /// Loads that are not done.
    pub(super) unloaded: u16,
    /// Stores that are not translated.
    pub(super) untranslated: u16,
    stores: u16,
    /// Number of its first store.
    first_store: u64,
    /// Its first load or store that takes longer than a hit.
    pub(super) first_access: u32,
    /// When everything that is loaded so far is there.
    pub(super) loaded: u64,
    /// When the stores that are translated so far are.
    pub(super) stored: u64,
    /// When it is done.
    result: u64,
    /// Who reads what it writes.
    readers: List,
    sources: [u8; 4],
    /// Registers read that no address is made of, a bit each.
    data_sources: u8,
    destinations: [u8; 2],
    /// How far back the instructions lie that wrote its sources; 0 for none within reach.
    producers: [u16; 4],
    /// How far back the instruction lies whose store had to be written before the store queue had room
    /// for this one; 0 if there was room.
    store_queue_writer: u32,
}

/// What the last load and the last store of an instruction did when.
#[derive(Clone, Debug, Default)]
pub(super) struct Timelines {
    pub(super) load: Timeline,
    pub(super) store: Timeline,
}

/// The instructions between fetch and retirement, numbered in program order.
#[derive(Clone, Debug)]
pub(super) struct Window {
    entries: Vec<InFlight>,
    timelines: Vec<Timelines>,
    mask: u64,
    latencies: [u64; Operation::ALL.len()],
    /// Number of the oldest that has not retired.
    oldest: u64,
    /// Number of the oldest that is not dispatched.
    undispatched: u64,
    /// Number of the next that is handed over.
    next: u64,
}

impl Window {
    pub(super) fn new(core: &CoreConfig) -> Self {
        let mut latencies = [u64::from(core.integer_cycles); Operation::ALL.len()];
        latencies[Operation::Multiply as usize] = core.multiply_cycles.into();
        latencies[Operation::Divide as usize] = core.divide_cycles.into();
        latencies[Operation::Float as usize] = core.float_cycles.into();
        let held = core.reorder_buffer_entries + core.fetch_queue_entries + 1;
        let places = held.next_power_of_two() as usize;
        Self {
            entries: vec![InFlight::default(); places],
            timelines: vec![Timelines::default(); places],
            mask: places as u64 - 1,
            latencies,
            oldest: 0,
            undispatched: 0,
            next: 0,
        }
    }

    #[inline]
    fn slot(&self, number: u64) -> u32 {
        (number & self.mask) as u32
    }

    /// The place of the instruction in hand.
    #[inline]
    pub(super) fn current(&self) -> u32 {
        self.slot(self.next)
    }

    #[inline]
    pub(super) fn at(&mut self, slot: u32) -> &mut InFlight {
        &mut self.entries[slot as usize]
    }

    #[inline]
    pub(super) fn timelines(&mut self, slot: u32) -> &mut Timelines {
        &mut self.timelines[slot as usize]
    }

    #[inline]
    pub(super) fn clear_timelines(&mut self, slot: u32) {
        let Timelines { load, store } = self.timelines(slot);
        load.clear();
        store.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.oldest == self.next
    }

    /// Instructions handed over so far.
    pub(super) fn handed_over(&self) -> u64 {
        self.next
    }

    /// Instructions retired so far.
    pub(super) fn retired(&self) -> u64 {
        self.oldest
    }

    /// Whether the oldest instruction may retire.
    #[inline]
    pub(super) fn can_retire(&self) -> bool {
        let oldest = &self.entries[self.slot(self.oldest) as usize];
        self.oldest < self.undispatched && oldest.result != UNKNOWN && oldest.untranslated == 0
    }
}

impl InFlight {
    /// When it did what, once it has retired.
    #[inline]
    fn times(&self, retired: u64) -> Times {
        Times {
            available: self.available,
            dispatch: self.dispatch,
            addresses: self.addresses,
            operands: self.operands,
            loaded: self.loaded,
            stored: self.stored,
            result: self.result,
            retired,
            producers: self.producers,
            waited_for_retirement: self.waits_for_retirement,
            store_queue_writer: self.store_queue_writer,
            has_stores: self.stores > 0,
        }
    }

    /// A load that hits the first-level TLB and the L1D.
    #[inline]
    pub(super) fn add_quick_load(&mut self) {
        self.loads += 1;
        self.quick_loads += 1;
    }

    /// Another load.
    #[inline]
    pub(super) fn add_load(&mut self) {
        self.loads += 1;
        self.unloaded += 1;
    }

    /// Whether a store is its own, which reads nothing of what it writes.
    #[inline]
    pub(super) fn has_store(&self, number: u64) -> bool {
        self.stores > 0 && number >= self.first_store
    }

    #[inline]
    pub(super) fn add_store(&mut self, number: u64, is_translated: bool) {
        if self.stores == 0 {
            self.first_store = number;
        }
        self.stores += 1;
        self.untranslated += u16::from(!is_translated);
    }
}

impl Core {
    /// Hands over the next instruction: its accesses follow, then [`Core::finish`].
    #[inline]
    pub fn begin(&mut self, instruction: &Instruction) {
        let fetched = loop {
            match self.fetch_next(instruction) {
                Some(fetched) => break fetched,
                None => self.await_fetch(),
            }
        };
        self.take_in_hand(instruction, fetched);
    }

    #[inline]
    pub(super) fn take_in_hand(&mut self, instruction: &Instruction, fetched: Fetched) {
        let Fetched { available, waits_for_retirement } = fetched;
        let slot = self.window.current();
        let entry = &mut self.window.entries[slot as usize];
        entry.available = available;
        entry.waits_for_retirement = waits_for_retirement;
        entry.is_branch = instruction.branch != Branch::None;
        (entry.loads, entry.quick_loads, entry.unloaded) = (0, 0, 0);
        (entry.stores, entry.untranslated) = (0, 0);
        entry.first_access = accesses::NONE;
        (entry.loaded, entry.stored) = (0, 0);
        entry.result = UNKNOWN;
        entry.readers = List::default();
        entry.sources = instruction.sources;
        entry.data_sources = instruction.data_sources;
        entry.destinations = instruction.destinations;
    }

    /// The instruction in hand is complete: it has made all its accesses.
    #[inline]
    pub fn finish(&mut self, instruction: &Instruction) {
        self.complete_in_hand(instruction);
        // As long as dispatch waits for something, nothing follows from one more instruction.
        if self.may_dispatch {
            self.settle();
        }
    }

    #[inline]
    pub(super) fn complete_in_hand(&mut self, instruction: &Instruction) {
        let slot = self.window.current();
        let operation = instruction.operation;
        let latency = self.window.latencies[operation as usize];
        let entry = &mut self.window.entries[slot as usize];
        let in_load = entry.loads > 0 && operation == Operation::Integer;
        entry.latency = if in_load { 0 } else { latency };
        if entry.is_branch {
            let is_mispredicted = self.branches.branch(instruction);
            self.front_end.branch(self.window.next, UNKNOWN, is_mispredicted);
        }
        if self.window.undispatched == self.window.next {
            self.may_dispatch = true;
        }
        self.window.next += 1;
        self.statistics.instructions += 1;
    }

    /// Dispatches instructions in program order, as long as it is known when.
    #[inline(always)]
    pub(super) fn dispatch_instructions(&mut self) {
        while self.window.undispatched < self.window.next {
            let Some(time) = self.dispatch_time() else {
                self.may_dispatch = false;
                return;
            };
            let number = self.window.undispatched;
            let slot = self.window.slot(number);
            let entry = &mut self.window.entries[slot as usize];
            let (loads, stores) = (u64::from(entry.loads), u64::from(entry.stores));
            let dispatch = self.dispatch.pass(time);
            entry.dispatch = dispatch;
            self.window.undispatched += 1;
            self.front_end.queue.release(dispatch);
            self.reorder_buffer.take(1);
            self.load_queue.take(loads);
            self.store_queue.take(stores);
            let read = self.registers.read(number, entry.sources, entry.data_sources);
            entry.producers = read.producers;
            let is_plain = entry.first_access == accesses::NONE && stores == 0;
            if is_plain && read.unknown == 0 {
                self.pass(slot, number, read);
            } else {
                self.wait(slot, number, read);
                self.address_ready(slot, dispatch);
            }
        }
    }

    /// An instruction that waits for nothing unknown is dispatched: without accesses, or with loads
    /// that are hits. All its times follow.
    #[inline]
    fn pass(&mut self, slot: u32, number: u64, read: Read) {
        let entry = &mut self.window.entries[slot as usize];
        let addresses = read.addresses.max(entry.dispatch);
        let issue = addresses.max(read.operands);
        let mut loaded = 0;
        if entry.quick_loads > 0 {
            let latency = self.shared.memory.latency(L1D);
            loaded = addresses + latency;
            self.statistics.load_cycles += u64::from(entry.quick_loads) * latency;
        }
        let result = loaded.max(issue) + entry.latency;
        (entry.addresses, entry.operands) = (addresses, read.operands);
        (entry.loaded, entry.result) = (loaded, result);
        self.registers.write(number, slot, entry.destinations, result);
        self.scheduler.pass(issue, entry.dispatch);
        if entry.is_branch {
            self.front_end.resolve(number, result);
        }
    }

    /// An instruction that is to be dispatched will be told of all that it waits for.
    #[inline]
    fn wait(&mut self, slot: u32, number: u64, read: Read) {
        self.scheduler.take();
        let entry = &mut self.window.entries[slot as usize];
        (entry.addresses, entry.operands) = (read.addresses, read.operands);
        let of_operands = read.unknown & entry.data_sources;
        // Its dispatch is the first that it waits for.
        entry.missing_addresses = 1 + (read.unknown & !of_operands).count_ones() as u8;
        entry.missing_operands = of_operands.count_ones() as u8;
        let (sources, destinations) = (entry.sources, entry.destinations);
        for (place, source) in sources.into_iter().enumerate() {
            if read.unknown >> place & 1 == 0 {
                continue;
            }
            let is_operand = of_operands >> place & 1 != 0;
            let waiter = if is_operand { Waiter::Operand(slot) } else { Waiter::Address(slot) };
            let writer = self.registers.writer(source);
            let readers = &mut self.window.entries[writer as usize].readers;
            self.shared.waiters.add(readers, waiter, 0);
        }
        self.registers.write(number, slot, destinations, UNKNOWN);
    }

    /// When the next instruction is dispatched, if that is known.
    #[inline]
    fn dispatch_time(&mut self) -> Option<u64> {
        let number = self.window.undispatched;
        let entry = &mut self.window.entries[(number & self.window.mask) as usize];
        let mut time = entry.available.max(self.dispatch.cycle);
        if entry.waits_for_retirement {
            if self.window.oldest < number {
                return None;
            }
            time = time.max(self.retire.cycle);
        }
        time = time.max(self.reorder_buffer.free_at(1)?);
        if entry.loads > 0 {
            time = time.max(self.load_queue.free_at(entry.loads.into())?);
        }
        entry.store_queue_writer = 0;
        if entry.stores > 0 {
            let stores = entry.stores.into();
            let room = self.store_queue.free_at(stores)?;
            if room > time
                && let Some(store) = self.store_queue.awaited(stores)
            {
                let distance = number - self.stores.writer(store);
                entry.store_queue_writer = distance.try_into().unwrap_or(u32::MAX);
            }
            time = time.max(room);
        }
        match self.scheduler.free_at(time, self.shared.agenda.now) {
            Ok(free) => {
                if free > time {
                    entry.store_queue_writer = 0;
                }
                Some(free)
            }
            Err(again) => {
                if let Some(again) = again
                    && (self.dispatch_alarm <= self.shared.agenda.now
                        || again < self.dispatch_alarm)
                {
                    self.dispatch_alarm = again;
                    self.shared.agenda.schedule(again, Event::Dispatch);
                }
                None
            }
        }
    }

    /// Something that an instruction needs for its addresses is there at `time`.
    #[inline]
    pub(super) fn address_ready(&mut self, slot: u32, time: u64) {
        let entry = self.window.at(slot);
        entry.addresses = entry.addresses.max(time);
        entry.missing_addresses -= 1;
        if entry.missing_addresses > 0 {
            return;
        }
        if entry.quick_loads > 0 {
            let latency = self.shared.memory.latency(L1D);
            entry.loaded = entry.addresses + latency;
            self.statistics.load_cycles += u64::from(entry.quick_loads) * latency;
        }
        if entry.stores > 0 {
            entry.stored = entry.stored.max(entry.addresses);
        }
        if entry.first_access != accesses::NONE {
            let (first, time) = (entry.first_access, entry.addresses);
            self.start_accesses(first, time);
        }
        self.issue(slot);
    }

    /// Something that an instruction needs for its operation is there at `time`.
    pub(super) fn operand_ready(&mut self, slot: u32, time: u64) {
        let entry = self.window.at(slot);
        entry.operands = entry.operands.max(time);
        entry.missing_operands -= 1;
        self.issue(slot);
    }

    /// If an instruction has all that it reads from registers, it leaves the scheduler.
    #[inline]
    fn issue(&mut self, slot: u32) {
        let entry = &self.window.entries[slot as usize];
        if entry.missing_addresses == 0 && entry.missing_operands == 0 {
            self.scheduler.issue(entry.addresses.max(entry.operands), entry.dispatch);
            self.may_dispatch |= self.scheduler.is_limited();
            self.complete(slot);
        }
    }

    /// If an instruction has all that it needs, it is done after its latency.
    #[inline]
    pub(super) fn complete(&mut self, slot: u32) {
        let entry = &mut self.window.entries[slot as usize];
        let is_missing = entry.missing_addresses > 0 || entry.missing_operands > 0;
        if is_missing || entry.unloaded > 0 || entry.result != UNKNOWN {
            return;
        }
        let read = entry.addresses.max(entry.operands);
        let result = entry.loaded.max(read) + entry.latency;
        entry.result = result;
        self.registers.written(slot, entry.destinations, result);
        if !entry.readers.is_empty() {
            self.shared.agenda.tell_all(&mut self.shared.waiters, &mut entry.readers, result);
        }
        if entry.is_branch {
            let offset = u64::from(slot).wrapping_sub(self.window.oldest) & self.window.mask;
            self.front_end.resolve(self.window.oldest + offset, result);
        }
        for number in entry.first_store..entry.first_store + u64::from(entry.stores) {
            let store = self.stores.get(number).expect("it is not written before it retires");
            store.result = result;
            self.shared.agenda.tell_all(&mut self.shared.waiters, &mut store.readers, result);
        }
    }

    /// Retires instructions in program order, as long as it is known when.
    #[inline(always)]
    pub(super) fn retire_instructions(&mut self) {
        while self.window.can_retire() {
            let slot = self.window.slot(self.window.oldest);
            let entry = &self.window.entries[slot as usize];
            let (loads, stores, first_store) = (entry.loads, entry.stores, entry.first_store);
            let retired = self.retire.pass(entry.result.max(entry.stored));
            let timelines = (entry.first_access != accesses::NONE)
                .then(|| &self.window.timelines[slot as usize]);
            self.path.retire(entry.times(retired), timelines.map(|it| (&it.load, &it.store)));
            self.window.oldest += 1;
            self.reorder_buffer.release(retired);
            self.may_dispatch = true;
            for _ in 0..loads {
                self.load_queue.release(retired);
            }
            for number in first_store..first_store + u64::from(stores) {
                self.write_store(number, retired);
            }
            if self.origin_pending.is_some() {
                self.note_origin();
            }
        }
    }
}
