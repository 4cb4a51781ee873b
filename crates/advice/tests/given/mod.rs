//! A program for tests, in one chunk.

use perforate_trace::{Source, SourceMetadata, TraceError};
use perforate_types::{
    AccessKind, Backing, Chunk, Instruction, MemoryAccess, Permissions, ProgramEvent,
    VirtualAddress,
};

/// Source with events that delivers one chunk.
pub struct OneChunk {
    metadata: SourceMetadata,
    chunk: Option<Chunk>,
}

impl OneChunk {
    pub fn new(chunk: Chunk) -> Self {
        let metadata = SourceMetadata { has_events: true, ..SourceMetadata::default() };
        Self { metadata, chunk: Some(chunk) }
    }
}

impl Source for OneChunk {
    fn metadata(&self) -> &SourceMetadata {
        &self.metadata
    }

    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        let next = self.chunk.take();
        let is_there = next.is_some();
        *chunk = next.unwrap_or_default();
        Ok(is_there)
    }

    fn skip(&mut self, _: u64) -> Result<u64, TraceError> {
        unreachable!("no test skips")
    }
}

/// Anonymous memory that is mapped at an address.
pub fn map(start: u64, pages: u64) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(start),
        length: pages * 4096,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: false,
    }
}

/// Adds an instruction that reads 8 bytes.
pub fn push_read(chunk: &mut Chunk, address: u64) {
    let address = VirtualAddress::new(address);
    let access = MemoryAccess { address, size: 8, kind: AccessKind::Read };
    chunk.push(Instruction { length: 4, ..Instruction::default() }, &[access]);
}
