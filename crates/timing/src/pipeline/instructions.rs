//! Instructions from hand-over until the critical path has passed them, in lanes by number.

use super::*;
use crate::config::CoreConfig;
use crate::ring::Lane;

/// Instructions that are handed over between two runs of the clock.
pub(crate) const BATCH: u64 = 64;

/// Registers that an instruction reads and writes, and its operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Operands {
    pub(crate) sources: [u8; 4],
    pub(crate) destinations: [u8; 2],
    /// Sources that no address is made of, a bit each.
    pub(crate) data_sources: u8,
    /// Index of the [`Operation`](perforate_types::Operation).
    pub(crate) operation: u8,
}

impl Operands {
    /// Number of sources without unused ones at the end, rounded up: few instructions have more than two.
    #[inline]
    pub(super) fn used_sources(self) -> usize {
        if self.sources[2] | self.sources[3] == 0 { 2 } else { 4 }
    }
}

/// Has a record in [`Instructions::waiting`].
pub(crate) const WAITED: u8 = 1;
/// Has loads that hit the first-level TLB and the L1D.
pub(crate) const HITS: u8 = 2;
/// Is dispatched when all before it have retired.
pub(crate) const SERIAL: u8 = 4;
/// Has stores, whose data are there with its result.
pub(crate) const STORES: u8 = 8;

/// Operands and times of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Time of the dispatch.
    pub(crate) dispatched: u64,
    /// Time from which the front end had it.
    pub(crate) available: u64,
    /// Time of the result, or [`UNKNOWN`].
    pub(crate) result: u64,
    /// Time of the retirement.
    pub(crate) retired: u64,
    /// Writers of the sources, as in [`Register::writer`].
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

/// Instruction that waits for registers or accesses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// Latest time of dispatch and the known registers for addresses.
    pub(crate) addresses: u64,
    /// Latest time of the known registers for the operation; 0 without any.
    pub(crate) operands: u64,
    /// End of the loads so far; 0 without loads.
    pub(crate) loaded: u64,
    /// Translation of the stores so far; 0 without stores.
    pub(crate) stored: u64,
    /// The access that `loaded` is the end of, if it is more than a hit.
    pub(crate) load: u32,
    /// The access that `stored` is the translation of, if it is more than a hit.
    pub(crate) store: u32,
    /// Last of its accesses that may be more than a hit; each links to the one before.
    pub(crate) first_access: u32,
    pub(crate) first_store: u32,
    /// First reader of its result: instruction and source, see [`Reader`].
    pub(crate) first_reader: Reader,
    pub(crate) last_reader: Reader,
    /// For each source the next reader of the same result.
    pub(crate) next_readers: [Reader; 4],
    /// Distance to the instruction whose store made room in the store queue; 0 without a wait for room.
    pub(crate) store_queue_writer: u32,
    pub(crate) latency: u32,
    /// Loads that hit the first-level TLB and the L1D.
    pub(crate) hits: u16,
    /// Loads that are not done.
    pub(crate) unloaded: u16,
    /// Stores that are not translated.
    pub(crate) untranslated: u16,
    pub(crate) stores: u16,
    /// Registers for addresses that are not known.
    pub(crate) missing_addresses: u8,
    /// Registers for the operation that are not known.
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

/// Bits of a [`Reader`] for its source: one more than needed, so that no source is [`Reader::NONE`].
const SOURCE_BITS: u32 = 3;

/// A source of an instruction: low bits of the instruction's number, and index of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reader(u32);

impl Reader {
    pub(crate) const NONE: Self = Self(NONE);

    #[inline]
    pub(crate) fn new(number: u64, source: usize) -> Self {
        Self((number as u32) << SOURCE_BITS | source as u32)
    }

    /// Low bits of the instruction's number, enough for a lane.
    #[inline]
    pub(crate) fn number(self) -> u64 {
        u64::from(self.0 >> SOURCE_BITS)
    }

    #[inline]
    pub(crate) fn source(self) -> usize {
        (self.0 & 3) as usize
    }
}

/// Value of a register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register {
    /// Time from which it is there, or [`UNKNOWN`].
    pub(crate) ready: u64,
    /// Low bits of the number of the instruction that writes it.
    pub(crate) writer: u32,
}

impl Register {
    /// Register that nothing has written.
    pub(crate) const START: Self = Self { ready: 0, writer: NONE };
}

/// The latest instructions, and the registers through which they wait for each other.
#[derive(Clone, Debug)]
pub(crate) struct Instructions {
    pub(crate) entries: Lane<Entry>,
    pub(crate) waiting: Lane<Waiting>,
    pub(crate) registers: [Register; 256],
    /// Latency of each operation.
    pub(crate) latencies: [u32; 8],
    pub(crate) reorder_buffer: u64,
    pub(crate) fetch_queue: u64,
    /// Instructions that are handed over and not dispatched while time goes on, at least.
    pub(crate) handed_early: u64,
    /// Number of the next that is handed over.
    pub(crate) handed: u64,
    /// Number of the next that is dispatched.
    pub(crate) next: u64,
    /// Number of the next that retires.
    pub(crate) oldest: u64,
}

impl Instructions {
    pub(crate) fn new(core: &CoreConfig) -> Self {
        let [reorder_buffer, fetch_queue] =
            [core.reorder_buffer_entries, core.fetch_queue_entries].map(u64::from);
        // Before it is dispatched, an instruction may have to be fetched: time does not go on without as many
        // instructions as the fetch queue holds.
        let handed_early = fetch_queue.max(BATCH);
        // On the critical path, in the reorder buffer, not dispatched.
        let kept = TRACED + reorder_buffer + handed_early + BATCH + 1;
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
            registers: [Register::START; 256],
            latencies,
            reorder_buffer,
            fetch_queue,
            handed_early,
            handed: 0,
            next: 0,
            oldest: 0,
        }
    }

    /// Time of an instruction's dispatch, if it is known.
    #[inline]
    pub(crate) fn dispatch_of(&self, number: u64) -> Option<u64> {
        (number < self.next).then(|| self.entries[number].dispatched)
    }

    /// Time of an instruction's result, if it is known.
    #[inline]
    pub(crate) fn result_of(&self, number: u64) -> Option<u64> {
        let result = self.entries[number].result;
        (number < self.next && result != UNKNOWN).then_some(result)
    }

    /// Time from which the fetch queue has room for an instruction, if that is known.
    #[inline]
    pub(crate) fn fetch_room(&self, number: u64) -> Option<u64> {
        match number.checked_sub(self.fetch_queue) {
            Some(before) => self.dispatch_of(before),
            None => Some(0),
        }
    }

    /// The result of an instruction is there at `time`. Registers written by another since are left alone.
    #[inline]
    pub(crate) fn complete(&mut self, number: u64, time: u64) {
        let entry = &mut self.entries[number];
        entry.result = time;
        for destination in entry.operands.destinations {
            let register = &mut self.registers[usize::from(destination)];
            if register.writer == number as u32 && register.ready == UNKNOWN {
                register.ready = time;
            }
        }
    }

    /// Number of the instruction in flight with these low bits.
    #[inline]
    pub(crate) fn in_flight(&self, low_bits: u64) -> u64 {
        const MASK: u64 = (1 << (u32::BITS - SOURCE_BITS)) - 1;
        self.oldest + (low_bits.wrapping_sub(self.oldest) & MASK)
    }
}

/// An instruction writes its destinations, which are there at `ready`.
#[inline(always)]
pub(super) fn write(
    registers: &mut [Register; 256],
    number: u64,
    destinations: [u8; 2],
    ready: u64,
) {
    let register = Register { ready, writer: number as u32 };
    registers[usize::from(destinations[0])] = register;
    registers[usize::from(destinations[1])] = register;
    registers[0] = Register::START;
}
