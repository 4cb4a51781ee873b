//! The instrumented machine: runs blocks of code and records what they access.

use perforate_types::{AccessKind, Chunk, MemoryAccess, VirtualAddress};

use super::code::{Block, Code};

/// Where an algorithm's instructions go.
///
/// An algorithm first does the accesses of a block through its arrays, in the order of the block's
/// loads and stores, and then [runs](Machine::run) the block.
pub(super) struct Machine<'a> {
    code: &'a Code,
    chunk: &'a mut Chunk,
    /// Accesses that a block which is run has to own.
    owed: usize,
}

impl<'a> Machine<'a> {
    pub(super) fn new(code: &'a Code, chunk: &'a mut Chunk) -> Self {
        Self { code, chunk, owed: 0 }
    }

    /// Instructions run so far.
    #[inline]
    pub(super) fn instructions(&self) -> usize {
        self.chunk.instructions.len()
    }

    #[inline]
    pub(super) fn access(&mut self, address: u64, size_bytes: u64, kind: AccessKind) {
        let (address, size) = (VirtualAddress::new(address), size_bytes as u16);
        self.chunk.accesses.push(MemoryAccess { address, size, kind });
        self.owed += 1;
    }

    /// Runs a block; `taken` tells where its conditional branch goes, if it ends with one.
    #[inline]
    pub(super) fn run(&mut self, block: Block, taken: bool) {
        let code = self.code.block(block);
        debug_assert!(self.owns_what_was_accessed(block), "block {block}: its accesses");
        self.owed = 0;
        self.chunk.instructions.extend_from_slice(code);
        if taken && let Some(last) = self.chunk.instructions.last_mut() {
            last.taken = true;
        }
    }

    /// Whether the accesses since the last block are those of this one's loads and stores.
    fn owns_what_was_accessed(&self, block: Block) -> bool {
        let owning = self.code.block(block).iter().filter(|one| one.accesses > 0);
        let kinds = owning.map(|one| match one.destinations[0] {
            0 => AccessKind::Write,
            _ => AccessKind::Read,
        });
        let accesses = &self.chunk.accesses[self.chunk.accesses.len() - self.owed..];
        kinds.eq(accesses.iter().map(|access| access.kind))
    }
}
