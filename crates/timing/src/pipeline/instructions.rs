//! The latest instructions, in arrays indexed by instruction number: from the time when the caller hands them
//! over until the critical path through them has been charged.

use super::*;
use crate::config::CoreConfig;
use crate::ring::Lane;

/// Instructions that the caller hands over before the simulator handles events again.
pub(crate) const BATCH: u64 = 64;

/// Source and destination registers of an instruction, and its operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Operands {
    pub(crate) sources: [u8; 4],
    pub(crate) destinations: [u8; 2],
    /// Bit *n* is set if source *n* is data only, not part of an address.
    pub(crate) data_sources: u8,
    /// Index of the [`Operation`](perforate_types::Operation).
    pub(crate) operation: u8,
}

impl Operands {
    /// Number of sources without unused ones at the end, rounded up: few instructions have more than two.
    #[inline]
    pub(crate) fn used_sources(self) -> usize {
        if self.sources[2] | self.sources[3] == 0 { 2 } else { 4 }
    }
}

/// Flag: the instruction waited for registers or accesses, and has an element in [`Instructions::waiting`].
pub(crate) const WAITED: u8 = 1;
/// Flag: the instruction has loads that hit the first-level TLB and the L1D.
pub(crate) const HITS: u8 = 2;
/// Flag: the instruction was dispatched only when all before it had retired.
pub(crate) const SERIAL: u8 = 4;
/// Flag: the instruction has stores.
pub(crate) const STORES: u8 = 8;

/// Operands of an instruction, and the cycles at which it passed through the pipeline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Cycle at which the instruction is dispatched.
    pub(crate) dispatched: u64,
    /// Cycle from which the front end can deliver the instruction to dispatch.
    pub(crate) available: u64,
    /// Cycle at which the result is available, or [`UNKNOWN`].
    pub(crate) result: u64,
    /// Cycle at which the instruction retires.
    pub(crate) retired: u64,
    /// For each source, low bits of the number of the instruction that wrote the register, as in
    /// [`Register::writer`].
    pub(crate) producers: [u32; 4],
    pub(crate) operands: Operands,
    /// Flags: [`WAITED`], [`HITS`], [`SERIAL`], [`STORES`].
    pub(crate) kind: u8,
}

impl Entry {
    const NEW: Self = Self {
        dispatched: 0,
        available: 0,
        result: 0,
        retired: 0,
        producers: [NONE; 4],
        operands: Operands { sources: [0; 4], destinations: [0; 2], data_sources: 0, operation: 0 },
        kind: 0,
    };
}

/// Details of a dispatched instruction that waits for registers or accesses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// Cycle at which the last of the address operands known so far is ready; not before dispatch.
    pub(crate) addresses: u64,
    /// Cycle at which the last of the data operands known so far is ready; 0 if there are none.
    pub(crate) operands: u64,
    /// Cycle at which the last of the loads completed so far has its data; 0 if there are none.
    pub(crate) loaded: u64,
    /// Cycle at which the last of the stores translated so far has its address; 0 if there are none.
    pub(crate) stored: u64,
    /// Number of the load that completed at `loaded`; [`NONE`] for one that hit the first-level TLB and the
    /// L1D.
    pub(crate) load: u32,
    /// Number of the store that was translated at `stored`; [`NONE`] for one that hit the first-level TLB.
    pub(crate) store: u32,
    /// Head of the list of its accesses that may miss: the one made last. Each links to the one before.
    pub(crate) first_access: u32,
    pub(crate) first_store: u32,
    /// Head of the list of operands that wait for its result, see [`Reader`].
    pub(crate) first_reader: Reader,
    pub(crate) last_reader: Reader,
    /// For each of its source registers, the next operand in the list of operands that wait for that result.
    pub(crate) next_readers: [Reader; 4],
    /// Distance back to the instruction whose store freed the store-queue entry that dispatch waited for; 0
    /// without a wait.
    pub(crate) store_queue_writer: u32,
    pub(crate) latency: u32,
    /// Number of loads that hit the first-level TLB and the L1D.
    pub(crate) hits: u16,
    /// Number of loads that have not completed.
    pub(crate) unloaded: u16,
    /// Number of stores that are still to be translated.
    pub(crate) untranslated: u16,
    pub(crate) stores: u16,
    /// Number of address operands whose ready cycle is not known.
    pub(crate) missing_addresses: u8,
    /// Number of data operands whose ready cycle is not known.
    pub(crate) missing_operands: u8,
}

impl Waiting {
    pub(crate) const NEW: Self = Self {
        addresses: 0,
        operands: 0,
        loaded: 0,
        stored: 0,
        load: NONE,
        store: NONE,
        first_access: NONE,
        first_store: 0,
        first_reader: Reader::NONE,
        last_reader: Reader::NONE,
        next_readers: [Reader::NONE; 4],
        store_queue_writer: 0,
        latency: 0,
        hits: 0,
        unloaded: 0,
        untranslated: 0,
        stores: 0,
        missing_addresses: 0,
        missing_operands: 0,
    };
}

/// Bits of a [`Reader`] for the index of the source: one more than needed, so that no valid value equals
/// [`Reader::NONE`].
const SOURCE_BITS: u32 = 3;

/// Source operand of an instruction that waits for a result: low bits of the instruction's number, and index
/// of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reader(u32);

impl Reader {
    pub(crate) const NONE: Self = Self(NONE);

    #[inline]
    pub(crate) fn new(number: u64, source: usize) -> Self {
        Self((number as u32) << SOURCE_BITS | source as u32)
    }

    /// Low bits of the instruction's number, enough to index the arrays of instructions.
    #[inline]
    pub(crate) fn number(self) -> u64 {
        u64::from(self.0 >> SOURCE_BITS)
    }

    #[inline]
    pub(crate) fn source(self) -> usize {
        (self.0 & 3) as usize
    }
}

/// Ready cycle of an architectural register, and the instruction that wrote it last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Register {
    /// Cycle from which the value is available, or [`UNKNOWN`].
    pub(crate) ready: u64,
    /// Low bits of the number of the instruction that writes the value.
    pub(crate) writer: u32,
}

/// The architectural registers. Register 0 stands for none: its value is available from the start.
#[derive(Clone, Debug)]
pub(crate) struct Registers {
    ready: [u64; 256],
    writers: [u32; 256],
}

impl Registers {
    /// Registers that no instruction has written: their values are available from the start.
    pub(super) fn new() -> Self {
        Self { ready: [0; 256], writers: [NONE; 256] }
    }

    #[inline(always)]
    pub(super) fn at(&self, register: u8) -> Register {
        let register = usize::from(register);
        Register { ready: self.ready[register], writer: self.writers[register] }
    }

    /// Makes instruction `number` the writer of its destination registers, available from cycle `ready` on.
    #[inline(always)]
    pub(super) fn write(&mut self, number: u64, destinations: [u8; 2], ready: u64) {
        for destination in destinations.map(usize::from) {
            (self.ready[destination], self.writers[destination]) = (ready, number as u32);
        }
        (self.ready[0], self.writers[0]) = (0, NONE);
    }

    /// Sets the ready cycle of the destination registers of instruction `number` that no younger instruction
    /// has overwritten.
    #[inline]
    fn complete(&mut self, number: u64, destinations: [u8; 2], ready: u64) {
        for destination in destinations.map(usize::from) {
            if self.writers[destination] == number as u32 && self.ready[destination] == UNKNOWN {
                self.ready[destination] = ready;
            }
        }
    }
}

/// The latest instructions in program order, and the architectural registers.
#[derive(Clone, Debug)]
pub(crate) struct Instructions {
    pub(crate) entries: Lane<Entry>,
    pub(crate) waiting: Lane<Waiting>,
    pub(crate) registers: Registers,
    /// Latency in cycles, by index of the [`Operation`].
    pub(crate) latencies: [u32; 8],
    pub(crate) reorder_buffer: u64,
    pub(crate) fetch_queue: u64,
    /// Instructions that must have been handed over and not dispatched, at least, before the simulator
    /// handles events.
    pub(crate) handed_early: u64,
    /// Number of the next instruction to be handed over.
    pub(crate) handed: u64,
    /// Number of the next instruction to be dispatched.
    pub(crate) next: u64,
    /// Number of the next instruction to retire.
    pub(crate) oldest: u64,
}

impl Instructions {
    pub(crate) fn new(core: &CoreConfig, follows_wrong_path: bool) -> Self {
        let [reorder_buffer, fetch_queue] =
            [core.reorder_buffer_entries, core.fetch_queue_entries].map(u64::from);
        // Before it is dispatched, an instruction may have to be fetched: time does not go on without as many
        // instructions as the fetch queue holds.
        let handed_early = fetch_queue.max(BATCH);
        let on_wrong_path = if follows_wrong_path { reorder_buffer } else { 0 };
        // Those that the critical path may still lead through, those in the reorder buffer, and those before dispatch.
        let kept = TRACED + reorder_buffer + handed_early.max(on_wrong_path) + BATCH + 1;
        let length = kept.next_power_of_two() as usize;
        assert!(
            length <= 1 << (u32::BITS - SOURCE_BITS),
            "a reader names instructions of one lane"
        );
        let mut latencies = [core.integer_cycles; 8];
        latencies[Operation::Multiply as usize] = core.multiply_cycles;
        latencies[Operation::Divide as usize] = core.divide_cycles;
        latencies[Operation::Float as usize] = core.float_cycles;
        Self {
            entries: Lane::new(length, Entry::NEW),
            waiting: Lane::new(length, Waiting::NEW),
            registers: Registers::new(),
            latencies,
            reorder_buffer,
            fetch_queue,
            handed_early,
            handed: 0,
            next: 0,
            oldest: 0,
        }
    }

    /// Cycle of an instruction's dispatch, if known.
    #[inline]
    pub(crate) fn dispatch_of(&self, number: u64) -> Option<u64> {
        (number < self.next).then(|| self.entries[number].dispatched)
    }

    /// Cycle at which an instruction's result is available, if known.
    #[inline]
    pub(crate) fn result_of(&self, number: u64) -> Option<u64> {
        let result = self.entries[number].result;
        (number < self.next && result != UNKNOWN).then_some(result)
    }

    /// Cycle from which the fetch queue has room for instruction `number`, if known.
    #[inline]
    pub(crate) fn fetch_room(&self, number: u64) -> Option<u64> {
        match number.checked_sub(self.fetch_queue) {
            Some(before) => self.dispatch_of(before),
            None => Some(0),
        }
    }

    /// Sets the result cycle of an instruction, and the ready cycle of the destination registers that no
    /// younger instruction has overwritten.
    #[inline]
    pub(crate) fn complete(&mut self, number: u64, time: u64) {
        let entry = &mut self.entries[number];
        entry.result = time;
        self.registers.complete(number, entry.operands.destinations, time);
    }

    /// Full number of the instruction in flight whose number has these low bits.
    #[inline]
    pub(crate) fn in_flight(&self, low_bits: u64) -> u64 {
        const MASK: u64 = (1 << (u32::BITS - SOURCE_BITS)) - 1;
        self.oldest + (low_bits.wrapping_sub(self.oldest) & MASK)
    }
}
