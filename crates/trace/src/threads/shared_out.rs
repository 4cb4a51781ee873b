//! Distribution of a single thread's work over several threads.

use perforate_types::{Chunk, ChunkItem, ProcessId, ThreadId};

use super::{Runner, TURN_INSTRUCTIONS};
use crate::{Source, SourceMetadata, TraceError, Truncation};

/// Source that deals the instructions of another source out to threads of one process, in short turns. An
/// event that is a request to the operating system belongs to the thread whose turn it is.
pub struct SharedOut<S> {
    source: S,
    metadata: SourceMetadata,
    threads: u16,
    chunk: Chunk,
    /// Number of instructions that the running thread may still run in its turn.
    left: usize,
    running: Runner,
}

impl<S: Source> SharedOut<S> {
    /// Makes a source that distributes the work of `source`, which has a single thread, over `threads`
    /// threads.
    pub fn new(source: S, threads: u16) -> Self {
        let metadata = source.metadata().clone();
        let name = format!("{} by {threads} threads", metadata.name);
        Self {
            source,
            metadata: SourceMetadata { name, ..metadata },
            threads: threads.max(1),
            chunk: Chunk::default(),
            left: TURN_INSTRUCTIONS,
            running: Runner::default(),
        }
    }
}

impl<S: Source> Source for SharedOut<S> {
    fn metadata(&self) -> &SourceMetadata {
        &self.metadata
    }

    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        let more = self.source.next_chunk(&mut self.chunk)?;
        for item in self.chunk.in_order() {
            let (instruction, accesses) = match item {
                ChunkItem::Event(event) => {
                    chunk.push_event(event.clone());
                    continue;
                }
                ChunkItem::Instruction(instruction, accesses) => (instruction, accesses),
            };
            if self.left == 0 {
                let thread = ThreadId((self.running.thread.0 + 1) % self.threads);
                Runner { process: ProcessId(0), thread }.take_over(&mut self.running, chunk);
                self.left = TURN_INSTRUCTIONS;
            }
            chunk.instructions.push(*instruction);
            chunk.accesses.extend_from_slice(accesses);
            self.left -= 1;
        }
        Ok(more)
    }

    fn skip(&mut self, instructions: u64) -> Result<u64, TraceError> {
        self.source.skip(instructions)
    }

    fn truncated(&self) -> Option<&Truncation> {
        self.source.truncated()
    }
}

#[cfg(test)]
mod tests {
    use perforate_types::ProgramEvent;

    use super::super::side_by_side::tests::{FixedChunks, describe, run};
    use super::*;

    #[test]
    fn each_thread_does_a_turn() {
        let (mut first, mut second) = (Chunk::default(), Chunk::default());
        run(&mut first, 0..700);
        first.push_event(ProgramEvent::Exit { process: ProcessId(9) });
        run(&mut first, 700..1000);
        run(&mut second, 1000..1700);
        let mut source = SharedOut::new(FixedChunks::new(vec![first, second]), 3);
        assert_eq!(
            describe(&mut source),
            [
                "0..=499",
                "→0.1",
                "500..=699",
                "exit 9",
                "700..=999",
                "→0.2",
                "1000..=1499",
                "→0.0",
                "1500..=1699"
            ]
        );
        assert_eq!(source.metadata().name, "given by 3 threads");
    }
}
