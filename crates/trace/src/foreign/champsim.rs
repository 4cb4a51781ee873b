//! Reader of ChampSim traces: one record per instruction, little-endian. Byte offsets by format:
//!
//! | champsim | cloudsuite | field |
//! |---|---|---|
//! | 0–7 | 0–7 | address of the instruction |
//! | 8, 9 | 8, 9 | is a branch, is taken: 0 or 1 |
//! | 10–11 | 10–13 | registers written, 0 for none |
//! | 12–15 | 14–17 | registers read |
//! | 16–31 | 24–55 | addresses written, 0 for none |
//! | 32–63 | 56–87 | addresses read |
//! | | 88–89 | address space |
//!
//! The kind of a branch follows from the special registers that it reads and writes, by ChampSim's
//! rules. The instruction pointer is then removed from the registers, because it would make every
//! branch depend on the previous one. ChampSim's numbers of special registers are swapped with
//! Perforate's.

use perforate_types::{
    AccessKind, Branch, Chunk, FLAGS, INSTRUCTION_POINTER, Instruction, MemoryAccess, Register,
    STACK_POINTER, VirtualAddress,
};

use super::foreign_source::{Format, Input, NO_EVENTS, SwitchTracker};
use super::formats::TraceFormat;
use crate::format::header::field;
use crate::source::Truncation;
use crate::{SourceMetadata, TraceError};

/// ChampSim's and Perforate's numbers of the stack pointer, the flags and the instruction pointer.
const SPECIAL: [(Register, Register); 3] =
    [(6, STACK_POINTER), (25, FLAGS), (26, INSTRUCTION_POINTER)];
/// Placeholder for the unknown target register of an indirect jump or call: Perforate's ChampSim writer lists
/// it as a register read, and the reader removes it. No instruction lists it as a register written.
pub(super) const UNKNOWN_TARGET: Register = 255;
/// Assumed size of every access in bytes, because ChampSim records no sizes.
const ASSUMED_SIZE_BYTES: u16 = 8;

/// Translates a register number from ChampSim's numbering to Perforate's, or back.
pub(super) const fn exchange(register: Register) -> Register {
    let mut index = 0;
    while index < SPECIAL.len() {
        let (theirs, ours) = SPECIAL[index];
        if register == theirs {
            return ours;
        } else if register == ours {
            return theirs;
        }
        index += 1;
    }
    register
}

/// Bit for the stack pointer in a set of register classes. The classes of the registers that a branch reads
/// and writes determine its kind.
const STACK: u8 = 1;
const FLAG: u8 = 2;
const POINTER: u8 = 4;
const OTHER: u8 = 8;

/// Table from ChampSim's register numbers to Perforate's number (low byte) and class (high byte: `STACK`,
/// `FLAG`, `POINTER` or `OTHER`).
const REGISTERS: [u16; 256] = {
    let mut registers = [0; 256];
    let mut theirs = 0;
    while theirs < 256 {
        let ours = exchange(theirs as u8);
        let mark = match ours {
            0 => 0,
            STACK_POINTER => STACK,
            FLAGS => FLAG,
            INSTRUCTION_POINTER => POINTER,
            _ => OTHER,
        };
        registers[theirs] = u16::from_be_bytes([mark, ours]);
        theirs += 1;
    }
    registers
};

/// Translates ChampSim's register numbers to Perforate's. Also returns the union of their classes.
#[inline]
fn registers(theirs: [u8; 4]) -> ([Register; 4], u8) {
    let found = theirs.map(|register| REGISTERS[usize::from(register)]);
    let all = found.into_iter().fold(0, |all, one| all | one);
    (found.map(|register| register as Register), (all >> 8) as u8)
}

/// Byte offsets of the fields in a record of a ChampSim format.
#[derive(Clone, Copy)]
struct Layout {
    bytes: usize,
    /// Offset of the four registers read. The registers written begin at byte 10 and end at this offset.
    registers_read: usize,
    addresses_written: usize,
    addresses_read: usize,
    address_space: Option<usize>,
}

const CHAMPSIM: Layout = Layout {
    bytes: 64,
    registers_read: 12,
    addresses_written: 16,
    addresses_read: 32,
    address_space: None,
};
const CLOUDSUITE: Layout = Layout {
    bytes: 96,
    registers_read: 14,
    addresses_written: 24,
    addresses_read: 56,
    address_space: Some(88),
};

impl Layout {
    const fn of(format: TraceFormat) -> Self {
        match format {
            TraceFormat::CloudSuite => CLOUDSUITE,
            _ => CHAMPSIM,
        }
    }

    /// Rates how well a file can be read as records of this layout. `sample` is the beginning of the file;
    /// `length` its size in bytes, if known.
    fn fit(&self, sample: &[u8], length: Option<u64>) -> Fit {
        let records: Vec<&[u8]> = sample.chunks_exact(self.bytes).collect();
        let wrong_flag = records.iter().enumerate().find_map(|(number, record)| {
            let place = [8, 9].into_iter().find(|&place| record[place] > 1)?;
            Some((number * self.bytes + place, record[place]))
        });
        let (mut pairs, mut in_order) = (0, 0);
        for pair in records.windows(2).filter(|pair| pair[0][8] == 0) {
            let [from, to] = [word(pair[0], 0), word(pair[1], 0)];
            pairs += 1;
            in_order += usize::from(from != 0 && to.wrapping_sub(from) <= 15);
        }
        let is_whole = length.is_none_or(|bytes| bytes % self.bytes as u64 == 0);
        Fit { wrong_flag, in_order: in_order * 1000 / pairs.max(1), is_whole }
    }
}

/// Measures of how plausible it is that a file's content has records of one length.
struct Fit {
    /// Byte offset and value of the first branch flag that is neither 0 nor 1.
    wrong_flag: Option<(usize, u8)>,
    /// Share of instructions other than branches whose successor in the file is also the next in memory, in
    /// thousandths.
    in_order: usize,
    /// True if the file consists of whole records. A file that was cut off does not.
    is_whole: bool,
}

/// Detects which of ChampSim's formats a file has, from its beginning and its length in bytes, if
/// known. `Err` has the reason if it has neither.
pub(super) fn detect_format(sample: &[u8], length: Option<u64>) -> Result<TraceFormat, String> {
    let fit = |format| (format, Layout::of(format).fit(sample, length));
    let (champsim, cloudsuite) = (fit(TraceFormat::ChampSim), fit(TraceFormat::CloudSuite));
    // Round to fiftieths: a few pairs are consecutive by accident.
    let rank = |fit: &Fit| (fit.in_order / 20, fit.wrong_flag.is_none(), fit.is_whole);
    let (a, b) = (rank(&champsim.1), rank(&cloudsuite.1));
    let (format, fit) = if a >= b { champsim } else { cloudsuite };
    match fit.wrong_flag {
        Some((offset, flag)) => Err(format!(
            "data of an unknown format (byte {offset} is {flag}; in a ChampSim trace it is 0 or 1)"
        )),
        None if a == b => Err("records of 64 or of 96 bytes, which the content does not tell; \
                               write champsim:FILE or cloudsuite:FILE"
            .to_owned()),
        None => Ok(format),
    }
}

/// Reader of a ChampSim trace in one of ChampSim's formats.
pub(super) struct ChampSim {
    format: TraceFormat,
    layout: Layout,
    input: Input,
    instructions: Option<u64>,
    buffer: Vec<u8>,
    running: SwitchTracker,
}

impl ChampSim {
    /// Reads records from `input`, whose total (uncompressed) length is `known_bytes`, if known.
    pub(super) fn new(
        format: TraceFormat,
        input: Input,
        known_bytes: Option<u64>,
    ) -> Result<Self, TraceError> {
        let layout = Layout::of(format);
        let instructions = known_bytes.map(|bytes| bytes / layout.bytes as u64);
        let running = SwitchTracker::default();
        let source = Self { format, layout, input, instructions, buffer: Vec::new(), running };
        match known_bytes {
            Some(bytes) => source.check_length(bytes).map(|()| source),
            None => Ok(source),
        }
    }

    fn check_length(&self, bytes: u64) -> Result<(), TraceError> {
        let record = self.layout.bytes as u64;
        let rest = bytes % record;
        if rest == 0 {
            return Ok(());
        }
        let problem = format!("the ChampSim trace ends {rest} bytes into a record");
        Err(self.input.damaged(bytes - rest, problem, &format!("whole records of {record} bytes")))
    }

    /// Switches to the address space that record `number` of the buffer names, if the format has such names;
    /// `chunk` gets the event. `Err` if there are too many address spaces.
    fn switch(&mut self, number: usize, chunk: &mut Chunk) -> Result<(), ()> {
        let Some(place) = self.layout.address_space else { return Ok(()) };
        let place = number * self.layout.bytes + place;
        let process = u16::from_le_bytes([self.buffer[place], self.buffer[place + 1]]);
        if let Some(event) = self.running.switch(process.into(), 0)? {
            chunk.push_event(event);
        }
        Ok(())
    }
}

impl Format for ChampSim {
    fn metadata(&self) -> SourceMetadata {
        let mut assumptions = vec![
            format!("access sizes are not recorded; {ASSUMED_SIZE_BYTES} bytes assumed"),
            "operations are not recorded; all counted as integer".to_owned(),
            crate::source::ALL_MAKE_ADDRESSES.to_owned(),
            NO_EVENTS.to_owned(),
        ];
        if self.format == TraceFormat::CloudSuite {
            assumptions.push(
                "address spaces are taken for processes; of four registers written two are kept"
                    .to_owned(),
            );
        }
        SourceMetadata {
            format: self.format.name(),
            instructions: self.instructions,
            has_dependencies: true,
            has_branches: true,
            assumptions,
            ..SourceMetadata::default()
        }
    }

    fn fill(
        &mut self,
        chunk: &mut Chunk,
        at_most: usize,
    ) -> Result<Option<Truncation>, TraceError> {
        let start = self.input.offset;
        let record_bytes = self.layout.bytes;
        self.buffer.resize(at_most * record_bytes, 0);
        let bytes = self.input.fill(&mut self.buffer)?;
        self.check_length(self.input.offset)?;
        chunk.instructions.reserve(bytes / record_bytes);
        let damaged = |input: &Input, place: usize, problem: String, expected: &str| {
            input.damaged(start + place as u64, problem, expected)
        };
        for number in 0..bytes / record_bytes {
            let first = number * record_bytes;
            self.switch(number, chunk).map_err(|()| {
                let problem = "too many address spaces".to_owned();
                damaged(&self.input, first + 88, problem, "at most 65536")
            })?;
            let record = &self.buffer[first..first + record_bytes];
            // Records of known length need no bounds checks.
            let pushed = match <&[u8; CHAMPSIM.bytes]>::try_from(record) {
                Ok(record) => push_record(&CHAMPSIM, record, chunk),
                Err(_) => push_record(&self.layout, record, chunk),
            };
            pushed.map_err(|(place, value)| {
                let problem = format!("a branch flag of {value}");
                damaged(&self.input, first + place, problem, "0 or 1")
            })?;
        }
        Ok(None)
    }
}

fn word(record: &[u8], place: usize) -> u64 {
    u64::from_le_bytes(field(record, place))
}

/// Decodes one record and appends its instruction to `chunk`. Fails with the offset and value of an invalid
/// branch flag.
#[inline(always)]
fn push_record(layout: &Layout, record: &[u8], chunk: &mut Chunk) -> Result<(), (usize, u8)> {
    for place in [8, 9] {
        if record[place] > 1 {
            return Err((place, record[place]));
        }
    }
    let (read, reads) =
        registers(std::array::from_fn(|place| record[layout.registers_read + place]));
    let places_written = layout.registers_read - 10;
    let (written, writes) =
        registers(std::array::from_fn(
            |place| {
                if place < places_written { record[10 + place] } else { 0 }
            },
        ));
    let (branch, taken) = branch(record[8] == 1, record[9] == 1, reads, writes);
    let before = chunk.accesses.len();
    let mut push = |from: usize, places: usize, kind: AccessKind| {
        for place in 0..places {
            let address = word(record, from + 8 * place);
            if address != 0 {
                let address = VirtualAddress::new(address);
                chunk.accesses.push(MemoryAccess { address, size: ASSUMED_SIZE_BYTES, kind });
            }
        }
    };
    // Reads come before writes, as in the instruction's execution.
    push(layout.addresses_read, 4, AccessKind::Read);
    push(layout.addresses_written, places_written, AccessKind::Write);
    let (mut sources, mut destinations) = (read, [written[0], written[1]]);
    if (reads | writes) & POINTER != 0 || places_written > destinations.len() {
        let indirect = matches!(branch, Branch::Indirect | Branch::IndirectCall);
        sources = read.map(|register| match register {
            INSTRUCTION_POINTER => 0,
            UNKNOWN_TARGET if indirect => 0,
            register => register,
        });
        destinations = first_two(written);
    }
    chunk.instructions.push(Instruction {
        ip: VirtualAddress::new(word(record, 0)),
        sources,
        destinations,
        accesses: (chunk.accesses.len() - before) as u8,
        branch,
        taken,
        ..Instruction::default()
    });
    Ok(())
}

/// Reduces ChampSim's written registers to the two that an instruction of Perforate has, without the
/// instruction pointer. Two registers in the first two places keep their places; otherwise, the first two
/// that are present are returned.
fn first_two(written: [Register; 4]) -> [Register; 2] {
    let kept = written.map(|register| if register == INSTRUCTION_POINTER { 0 } else { register });
    if kept[2] == 0 && kept[3] == 0 {
        return [kept[0], kept[1]];
    }
    let mut some = kept.into_iter().filter(|&register| register != 0);
    [some.next().unwrap_or(0), some.next().unwrap_or(0)]
}

/// Returns the kind of a branch, by the classes of its registers, and true if it is taken.
#[inline]
fn branch(is_branch: bool, taken: bool, read: u8, written: u8) -> (Branch, bool) {
    if written & POINTER == 0 {
        // Not a branch by its registers; trust the record's flag.
        return if is_branch { (Branch::Conditional, taken) } else { (Branch::None, false) };
    }
    let reads_stack = read & STACK != 0;
    let reads_flags = read & FLAG != 0;
    let reads_ip = read & POINTER != 0;
    let reads_other = read & OTHER != 0;
    let writes_stack = written & STACK != 0;
    match (reads_stack, reads_ip, writes_stack) {
        (false, _, _) if !reads_flags && !reads_other => (Branch::Jump, true),
        (false, false, _) if !reads_flags => (Branch::Indirect, true),
        (false, true, false) => (Branch::Conditional, taken),
        (true, true, true) if !reads_flags && !reads_other => (Branch::Call, true),
        (true, true, true) if !reads_flags => (Branch::IndirectCall, true),
        (true, false, true) => (Branch::Return, true),
        _ => (Branch::Indirect, taken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of 96 bytes whose instructions are never consecutive. Read as records of 64 bytes, one pair
    /// in 59 is consecutive by accident, and flags are wrong.
    #[test]
    fn a_few_consecutive_instructions_do_not_tell_the_format() {
        let mut sample = vec![0; 60 * 96];
        for (number, record) in sample.chunks_exact_mut(96).enumerate() {
            let address = 0x40_0000 + 0x100 * number as u64;
            record[..8].copy_from_slice(&address.to_le_bytes());
            record[64..].fill(2);
        }
        // Bytes 128 to 192 are a record of 64 bytes, and the next begins with the address of record 2.
        sample[128..136].copy_from_slice(&(0x40_0200_u64 - 4).to_le_bytes());
        let fit = CHAMPSIM.fit(&sample, None);
        assert!((1..20).contains(&fit.in_order) && fit.wrong_flag.is_some(), "{}", fit.in_order);
        assert_eq!(CLOUDSUITE.fit(&sample, None).in_order, 0);
        assert_eq!(detect_format(&sample, None), Ok(TraceFormat::CloudSuite));
    }
}
