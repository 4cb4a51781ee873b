//! The code of a program: what lies behind the lines that call the tracer.

use std::collections::HashMap;
use std::panic::Location;

use perforate_types::Register;

use crate::synthetic::{CODE_START, INSTRUCTION_BYTES};

/// The first of the registers that lines write, each its own until there are no more.
const FIRST_REGISTER: u32 = 8;
const REGISTERS: u32 = 256 - FIRST_REGISTER;
/// Lines that are found without hashing.
const RECENT: usize = 1 << 13;

/// Which copy of a line is meant, and whether it is instructions or a copy of the code: 0 for
/// instructions, the copy's number among those of the line from 1 on.
type Which = usize;
/// Neither: the code behind the line is aligned.
const ALIGNED: Which = 63;
/// Bytes of a line of the instruction cache.
const CACHE_LINE_BYTES: u64 = 64;

/// What lies behind a line: its instructions, or a copy of the code.
#[derive(Clone, Copy, Default)]
pub(super) struct Site {
    /// Address of the first instruction; number of the copy.
    pub(super) address: u64,
    /// What the instruction writes.
    pub(super) register: Register,
}

/// The lines of a program that have run.
///
/// The program can have several copies of its code: a function that is called from one line has one
/// of its own if it asks for it, as where a compiler inlines it.
pub(super) struct Code {
    next_address: u64,
    /// Bytes of an instruction; 0 where the code is left out, and all addresses are the same.
    instruction_bytes: u64,
    /// The copy that runs, and how many there are besides the first.
    copy: usize,
    copies: u64,
    /// Lines by copy, which, file, line and column.
    known: HashMap<(usize, Which, &'static str, u32, u32), Site>,
    /// The same by where lines' [`Location`]s lie, as far as there is room.
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

    /// Leaves the addresses of all instructions out.
    pub(super) fn leave_out(&mut self) {
        *self = Self { next_address: 0, instruction_bytes: 0, ..Self::new() };
    }

    /// The `count` instructions of a line.
    #[inline(always)]
    pub(super) fn site(&mut self, line: &'static Location<'static>, count: u32) -> Site {
        self.find(line, 0, count)
    }

    /// Address of the instruction after one.
    #[inline(always)]
    pub(super) fn after(&self, address: u64) -> u64 {
        address + self.instruction_bytes
    }

    /// Has the code that runs first after this line begin on a line of the cache.
    #[inline(always)]
    pub(super) fn align(&mut self, line: &'static Location<'static>) {
        self.find(line, ALIGNED, 0);
    }

    /// Goes on in the copy of the code that is called from a line; `number` tells copies of one line
    /// apart. Returns the copy that ran.
    #[inline(always)]
    pub(super) fn enter(&mut self, line: &'static Location<'static>, number: usize) -> usize {
        let outer = self.copy;
        self.copy = self.find(line, number + 1, 0).address as usize;
        outer
    }

    /// Goes back to a copy.
    #[inline(always)]
    pub(super) fn leave_to(&mut self, outer: usize) {
        self.copy = outer;
    }

    #[inline(always)]
    fn find(&mut self, line: &'static Location<'static>, which: Which, count: u32) -> Site {
        // Compilers know file, line and column, so that this is a few instructions.
        let of_file = 61 * line.file().len();
        let of_line = (16 * line.line() + line.column() / 8) as usize;
        let place = (of_file + of_line + 509 * self.copy + 1021 * which) % RECENT;
        let key = std::ptr::from_ref(line) as usize ^ self.copy << 48 ^ which << 58;
        match self.recent[place] {
            (found, site) if found == key => site,
            _ => self.look_up(line, which, count, (place, key)),
        }
    }

    #[cold]
    #[inline(never)]
    fn look_up(
        &mut self,
        line: &'static Location<'static>,
        which: Which,
        count: u32,
        (place, key): (usize, usize),
    ) -> Site {
        let name = (self.copy, which, line.file(), line.line(), line.column());
        let number = self.known.len() as u32;
        let site = *self.known.entry(name).or_insert_with(|| {
            if which == ALIGNED {
                self.next_address = self.next_address.next_multiple_of(CACHE_LINE_BYTES);
                return Site::default();
            }
            if which > 0 {
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
