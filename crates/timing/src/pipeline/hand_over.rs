//! Instructions as they come, in program order.

use super::demands::{Demand, First, SERIALIZES, STOPS};
use super::front_end::{Code, Stop};
use super::instructions::{BATCH, Operands};
use super::*;
use crate::hierarchy::Origin;
use crate::ring::further_back;

impl Core {
    /// The code line of the next instruction, translated by `steps` from entry `slot` of the first-level
    /// instruction TLB. Called before [`Core::begin`], only where the line or page changes. A hit costs nothing;
    /// the front end stalls for the further time of a miss.
    pub fn fetch<'a>(
        &mut self,
        address: PhysicalAddress,
        slot: u32,
        steps: impl Into<StepLists<'a>>,
    ) {
        let now = self.shared.agenda.now;
        let memory = &mut self.shared.memory;
        let (fill, walk) = (memory.next_fill(), self.translation.next_walk());
        let place = (Unit::L1InstructionTlb, slot);
        let translated_by = self.translation.prepare(memory, place, steps.into(), now);
        let line = address.value() >> LINE_SHIFT;
        let (data, _) = memory.locate(self.levels.l1i, line, false, Origin::Program, now);
        // The front end need not stop at a line that is there: it has the instruction long before its dispatch.
        if !(self.comes_early && translated_by.is_here() && data.is_here()) {
            self.wanted = Some((Code { translated_by, data, line }, (fill, walk)));
        }
    }

    /// Hands over the next instruction: its accesses follow, then [`Core::finish`].
    #[inline]
    pub fn begin(&mut self, instruction: &Instruction) {
        self.announce(instruction);
        if !self.comes_early && !self.is_fetched() {
            self.may_retire = true;
            self.settle();
            while !self.is_fetched() {
                self.advance();
            }
        }
    }

    /// The next instruction is to be fetched.
    #[inline]
    pub(super) fn announce(&mut self, instruction: &Instruction) {
        let is_serializing = instruction.operation == Operation::Serializing;
        let front = &self.front_end;
        if is_serializing
            | self.after_serializing
            | front.is_mispredicted
            | front.has_stood_still
            | self.wanted.is_some()
            | self.branches.expects_a_target()
        {
            self.announce_after_stop(is_serializing, instruction.ip.value());
        }
    }

    /// The next instruction serializes or follows one that does, or the front end may have to stop before it.
    #[inline(never)]
    fn announce_after_stop(&mut self, is_serializing: bool, ip: u64) {
        self.in_hand.first = self.next_records();
        if is_serializing | std::mem::replace(&mut self.after_serializing, is_serializing) {
            self.in_hand.flags |= SERIALIZES;
        }
        let missed_target = self.branches.check_target(ip);
        let is_mispredicted = std::mem::take(&mut self.front_end.is_mispredicted) | missed_target;
        let has_stood_still = std::mem::take(&mut self.front_end.has_stood_still);
        if !(is_mispredicted | self.wanted.is_some() | has_stood_still) {
            return;
        }
        let code = self.wanted.take().map(|(code, first)| {
            (self.in_hand.first.fill, self.in_hand.first.walk) = first;
            code
        });
        self.in_hand.flags |= STOPS;
        let number = self.instructions.handed;
        self.front_end.stops.push_back(Stop { number, is_mispredicted, code });
    }

    /// True if the next instruction has been fetched.
    #[inline]
    pub(super) fn is_fetched(&self) -> bool {
        let Instructions { handed, next, fetch_queue, .. } = self.instructions;
        self.front_end.stops.is_empty() && handed - next < fetch_queue
    }

    /// The instruction in hand is complete: it has made all its accesses.
    #[inline]
    pub fn finish(&mut self, instruction: &Instruction) {
        let is_next = self.instructions.next == self.instructions.handed;
        self.complete_in_hand(instruction);
        if !self.comes_early {
            // Dispatch may have waited for nothing but instructions.
            self.may_dispatch |= is_next;
            // As long as dispatch waits for something, nothing follows from one more instruction.
            if self.may_dispatch {
                self.settle();
            }
            if self.instructions.handed.is_multiple_of(BATCH) {
                let floor = self.first_fill(self.shared.memory.next_fill());
                self.shared.memory.keep_fills_from(floor);
            }
        } else {
            let Instructions { handed, next, handed_early, .. } = self.instructions;
            if handed - next >= handed_early + BATCH {
                self.run(handed_early);
            }
        }
    }

    #[inline]
    pub(super) fn complete_in_hand(&mut self, instruction: &Instruction) {
        if instruction.branch != Branch::None {
            self.front_end.is_mispredicted = self.branches.branch(instruction);
        }
        let number = self.instructions.handed;
        self.instructions.entries[number].operands = Operands {
            sources: instruction.sources,
            destinations: instruction.destinations,
            data_sources: instruction.data_sources,
            operation: instruction.operation as u8,
        };
        if self.in_hand.is_demanding() {
            let demand = std::mem::take(&mut self.in_hand);
            self.demands.push(Demand { number, ..demand });
        }
        self.instructions.handed += 1;
        self.statistics.instructions += 1;
    }

    /// Lets time go on until no more than `waiting` of the instructions that have come are not dispatched.
    pub(super) fn run(&mut self, waiting: u64) {
        // The front end and dispatch may have waited for nothing but instructions.
        (self.may_retire, self.may_dispatch) = (true, true);
        self.settle();
        while self.instructions.handed - self.instructions.next > waiting {
            self.advance();
        }
        let floor = self.first_fill(self.shared.memory.next_fill());
        self.shared.memory.keep_fills_from(floor);
    }

    /// Records that come next.
    #[inline]
    pub(super) fn next_records(&self) -> First {
        First {
            fill: self.shared.memory.next_fill(),
            walk: self.translation.next_walk(),
            access: self.accesses.next(),
            further_line: self.accesses.next_further(),
        }
    }

    /// First records that an instruction in flight may refer to; the next records without one.
    pub(super) fn first_records(&self) -> First {
        if self.demands.is_empty() { self.next_records() } else { self.demands.oldest().first }
    }

    /// First fill that an instruction in flight, or a store that is not written, may refer to; `next` if there is
    /// none.
    pub(super) fn first_fill(&self, next: u32) -> u32 {
        let of_demands =
            if self.demands.is_empty() { next } else { self.demands.oldest().first.fill };
        let of_stores = self.stores.first_fill().unwrap_or(next);
        further_back(next, of_demands, of_stores)
    }

    /// Lets time go on until the instructions that are not dispatched fit into the fetch queue. Then times do not
    /// depend on how early instructions come.
    pub fn catch_up(&mut self) {
        if self.comes_early {
            self.run(self.instructions.fetch_queue);
        }
    }
}
