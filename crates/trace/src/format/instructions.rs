//! Instruction chunks: mispredictions of the flow and address models, in columns.

use std::ops::Range;

use perforate_types::{Chunk, MemoryAccess, VirtualAddress};

use super::addresses::{Addresses, explicit_bytes};
use super::columns::{Column, Packer, Unpacker, put_varint, unzigzag, zigzag};
use super::dictionary::Dictionary;
use super::flow::Flow;
use super::header::{Problem, problem};

/// Number of columns of an instruction chunk: numbers of right predictions between mispredictions of the flow
/// model; corrections of the flow model; the same two for addresses; then bytes 0 to 7 of explicit
/// differences.
const COLUMNS: usize = 4 + 8;
const FLOW_RUNS: usize = 0;
const FLOW_CORRECTIONS: usize = 1;
const ADDRESS_RUNS: usize = 2;
const ADDRESS_CODES: usize = 3;
const DIFFERENCES: usize = 4;

/// Encoder of one chunk's instructions.
pub(crate) struct Encoder {
    columns: [Vec<u8>; COLUMNS],
    flow: Flow,
    addresses: Addresses,
    flow_run: u64,
    address_run: u64,
    instructions: u32,
    accesses: usize,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        Self {
            columns: Default::default(),
            flow: Flow::new(),
            addresses: Addresses::new(),
            flow_run: 0,
            address_run: 0,
            instructions: 0,
            accesses: 0,
        }
    }

    /// Starts a new chunk of instructions.
    pub(crate) fn reset(&mut self, dictionary: &Dictionary) {
        self.columns.iter_mut().for_each(Vec::clear);
        self.flow.reset(dictionary.instructions.len().max(1));
        self.addresses.reset(dictionary.shapes.len());
        (self.flow_run, self.address_run) = (0, 0);
        (self.instructions, self.accesses) = (0, 0);
    }

    pub(crate) fn instructions(&self) -> u32 {
        self.instructions
    }

    pub(crate) fn accesses(&self) -> usize {
        self.accesses
    }

    /// Predicts the number of the next dictionary record.
    pub(crate) fn predict(&self) -> u32 {
        self.flow.predict()
    }

    /// Appends an execution of the instruction of `record`, with its accesses. `predicted` is the result of
    /// [`Encoder::predict`].
    pub(crate) fn push(
        &mut self,
        record: u32,
        predicted: u32,
        dictionary: &Dictionary,
        list: &[MemoryAccess],
    ) {
        if !self.flow.has(record) {
            self.flow.grow(dictionary.instructions.len());
        }
        if record == predicted {
            self.flow_run += 1;
        } else {
            put_varint(&mut self.columns[FLOW_RUNS], self.flow_run);
            let step = i64::from(record) - i64::from(predicted);
            put_varint(&mut self.columns[FLOW_CORRECTIONS], zigzag(step));
            self.flow_run = 0;
        }
        self.flow.follow(record);
        if !list.is_empty() {
            self.addresses.grow(dictionary.shapes.len());
            let first = dictionary.first_operand[record as usize] as usize;
            for (place, access) in list.iter().enumerate() {
                self.push_address(first + place, access.address.value());
            }
            self.accesses += list.len();
        }
        self.instructions += 1;
    }

    fn push_address(&mut self, operand: usize, address: u64) {
        if self.addresses.predict(operand) == address {
            self.address_run += 1;
        } else {
            let (code, number) = self.addresses.explain(operand, address);
            put_varint(&mut self.columns[ADDRESS_RUNS], self.address_run);
            self.columns[ADDRESS_CODES].push(code);
            for (plane, byte) in number.to_le_bytes().iter().take(explicit_bytes(code)).enumerate()
            {
                self.columns[DIFFERENCES + plane].push(*byte);
            }
            self.address_run = 0;
            let understood = self.addresses.correct(operand, code, number);
            debug_assert_eq!(understood, Some(address));
        }
        self.addresses.follow(operand, address);
    }

    /// Compresses the columns and returns them as the payload of the chunk.
    pub(crate) fn finish(&mut self, packer: &mut Packer) -> std::io::Result<Vec<u8>> {
        put_varint(&mut self.columns[FLOW_RUNS], self.flow_run);
        put_varint(&mut self.columns[ADDRESS_RUNS], self.address_run);
        packer.pack(&self.columns)
    }
}

/// Decoder of one chunk's instructions, several at a time.
pub(crate) struct Decoder {
    columns: [Column; COLUMNS],
    flow: Flow,
    addresses: Addresses,
    flow_run: u64,
    address_run: u64,
    remaining: u32,
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self {
            columns: Default::default(),
            flow: Flow::new(),
            addresses: Addresses::new(),
            flow_run: 0,
            address_run: 0,
            remaining: 0,
        }
    }

    /// Number of instructions of the chunk that were not delivered yet.
    pub(crate) fn remaining(&self) -> u32 {
        self.remaining
    }

    /// Drops the instructions of the chunk that were not delivered yet.
    pub(crate) fn abandon(&mut self) {
        self.remaining = 0;
    }

    /// Starts to decode a chunk of `count` instructions.
    pub(crate) fn begin(
        &mut self,
        payload: &[u8],
        count: u32,
        dictionary: &Dictionary,
        unpacker: &mut Unpacker,
    ) -> Result<(), Problem> {
        unpacker.unpack(payload, &mut self.columns)?;
        self.flow.reset(dictionary.instructions.len().max(1));
        self.addresses.reset(dictionary.shapes.len());
        let runs = (self.columns[FLOW_RUNS].varint(), self.columns[ADDRESS_RUNS].varint());
        let (Some(flow_run), Some(address_run)) = runs else { return Err(impossible()) };
        (self.flow_run, self.address_run) = (flow_run, address_run);
        self.remaining = count;
        Ok(())
    }

    /// Appends the next `at_most` instructions of the chunk, or all that are left.
    pub(crate) fn decode(
        &mut self,
        dictionary: &Dictionary,
        chunk: &mut Chunk,
        at_most: usize,
    ) -> Result<(), Problem> {
        let count = at_most.min(self.remaining as usize);
        chunk.instructions.reserve(count);
        let mut left = count;
        while left > 0 {
            let records = self.next_records(left).ok_or_else(impossible)?;
            let instructions =
                dictionary.instructions.get(records.clone()).ok_or_else(impossible)?;
            chunk.instructions.extend_from_slice(instructions);
            left -= instructions.len();
            // Operands of consecutive records have consecutive numbers.
            let first = dictionary.first_operand[records.start] as usize;
            let last = &instructions[instructions.len() - 1];
            let end = dictionary.first_operand[records.end - 1] as usize;
            let operands = first..end + usize::from(last.accesses);
            for (operand, &(size, kind)) in operands.clone().zip(&dictionary.shapes[operands]) {
                let address = self.next_address(operand).ok_or_else(impossible)?;
                let address = VirtualAddress::new(address);
                chunk.accesses.push(MemoryAccess { address, size, kind });
            }
        }
        self.remaining -= count as u32;
        let spent = self.remaining > 0 || self.columns.iter().all(Column::is_finished);
        if spent { Ok(()) } else { Err(problem("bytes after the last instruction", "none")) }
    }

    /// Decodes the numbers of the next executed records, at most `most` and consecutive. `None` if the
    /// columns are damaged or name a record that does not exist.
    #[inline]
    fn next_records(&mut self, most: usize) -> Option<Range<usize>> {
        if self.flow_run > 0 {
            let run = usize::try_from(self.flow_run).unwrap_or(usize::MAX);
            let records = self.flow.follow_run(run.min(most));
            self.flow_run -= records.len() as u64;
            return Some(records);
        }
        let step = unzigzag(self.columns[FLOW_CORRECTIONS].varint()?);
        self.flow_run = self.columns[FLOW_RUNS].varint()?;
        let predicted = i64::from(self.flow.predict());
        let record = u32::try_from(predicted.checked_add(step)?).ok()?;
        self.flow.has(record).then(|| self.flow.follow(record))?;
        Some(record as usize..record as usize + 1)
    }

    #[inline]
    fn next_address(&mut self, operand: usize) -> Option<u64> {
        if self.address_run > 0 {
            self.address_run -= 1;
            return Some(self.addresses.follow_prediction(operand));
        }
        let code = self.columns[ADDRESS_CODES].byte()?;
        let mut number = [0; 8];
        for (plane, byte) in number.iter_mut().take(explicit_bytes(code)).enumerate() {
            *byte = self.columns[DIFFERENCES + plane].byte()?;
        }
        self.address_run = self.columns[ADDRESS_RUNS].varint()?;
        let address = self.addresses.correct(operand, code, u64::from_le_bytes(number))?;
        self.addresses.follow(operand, address);
        Some(address)
    }
}

fn impossible() -> Problem {
    problem("an instruction chunk that contradicts itself", "one a writer can produce")
}
