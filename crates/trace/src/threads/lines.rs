//! Instructions that wait for their turn.

use perforate_types::{Chunk, Instruction, MemoryAccess};

/// Instructions of one thread with their accesses, taken from the front.
#[derive(Debug, Default)]
pub(super) struct Line {
    instructions: Vec<Instruction>,
    accesses: Vec<MemoryAccess>,
    /// Instructions and accesses that were taken.
    taken: (usize, usize),
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.taken.0 == self.instructions.len()
    }

    /// Puts instructions at the end; returns the accesses that are not theirs.
    pub(super) fn push<'a>(
        &mut self,
        instructions: &[Instruction],
        accesses: &'a [MemoryAccess],
    ) -> &'a [MemoryAccess] {
        let (own, rest) = accesses.split_at(accesses_of(instructions).min(accesses.len()));
        self.instructions.extend_from_slice(instructions);
        self.accesses.extend_from_slice(own);
        rest
    }

    /// Moves so many instructions to a chunk, if there are as many, and returns their number.
    pub(super) fn take(&mut self, count: usize, chunk: &mut Chunk) -> usize {
        let (first, first_access) = self.taken;
        let end = self.instructions.len().min(first + count);
        let instructions = &self.instructions[first..end];
        let end_access = first_access + accesses_of(instructions);
        chunk.instructions.extend_from_slice(instructions);
        chunk.accesses.extend_from_slice(&self.accesses[first_access..end_access]);
        self.taken = (end, end_access);
        if self.is_empty() {
            self.instructions.clear();
            self.accesses.clear();
            self.taken = (0, 0);
        }
        end - first
    }
}

/// Accesses that instructions make.
pub(super) fn accesses_of(instructions: &[Instruction]) -> usize {
    instructions.iter().map(|instruction| usize::from(instruction.accesses)).sum()
}
