//! Distribution of a single thread's work over several threads.

use perforate_types::{Chunk, ProcessId, ThreadId};

use super::lines::accesses_of;
use super::{Runner, TURN_INSTRUCTIONS};
use crate::{Source, SourceMetadata, TraceError, Truncation};

/// Source that deals the instructions of another source out to threads of one process, in short turns.
/// A request to the operating system is made by the thread whose turn it is.
pub struct SharedOut<S> {
    source: S,
    metadata: SourceMetadata,
    threads: u16,
    chunk: Chunk,
    /// Number of instructions left in the current turn.
    left: usize,
    running: Runner,
}

impl<S: Source> SharedOut<S> {
    /// Distributes the work of `source`, which has a single thread, over `threads` threads.
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

    /// Runner of the next turn.
    fn next_runner(&self) -> Runner {
        let next = (self.running.thread.0 + 1) % self.threads;
        Runner { process: ProcessId(0), thread: ThreadId(next) }
    }
}

impl<S: Source> Source for SharedOut<S> {
    fn metadata(&self) -> &SourceMetadata {
        &self.metadata
    }

    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        let more = self.source.next_chunk(&mut self.chunk)?;
        let (mut done, mut accesses) = (0, 0);
        let mut events = std::mem::take(&mut self.chunk.events).into_iter().peekable();
        let all = self.chunk.instructions.len();
        loop {
            while let Some((_, event)) = events.next_if(|(at, _)| *at as usize <= done) {
                chunk.push_event(event);
            }
            if done == all {
                events.for_each(|(_, event)| chunk.push_event(event));
                return Ok(more);
            }
            if self.left == 0 {
                self.next_runner().take_over(&mut self.running, chunk);
                self.left = TURN_INSTRUCTIONS;
            }
            let event = events.peek().map_or(usize::MAX, |(at, _)| *at as usize);
            let end = all.min(done + self.left).min(event);
            let instructions = &self.chunk.instructions[done..end];
            let own = accesses_of(instructions);
            chunk.instructions.extend_from_slice(instructions);
            chunk.accesses.extend_from_slice(&self.chunk.accesses[accesses..accesses + own]);
            self.left -= end - done;
            (done, accesses) = (end, accesses + own);
        }
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
