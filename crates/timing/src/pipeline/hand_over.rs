//! Entry of instructions into the core model, in program order: the caller hands over one after the other.

use super::demands::{Demand, First, SERIALIZES, STOPS};
use super::front_end::{Code, StallPoint};
use super::instructions::{BATCH, Operands};
use super::*;
use crate::hierarchy::Origin;

impl Core {
    /// Adds the fetch of the next instruction's code line; call before [`Core::begin`], only where line or
    /// page changes. `steps` translate its address after a miss in the first-level instruction TLB; without
    /// steps, it hits entry `slot`. The front end stalls for the latency beyond that of a hit.
    pub fn fetch<'a>(
        &mut self,
        address: PhysicalAddress,
        slot: u32,
        steps: impl Into<StepLists<'a>>,
    ) {
        let now = self.shared.agenda.now;
        let memory = &mut self.shared.memory;
        let place = (Unit::L1InstructionTlb, slot);
        let translated_by = self.translation.prepare(memory, place, steps.into(), now);
        let line = address.value() >> LINE_SHIFT;
        let (data, _) = memory.locate(self.levels.l1i, line, false, Origin::Program, now);
        // The front end need not stop at a line that is there: it has the instruction long before its dispatch.
        if !(self.comes_early && translated_by.is_here() && data.is_here()) {
            self.wanted = Some(Code { translated_by, data, line });
            self.front_end.may_stop = true;
        }
    }

    /// Begins the next instruction of the program. Calls for its loads and stores follow, then
    /// [`Core::finish`].
    #[inline]
    pub fn begin(&mut self, instruction: &Instruction) {
        self.announce(instruction);
        if !self.comes_early && !self.takes_more() {
            self.may_retire = true;
            self.settle();
            self.advance(Until::Fetched);
        }
    }

    /// Notes whether the front end may stall before the next instruction, and whether that instruction
    /// serializes.
    #[inline]
    pub(super) fn announce(&mut self, instruction: &Instruction) {
        let is_serializing = instruction.operation == Operation::Serializing;
        if is_serializing | self.front_end.may_stop {
            self.announce_after_stop(is_serializing, instruction.ip.value());
        }
    }

    /// Marks the next instruction as serializing if it or the one before is, and adds a [`StallPoint`] (possible
    /// stall) if its code line, a mispredicted branch or an interruption may delay it.
    #[inline(never)]
    fn announce_after_stop(&mut self, is_serializing: bool, ip: u64) {
        self.front_end.may_stop = is_serializing;
        if is_serializing | std::mem::replace(&mut self.after_serializing, is_serializing) {
            self.in_hand.flags |= SERIALIZES;
        }
        let missed_target = self.branches.check_target(ip);
        let is_mispredicted = std::mem::take(&mut self.front_end.is_mispredicted) | missed_target;
        let has_stood_still = std::mem::take(&mut self.front_end.has_stood_still);
        if !(is_mispredicted | self.wanted.is_some() | has_stood_still) {
            return;
        }
        self.in_hand.flags |= STOPS;
        let (number, code) = (self.instructions.handed, self.wanted.take());
        self.front_end.stops.push_back(StallPoint { number, is_mispredicted, code });
    }

    /// True if the front end has no pending stall and the fetch queue has room, so that the next instruction
    /// can be accepted.
    #[inline]
    pub(super) fn is_fetched(&self) -> bool {
        let Instructions { handed, next, fetch_queue, .. } = self.instructions;
        self.front_end.stops.is_empty() && handed - next < fetch_queue
    }

    /// True if the next instruction can be accepted: it is fetched, or lies on a wrong path that is followed.
    #[inline]
    pub(super) fn takes_more(&self) -> bool {
        self.is_fetched() || self.follows_wrong_path()
    }

    /// Ends the instruction that [`Core::begin`] began, when all its accesses have been added.
    #[inline(always)]
    pub fn finish(&mut self, instruction: &Instruction) {
        self.complete_in_hand(instruction);
        if self.instructions.handed >= self.pauses_at {
            self.pause();
        }
    }

    /// Begins a new batch after every [`BATCH`] instructions, and simulates events once the instructions handed over
    /// suffice for that ([`Self::runs_from`]).
    #[inline(never)]
    fn pause(&mut self) {
        let handed = self.instructions.handed;
        if handed.is_multiple_of(BATCH) {
            self.begin_batch();
        }
        if handed >= self.runs_from {
            self.let_time_go_on();
        }
        self.pauses_at = self.runs_from.min((handed + 1).next_multiple_of(BATCH));
    }

    /// Simulates events, as far as the instructions handed over so far determine them.
    fn let_time_go_on(&mut self) {
        if self.comes_early {
            return self.run(self.instructions.handed_early);
        }
        self.look_ahead();
        // Dispatch may have stopped only because no instruction had been handed over.
        self.may_dispatch |= self.instructions.next + 1 == self.instructions.handed;
        // While dispatch is blocked, one more instruction in the queue changes nothing.
        if self.may_dispatch {
            self.settle();
        }
        if self.instructions.handed.is_multiple_of(BATCH) {
            self.let_fills_go();
        }
    }

    /// Finds the oldest fill that an instruction in flight may refer to, and lets the ring buffer overwrite
    /// older ones.
    fn let_fills_go(&mut self) {
        let first = self.first_records().fill;
        self.shared.memory.keep_fills_from(first);
    }

    #[inline(always)]
    pub(super) fn complete_in_hand(&mut self, instruction: &Instruction) {
        if instruction.branch != Branch::None {
            let front = &mut self.front_end;
            front.is_mispredicted = self.branches.branch(instruction);
            front.may_stop |= front.is_mispredicted | self.branches.expects_a_target();
        }
        let number = self.instructions.handed;
        self.instructions.entries[number].operands = Operands {
            sources: instruction.sources,
            destinations: instruction.destinations,
            data_sources: instruction.data_sources,
            operation: instruction.operation as u8,
        };
        if self.in_hand.is_demanding() {
            self.add_demand();
        }
        self.instructions.handed += 1;
        self.statistics.instructions += 1;
    }

    #[inline(always)]
    fn add_demand(&mut self) {
        let demand = std::mem::take(&mut self.in_hand);
        self.demands.push(Demand { number: self.instructions.handed, ..demand });
    }

    /// Notes the numbers of the next fill, walk, access and line: instructions from here on refer to no older
    /// ones.
    pub(super) fn begin_batch(&mut self) {
        let first = First {
            fill: self.shared.memory.next_fill(),
            walk: self.translation.next_walk(),
            access: self.accesses.next(),
            further_line: self.accesses.next_further(),
        };
        self.batches.push_back((self.instructions.handed, first));
    }

    /// Oldest fill, walk, access and line that an instruction in flight, or a store not yet in the cache, may
    /// refer to.
    pub(super) fn first_records(&mut self) -> First {
        let of_stores = self.stores.oldest_writer().unwrap_or(UNKNOWN);
        let oldest = self.instructions.oldest.min(of_stores);
        while self.batches.get(1).is_some_and(|batch| batch.0 <= oldest) {
            self.batches.pop_front();
        }
        self.batches[0].1
    }

    /// Simulates until at most `waiting` of the instructions handed over are still to be dispatched.
    pub(super) fn run(&mut self, waiting: u64) {
        // The front end and dispatch may have waited for nothing but instructions.
        (self.may_retire, self.may_dispatch) = (true, true);
        self.settle();
        self.advance(Until::Waiting(waiting));
        self.let_fills_go();
        let Instructions { next, handed_early, .. } = self.instructions;
        self.runs_from = next + handed_early + BATCH;
    }

    /// Simulates until the instructions still to be dispatched fit into the fetch queue. From there on,
    /// cycles do not depend on how early instructions are handed over.
    pub fn catch_up(&mut self) {
        if self.comes_early {
            self.run(self.instructions.fetch_queue);
        }
    }
}
