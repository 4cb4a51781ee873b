//! Dispatch: in program order, `width` instructions a cycle.

use super::demands::{Demand, SERIALIZES, STOPS, WAITS};
use super::instructions::{HITS, Operands, Reader, Register, SERIAL, STORES, WAITED, Waiting};
use super::*;

impl Core {
    /// Dispatches instructions in program order, as far as their dispatch cycles are known.
    pub(super) fn dispatch_instructions(&mut self) {
        while self.dispatch_plain() && self.instructions.next < self.instructions.handed {
            if !self.dispatch_demanding() {
                return;
            }
        }
    }

    /// Dispatches the instructions before the next demanding one; returns false if dispatch has to wait.
    fn dispatch_plain(&mut self) -> bool {
        let stop = self.instructions.handed.min(self.demands.next_number);
        while self.instructions.next < stop {
            let now = self.shared.agenda.now;
            let (scheduler, dispatch) = (&mut self.scheduler, &mut self.dispatch);
            match self.instructions.dispatch_plain(stop, (scheduler, dispatch), self.available, now)
            {
                Outcome::Done => {}
                Outcome::FullReorderBuffer => return false,
                Outcome::FullScheduler(again) => {
                    self.try_again(again);
                    return false;
                }
                Outcome::Waits(number, sources) => {
                    self.wait(number, self.dispatch.cycle, &Demand::default(), sources, 0);
                }
            }
        }
        true
    }

    /// Schedules another try of dispatch at cycle `again`, because the scheduler is full.
    #[cold]
    fn try_again(&mut self, again: Option<u64>) {
        if let Some(again) = again
            && (self.dispatch_alarm <= self.shared.agenda.now || again < self.dispatch_alarm)
        {
            self.dispatch_alarm = again;
            self.shared.agenda.schedule(again, Event::Dispatch);
        }
    }

    /// Dispatches an instruction with accesses or front-end stalls, or that serializes; returns false if it
    /// has to wait.
    fn dispatch_demanding(&mut self) -> bool {
        let Demand { flags, loads, stores, .. } = *self.demands.next();
        let instructions = &self.instructions;
        let number = instructions.next;
        if number >= instructions.oldest + instructions.reorder_buffer {
            return false;
        }
        let mut time = self.dispatch.cycle;
        if loads > 0 {
            let Some(room) = self.load_queue.free_at(loads.into()) else { return false };
            time = time.max(room);
        }
        let mut available = self.available;
        if flags & STOPS != 0 {
            let Some(over) = self.front_end.is_over(number) else { return false };
            available = over;
        }
        time = time.max(instructions.room(number)).max(available);
        if flags & SERIALIZES != 0 {
            if instructions.oldest < number {
                return false;
            }
            time = time.max(self.retire.cycle);
        }
        let mut store_queue_writer = 0;
        if stores > 0 {
            let Some(room) = self.store_queue.free_at(stores.into()) else { return false };
            if room > time
                && let Some(store) = self.store_queue.awaited(stores.into())
            {
                let distance = number - self.stores.writer(store as u32);
                store_queue_writer = distance.try_into().unwrap_or(u32::MAX);
                time = room;
            }
        }
        if self.scheduler.is_full() {
            match self.scheduler.free_at(time, self.shared.agenda.now) {
                Ok(free) => {
                    if free > time {
                        store_queue_writer = 0;
                    }
                    time = free;
                }
                Err(again) => {
                    self.try_again(again);
                    return false;
                }
            }
        }
        let dispatch = self.dispatch.pass(time);
        self.available = available;
        if flags & STOPS != 0 {
            self.front_end.pass_stop();
        }
        self.load_queue.take(loads.into());
        self.store_queue.take(stores.into());
        let demand = self.demands.dispatched();
        self.enter(number, dispatch, &demand, store_queue_writer);
        true
    }

    /// Enters a demanding instruction, dispatched at cycle `dispatch`, into the reorder buffer.
    /// `store_queue_writer`: distance back to the instruction whose store freed the store-queue entry that
    /// dispatch waited for; 0 without a wait.
    fn enter(&mut self, number: u64, dispatch: u64, demand: &Demand, store_queue_writer: u32) {
        let Instructions { entries, registers, next, .. } = &mut self.instructions;
        *next += 1;
        let entry = &mut entries[number];
        (entry.dispatched, entry.available) = (dispatch, self.available);
        entry.kind = if demand.flags & SERIALIZES != 0 { SERIAL } else { 0 };
        if demand.stores > 0 {
            entry.kind |= STORES;
        }
        let operands = entry.operands;
        let sources = operands.sources.map(|source| registers.at(source));
        entry.producers = sources.map(|source| source.writer);
        if demand.flags & WAITS != 0 {
            return self.wait(number, dispatch, demand, sources, store_queue_writer);
        }
        let (mut addresses, mut issue) = (dispatch, dispatch);
        for (place, source) in sources.iter().enumerate().take(operands.used_sources()) {
            issue = issue.max(source.ready);
            if operands.data_sources >> place & 1 == 0 {
                addresses = addresses.max(source.ready);
            }
        }
        if issue == UNKNOWN || store_queue_writer > 0 {
            return self.wait(number, dispatch, demand, sources, store_queue_writer);
        }
        // At most loads that are hits, and translated stores: all times are known.
        let mut done = issue;
        if demand.hits > 0 {
            entry.kind |= HITS;
            done = done.max(addresses + self.accesses.hit_cycles);
            self.statistics.load_cycles += u64::from(demand.hits) * self.accesses.hit_cycles;
        }
        let result = done + self.instructions.latency(operands, demand.loads > 0);
        self.scheduler.pass(issue, dispatch);
        self.instructions.entries[number].result = result;
        self.instructions.registers.write(number, operands.destinations, result);
        for store in 0..u32::from(demand.stores) {
            self.stores.at(demand.first_store.wrapping_add(store)).result = result;
        }
    }

    /// Notes what a dispatched instruction waits for: source registers that are not ready, and its accesses.
    fn wait(
        &mut self,
        number: u64,
        dispatch: u64,
        demand: &Demand,
        sources: [Register; 4],
        store_queue_writer: u32,
    ) {
        let instructions = &mut self.instructions;
        let entry = &mut instructions.entries[number];
        entry.kind |= WAITED;
        entry.result = UNKNOWN;
        let operands = entry.operands;
        instructions.registers.write(number, operands.destinations, UNKNOWN);
        let (mut addresses, mut known_operands) = (dispatch, 0);
        let (mut unknown, mut unknown_data) = (0_u8, 0_u8);
        for (place, source) in sources.iter().enumerate().take(operands.used_sources()) {
            let is_data = operands.data_sources >> place & 1;
            if source.ready == UNKNOWN {
                unknown |= 1 << place;
                unknown_data |= is_data << place;
            } else if is_data != 0 {
                known_operands = source.ready.max(known_operands);
            } else {
                addresses = source.ready.max(addresses);
            }
        }
        let missing_addresses = (unknown & !unknown_data).count_ones() as u8;
        instructions.waiting[number] = Waiting {
            addresses,
            operands: known_operands,
            first_access: demand.first_access,
            first_store: demand.first_store,
            store_queue_writer,
            latency: instructions.latency(operands, demand.loads > 0) as u32,
            hits: demand.hits,
            unloaded: demand.unloaded,
            untranslated: demand.untranslated,
            stores: demand.stores,
            missing_addresses,
            missing_operands: unknown_data.count_ones() as u8,
            ..Waiting::NEW
        };
        if unknown == 0 {
            self.scheduler.pass(addresses.max(known_operands), dispatch);
        } else {
            self.scheduler.take();
        }
        while unknown != 0 {
            let place = unknown.trailing_zeros() as usize;
            unknown &= unknown - 1;
            self.instructions.add_reader(sources[place & 3].writer, Reader::new(number, place));
        }
        if missing_addresses == 0 {
            // At dispatch unless a register comes later.
            self.addresses_known(number, addresses == dispatch);
        }
    }
}

/// Reason for which the dispatch loop over non-demanding instructions ends.
enum Outcome {
    Done,
    FullReorderBuffer,
    /// Scheduler full; dispatch is to be tried again at this cycle, if known.
    FullScheduler(Option<u64>),
    /// The instruction of this number was dispatched and waits for one of these registers.
    Waits(u64, [Register; 4]),
}

impl Instructions {
    /// Dispatches instructions before number `stop`, all of which need only registers, and computes their
    /// results where known.
    #[inline]
    fn dispatch_plain(
        &mut self,
        stop: u64,
        (scheduler, dispatch): (&mut Scheduler, &mut InOrder),
        available: u64,
        now: u64,
    ) -> Outcome {
        let end = stop.min(self.oldest + self.reorder_buffer);
        let mut outcome = if end < stop { Outcome::FullReorderBuffer } else { Outcome::Done };
        let (mut width, mut next) = (*dispatch, end);
        // Scheduler entries that are free for certain: each instruction takes one at most.
        let mut free = scheduler.free();
        for number in self.next..end {
            let mut time = self.room(number).max(available);
            if free == 0 {
                match scheduler.free_at(time.max(width.cycle), now) {
                    Ok(cycle) => time = cycle,
                    Err(again) => {
                        (outcome, next) = (Outcome::FullScheduler(again), number);
                        break;
                    }
                }
                free = scheduler.free();
            }
            free -= 1;
            let cycle = width.pass(time);
            let entry = &mut self.entries[number];
            (entry.dispatched, entry.available, entry.kind) = (cycle, available, 0);
            let Operands { sources, destinations, operation, .. } = entry.operands;
            let registers = &mut self.registers;
            let (one, two) = (registers.at(sources[0]), registers.at(sources[1]));
            let mut issue = cycle.max(one.ready).max(two.ready);
            entry.producers = [one.writer, two.writer, NONE, NONE];
            if sources[2] | sources[3] != 0 {
                let (three, four) = (registers.at(sources[2]), registers.at(sources[3]));
                issue = issue.max(three.ready).max(four.ready);
                (entry.producers[2], entry.producers[3]) = (three.writer, four.writer);
            }
            if issue == UNKNOWN {
                let sources = sources.map(|source| registers.at(source));
                (outcome, next) = (Outcome::Waits(number, sources), number + 1);
                break;
            }
            let result = issue + u64::from(self.latencies[usize::from(operation & 7)]);
            entry.result = result;
            registers.write(number, destinations, result);
            scheduler.pass(issue, cycle);
        }
        (self.next, *dispatch) = (next, width);
        outcome
    }

    /// Cycle from which the reorder buffer has room for instruction `number`. Before the first instructions
    /// the lane is empty: there was room at time 0.
    #[inline(always)]
    fn room(&self, number: u64) -> u64 {
        self.entries[number.wrapping_sub(self.reorder_buffer)].retired
    }

    /// Latency of an operation, in cycles; 0 for integer work on a loaded operand, which counts as part of
    /// the load.
    #[inline]
    fn latency(&self, operands: Operands, loads: bool) -> u64 {
        let in_load = loads && operands.operation == Operation::Integer as u8;
        if in_load { 0 } else { self.latencies[usize::from(operands.operation & 7)].into() }
    }

    /// Adds an operand to the list of operands that wait for the result of instruction `writer`.
    fn add_reader(&mut self, writer: u32, reader: Reader) {
        let writer = u64::from(writer);
        let last = std::mem::replace(&mut self.waiting[writer].last_reader, reader);
        if last == Reader::NONE {
            self.waiting[writer].first_reader = reader;
        } else {
            self.waiting[last.number()].next_readers[last.source()] = reader;
        }
    }
}
