//! Source that repeats a loop body with an access pattern.

use std::ops::Range;

use perforate_trace::{
    CHUNK_INSTRUCTIONS, SYNTHETIC, Source, SourceMetadata, TraceError, skip_by_decoding,
};
use perforate_types::{
    AccessKind, Advice, Backing, Chunk, Instruction, MemoryAccess, Permissions, ProgramEvent,
    Random, VirtualAddress,
};

use crate::Pattern;
use crate::body::{self, CODE_START, Dependence};
use crate::patterns::WORD_BYTES;

/// Size of a page in bytes, the unit of mappings.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Number of instructions that are delivered at once, unless the loop is longer.
const AT_ONCE: usize = 256;

/// Address below which data regions end; Linux places large mappings of real programs there.
const DATA_LIMIT: u64 = 0x7f00_0000_0000;

/// Parameters that all loop workloads have, regardless of their pattern.
pub(super) struct Loop {
    /// Text of the workload's specification.
    pub(super) name: String,
    /// Size of the data region in bytes.
    pub(super) size_bytes: u64,
    /// Number of other instructions per access.
    pub(super) others: usize,
    /// Share of the accesses that write, from 0 to 1.
    pub(super) writes: f64,
    /// Dependence of the addresses on values that earlier accesses loaded.
    pub(super) dependence: Dependence,
}

/// Source of an endless loop over one data region.
pub(super) struct Synthetic<P> {
    metadata: SourceMetadata,
    pattern: P,
    /// The loop body, repeated so that several rounds are delivered at once.
    rounds: Vec<Instruction>,
    body_length: usize,
    accesses_per_body: usize,
    /// Index in the loop body of the next instruction to deliver.
    progress: usize,
    data_start: u64,
    /// Threshold (scaled to 2⁶⁴) of the random number below which an access writes; 0 if all accesses read.
    write_threshold: u128,
    write_random: Random,
    /// Events with which the next chunk starts: the mappings of the program, or events of skipped
    /// instructions.
    events: Vec<ProgramEvent>,
}

impl<P: Pattern> Synthetic<P> {
    pub(super) fn boxed(pattern: P, common: Loop, seed: u64) -> Box<dyn Source> {
        let data_start = data_start(common.size_bytes);
        let body = body::instructions(common.others, common.dependence);
        let code_bytes = body.iter().map(|instruction| u64::from(instruction.length)).sum();
        Box::new(Self {
            metadata: metadata(common.name),
            pattern,
            accesses_per_body: access_count(&body),
            body_length: body.len(),
            rounds: body.repeat((AT_ONCE / body.len()).max(1)),
            progress: 0,
            data_start,
            write_threshold: (common.writes * 2f64.powi(64)) as u128,
            write_random: Random::new(!seed),
            events: vec![
                map_data(data_start..data_start + common.size_bytes),
                map_code(code_bytes),
            ],
        })
    }

    #[inline]
    fn next_access(&mut self) -> MemoryAccess {
        let fills = self.pattern.fills();
        let offset = self.pattern.next_offset();
        let writes = fills
            || self.write_threshold > 0
                && u128::from(self.write_random.next()) < self.write_threshold;
        MemoryAccess {
            address: VirtualAddress::new(self.data_start + offset),
            size: WORD_BYTES as u16,
            kind: if writes { AccessKind::Write } else { AccessKind::Read },
        }
    }

    /// Appends exactly `count` instructions of the loop, with their accesses and events.
    fn fill(&mut self, chunk: &mut Chunk, count: usize) {
        let mut left = count;
        while left > 0 {
            if self.progress == 0
                && let Some(bytes) = self.pattern.renews()
            {
                self.renew(bytes, chunk);
            }
            // The pattern is asked before each round.
            let most = if P::RENEWS { self.body_length } else { self.rounds.len() };
            let end = most.min(self.progress + left);
            let (rounds, rest) = (end / self.body_length, end % self.body_length);
            let accesses = rounds * self.accesses_per_body + access_count(&self.rounds[..rest])
                - access_count(&self.rounds[..self.progress]);
            chunk.instructions.extend_from_slice(&self.rounds[self.progress..end]);
            chunk.accesses.extend((0..accesses).map(|_| self.next_access()));
            left -= end - self.progress;
            self.progress = rest;
        }
    }
}

/// Number of instructions in the list that access memory; each makes one access.
fn access_count(instructions: &[Instruction]) -> usize {
    instructions.iter().filter(|instruction| instruction.accesses > 0).count()
}

impl<P> Synthetic<P> {
    /// Adds events that unmap the part `bytes` of the data region and map it again, before the next
    /// instruction.
    #[cold]
    fn renew(&self, bytes: Range<u64>, chunk: &mut Chunk) {
        let (start, length) = (self.data_start + bytes.start, bytes.end - bytes.start);
        let map = map(start, length, Permissions::READ_WRITE, Backing::Anonymous, false);
        let unmap = ProgramEvent::Unmap { start: VirtualAddress::new(start), length };
        let at = chunk.instructions.len() as u32;
        chunk.events.extend([unmap, map].map(|event| (at, event)));
    }
}

/// Chooses the start address of a data region of `size_bytes` bytes, which ends near [`DATA_LIMIT`].
pub(crate) fn data_start(size_bytes: u64) -> u64 {
    (DATA_LIMIT - size_bytes) & !((1 << 30) - 1)
}

/// Bytes by which the heap of glibc's malloc grows for small blocks: 128KB (`M_TOP_PAD`) beyond the block, in
/// whole pages.
pub(crate) const HEAP_STEP_BYTES: u64 = (128 << 10) + PAGE_BYTES;

/// Makes the metadata of an endless source with events, dependencies and branches.
pub(crate) fn metadata(name: String) -> SourceMetadata {
    SourceMetadata {
        name,
        format: SYNTHETIC,
        instructions: None,
        has_events: true,
        has_dependencies: true,
        has_branches: true,
        ..SourceMetadata::default()
    }
}

fn map(
    start: u64,
    bytes: u64,
    permissions: Permissions,
    backing: Backing,
    populate: bool,
) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(start),
        length: bytes.next_multiple_of(PAGE_BYTES),
        permissions,
        accessible: true,
        backing,
        shared: false,
        populate,
    }
}

/// Makes the event that maps data at these addresses, populated from the start.
pub(crate) fn map_data(addresses: Range<u64>) -> ProgramEvent {
    let bytes = addresses.end - addresses.start;
    map(addresses.start, bytes, Permissions::READ_WRITE, Backing::Anonymous, true)
}

/// Makes the event that maps the code.
pub(crate) fn map_code(bytes: u64) -> ProgramEvent {
    map(CODE_START, bytes, Permissions::READ_EXECUTE, Backing::File, false)
}

/// Makes events that let the heap grow as glibc's does for small blocks, each step filled before the next.
pub(crate) fn grow_heap(addresses: Range<u64>) -> impl Iterator<Item = ProgramEvent> {
    let Range { start, end } = addresses;
    (start..end).step_by(HEAP_STEP_BYTES as usize).flat_map(move |step| {
        let step_end = end.min(step + HEAP_STEP_BYTES);
        let (start, address) = (VirtualAddress::new(start), VirtualAddress::new(step));
        let advice = Advice::POPULATE_WRITE;
        [
            ProgramEvent::Brk { start, end: VirtualAddress::new(step_end) },
            ProgramEvent::Advise { start: address, length: step_end - step, advice },
        ]
    })
}

impl<P: Pattern> Source for Synthetic<P> {
    fn metadata(&self) -> &SourceMetadata {
        &self.metadata
    }

    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        chunk.events.extend(self.events.drain(..).map(|event| (0, event)));
        self.fill(chunk, CHUNK_INSTRUCTIONS);
        Ok(true)
    }

    fn skip(&mut self, instructions: u64) -> Result<u64, TraceError> {
        let mut events = Vec::new();
        let skipped = skip_by_decoding(
            instructions,
            |event| events.push(event),
            |chunk, at_most| {
                self.fill(chunk, at_most);
                Ok(true)
            },
        );
        self.events.append(&mut events);
        skipped
    }
}
