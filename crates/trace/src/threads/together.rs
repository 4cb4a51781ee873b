//! Concurrent execution of several programs, each as a separate process.

use std::collections::BTreeMap;

use perforate_types::{Chunk, ProcessId, ProgramEvent};

use super::lines::{Piece, Pieces};
use super::{Runner, TURN_INSTRUCTIONS};
use crate::source::CHUNK_INSTRUCTIONS;
use crate::{Source, SourceMetadata, TraceError, Truncation};

/// Source of several programs that take short turns until each is finished.
pub struct ConcurrentPrograms {
    programs: Vec<Program>,
    metadata: SourceMetadata,
    /// Number that the next new process gets.
    next_process: u16,
    turn: usize,
    /// True once the events before the first instructions of all programs were delivered.
    has_begun: bool,
    running: Runner,
    skipped: Vec<ProgramEvent>,
}

/// One of several programs that run concurrently.
struct Program {
    source: Pieces<Box<dyn Source>>,
    /// New number of each of the program's processes: processes of all programs are numbered together. The
    /// key is the process number in the program's own trace.
    processes: BTreeMap<ProcessId, ProcessId>,
    /// Process (by its new number) and thread that run next in this program.
    runner: Runner,
}

impl ConcurrentPrograms {
    /// Makes a source that runs these programs concurrently. Processes are renumbered in order of appearance;
    /// process 0 of the first program stays 0.
    pub fn new(sources: Vec<Box<dyn Source>>) -> Self {
        let metadata = metadata(&sources);
        let programs = sources.into_iter().map(|source| Program {
            source: Pieces::new(source),
            processes: BTreeMap::new(),
            runner: Runner::default(),
        });
        let mut programs: Vec<Program> = programs.collect();
        let mut next_process = 0;
        for program in &mut programs {
            program.runner.process = program.number(ProcessId(0), &mut next_process);
        }
        let (turn, running) = (0, Runner::default());
        let (has_begun, skipped) = (false, Vec::new());
        Self { programs, metadata, next_process, turn, has_begun, running, skipped }
    }

    /// Delivers the events before the first instruction of each program: memory that a program had when its recording
    /// began, it has before any program runs.
    fn begin(&mut self, chunk: &mut Chunk) -> Result<(), TraceError> {
        for program in &mut self.programs {
            while let Some(Piece::Event(event)) = program.source.next(0)? {
                program.deliver_event(event, chunk, &mut self.running, &mut self.next_process);
            }
        }
        self.has_begun = true;
        Ok(())
    }

    /// Runs the current program for a turn, into `chunk`. Returns false if it delivered nothing.
    fn take_turn(&mut self, chunk: &mut Chunk, most: usize) -> Result<bool, TraceError> {
        let Self { programs, next_process, running, .. } = self;
        let program = &mut programs[self.turn];
        let end = chunk.instructions.len().saturating_add(TURN_INSTRUCTIONS).min(most);
        let before = (chunk.instructions.len(), chunk.events.len());
        while chunk.instructions.len() < end {
            match program.source.next(end - chunk.instructions.len())? {
                Some(Piece::Event(event)) => {
                    program.deliver_event(event, chunk, running, next_process);
                }
                Some(Piece::Run(instructions, accesses)) => {
                    program.runner.take_over(running, chunk);
                    chunk.instructions.extend_from_slice(instructions);
                    chunk.accesses.extend_from_slice(accesses);
                }
                None => break,
            }
        }
        Ok(before != (chunk.instructions.len(), chunk.events.len()))
    }

    fn fill(&mut self, chunk: &mut Chunk, most: usize) -> Result<bool, TraceError> {
        if !self.has_begun {
            self.begin(chunk)?;
        }
        Runner::after_skipped(&mut self.skipped, &mut self.running, chunk);
        let mut idle = 0;
        while chunk.instructions.len() < most && idle < self.programs.len() {
            idle = if self.take_turn(chunk, most)? { 0 } else { idle + 1 };
            self.turn = (self.turn + 1) % self.programs.len();
        }
        Ok(!chunk.is_empty())
    }
}

/// Combines the metadata of all programs.
fn metadata(sources: &[Box<dyn Source>]) -> SourceMetadata {
    let all = || sources.iter().map(|source| source.metadata());
    let names: Vec<&str> = all().map(|it| it.name.as_str()).collect();
    let mut assumptions: Vec<String> = Vec::new();
    for assumption in all().flat_map(|it| &it.assumptions) {
        if !assumptions.contains(assumption) {
            assumptions.push(assumption.clone());
        }
    }
    SourceMetadata {
        name: names.join(" with "),
        format: all().next().map_or("", |first| first.format),
        instructions: all().map(|it| it.instructions).sum(),
        has_events: all().all(|it| it.has_events),
        has_dependencies: all().all(|it| it.has_dependencies),
        has_branches: all().all(|it| it.has_branches),
        recording: None,
        // Each program sets up while others run.
        setup_until: None,
        is_cut_off: all().any(|it| it.is_cut_off),
        programs_beside: sources.len() as u64 - 1,
        // Each program has its own start.
        instructions_skipped: 0,
        stopped_by: all().find_map(|it| it.stopped_by),
        failure: all().find_map(|it| it.failure.clone()),
        accesses_unmapped: all().fold(0, |sum: u64, it| sum.saturating_add(it.accesses_unmapped)),
        assumptions,
    }
}

impl Program {
    /// Returns a process's number among the processes of all programs; a new process gets the number `next`.
    fn number(&mut self, own: ProcessId, next: &mut u16) -> ProcessId {
        *self.processes.entry(own).or_insert_with(|| {
            let number = ProcessId(*next);
            *next = next.saturating_add(1);
            number
        })
    }

    /// Adds an event to `chunk`, with process numbers that are unique among all programs. A switch only
    /// changes the program's `runner`. A gap (instructions that the recorder skipped) is dropped, because the
    /// other programs continue.
    fn deliver_event(
        &mut self,
        mut event: ProgramEvent,
        chunk: &mut Chunk,
        running: &mut Runner,
        next: &mut u16,
    ) {
        match &mut event {
            ProgramEvent::Switch { process, thread } => {
                let process = self.number(*process, next);
                self.runner = Runner { process, thread: *thread };
                return;
            }
            ProgramEvent::Fork { child } => *child = self.number(*child, next),
            ProgramEvent::Exit { process } => *process = self.number(*process, next),
            // Only this program skips instructions; the others continue.
            ProgramEvent::Gap { .. } => return,
            _ => {}
        }
        self.runner.take_over(running, chunk);
        chunk.push_event(event);
    }
}

impl Source for ConcurrentPrograms {
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
        self.programs.iter().find_map(|program| program.source.source.truncated())
    }
}

#[cfg(test)]
mod tests {
    use super::super::side_by_side::tests::{FixedChunks, describe, run, switch};
    use super::*;

    #[test]
    fn programs_take_turns_and_have_processes_of_their_own() {
        let mut first = Chunk::default();
        run(&mut first, 0..800);
        first.push_event(ProgramEvent::Fork { child: ProcessId(1) });
        first.push_event(switch(1, 3));
        run(&mut first, 800..1100);
        let mut second = Chunk::default();
        run(&mut second, 5000..5100);
        second.push_event(switch(1, 0));
        run(&mut second, 5100..5200);
        second.push_event(ProgramEvent::Exit { process: ProcessId(1) });
        let sources: Vec<Box<dyn Source>> =
            vec![Box::new(FixedChunks::new(vec![first])), Box::new(FixedChunks::new(vec![second]))];
        let mut together = ConcurrentPrograms::new(sources);
        assert_eq!(together.metadata().name, "given with given");
        // The second program's process 0 is 1 and its process 1 is 2; the first program's child is 3.
        assert_eq!(
            describe(&mut together),
            [
                "0..=499",
                "→1.0",
                "5000..=5099",
                "→2.0",
                "5100..=5199",
                "exit 2",
                "→0.0",
                "500..=799",
                "fork 3",
                "→3.3",
                "800..=1099",
            ]
        );
    }

    /// Events before the first instruction of each program come before any instruction.
    #[test]
    fn programs_begin_with_the_memory_that_they_had() {
        let program = |first: u64| {
            let mut chunk = Chunk::default();
            chunk.push_event(ProgramEvent::Fork { child: ProcessId(1) });
            run(&mut chunk, first..first + 600);
            Box::new(FixedChunks::new(vec![chunk])) as Box<dyn Source>
        };
        let mut together = ConcurrentPrograms::new(vec![program(0), program(5000)]);
        assert_eq!(
            describe(&mut together),
            [
                "fork 2",
                "→1.0",
                "fork 3",
                "→0.0",
                "0..=499",
                "→1.0",
                "5000..=5499",
                "→0.0",
                "500..=599",
                "→1.0",
                "5500..=5599",
            ]
        );
    }
}
