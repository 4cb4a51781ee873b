//! Instructions that wait for their thread's turn, and sources that are read in small parts.

use perforate_types::{Chunk, Instruction, MemoryAccess, ProgramEvent, access_count};

use crate::{Source, TraceError};

/// Queue of one thread's instructions, with their memory accesses.
#[derive(Debug, Default)]
pub(super) struct InstructionQueue {
    instructions: Vec<Instruction>,
    accesses: Vec<MemoryAccess>,
    /// Numbers of instructions and accesses that were taken from the queue.
    taken: (usize, usize),
}

impl InstructionQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.taken.0 == self.instructions.len()
    }

    /// Appends instructions with their accesses to the queue.
    pub(super) fn push(&mut self, instructions: &[Instruction], accesses: &[MemoryAccess]) {
        self.instructions.extend_from_slice(instructions);
        self.accesses.extend_from_slice(accesses);
    }

    /// Moves up to `count` instructions from the queue into `chunk`. Returns the number of moved
    /// instructions.
    pub(super) fn take(&mut self, count: usize, chunk: &mut Chunk) -> usize {
        let (first, first_access) = self.taken;
        let end = self.instructions.len().min(first + count);
        let instructions = &self.instructions[first..end];
        let end_access = first_access + access_count(instructions);
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

/// Part of a source's content: an event, or instructions between two events.
pub(super) enum Piece<'a> {
    /// Event that precedes the next instruction.
    Event(ProgramEvent),
    /// Instructions without an event between them, with their accesses.
    Run(&'a [Instruction], &'a [MemoryAccess]),
}

/// Source that is read event by event, with the instructions between two events.
pub(super) struct Pieces<S> {
    pub(super) source: S,
    chunk: Chunk,
    /// Numbers of instructions, accesses and events of `chunk` that were returned.
    used: (usize, usize, usize),
    is_over: bool,
}

impl<S: Source> Pieces<S> {
    pub(super) fn new(source: S) -> Self {
        Self { source, chunk: Chunk::default(), used: (0, 0, 0), is_over: false }
    }

    /// Reads the next event, or up to `most` instructions; `None` at the end of the source.
    pub(super) fn next(&mut self, most: usize) -> Result<Option<Piece<'_>>, TraceError> {
        while self.used.0 == self.chunk.instructions.len() && self.used.2 == self.chunk.events.len()
        {
            if self.is_over {
                return Ok(None);
            }
            self.is_over = !self.source.next_chunk(&mut self.chunk)?;
            self.used = (0, 0, 0);
        }
        let (first, access, event) = self.used;
        let left = &self.chunk.instructions[first..];
        let next = self.chunk.events.get(event);
        let until = next.map_or(usize::MAX, |(at, _)| (*at as usize).saturating_sub(first));
        let run = &left[..left.len().min(until).min(most)];
        if let (Some((_, event)), true) = (next, until == 0 || left.is_empty()) {
            self.used.2 += 1;
            return Ok(Some(Piece::Event(event.clone())));
        }
        let end = access + access_count(run);
        self.used = (first + run.len(), end, event);
        Ok(Some(Piece::Run(run, &self.chunk.accesses[access..end])))
    }
}
