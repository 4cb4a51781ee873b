//! Conversion of the emulator's memory accesses to accesses of hardware.
//!
//! The emulator accesses vectors 8 bytes at a time, repeats string instructions byte by byte, and
//! reports an atomic read-modify-write as a single access.

use perforate_types::{AccessKind, MemoryAccess, VirtualAddress};

use super::decode::Decoded;

/// Size of a cache line in bytes. Hardware executes repeated string instructions line by line.
const LINE_BYTES: u64 = 64;

/// Maximum number of accesses of an instruction in a trace.
pub const MAX_ACCESSES: usize = 255;

/// Access by the emulator, with the index of its instruction in the translated block.
pub type Piece = (u16, MemoryAccess);

/// Joins the emulator's accesses of each operand to one, and splits read-modify-write accesses in two.
/// `pieces` are the emulator's accesses during one execution of `decoded`. The result is appended to
/// `accesses`.
pub fn join(decoded: &Decoded, pieces: &[Piece], accesses: &mut Vec<MemoryAccess>) {
    if let [(_, piece)] = pieces
        && decoded.modifies_memory
        && piece.kind == AccessKind::Write
    {
        accesses.push(MemoryAccess { kind: AccessKind::Read, ..*piece });
        accesses.push(*piece);
        return;
    }
    let first = accesses.len();
    for (_, piece) in pieces {
        match accesses[first..].last_mut() {
            Some(last) if is_continuation(last, piece, decoded.widest_bytes) => {
                last.address = last.address.min(piece.address);
                last.size += piece.size;
            }
            _ => accesses.push(*piece),
        }
    }
    accesses.truncate(first + MAX_ACCESSES);
}

fn is_continuation(last: &MemoryAccess, next: &MemoryAccess, widest_bytes: u16) -> bool {
    let end = |access: &MemoryAccess| access.address.value().wrapping_add(u64::from(access.size));
    last.kind == next.kind
        && last.size + next.size <= widest_bytes
        && (end(last) == next.address.value() || end(next) == last.address.value())
}

/// Collector of the accesses of a repeated string instruction. Consecutive reads and consecutive writes are
/// joined up to the end of a cache line.
#[derive(Clone, Debug, Default)]
pub struct Repetition {
    accesses: Vec<MemoryAccess>,
    /// Indices in `accesses` of the latest read and write, which may still grow.
    last_read: Option<usize>,
    last_write: Option<usize>,
}

impl Repetition {
    /// Adds one access of an iteration of the repeated string instruction.
    pub fn add(&mut self, access: &MemoryAccess) {
        let is_read = access.kind == AccessKind::Read;
        let last = if is_read { self.last_read } else { self.last_write };
        if let Some(last) = last.and_then(|index| self.accesses.get_mut(index))
            && is_continuation(last, access, LINE_BYTES as u16)
            && last.address.value() / LINE_BYTES == access.address.value() / LINE_BYTES
        {
            last.address = last.address.min(access.address);
            last.size += access.size;
            return;
        }
        let place = Some(self.accesses.len());
        *if is_read { &mut self.last_read } else { &mut self.last_write } = place;
        self.accesses.push(*access);
    }

    /// True if another access of the repeated string instruction might exceed the maximum, so that
    /// [`Repetition::take`] must be called.
    pub fn is_full(&self) -> bool {
        self.accesses.len() + 2 > MAX_ACCESSES
    }

    /// Removes and returns the collected accesses of the string instruction, in order of first touch.
    pub fn take(&mut self) -> Vec<MemoryAccess> {
        std::mem::take(self).accesses
    }
}

/// Makes a memory access in the form of traces, from the emulator's address, size in bytes and direction.
pub fn access(address: u64, size: u16, write: bool) -> MemoryAccess {
    let kind = if write { AccessKind::Write } else { AccessKind::Read };
    MemoryAccess { address: VirtualAddress::new(address), size, kind }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instructions::decode::InstructionDecoder;

    fn joined(bytes: &[u8], pieces: &[MemoryAccess]) -> Vec<MemoryAccess> {
        let decoded = InstructionDecoder::new().decode(bytes, 0x1000);
        let mut accesses = Vec::new();
        let pieces: Vec<Piece> = pieces.iter().map(|piece| (0, *piece)).collect();
        join(&decoded, &pieces, &mut accesses);
        accesses
    }

    #[test]
    fn halves_of_a_vector_become_one_access() {
        // movups xmm0, [rax]
        let halves = [access(0x2000, 8, false), access(0x2008, 8, false)];
        assert_eq!(joined(&[0x0f, 0x10, 0x00], &halves), [access(0x2000, 16, false)]);
        // vmovdqu [r8], ymm0
        let quarters = [0, 8, 16, 24].map(|offset| access(0x2000 + offset, 8, true));
        let store = [0xc4, 0xc1, 0x7e, 0x7f, 0x00];
        assert_eq!(joined(&store, &quarters), [access(0x2000, 32, true)]);
    }

    /// The list may hold accesses of earlier instructions.
    #[test]
    fn accesses_are_joined_with_those_of_their_instruction_only() {
        let decoded = InstructionDecoder::new().decode(&[0x0f, 0x10, 0x00], 0x1000);
        let mut accesses = vec![access(0x2000, 8, false)];
        join(&decoded, &[(0, access(0x2008, 8, false))], &mut accesses);
        assert_eq!(accesses, [access(0x2000, 8, false), access(0x2008, 8, false)]);
    }

    #[test]
    fn two_operands_stay_two_accesses() {
        // push qword [rax], with the stack just below
        let pieces = [access(0x2008, 8, false), access(0x2000, 8, true)];
        assert_eq!(joined(&[0xff, 0x30], &pieces), pieces);
        // cmpsq reads two 8-byte operands that happen to be neighbours
        let pieces = [access(0x2000, 8, false), access(0x2008, 8, false)];
        assert_eq!(joined(&[0x48, 0xa7], &pieces), pieces);
    }

    #[test]
    fn an_atomic_access_is_a_read_and_a_write() {
        // lock add [rdi], eax
        let both = [access(0x2000, 4, false), access(0x2000, 4, true)];
        assert_eq!(joined(&[0xf0, 0x01, 0x07], &[access(0x2000, 4, true)]), both);
        assert_eq!(joined(&[0xf0, 0x01, 0x07], &both), both, "single-threaded: already two");
    }

    #[test]
    fn a_repeated_copy_moves_lines() {
        let mut copy = Repetition::default();
        for byte in 0..100 {
            copy.add(&access(0x2000 + byte, 1, false));
            copy.add(&access(0x3030 + byte, 1, true));
        }
        // 100 bytes from the start of a line: 64 + 36; to 0x3030: 16 + 64 + 20.
        let expected = [
            access(0x2000, 64, false),
            access(0x3030, 16, true),
            access(0x3040, 64, true),
            access(0x2040, 36, false),
            access(0x3080, 20, true),
        ];
        assert_eq!(copy.take(), expected);
        assert_eq!(copy.take(), [], "emptied");
    }

    #[test]
    fn repetitions_downwards_and_their_limit() {
        let mut fill = Repetition::default();
        for byte in (0..64).rev() {
            fill.add(&access(0x2000 + byte, 1, true));
        }
        assert_eq!(fill.take(), [access(0x2000, 64, true)]);
        let mut far = Repetition::default();
        let mut address = 0;
        while !far.is_full() {
            far.add(&access(address, 1, true));
            address += 4096;
        }
        assert_eq!(far.take().len(), MAX_ACCESSES - 1);
    }
}
