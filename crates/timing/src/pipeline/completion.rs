//! Issue, completion and retirement.

use super::instructions::{Reader, Waiting};
use super::*;

impl Core {
    /// Starts the accesses of an instruction whose address operands are all known; `at_dispatch` if they were
    /// ready when it was dispatched.
    #[inline(always)]
    pub(super) fn addresses_known(&mut self, number: u64, at_dispatch: bool) {
        let waiting = &mut self.instructions.waiting[number];
        let (time, first_access) = (waiting.addresses, waiting.first_access);
        if waiting.hits > 0 {
            waiting.loaded = time + self.accesses.hit_cycles;
            self.statistics.load_cycles += u64::from(waiting.hits) * self.accesses.hit_cycles;
        }
        if waiting.stores > 0 {
            waiting.stored = time;
        }
        if first_access != NONE {
            self.start_accesses(first_access, time, at_dispatch);
            self.complete(number);
        } else if waiting.missing_operands == 0 {
            self.has_everything(number);
        }
    }

    /// Notes that a source register of a waiting instruction is ready at cycle `time`; issues the instruction
    /// with the last of them.
    pub(super) fn source_ready(&mut self, reader: Reader, time: u64) {
        let number = self.instructions.in_flight(reader.number());
        let data_sources = self.instructions.entries[number].operands.data_sources;
        let is_data = data_sources >> reader.source() & 1 != 0;
        let waiting = &mut self.instructions.waiting[number];
        if is_data {
            waiting.operands = waiting.operands.max(time);
            waiting.missing_operands -= 1;
        } else {
            waiting.addresses = waiting.addresses.max(time);
            waiting.missing_addresses -= 1;
        }
        let has_addresses = waiting.missing_addresses == 0;
        let has_operands = has_addresses && waiting.missing_operands == 0;
        let is_loaded = waiting.unloaded == 0;
        if has_operands {
            let issue = waiting.addresses.max(waiting.operands);
            self.scheduler.issue(issue, self.instructions.entries[number].dispatched);
            self.may_dispatch |= self.scheduler.is_limited();
        }
        if has_addresses && !is_data {
            self.addresses_known(number, false);
        } else if has_operands && is_loaded {
            self.has_everything(number);
        }
    }

    /// Completes an instruction if its operands and loads are all known and it has not completed yet.
    #[inline(always)]
    pub(super) fn complete(&mut self, number: u64) {
        let waiting = &self.instructions.waiting[number];
        let missing = waiting.missing_addresses | waiting.missing_operands;
        if missing == 0
            && waiting.unloaded == 0
            && self.instructions.entries[number].result == UNKNOWN
        {
            self.has_everything(number);
        }
    }

    /// Computes the result cycle of an instruction whose operands and loads are known, and wakes the
    /// instructions and loads that wait for the result.
    #[inline(never)]
    fn has_everything(&mut self, number: u64) {
        let Waiting {
            addresses, operands, loaded, latency, first_reader, stores, first_store, ..
        } = self.instructions.waiting[number];
        let result = loaded.max(addresses).max(operands) + u64::from(latency);
        self.instructions.complete(number, result);
        self.note_done(number);
        self.comes_for_wrong_path(number);
        let mut reader = first_reader;
        while reader != Reader::NONE {
            self.woken.push((reader, result));
            reader = self.instructions.waiting[reader.number()].next_readers[reader.source()];
        }
        for store in 0..u32::from(stores) {
            let store = self.stores.at(first_store.wrapping_add(store));
            store.result = result;
            self.shared.agenda.tell_all(&mut store.readers, result);
        }
    }

    /// Notes that the result of instruction `number`, or the translation of its stores, has become known. Retirement
    /// is tried again if it is the oldest instruction, or if the front end waits.
    #[inline]
    pub(super) fn note_done(&mut self, number: u64) {
        self.may_retire |= number == self.instructions.oldest || !self.front_end.stops.is_empty();
    }

    /// Retires instructions in program order, as far as their retire cycles are known.
    #[inline]
    pub(super) fn retire_instructions(&mut self) {
        loop {
            let stop = self.instructions.next.min(self.boundary);
            while self.instructions.oldest < stop {
                if !self.retire_instruction(self.instructions.oldest) {
                    return;
                }
            }
            if self.instructions.oldest < self.boundary {
                return;
            }
            self.reach_boundary();
        }
    }

    /// Retires an instruction; returns false if its retire cycle is not known yet.
    #[inline(always)]
    fn retire_instruction(&mut self, number: u64) -> bool {
        let entry = &mut self.instructions.entries[number];
        if entry.result == UNKNOWN {
            return false;
        }
        if number == self.demands.oldest_number {
            return self.retire_demanding(number);
        }
        entry.retired = self.retire.pass(entry.result);
        self.instructions.oldest += 1;
        true
    }

    /// Retires an instruction with loads, stores or front-end stalls, whose result is known, and starts its
    /// writes; returns false if its retire cycle is not known yet.
    fn retire_demanding(&mut self, number: u64) -> bool {
        let instructions = &mut self.instructions;
        let mut result = instructions.entries[number].result;
        let demand = *self.demands.oldest();
        if demand.stores > 0 && instructions.entries[number].kind & WAITED != 0 {
            let waiting = &instructions.waiting[number];
            if waiting.untranslated > 0 {
                return false;
            }
            result = result.max(waiting.stored);
        }
        let retired = self.retire.pass(result);
        instructions.entries[number].retired = retired;
        instructions.oldest += 1;
        self.demands.retired();
        for _ in 0..demand.loads {
            self.load_queue.release(retired);
        }
        for store in 0..u32::from(demand.stores) {
            self.write_store(demand.first_store.wrapping_add(store), retired);
        }
        true
    }
}
