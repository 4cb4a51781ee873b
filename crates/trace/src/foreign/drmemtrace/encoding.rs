//! Decoder of `DR_ISA_REGDEPS`, the synthetic instruction set of traces whose real instructions were
//! removed (Google's workload traces, version 2). Described in DynamoRIO's
//! `core/ir/isa_regdeps/encoding_common.h`:
//!
//! | bytes | what |
//! |---|---|
//! | 0–3 | bits 0–3 registers written, 4–7 registers read, 8 writes flags, 9 reads flags, 10–31 category |
//! | 4 | size of the operation, if there are registers |
//! | 5– | registers written, then registers read, a byte each; up to a multiple of 4 bytes |
//!
//! The length of the original instruction is in its record and is unrelated to these bytes.

use std::collections::HashMap;

use perforate_types::{Branch, FLAGS, Instruction, Operation, Register};

use super::record::Record;

/// Longest encoding of an instruction in DynamoRIO's synthetic instruction set, in bytes.
const MAX_BYTES: usize = 16;
/// Maximum number of registers in a synthetic encoding.
const MAX_REGISTERS: usize = 8;
/// Maximum number of remembered encodings, over all files of a trace: more than any program executes, in a
/// table of at most 210MB.
const MAX_KNOWN: usize = 7 << 20;

/// Categories of instructions (`dr_instr_category_t`), as bits of an encoding.
mod category {
    pub(super) const FLOATING_POINT: u32 = 1;
    pub(super) const LOAD: u32 = 1 << 1;
    pub(super) const STORE: u32 = 1 << 2;
    pub(super) const BRANCH: u32 = 1 << 3;
    pub(super) const VECTOR: u32 = 1 << 4;
    pub(super) const MOVE: u32 = 1 << 6;
    pub(super) const CONVERT: u32 = 1 << 7;
    pub(super) const MATH: u32 = 1 << 8;
}

/// Properties of an instruction that its encoding states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Decoded {
    sources: [Register; 4],
    destinations: [Register; 2],
    operation: Operation,
    is_branch: bool,
}

/// Decoded instructions from all files of a trace, by process and address, because threads of a process
/// execute the same code.
#[derive(Default)]
pub(super) struct Known(HashMap<(u64, u64), Decoded>);

impl Known {
    fn insert(&mut self, process: u64, ip: u64, decoded: Decoded) {
        if self.0.len() >= MAX_KNOWN {
            self.0.clear();
        }
        self.0.insert((process, ip), decoded);
    }

    fn get(&self, process: u64, ip: u64) -> Decoded {
        self.0.get(&(process, ip)).copied().unwrap_or_default()
    }
}

/// Collector of a file's encoding records, which have the synthetic code of the next instruction. An encoding
/// precedes the first execution of its instruction, and is repeated when the code has changed.
#[derive(Default)]
pub(super) struct Encodings {
    next: [u8; MAX_BYTES],
    next_bytes: usize,
}

impl Encodings {
    /// Adds the bytes of an encoding record to the encoding of the next instruction. `Err` describes the
    /// problem.
    pub(super) fn add(&mut self, record: Record) -> Result<(), String> {
        let bytes = record.value.to_le_bytes();
        let end = self.next_bytes + usize::from(record.size);
        let own = bytes.get(..usize::from(record.size));
        let (Some(own), Some(place)) = (own, self.next.get_mut(self.next_bytes..end)) else {
            return Err(format!("an encoding of {end} bytes or more"));
        };
        place.copy_from_slice(own);
        self.next_bytes = end;
        Ok(())
    }

    /// Drops the collected bytes, because their instruction is left out.
    pub(super) fn drop_next(&mut self) {
        self.next_bytes = 0;
    }

    /// Fills in an instruction's registers and operation from its encoding: the collected bytes, or the last
    /// encoding at the same address of `process`. `Err` describes the problem.
    pub(super) fn complete(
        &mut self,
        instruction: &mut Instruction,
        process: u64,
        known: &mut Known,
    ) -> Result<(), String> {
        let ip = instruction.ip.value();
        let decoded = if self.next_bytes > 0 {
            let decoded = decode(&self.next[..self.next_bytes])?;
            self.next_bytes = 0;
            known.insert(process, ip, decoded);
            decoded
        } else {
            known.get(process, ip)
        };
        instruction.sources = decoded.sources;
        instruction.destinations = decoded.destinations;
        instruction.operation = match instruction.branch {
            // DynamoRIO categorizes system calls as branches, but records them as plain instructions.
            // The markers for system calls are removed from published traces.
            Branch::None if decoded.is_branch => Operation::Serializing,
            _ => decoded.operation,
        };
        Ok(())
    }
}

/// Converts a register number of the synthetic instruction set to Perforate's. The set numbers its registers
/// from 0 or from 2, at most 198 of them, and none has a special meaning. Perforate uses 0 for none, and
/// special registers up to 18.
fn register(theirs: u8) -> Register {
    20 + theirs % 230
}

/// Decodes the bytes of an encoding. `Err` describes the problem.
fn decode(bytes: &[u8]) -> Result<Decoded, String> {
    let Some((header, rest)) = bytes.split_first_chunk() else {
        return Err(format!("an encoding of {} bytes", bytes.len()));
    };
    let header = u32::from_le_bytes(*header);
    let [written, read] = [header & 15, header >> 4 & 15].map(|count| count as usize);
    let count = written + read;
    if count > MAX_REGISTERS {
        return Err(format!("an encoding with {count} registers"));
    }
    let expected = if count == 0 { 4 } else { (4 + 1 + count).next_multiple_of(4) };
    if bytes.len() != expected {
        let found = bytes.len();
        return Err(format!("an encoding of {found} bytes with {count} registers"));
    }
    let registers = rest.get(1..=count).unwrap_or_default();
    let (destinations, sources) = registers.split_at_checked(written).unwrap_or_default();
    let (writes_flags, reads_flags) = (header >> 8 & 1 != 0, header >> 9 & 1 != 0);
    let category = header >> 10;
    Ok(Decoded {
        sources: fill(sources, reads_flags),
        destinations: fill(destinations, writes_flags),
        operation: operation(category, written > 0),
        is_branch: category & category::BRANCH != 0,
    })
}

/// Converts as many registers as fit into `N` places, followed by the flags if a place is left.
fn fill<const N: usize>(theirs: &[u8], flags: bool) -> [Register; N] {
    let all = theirs.iter().map(|one| register(*one)).chain(flags.then_some(FLAGS));
    let mut places = [0; N];
    places.iter_mut().zip(all).for_each(|(place, one)| *place = one);
    places
}

/// Chooses the kind of operation by an instruction's category. Multiplications and divisions are not
/// distinguished from other arithmetic. Loads, stores and moves of floating-point registers compute nothing.
/// Nor do long no-operations, which DynamoRIO categorizes as vector instructions, and which write no
/// register.
fn operation(category: u32, writes: bool) -> Operation {
    use category::{CONVERT, FLOATING_POINT, LOAD, MATH, MOVE, STORE, VECTOR};
    let is_floating = category & (FLOATING_POINT | VECTOR) != 0;
    let is_arithmetic = category & (MATH | CONVERT) != 0;
    let only_moves = category & (LOAD | STORE | MOVE) != 0;
    match is_floating && writes && (is_arithmetic || !only_moves) {
        true => Operation::Float,
        false => Operation::Integer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(header: u32, rest: &[u8]) -> Result<Decoded, String> {
        decode(&[&header.to_le_bytes(), rest].concat())
    }

    /// `view_test.cpp` of DynamoRIO shows these five as `move %rv4 -> %rv7`, `simd %rv76 -> %rv1`,
    /// `load simd %rv7 -> %rv71`, `load store %rv0 %rv2 %rv36 -> %rv0` and `branch`, where %rvN is
    /// byte N + 2; its source has their bytes.
    #[test]
    fn the_encodings_of_dynamorios_own_test() {
        let read = |words: &[u64], bytes: usize| {
            let all: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            decode(&all[..bytes]).unwrap()
        };
        let rv = |number: u8| register(number + 2);
        let plain = Decoded::default();
        let moved = Decoded { sources: [rv(4), 0, 0, 0], destinations: [rv(7), 0], ..plain };
        assert_eq!(read(&[0x0006_0906_0001_0011], 8), moved);
        let mask = Decoded {
            sources: [rv(76), 0, 0, 0],
            destinations: [rv(1), 0],
            operation: Operation::Float,
            ..plain
        };
        assert_eq!(read(&[0x004e_0321_0000_4011], 8), mask);
        let load = Decoded { sources: [rv(7), 0, 0, 0], destinations: [rv(71), 0], ..plain };
        assert_eq!(read(&[0x0009_4921_0000_4811], 8), load);
        // `load store` also writes the flags, and there is a second place for them.
        let exchange =
            Decoded { sources: [rv(0), rv(2), rv(36), 0], destinations: [rv(0), FLAGS], ..plain };
        assert_eq!(read(&[0x0402_0204_0000_1931, 0x26], 12), exchange);
        let branch = Decoded { sources: [FLAGS, 0, 0, 0], is_branch: true, ..plain };
        assert_eq!(read(&[0x2200], 4), branch);
    }

    #[test]
    fn operations_follow_from_categories() {
        use category::*;
        let write = |category: u32| of(category << 10 | 1, &[6, 9, 0, 0]).unwrap().operation;
        for category in [FLOATING_POINT | MATH, VECTOR | MATH | LOAD, VECTOR | CONVERT, VECTOR] {
            assert_eq!(write(category), Operation::Float, "{category:#x}");
        }
        for category in [0, MATH, LOAD, MOVE | VECTOR, FLOATING_POINT | LOAD, CONVERT] {
            assert_eq!(write(category), Operation::Integer, "{category:#x}");
        }
        // A long no-operation reads a register and writes no register.
        assert_eq!(of(VECTOR << 10 | 1 << 4, &[6, 9, 0, 0]).unwrap().operation, Operation::Integer);
    }

    #[test]
    fn registers_beyond_the_limit_are_left_out() {
        // Three registers written, five read, and flags both read and written: 4 + 1 + 8 bytes, rounded
        // up to 16.
        let registers = [6, 2, 3, 4, 10, 11, 12, 13, 14, 0xff, 0xff, 0xff];
        let full = of(3 | 5 << 4 | 3 << 8, &registers).unwrap();
        assert_eq!(full.destinations, [22, 23]);
        assert_eq!(full.sources, [30, 31, 32, 33]);
        // Registers stay distinct from each other, from "none", and from the special registers.
        let mut ours: Vec<u8> = (0..=200).map(register).collect();
        ours.dedup();
        assert_eq!((ours.len(), ours[0], ours[200]), (201, 20, 220));
    }

    #[test]
    fn wrong_encodings_are_refused() {
        for (header, rest, problem) in [
            (9, &[0; 12][..], "an encoding with 9 registers"),
            (0x11, &[0; 0], "an encoding of 4 bytes with 2 registers"),
            (0x31, &[0; 4], "an encoding of 8 bytes with 4 registers"),
            (0, &[0; 4], "an encoding of 8 bytes with 0 registers"),
        ] {
            assert_eq!(of(header, rest).unwrap_err(), problem);
        }
        assert_eq!(decode(&[1, 2]).unwrap_err(), "an encoding of 2 bytes");
        let mut encodings = Encodings::default();
        let record = |size| Record { kind: 47, size, value: 0 };
        assert!(encodings.add(record(9)).unwrap_err().contains("9 bytes or more"));
        assert!(encodings.add(record(8)).is_ok() && encodings.add(record(8)).is_ok());
        assert!(encodings.add(record(4)).unwrap_err().contains("20 bytes or more"));
    }
}
