//! The dictionary of translated blocks, decoded.

use std::ops::Range;

use crate::CaptureError;
use crate::decode::{Decoded, InstructionDecoder};
use crate::relocation::Relocation;

/// One translated block: a run of instructions with one entry.
#[derive(Clone, Debug)]
pub struct Block {
    /// Address of its first instruction, as the emulator has it.
    pub start: u64,
    /// Address after its last instruction.
    pub end: u64,
    instructions: Range<usize>,
}

/// All blocks translated so far. Their instructions lie at native addresses.
pub struct Blocks {
    decoder: InstructionDecoder,
    blocks: Vec<Block>,
    instructions: Vec<Decoded>,
    parsed_bytes: usize,
}

impl Blocks {
    /// No blocks.
    pub fn new() -> Self {
        Self {
            decoder: InstructionDecoder::new(),
            blocks: Vec::new(),
            instructions: Vec::new(),
            parsed_bytes: 0,
        }
    }

    /// The block with this number.
    pub fn get(&self, number: u32) -> Option<&Block> {
        self.blocks.get(number as usize)
    }

    /// The instructions of a block.
    pub fn instructions(&self, block: &Block) -> &[Decoded] {
        &self.instructions[block.instructions.clone()]
    }

    /// Decodes what was added to the dictionary; its layout is told in the plugin.
    pub fn extend(&mut self, bytes: &[u8], relocation: &Relocation) -> Result<(), CaptureError> {
        while let Some(entry) = bytes.get(self.parsed_bytes..).filter(|rest| !rest.is_empty()) {
            let used = self.add(entry, relocation);
            self.parsed_bytes += used.ok_or(CaptureError::Damaged("dictionary entry"))?;
        }
        Ok(())
    }

    /// Adds the entry at the start of `bytes`; returns its length.
    fn add(&mut self, bytes: &[u8], relocation: &Relocation) -> Option<usize> {
        let start = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
        let count = u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?) as usize;
        let code_bytes = u32::from_le_bytes(bytes.get(12..16)?.try_into().ok()?) as usize;
        let lengths = bytes.get(16..16 + count)?;
        let code = bytes.get(16 + count..16 + count + code_bytes)?;
        let first = self.instructions.len();
        let mut at = 0;
        for length in lengths {
            let instruction = code.get(at..at + usize::from(*length))?;
            let ip = relocation.relocate(start + at as u64);
            self.instructions.push(self.decoder.decode(instruction, ip));
            at += usize::from(*length);
        }
        let instructions = first..self.instructions.len();
        self.blocks.push(Block { start, end: start + at as u64, instructions });
        Some((16 + count + code_bytes).next_multiple_of(8))
    }

    /// Index of the instruction of `block` that lies at `address`, as the emulator has it.
    pub fn index_at(&self, block: &Block, address: u64) -> Option<usize> {
        let mut at = block.start;
        for (index, decoded) in self.instructions(block).iter().enumerate() {
            if at == address {
                return Some(index);
            }
            at += u64::from(decoded.instruction.length);
        }
        None
    }
}

#[cfg(test)]
pub(crate) fn dictionary_entry(address: u64, instructions: &[&[u8]]) -> Vec<u8> {
    let code = instructions.concat();
    let mut entry = address.to_le_bytes().to_vec();
    entry.extend((instructions.len() as u32).to_le_bytes());
    entry.extend((code.len() as u32).to_le_bytes());
    entry.extend(instructions.iter().map(|bytes| bytes.len() as u8));
    entry.extend(code);
    entry.resize(entry.len().next_multiple_of(8), 0);
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_follow_each_other() {
        let mut bytes = dictionary_entry(0x1000, &[&[0x90], &[0xeb, 0x00]]);
        bytes.extend(dictionary_entry(0x1003, &[&[0xc3]]));
        let mut blocks = Blocks::new();
        blocks.extend(&bytes, &Relocation::default()).unwrap();
        let first = blocks.get(0).unwrap();
        assert_eq!((first.start, first.end), (0x1000, 0x1003));
        assert_eq!(blocks.instructions(first)[1].instruction.ip.value(), 0x1001);
        assert_eq!(blocks.index_at(first, 0x1001), Some(1));
        assert_eq!(blocks.index_at(first, 0x1002), None);
        assert_eq!(blocks.get(1).unwrap().start, 0x1003);
        assert!(blocks.get(2).is_none());
    }

    #[test]
    fn an_entry_that_is_cut_off_is_an_error() {
        let bytes = dictionary_entry(0x1000, &[&[0x90]]);
        for length in 1..bytes.len() - 7 {
            let mut blocks = Blocks::new();
            assert!(blocks.extend(&bytes[..length], &Relocation::default()).is_err());
        }
    }
}
