//! Addresses of a program's instructions.

use std::collections::HashMap;
use std::panic::Location;

use crate::synthetic::{CODE_START, INSTRUCTION_BYTES};

/// Lines that are found without hashing.
const RECENT: usize = 1 << 14;

/// The lines of a program that have run, each with the address of its first instruction.
pub(super) struct Code {
    next: u64,
    /// Bytes of an instruction; 0 where the code is left out, and all addresses are the same.
    instruction_bytes: u64,
    /// Lines by file, line and column.
    known: HashMap<(&'static str, u32, u32), u64>,
    /// The same by where their [`Location`] lies, as far as there is room.
    recent: [(usize, u64); RECENT],
}

impl Code {
    pub(super) fn new() -> Self {
        Self {
            next: CODE_START,
            instruction_bytes: u64::from(INSTRUCTION_BYTES),
            known: HashMap::new(),
            recent: [(0, 0); RECENT],
        }
    }

    /// Leaves the addresses of all instructions out.
    pub(super) fn leave_out(&mut self) {
        *self = Self { next: 0, instruction_bytes: 0, ..Self::new() };
    }

    /// Address of the first of the `count` instructions of a line.
    #[inline(always)]
    pub(super) fn address(&mut self, line: &'static Location<'static>, count: u32) -> u64 {
        // Compilers know line and column, so that this is a comparison and two moves.
        let of_file = 61 * line.file().len();
        let place = (of_file + (16 * line.line() + line.column() / 8) as usize) % RECENT;
        match self.recent[place] {
            (found, address) if found == std::ptr::from_ref(line) as usize => address,
            _ => self.look_up(line, count, place),
        }
    }

    /// Address of the instruction after one.
    #[inline]
    pub(super) fn after(&self, address: u64) -> u64 {
        address + self.instruction_bytes
    }

    #[cold]
    #[inline(never)]
    fn look_up(&mut self, line: &'static Location<'static>, count: u32, place: usize) -> u64 {
        let key = (line.file(), line.line(), line.column());
        let address = *self.known.entry(key).or_insert_with(|| {
            let address = self.next;
            self.next += u64::from(count) * self.instruction_bytes;
            address
        });
        self.recent[place] = (std::ptr::from_ref(line) as usize, address);
        address
    }
}
