//! Dictionary of static instructions: properties of an instruction that are the same at every
//! execution. Self-modified code, the two outcomes of a branch, and other sizes or numbers of accesses
//! at the same address have separate records.

use std::collections::HashMap;

use perforate_types::{AccessKind, Branch, Instruction, MemoryAccess, Operation, VirtualAddress};

use super::columns::{Column, Packer, Unpacker, put_varint, unzigzag, zigzag};
use super::header::{Problem, problem};
use super::{MAX_DICTIONARY_OPERANDS, MAX_DICTIONARY_RECORDS};

const COLUMNS: usize = 7;
/// Number of columns of a dictionary in format version 1, which does not record which registers form
/// addresses.
const COLUMNS_1: usize = 6;

/// Shape of an access of a static instruction: its size in bytes and its kind.
pub(crate) type Shape = (u16, AccessKind);

/// Dictionary of the trace's static instructions, each with its number.
#[derive(Default)]
pub(crate) struct Dictionary {
    pub(crate) instructions: Vec<Instruction>,
    /// Index in `shapes` of each record's first access.
    pub(crate) first_operand: Vec<u32>,
    /// Shapes of the accesses of all records, in order; the index is the number of the operand.
    pub(crate) shapes: Vec<Shape>,
}

impl Dictionary {
    pub(crate) fn clear(&mut self) {
        self.instructions.clear();
        self.first_operand.clear();
        self.shapes.clear();
    }

    /// True if record `number` is the instruction `wanted`, with accesses of the same sizes and kinds.
    #[inline]
    pub(crate) fn matches(&self, number: u32, wanted: &Instruction, list: &[MemoryAccess]) -> bool {
        let Some(instruction) = self.instructions.get(number as usize) else { return false };
        let first = self.first_operand[number as usize] as usize;
        is_same(instruction, wanted)
            && list
                .iter()
                .zip(&self.shapes[first..])
                .all(|(access, &(size, kind))| access.size == size && access.kind == kind)
    }

    fn push(&mut self, instruction: Instruction, shapes: impl Iterator<Item = Shape>) {
        self.first_operand.push(self.shapes.len() as u32);
        self.instructions.push(instruction);
        self.shapes.extend(shapes);
    }

    /// True if one more record could exceed the limits of a dictionary.
    fn is_full(&self) -> bool {
        self.instructions.len() >= MAX_DICTIONARY_RECORDS
            || self.shapes.len() + usize::from(u8::MAX) > MAX_DICTIONARY_OPERANDS
    }

    /// Encodes the records from number `first` on as a payload.
    pub(crate) fn encode(&self, first: usize, packer: &mut Packer) -> std::io::Result<Vec<u8>> {
        let mut columns: [Vec<u8>; COLUMNS] = Default::default();
        let [addresses, lengths, classes, registers, counts, shapes, data_sources] = &mut columns;
        let mut expected_ip = 0u64;
        for instruction in &self.instructions[first..] {
            let ip = instruction.ip.value();
            put_varint(addresses, zigzag(ip.wrapping_sub(expected_ip) as i64));
            expected_ip = ip.wrapping_add(u64::from(instruction.length));
            lengths.push(instruction.length);
            classes.push(
                instruction.branch as u8
                    | (instruction.taken as u8) << 3
                    | (instruction.operation as u8) << 4,
            );
            registers.extend_from_slice(&instruction.sources);
            registers.extend_from_slice(&instruction.destinations);
            counts.push(instruction.accesses);
            data_sources.push(instruction.data_sources);
        }
        let first_shape = self.first_operand.get(first).map_or(0, |&operand| operand as usize);
        for &(size, kind) in &self.shapes[first_shape..] {
            put_varint(shapes, u64::from(size) << 1 | u64::from(kind == AccessKind::Write));
        }
        packer.pack(&columns)
    }

    /// Appends `count` records from a payload in this format version.
    pub(crate) fn decode(
        &mut self,
        payload: &[u8],
        count: u32,
        version: u32,
        unpacker: &mut Unpacker,
    ) -> Result<(), Problem> {
        let mut columns: [Column; COLUMNS] = Default::default();
        let present = if version == 1 { COLUMNS_1 } else { COLUMNS };
        unpacker.unpack(payload, &mut columns[..present])?;
        let mut expected_ip = 0;
        for number in 0..count {
            if self.is_full() {
                return Err(problem(
                    "a dictionary with too many records",
                    format!("at most {MAX_DICTIONARY_RECORDS}"),
                ));
            }
            self.decode_record(&mut columns, &mut expected_ip, version).ok_or_else(|| {
                problem(format!("dictionary record {number} is impossible"), "a valid record")
            })?;
        }
        if columns.iter().all(Column::is_finished) {
            Ok(())
        } else {
            Err(problem("bytes after the last dictionary record", "none"))
        }
    }

    fn decode_record(
        &mut self,
        columns: &mut [Column; COLUMNS],
        expected: &mut u64,
        version: u32,
    ) -> Option<()> {
        let [addresses, lengths, classes, registers, counts, shapes, data_sources] = columns;
        let ip = expected.wrapping_add(unzigzag(addresses.varint()?) as u64);
        let length = lengths.byte()?;
        let class = classes.byte()?;
        *expected = ip.wrapping_add(u64::from(length));
        let mut list = [0; 6];
        for register in &mut list {
            *register = registers.byte()?;
        }
        let [a, b, c, d, e, f] = list;
        let instruction = Instruction {
            ip: VirtualAddress::new(ip),
            sources: [a, b, c, d],
            data_sources: if version == 1 {
                0
            } else {
                data_sources.byte().filter(|&bits| bits < 1 << 4)?
            },
            destinations: [e, f],
            accesses: counts.byte()?,
            length,
            branch: *Branch::ALL.get(usize::from(class & 7))?,
            taken: class & 8 != 0,
            operation: *Operation::ALL.get(usize::from(class >> 4))?,
        };
        self.push(instruction, std::iter::empty());
        for _ in 0..instruction.accesses {
            let shape = shapes.varint()?;
            let size = u16::try_from(shape >> 1).ok().filter(|&size| size > 0)?;
            let kind = if shape & 1 == 0 { AccessKind::Read } else { AccessKind::Write };
            self.shapes.push((size, kind));
        }
        Some(())
    }
}

/// True if all fields of two instructions are equal. Makes a few wide comparisons instead of a branch per
/// field, because it runs for every written instruction.
#[inline]
fn is_same(one: &Instruction, other: &Instruction) -> bool {
    let registers = |of: &Instruction| {
        let ([a, b, c, d], [e, f]) = (of.sources, of.destinations);
        u64::from_le_bytes([a, b, c, d, e, f, of.accesses, of.length])
    };
    let class = |of: &Instruction| {
        u32::from_le_bytes([of.branch as u8, of.taken.into(), of.operation as u8, of.data_sources])
    };
    let differences = one.ip.value() ^ other.ip.value() | registers(one) ^ registers(other);
    differences | u64::from(class(one) ^ class(other)) == 0
}

/// Dictionary of the writer, which finds records by their content.
#[derive(Default)]
pub(crate) struct Numbering {
    pub(crate) dictionary: Dictionary,
    /// Newest record of each hash; a hash covers an instruction's fields and the shapes of its accesses.
    newest: HashMap<u64, u32>,
    /// For each record, the next older record with the same hash.
    older: Vec<Option<u32>>,
}

impl Numbering {
    pub(crate) fn clear(&mut self) {
        self.dictionary.clear();
        self.newest.clear();
        self.older.clear();
    }

    pub(crate) fn is_full(&self) -> bool {
        self.dictionary.is_full()
    }

    /// Returns the number of the instruction's record, which is appended if the dictionary lacks it.
    pub(crate) fn number(&mut self, instruction: &Instruction, list: &[MemoryAccess]) -> u32 {
        let hash = hash(instruction, list);
        let newest = self.newest.get(&hash).copied();
        let mut candidate = newest;
        while let Some(number) = candidate {
            if self.dictionary.matches(number, instruction, list) {
                return number;
            }
            candidate = self.older[number as usize];
        }
        let number = self.dictionary.instructions.len() as u32;
        self.dictionary.push(*instruction, list.iter().map(|access| (access.size, access.kind)));
        self.older.push(newest);
        self.newest.insert(hash, number);
        number
    }
}

fn hash(instruction: &Instruction, list: &[MemoryAccess]) -> u64 {
    let [a, b, c, d] = instruction.sources;
    let [e, f] = instruction.destinations;
    let class = instruction.branch as u8 | (instruction.taken as u8) << 3;
    let operation = (instruction.operation as u8) << 4 | instruction.length;
    let data = u64::from(instruction.data_sources);
    let mut hash = instruction.ip.value().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut mix = |value: u64| {
        hash = (hash ^ hash >> 32 ^ value).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    };
    mix(u64::from_le_bytes([a, b, c, d, e, f, class, operation]) ^ data << 60);
    for access in list {
        mix(u64::from(access.size) << 1 | u64::from(access.kind == AccessKind::Write));
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_fill_their_payload() {
        let mut dictionary = Dictionary::default();
        for length in [3, 5] {
            dictionary.push(Instruction { length, ..Instruction::default() }, [].into_iter());
        }
        let payload = dictionary.encode(0, &mut Packer::new(1).unwrap()).unwrap();
        let decode = |count| {
            let mut decoded = Dictionary::default();
            let outcome = decoded.decode(&payload, count, 2, &mut Unpacker::new().unwrap());
            outcome.map(|()| decoded.instructions).map_err(|problem| problem.found)
        };
        assert_eq!(decode(2).unwrap(), dictionary.instructions);
        assert_eq!(decode(1).unwrap_err(), "bytes after the last dictionary record");
        assert_eq!(decode(3).unwrap_err(), "dictionary record 2 is impossible");
    }

    #[test]
    fn a_cleared_dictionary_is_a_new_one() {
        let instruction =
            |ip| Instruction { ip: VirtualAddress::new(ip), accesses: 1, ..Instruction::default() };
        let access =
            |size| [MemoryAccess { address: VirtualAddress::new(0), size, kind: AccessKind::Read }];
        let mut used = Numbering::default();
        assert_eq!(used.number(&instruction(1), &access(8)), 0);
        assert_eq!(used.number(&instruction(1), &access(4)), 1, "another size");
        assert_eq!(used.number(&instruction(1), &access(8)), 0);
        used.clear();
        let mut new = Numbering::default();
        for numbering in [&mut used, &mut new] {
            assert_eq!(numbering.number(&instruction(2), &access(2)), 0);
            assert_eq!(numbering.number(&instruction(1), &access(4)), 1);
            assert_eq!(numbering.number(&instruction(1), &access(8)), 2);
        }
        assert_eq!(used.dictionary.instructions, new.dictionary.instructions);
        assert_eq!(used.dictionary.first_operand, new.dictionary.first_operand);
        assert_eq!(used.dictionary.shapes, new.dictionary.shapes);
    }
}
