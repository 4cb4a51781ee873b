//! Queues of instructions that wait for their thread's turn.

use perforate_types::{Chunk, Instruction, MemoryAccess};

/// Queue of one thread's instructions, with their accesses.
#[derive(Debug, Default)]
pub(super) struct Line {
    instructions: Vec<Instruction>,
    accesses: Vec<MemoryAccess>,
    /// Numbers of instructions and accesses that were taken.
    taken: (usize, usize),
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.taken.0 == self.instructions.len()
    }

    /// Appends instructions. Returns the rest of the accesses, which belong to other instructions.
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

    /// Moves up to `count` instructions into a chunk. Returns their number.
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

/// Number of accesses of these instructions.
pub(super) fn accesses_of(instructions: &[Instruction]) -> usize {
    instructions.iter().map(|instruction| usize::from(instruction.accesses)).sum()
}
