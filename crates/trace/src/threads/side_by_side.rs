//! Concurrent execution of threads that alternated in a recording.
//!
//! An emulator runs a thread for hundreds of thousands of instructions before the next thread. On a
//! machine with enough processors, threads run at the same time. So the instructions within a window of
//! the recording are reordered such that all threads take short turns, each with its own instructions
//! in order. A request to the operating system (map, unmap, protect, fork, …) keeps its place:
//! instructions recorded before it come before it, and later ones after it.

use std::collections::BTreeMap;

use perforate_types::{Chunk, ProgramEvent};

use super::lines::{InstructionQueue, Piece, Pieces};
use super::{Runner, TURN_INSTRUCTIONS};
use crate::source::CHUNK_INSTRUCTIONS;
use crate::{Source, SourceMetadata, TraceError, Truncation};

/// Source that runs the threads of another source concurrently.
pub struct InterleavedThreads<S> {
    source: Pieces<S>,
    metadata: SourceMetadata,
    window: u64,
    /// Process and thread that run at the point up to which `source` was read.
    reading: Runner,
    /// Instructions of the window (the part of the trace within which threads take turns) that are not
    /// delivered yet, by thread.
    queues: BTreeMap<Runner, InstructionQueue>,
    /// Thread whose turn it is, and the number of instructions left in its turn.
    turn: (Runner, usize),
    /// Event that ends the window, and the thread that caused it.
    event: Option<(Runner, ProgramEvent)>,
    /// Process and thread that run at the end of the delivered instructions.
    running: Runner,
    /// Events of skipped instructions; the next chunk starts with them.
    skipped: Vec<ProgramEvent>,
}

impl<S: Source> InterleavedThreads<S> {
    /// Makes a source that runs the threads of `source` concurrently within each window of `window`
    /// instructions.
    pub fn new(source: S, window: u64) -> Self {
        let mut metadata = source.metadata().clone();
        metadata.assumptions.push(format!(
            "threads run side by side within each {window} instructions of the recording, between \
             two requests to the operating system"
        ));
        Self {
            source: Pieces::new(source),
            metadata,
            window,
            reading: Runner::default(),
            queues: BTreeMap::new(),
            turn: (Runner::default(), TURN_INSTRUCTIONS),
            event: None,
            running: Runner::default(),
            skipped: Vec::new(),
        }
    }

    /// Reads instructions into the threads' queues, up to the end of the window or to the next request to the
    /// operating system, whose position must not change.
    fn read_window(&mut self) -> Result<(), TraceError> {
        let mut read = 0;
        while read < self.window && self.event.is_none() {
            match self.source.next(usize::MAX)? {
                Some(Piece::Run(instructions, accesses)) => {
                    self.queues.entry(self.reading).or_default().push(instructions, accesses);
                    read += instructions.len() as u64;
                }
                Some(Piece::Event(event)) => match Runner::after(&event) {
                    Some(runner) => self.reading = runner,
                    None => self.event = Some((self.reading, event)),
                },
                None => break,
            }
        }
        Ok(())
    }

    /// Moves instructions of the window into `chunk`, in turns, until it has `most` instructions.
    fn take_turns(&mut self, chunk: &mut Chunk, most: usize) {
        while chunk.instructions.len() < most {
            let (runner, left) = self.turn;
            if left == 0 || self.queues.get(&runner).is_none_or(InstructionQueue::is_empty) {
                let Some(next) = self.next_in_turn(runner) else { return };
                self.turn = (next, TURN_INSTRUCTIONS);
                continue;
            }
            runner.take_over(&mut self.running, chunk);
            let count = left.min(most - chunk.instructions.len());
            let taken = self.queues.get_mut(&runner).map_or(0, |queue| queue.take(count, chunk));
            self.turn.1 -= taken;
        }
    }

    /// Returns the next thread after this one, cyclically, that has instructions left in the window.
    fn next_in_turn(&self, after: Runner) -> Option<Runner> {
        use std::ops::Bound::{Excluded, Unbounded};
        let later = self.queues.range((Excluded(after), Unbounded));
        let mut all = later.chain(self.queues.range(..=after));
        all.find(|(_, line)| !line.is_empty()).map(|(runner, _)| *runner)
    }

    fn fill(&mut self, chunk: &mut Chunk, most: usize) -> Result<bool, TraceError> {
        Runner::after_skipped(&mut self.skipped, &mut self.running, chunk);
        self.take_turns(chunk, most);
        while chunk.instructions.len() < most {
            if let Some((runner, event)) = self.event.take() {
                runner.take_over(&mut self.running, chunk);
                chunk.push_event(event);
            }
            self.read_window()?;
            if self.event.is_none() && self.queues.values().all(InstructionQueue::is_empty) {
                break;
            }
            self.take_turns(chunk, most);
        }
        Ok(!chunk.is_empty())
    }
}

impl<S: Source> Source for InterleavedThreads<S> {
    fn metadata(&self) -> &SourceMetadata {
        &self.metadata
    }

    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        self.fill(chunk, CHUNK_INSTRUCTIONS)
    }

    fn skip(&mut self, instructions: u64) -> Result<u64, TraceError> {
        let (skipped, events) = super::skip(instructions, |chunk, most| self.fill(chunk, most))?;
        self.skipped = events;
        Ok(skipped)
    }

    fn truncated(&self) -> Option<&Truncation> {
        self.source.source.truncated()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use perforate_types::{
        AccessKind, ChunkItem, Instruction, MemoryAccess, ProcessId, ThreadId, VirtualAddress,
    };

    use super::*;

    /// Source for tests, which delivers the given chunks.
    pub(in crate::threads) struct FixedChunks(pub(in crate::threads) Vec<Chunk>, SourceMetadata);

    impl FixedChunks {
        pub(in crate::threads) fn new(mut chunks: Vec<Chunk>) -> Self {
            chunks.reverse();
            Self(chunks, SourceMetadata { name: "given".into(), ..SourceMetadata::default() })
        }
    }

    impl Source for FixedChunks {
        fn metadata(&self) -> &SourceMetadata {
            &self.1
        }

        fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
            chunk.clear();
            let Some(next) = self.0.pop() else { return Ok(false) };
            *chunk = next;
            Ok(true)
        }

        fn skip(&mut self, _: u64) -> Result<u64, TraceError> {
            unreachable!("nobody skips it")
        }
    }

    pub(in crate::threads) fn switch(process: u16, thread: u16) -> ProgramEvent {
        ProgramEvent::Switch { process: ProcessId(process), thread: ThreadId(thread) }
    }

    /// Adds an instruction at each of these addresses; each reads its own address.
    pub(in crate::threads) fn run(chunk: &mut Chunk, addresses: std::ops::Range<u64>) {
        for address in addresses {
            let address = VirtualAddress::new(address);
            let access = MemoryAccess { address, size: 8, kind: AccessKind::Read };
            chunk.push(Instruction { ip: address, ..Instruction::default() }, &[access]);
        }
    }

    /// Output of a source as text: runs of addresses, and the events between them.
    pub(in crate::threads) fn describe(source: &mut dyn Source) -> Vec<String> {
        let (mut chunk, mut lines, mut run) = (Chunk::default(), Vec::new(), None);
        let end = |run: &mut Option<(u64, u64)>, lines: &mut Vec<String>| {
            lines.extend(run.take().map(|(first, last)| format!("{first}..={last}")));
        };
        while source.next_chunk(&mut chunk).unwrap() {
            for item in chunk.in_order() {
                match item {
                    ChunkItem::Event(event) => {
                        end(&mut run, &mut lines);
                        lines.push(word(event));
                    }
                    ChunkItem::Instruction(instruction, accesses) => {
                        let ip = instruction.ip.value();
                        assert_eq!(accesses[0].address.value(), ip, "its own access");
                        match &mut run {
                            Some((_, last)) if *last + 1 == ip => *last = ip,
                            _ => {
                                end(&mut run, &mut lines);
                                run = Some((ip, ip));
                            }
                        }
                    }
                }
            }
        }
        end(&mut run, &mut lines);
        lines
    }

    fn word(event: &ProgramEvent) -> String {
        match event {
            ProgramEvent::Switch { process, thread } => format!("→{}.{}", process.0, thread.0),
            ProgramEvent::Unmap { .. } => "unmap".into(),
            ProgramEvent::Exit { process } => format!("exit {}", process.0),
            ProgramEvent::Fork { child } => format!("fork {}", child.0),
            other => format!("{other:?}"),
        }
    }

    fn unmap() -> ProgramEvent {
        ProgramEvent::Unmap { start: VirtualAddress::new(0), length: 4096 }
    }

    /// Makes the recording of the tests: thread 0 runs 1200 instructions, then thread 1 600, then thread 0
    /// 100; then thread 1 unmaps memory and runs 100 more.
    fn recording() -> FixedChunks {
        let mut chunk = Chunk::default();
        run(&mut chunk, 0..1200);
        chunk.push_event(switch(0, 1));
        run(&mut chunk, 10_000..10_600);
        let mut next = Chunk::default();
        next.push_event(switch(0, 0));
        run(&mut next, 1200..1300);
        next.push_event(switch(0, 1));
        next.push_event(unmap());
        run(&mut next, 10_600..10_700);
        FixedChunks::new(vec![chunk, next])
    }

    /// Instructions and events of [`recording`] when threads take turns of 500 instructions.
    const IN_TURNS: [&str; 12] = [
        "0..=499",
        "→0.1",
        "10000..=10499",
        "→0.0",
        "500..=999",
        "→0.1",
        "10500..=10599",
        "→0.0",
        "1000..=1299",
        "→0.1",
        "unmap",
        "10600..=10699",
    ];

    #[test]
    fn threads_take_short_turns_and_requests_keep_their_place() {
        assert_eq!(describe(&mut InterleavedThreads::new(recording(), 1_000_000)), IN_TURNS);
    }

    #[test]
    fn nothing_moves_out_of_its_window() {
        // The first window ends with the run of thread 1 that passes instruction 1500.
        assert_eq!(describe(&mut InterleavedThreads::new(recording(), 1500)), IN_TURNS);
        let as_recorded = [
            "0..=1199",
            "→0.1",
            "10000..=10599",
            "→0.0",
            "1200..=1299",
            "→0.1",
            "unmap",
            "10600..=10699",
        ];
        assert_eq!(describe(&mut InterleavedThreads::new(recording(), 1)), as_recorded);
    }

    #[test]
    fn skipping_keeps_the_events() {
        let mut source = InterleavedThreads::new(recording(), 1_000_000);
        assert_eq!(source.skip(1850).unwrap(), 1850);
        assert_eq!(
            describe(&mut source)[..],
            ["→0.1", "→0.0", "→0.1", "→0.0", "1250..=1299", "→0.1", "unmap", "10600..=10699"]
        );
        assert_eq!(source.skip(7).unwrap(), 0, "it is over");
    }
}
