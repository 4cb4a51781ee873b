//! Translated blocks, decoded from the dictionary in shared memory.

use std::ops::Range;

use super::decode::{Decoded, InstructionDecoder};
use crate::RecordError;
use crate::replay::relocation::Relocation;

/// Dictionary of translated blocks that the plugins fill. The layout of entries is documented in the plugin's
/// `dictionary.rs`.
pub trait Dictionary {
    /// Returns the entry of block `number`; `None` if there is no such block.
    fn entry(&self, number: u32) -> Option<&[u8]>;
}

/// Length in bytes of the header of a dictionary entry, before the instructions' lengths and the code.
pub const ENTRY_HEADER_BYTES: usize = 16;

/// Computes the length in bytes of the dictionary entry that begins with `header`.
pub fn entry_bytes(header: &[u8]) -> Option<usize> {
    let number = |place: Range<usize>| -> Option<usize> {
        Some(u32::from_le_bytes(header.get(place)?.try_into().ok()?) as usize)
    };
    ENTRY_HEADER_BYTES.checked_add(number(8..12)?)?.checked_add(number(12..16)?)
}

/// A translated block: a run of instructions with one entry point.
#[derive(Clone, Debug)]
pub struct Block {
    /// Address of the block's first instruction in the emulator, before relocation to the native address.
    pub start: u64,
    /// Address after the block's last instruction in the emulator, before relocation to the native address.
    pub end: u64,
    instructions: Range<usize>,
}

/// All blocks executed so far, with their instructions at native addresses.
pub struct Blocks {
    decoder: InstructionDecoder,
    /// Index in `blocks` plus 1 of each block, by block number; 0 for a block that is not loaded.
    places: Vec<u32>,
    blocks: Vec<Block>,
    instructions: Vec<Decoded>,
}

impl Blocks {
    /// Makes an empty table of translated blocks.
    pub fn new() -> Self {
        Self {
            decoder: InstructionDecoder::new(),
            places: Vec::new(),
            blocks: Vec::new(),
            instructions: Vec::new(),
        }
    }

    /// Returns the translated block with this number; `None` if [`Blocks::load`] has not loaded it.
    pub fn get(&self, number: u32) -> Option<&Block> {
        let place = self.places.get(number as usize)?.checked_sub(1)?;
        self.blocks.get(place as usize)
    }

    /// Decoded instructions of a translated block.
    pub fn instructions(&self, block: &Block) -> &[Decoded] {
        &self.instructions[block.instructions.clone()]
    }

    /// Decodes the translated block `number` if it is not loaded yet. Returns the block's address in the
    /// emulator.
    pub fn load(
        &mut self,
        number: u32,
        dictionary: &impl Dictionary,
        relocation: &Relocation,
    ) -> Result<u64, RecordError> {
        if let Some(block) = self.get(number) {
            return Ok(block.start);
        }
        let entry = dictionary.entry(number).ok_or(RecordError::Damaged("an unknown block"))?;
        let block = self.decode(entry, relocation);
        let block = block.ok_or(RecordError::Damaged("a dictionary entry"))?;
        let start = block.start;
        self.blocks.push(block);
        let number = number as usize;
        if self.places.len() <= number {
            self.places.resize(number + 1, 0);
        }
        self.places[number] = self.blocks.len() as u32;
        Ok(start)
    }

    fn decode(&mut self, entry: &[u8], relocation: &Relocation) -> Option<Block> {
        let start = u64::from_le_bytes(entry.get(..8)?.try_into().ok()?);
        let count = u32::from_le_bytes(entry.get(8..12)?.try_into().ok()?) as usize;
        let (lengths, code) = entry.get(ENTRY_HEADER_BYTES..)?.split_at_checked(count)?;
        let first = self.instructions.len();
        let mut at = 0;
        for length in lengths {
            let instruction = code.get(at..at + usize::from(*length))?;
            let ip = relocation.relocate(start.wrapping_add(at as u64));
            self.instructions.push(self.decoder.decode(instruction, ip));
            at += usize::from(*length);
        }
        let instructions = first..self.instructions.len();
        Some(Block { start, end: start.wrapping_add(at as u64), instructions })
    }

    /// Index in the translated block of the instruction at `address` in the emulator.
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
impl Dictionary for Vec<Vec<u8>> {
    fn entry(&self, number: u32) -> Option<&[u8]> {
        self.get(number as usize).map(Vec::as_slice)
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
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_decoded_on_first_use() {
        let entries = vec![
            dictionary_entry(0x1000, &[&[0x90], &[0xeb, 0x00]]),
            dictionary_entry(0x1003, &[&[0xc3]]),
        ];
        let mut blocks = Blocks::new();
        assert_eq!(blocks.load(1, &entries, &Relocation::default()).unwrap(), 0x1003);
        assert!(blocks.get(0).is_none());
        blocks.load(0, &entries, &Relocation::default()).unwrap();
        let first = blocks.get(0).unwrap();
        assert_eq!((first.start, first.end), (0x1000, 0x1003));
        assert_eq!(blocks.instructions(first)[1].instruction.ip.value(), 0x1001);
        assert_eq!(blocks.index_at(first, 0x1001), Some(1));
        assert_eq!(blocks.index_at(first, 0x1002), None);
        assert!(blocks.load(2, &entries, &Relocation::default()).is_err());
    }

    #[test]
    fn an_entry_that_is_cut_off_is_an_error() {
        let entry = dictionary_entry(0x1000, &[&[0x90], &[0xeb, 0x00]]);
        assert_eq!(entry_bytes(&entry[..ENTRY_HEADER_BYTES]), Some(entry.len()));
        for length in 0..entry.len() {
            let entries = vec![entry[..length].to_vec()];
            assert!(Blocks::new().load(0, &entries, &Relocation::default()).is_err());
        }
    }
}
