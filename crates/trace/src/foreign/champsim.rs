//! ChampSim traces: one 64-byte record per instruction, little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 0–7 | address of the instruction |
//! | 8, 9 | is a branch, is taken: 0 or 1 |
//! | 10–11 | registers written, 0 for none |
//! | 12–15 | registers read |
//! | 16–31 | two addresses written, 0 for none |
//! | 32–63 | four addresses read |
//!
//! The kind of a branch follows from which special registers it reads and writes, by the same
//! rules as in ChampSim. The instruction pointer is then dropped from the registers: it would
//! chain every branch to the one before.

use perforate_types::{
    AccessKind, Branch, Chunk, Instruction, MemoryAccess, Register, VirtualAddress,
};

use super::foreign_source::{Format, Input};
use crate::{SourceMetadata, TraceError};

const RECORD_BYTES: usize = 64;
const STACK_POINTER: Register = 6;
const FLAGS: Register = 25;
const INSTRUCTION_POINTER: Register = 26;
/// ChampSim records no sizes.
const ASSUMED_SIZE_BYTES: u16 = 8;

/// Why a file that begins with `sample` is no ChampSim trace.
pub(super) fn why_not(sample: &[u8]) -> Option<String> {
    let printable = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0x80..);
    if sample.iter().all(printable) && std::str::from_utf8(&sample[..sample.len().min(64)]).is_ok()
    {
        return Some("text that is no lackey output".to_owned());
    }
    let records = sample.chunks_exact(RECORD_BYTES).enumerate();
    let mut flags = records.flat_map(|(number, record)| {
        [(number * RECORD_BYTES + 8, record[8]), (number * RECORD_BYTES + 9, record[9])]
    });
    let (offset, flag) = flags.find(|&(_, flag)| flag > 1)?;
    Some(format!(
        "data of an unknown format (byte {offset} is {flag}; in a ChampSim trace it is 0 or 1)"
    ))
}

/// A ChampSim trace being read.
pub(super) struct ChampSim {
    input: Input,
    instructions: Option<u64>,
    buffer: Vec<u8>,
}

impl ChampSim {
    /// Reads from `input`, whose whole length is `known_bytes` if that is known.
    pub(super) fn new(input: Input, known_bytes: Option<u64>) -> Result<Self, TraceError> {
        if let Some(bytes) = known_bytes {
            check_length(&input, bytes)?;
        }
        let instructions = known_bytes.map(|bytes| bytes / RECORD_BYTES as u64);
        Ok(Self { input, instructions, buffer: Vec::new() })
    }
}

fn check_length(input: &Input, bytes: u64) -> Result<(), TraceError> {
    let rest = bytes % RECORD_BYTES as u64;
    if rest == 0 {
        return Ok(());
    }
    let problem = format!("the ChampSim trace ends {rest} bytes into a record");
    Err(input.damaged(bytes - rest, problem, "whole records of 64 bytes"))
}

impl Format for ChampSim {
    fn metadata(&self) -> SourceMetadata {
        SourceMetadata {
            format: "champsim",
            instructions: self.instructions,
            has_events: false,
            has_dependencies: true,
            has_branches: true,
            assumptions: vec![
                format!("access sizes are not recorded; {ASSUMED_SIZE_BYTES} bytes assumed"),
                "operations are not recorded; all counted as integer".to_owned(),
                "no map events; memory is mapped where it is touched".to_owned(),
            ],
            ..SourceMetadata::default()
        }
    }

    fn fill(&mut self, chunk: &mut Chunk, at_most: usize) -> Result<(), TraceError> {
        let start = self.input.offset;
        self.buffer.resize(at_most * RECORD_BYTES, 0);
        let bytes = self.input.fill(&mut self.buffer)?;
        check_length(&self.input, self.input.offset)?;
        for (number, record) in self.buffer[..bytes].chunks_exact(RECORD_BYTES).enumerate() {
            push_record(record, chunk).map_err(|(place, value)| {
                let offset = start + (number * RECORD_BYTES + place) as u64;
                self.input.damaged(offset, format!("a branch flag of {value}"), "0 or 1")
            })?;
        }
        Ok(())
    }
}

/// Appends one record's instruction; fails with place and value of an impossible flag.
fn push_record(record: &[u8], chunk: &mut Chunk) -> Result<(), (usize, u8)> {
    let word = |place: usize| {
        u64::from_le_bytes(record[place..place + 8].try_into().expect("eight bytes"))
    };
    if let Some(place) = [8, 9].into_iter().find(|&place| record[place] > 1) {
        return Err((place, record[place]));
    }
    let written = [record[10], record[11]];
    let read = [record[12], record[13], record[14], record[15]];
    let (branch, taken) = branch(record[8] == 1, record[9] == 1, &read, &written);
    let mut accesses = 0;
    // Reads come before writes, as the instruction makes them.
    for place in (32..64).chain(16..32).step_by(8) {
        let kind = if place < 32 { AccessKind::Write } else { AccessKind::Read };
        let address = word(place);
        if address != 0 {
            let address = VirtualAddress::new(address);
            chunk.accesses.push(MemoryAccess { address, size: ASSUMED_SIZE_BYTES, kind });
            accesses += 1;
        }
    }
    chunk.instructions.push(Instruction {
        ip: VirtualAddress::new(word(0)),
        sources: read.map(without_instruction_pointer),
        destinations: written.map(without_instruction_pointer),
        accesses,
        branch,
        taken,
        ..Instruction::default()
    });
    Ok(())
}

fn without_instruction_pointer(register: Register) -> Register {
    if register == INSTRUCTION_POINTER { 0 } else { register }
}

/// Kind of branch by the registers read and written, and whether it is taken.
fn branch(is_branch: bool, taken: bool, read: &[Register], written: &[Register]) -> (Branch, bool) {
    let special = [0, STACK_POINTER, FLAGS, INSTRUCTION_POINTER];
    let reads_stack = read.contains(&STACK_POINTER);
    let reads_flags = read.contains(&FLAGS);
    let reads_ip = read.contains(&INSTRUCTION_POINTER);
    let reads_other = read.iter().any(|register| !special.contains(register));
    let writes_stack = written.contains(&STACK_POINTER);
    if !written.contains(&INSTRUCTION_POINTER) {
        // Not a branch by its registers; believe a record that says it is one.
        return if is_branch { (Branch::Conditional, taken) } else { (Branch::None, false) };
    }
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
