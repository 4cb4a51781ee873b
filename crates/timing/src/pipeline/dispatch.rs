//! Dispatch: in program order, `width` instructions a cycle.

use super::demands::{Demand, SERIALIZES, STOPS, WAITS};
use super::instructions::{HITS, Operands, Reader, SERIAL, STORES, WAITED, Waiting};
use super::*;

impl Core {
    /// Dispatches instructions in program order, as far as their dispatch cycles are known.
    pub(super) fn dispatch_instructions(&mut self) {
        let Instructions { handed, oldest, reorder_buffer, .. } = self.instructions;
        let end = handed.min(oldest + reorder_buffer);
        while self.instructions.next < end {
            let number = self.instructions.next;
            let is_dispatched = if number == self.demands.next_number {
                self.dispatch_demanding(number)
            } else {
                self.dispatch_plain(number)
            };
            if !is_dispatched {
                return;
            }
        }
    }

    /// Dispatches an instruction that needs only registers, and computes its result if that is known; returns
    /// false if it has to wait for an entry of the scheduler.
    #[inline(always)]
    fn dispatch_plain(&mut self, number: u64) -> bool {
        let available = self.available;
        let mut time = self.instructions.room(number).max(available);
        if self.scheduler.is_full() {
            let earliest = time.max(self.dispatch.cycle);
            let Some(free) = self.scheduler_room(earliest) else { return false };
            time = free;
        }
        let cycle = self.dispatch.pass(time);
        let Instructions { entries, registers, latencies, next, .. } = &mut self.instructions;
        *next += 1;
        let entry = &mut entries[number];
        (entry.dispatched, entry.available, entry.kind) = (cycle, available, 0);
        let Operands { sources, destinations, operation, .. } = entry.operands;
        let (one, two) = (registers.at(sources[0]), registers.at(sources[1]));
        let mut issue = cycle.max(one.ready).max(two.ready);
        entry.producers = [one.writer, two.writer, NONE, NONE];
        if sources[2] | sources[3] != 0 {
            let (three, four) = (registers.at(sources[2]), registers.at(sources[3]));
            issue = issue.max(three.ready).max(four.ready);
            (entry.producers[2], entry.producers[3]) = (three.writer, four.writer);
        }
        if issue == UNKNOWN {
            self.wait(number, cycle, &Demand::NONE, 0);
            return true;
        }
        let result = issue + u64::from(latencies[usize::from(operation & 7)]);
        entry.result = result;
        registers.write(number, destinations, result);
        self.scheduler.pass(issue, cycle);
        true
    }

    /// First cycle from `time` on at which the scheduler has a free entry. `None` if that is not known yet; then
    /// dispatch is tried again later.
    #[inline(never)]
    fn scheduler_room(&mut self, time: u64) -> Option<u64> {
        let now = self.shared.agenda.now;
        match self.scheduler.free_at(time, now) {
            Ok(free) => return Some(free),
            Err(Some(again)) if self.dispatch_alarm <= now || again < self.dispatch_alarm => {
                self.dispatch_alarm = again;
                self.shared.agenda.schedule(again, Event::Dispatch);
            }
            Err(_) => {}
        }
        None
    }

    /// Dispatches an instruction with accesses or front-end stalls, or that serializes; returns false if it
    /// has to wait.
    #[inline(always)]
    fn dispatch_demanding(&mut self, number: u64) -> bool {
        let Demand { flags, loads, stores, .. } = *self.demands.next();
        let instructions = &self.instructions;
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
            let Some(free) = self.scheduler_room(time) else { return false };
            if free > time {
                store_queue_writer = 0;
            }
            time = free;
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
            return self.wait(number, dispatch, demand, store_queue_writer);
        }
        let (mut addresses, mut issue) = (dispatch, dispatch);
        for (place, source) in sources.iter().enumerate().take(operands.used_sources()) {
            issue = issue.max(source.ready);
            if operands.data_sources >> place & 1 == 0 {
                addresses = addresses.max(source.ready);
            }
        }
        if issue == UNKNOWN || store_queue_writer > 0 {
            return self.wait(number, dispatch, demand, store_queue_writer);
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
    fn wait(&mut self, number: u64, dispatch: u64, demand: &Demand, store_queue_writer: u32) {
        let instructions = &mut self.instructions;
        let entry = &mut instructions.entries[number];
        entry.kind |= WAITED;
        entry.result = UNKNOWN;
        let (operands, producers) = (entry.operands, entry.producers);
        let (mut addresses, mut known_operands) = (dispatch, 0);
        let (mut unknown, mut unknown_data) = (0_u8, 0_u8);
        let ready = operands.sources.map(|source| instructions.registers.at(source).ready);
        for (place, &ready) in ready.iter().enumerate().take(operands.used_sources()) {
            let is_data = operands.data_sources >> place & 1;
            if ready == UNKNOWN {
                unknown |= 1 << place;
                unknown_data |= is_data << place;
            } else if is_data != 0 {
                known_operands = ready.max(known_operands);
            } else {
                addresses = ready.max(addresses);
            }
        }
        instructions.registers.write(number, operands.destinations, UNKNOWN);
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
            self.instructions.add_reader(producers[place & 3], Reader::new(number, place));
        }
        if missing_addresses == 0 {
            // At dispatch unless a register comes later.
            self.addresses_known(number, addresses == dispatch);
        }
    }
}

impl Instructions {
    /// Cycle from which the reorder buffer has room for instruction `number`. Before the first instructions
    /// the lane is empty: there was room at time 0.
    #[inline(always)]
    fn room(&self, number: u64) -> u64 {
        self.entries[number.wrapping_sub(self.reorder_buffer)].retired
    }

    /// Latency of an operation, in cycles; 0 for integer work on a loaded operand, which counts as part of
    /// the load.
    #[inline]
    pub(super) fn latency(&self, operands: Operands, loads: bool) -> u64 {
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
