//! An algorithm as a source.

use perforate_types::{Chunk, ProgramEvent};

use super::Algorithm;
use super::array::Space;
use super::code::Code;
use super::machine::Machine;
use crate::source::{CHUNK_INSTRUCTIONS, skip_by_decoding};
use crate::synthetic::source::{data_start, maps, metadata};
use crate::synthetic::spec::WorkloadSpec;
use crate::{Source, SourceMetadata, TraceError};

/// A source that makes its data when it is first asked for something.
pub(super) struct Running<A> {
    metadata: SourceMetadata,
    spec: WorkloadSpec,
    seed: u64,
    program: Option<Program<A>>,
}

struct Program<A> {
    algorithm: A,
    code: Code,
    /// What a step did beyond the instructions that were asked for.
    carried: Chunk,
    /// Events not delivered yet.
    events: Vec<ProgramEvent>,
}

impl<A: Algorithm> Running<A> {
    pub(super) fn boxed(spec: &WorkloadSpec, seed: u64) -> Box<dyn Source> {
        let metadata = metadata(spec);
        Box::new(Self { metadata, spec: spec.clone(), seed, program: None })
    }

    fn program(&mut self) -> &mut Program<A> {
        self.program.get_or_insert_with(|| Program::new(&self.spec, self.seed))
    }
}

impl<A: Algorithm> Program<A> {
    fn new(spec: &WorkloadSpec, seed: u64) -> Self {
        let size_bytes = spec.size("size");
        let mut space = Space::new(data_start(size_bytes));
        let algorithm = A::new(spec, seed, &mut space);
        assert!(space.bytes() <= size_bytes, "{spec}: {} bytes of data", space.bytes());
        let code = algorithm.code();
        let events = maps(data_start(size_bytes), space.bytes(), code.bytes());
        Self { algorithm, code, carried: Chunk::default(), events }
    }

    /// Appends exactly `count` instructions to an empty chunk.
    fn fill(&mut self, chunk: &mut Chunk, count: usize) {
        chunk.instructions.append(&mut self.carried.instructions);
        chunk.accesses.append(&mut self.carried.accesses);
        let mut machine = Machine::new(&self.code, chunk);
        while machine.instructions() < count {
            self.algorithm.step(&mut machine);
        }
        self.carried.instructions.extend(chunk.instructions.drain(count..));
        let carried = &self.carried.instructions;
        let accesses: usize = carried.iter().map(|one| usize::from(one.accesses)).sum();
        let kept = chunk.accesses.len() - accesses;
        self.carried.accesses.extend(chunk.accesses.drain(kept..));
    }
}

impl<A: Algorithm> Source for Running<A> {
    fn metadata(&self) -> &SourceMetadata {
        &self.metadata
    }

    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        let program = self.program();
        chunk.events.extend(program.events.drain(..).map(|event| (0, event)));
        program.fill(chunk, CHUNK_INSTRUCTIONS);
        Ok(true)
    }

    fn skip(&mut self, instructions: u64) -> Result<u64, TraceError> {
        let program = self.program();
        skip_by_decoding(instructions, drop, |chunk, at_most| {
            program.fill(chunk, at_most);
            Ok(true)
        })
    }
}
