//! Instruction addresses and destination registers of a traced program. Each source line that calls the
//! tracer has its own.

use std::collections::HashMap;
use std::panic::Location;

use perforate_types::Register;

use crate::body::{CODE_START, INSTRUCTION_BYTES};

/// First of the registers that instructions of source lines write. Each source line gets its own register;
/// after the last register, assignment starts over.
const FIRST_REGISTER: u32 = 8;
const REGISTERS: u32 = 256 - FIRST_REGISTER;
/// Number of entries in the direct-mapped cache of source lines.
const RECENT: usize = 1 << 13;

/// Part of what a source line owns: 0 for the line's own instructions; k + 1 for copy k of the code that the
/// line calls; [`ALIGNED`].
type Part = usize;
/// [`Part`] that records that the code after a source line has been aligned.
const ALIGNED: Part = 63;
/// Size of an instruction-cache line in bytes.
const CACHE_LINE_BYTES: u64 = 64;

/// Result of a look-up by source line: the addresses and register of the line's instructions, or the copy of
/// the code that the line calls.
#[derive(Clone, Copy, Default)]
pub(super) struct Site {
    /// Address of the line's first instruction; for a called copy, the number of the copy.
    pub(super) address: u64,
    /// Register that the line's instructions write.
    pub(super) register: Register,
}

/// Source lines of a traced program that have run, with the places of their instructions.
///
/// The program can have several copies of its code: on request, a function has a separate copy for each
/// line that calls it, as if a compiler inlined the function.
pub(super) struct Code {
    next_address: u64,
    /// Length of an instruction in bytes; 0 if code is omitted and all addresses are equal.
    instruction_bytes: u64,
    /// Number of the copy of the code that runs; the first is 0.
    copy: usize,
    copies: u64,
    /// Assigned sites, by the copy of the code that contains the line, [`Part`], and file, line and column of
    /// the source line.
    known: HashMap<(usize, Part, &'static str, u32, u32), Site>,
    /// Direct-mapped cache of `known`. The key combines the address of a line's [`Location`] with the copy
    /// and part.
    recent: Box<[(usize, Site); RECENT]>,
}

impl Code {
    pub(super) fn new() -> Self {
        let recent = vec![(0, Site::default()); RECENT].into_boxed_slice();
        Self {
            next_address: CODE_START,
            instruction_bytes: u64::from(INSTRUCTION_BYTES),
            copy: 0,
            copies: 0,
            known: HashMap::new(),
            recent: recent.try_into().unwrap_or_else(|_| unreachable!("as long as it was made")),
        }
    }

    /// Gives all instructions the address 0, so that no instruction is fetched.
    pub(super) fn leave_out(&mut self) {
        *self = Self { next_address: 0, instruction_bytes: 0, ..Self::new() };
    }

    /// Returns the addresses and the register of a source line that makes `count` instructions. Assigns them
    /// at the first call.
    #[inline(always)]
    pub(super) fn site(&mut self, line: &'static Location<'static>, count: u32) -> Site {
        self.find(line, 0, count)
    }

    /// Address of the instruction after the one at `address`.
    #[inline(always)]
    pub(super) fn after(&self, address: u64) -> u64 {
        address + self.instruction_bytes
    }

    /// Aligns the code that first runs after this source line to a cache line.
    #[inline(always)]
    pub(super) fn align(&mut self, line: &'static Location<'static>) {
        self.find(line, ALIGNED, 0);
    }

    /// Switches to the copy of the code that a source line calls; `number` distinguishes several copies for
    /// one line. Returns the previous copy.
    #[inline(always)]
    pub(super) fn enter(&mut self, line: &'static Location<'static>, number: usize) -> usize {
        let outer = self.copy;
        self.copy = self.find(line, number + 1, 0).address as usize;
        outer
    }

    /// Switches back to the copy `outer` of the code.
    #[inline(always)]
    pub(super) fn leave_to(&mut self, outer: usize) {
        self.copy = outer;
    }

    #[inline(always)]
    fn find(&mut self, line: &'static Location<'static>, part: Part, count: u32) -> Site {
        // File, line and column are compile-time constants, so this takes a few instructions.
        let of_file = 61 * line.file().len();
        let of_line = (16 * line.line() + line.column() / 8) as usize;
        let place = (of_file + of_line + 509 * self.copy + 1021 * part) % RECENT;
        let key = std::ptr::from_ref(line) as usize ^ self.copy << 48 ^ part << 58;
        match self.recent[place] {
            (found, site) if found == key => site,
            _ => self.look_up(line, part, count, (place, key)),
        }
    }

    #[cold]
    #[inline(never)]
    fn look_up(
        &mut self,
        line: &'static Location<'static>,
        part: Part,
        count: u32,
        (place, key): (usize, usize),
    ) -> Site {
        let name = (self.copy, part, line.file(), line.line(), line.column());
        let number = self.known.len() as u32;
        let site = *self.known.entry(name).or_insert_with(|| {
            if part == ALIGNED {
                self.next_address = self.next_address.next_multiple_of(CACHE_LINE_BYTES);
                return Site::default();
            }
            if part > 0 {
                self.copies += 1;
                return Site { address: self.copies, register: 0 };
            }
            let register = (FIRST_REGISTER + number % REGISTERS) as Register;
            let address = self.next_address;
            self.next_address += u64::from(count) * self.instruction_bytes;
            Site { address, register }
        });
        self.recent[place] = (key, site);
        site
    }
}
