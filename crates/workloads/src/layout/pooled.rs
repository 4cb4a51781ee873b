//! Source wrapper that moves a program's memory into the pools of a layout, as Mosalloc's library
//! does. Each pool is mapped once as a whole. The program's mappings and unmappings only change
//! which parts of the pool are in use.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use perforate_trace::Truncation;
use perforate_types::{
    Advice, Backing, Chunk, MemoryAccess, Permissions, ProcessId, ProgramEvent, RangeMap,
    VirtualAddress, access_count,
};

use super::place::Room;
use super::{LayoutFile, Pool};
use perforate_trace::{Source, SourceMetadata, TraceError};

const PAGE_BYTES: u64 = 4096;
/// Maximum size of a pool in bytes, which is also the distance between the addresses of two pools.
const MOST_BYTES: u64 = 8 << 40;
/// Start of the region in which Linux maps libraries and mmap memory. Programs themselves have
/// lower addresses.
const LIBRARIES: u64 = 0x7000_0000_0000;

/// Source that moves the memory of another source's program into the pools of a layout (a list of page
/// sizes).
pub struct Pooled<S> {
    source: S,
    metadata: SourceMetadata,
    processes: Processes,
    /// Events for the chunk that is being filled, each with its position in the chunk.
    events: Vec<(u32, ProgramEvent)>,
}

/// Memory of all processes of the program.
struct Processes {
    layout: Arc<LayoutFile>,
    all: HashMap<ProcessId, Memory>,
    running: ProcessId,
}

/// Placement of one process's memory in the pools.
#[derive(Clone, Debug, Default)]
struct Memory {
    /// Offsets that move the addresses of ranges (added modulo 2^64). Offset zero is for memory that keeps its
    /// address.
    moves: RangeMap<u64>,
    /// Address range found last with its offset, or gap found last; most accesses are near the previous access.
    last: (Range<u64>, Option<u64>),
    room: Room,
    /// End address of the heap, if the heap is in a pool.
    heap: Option<u64>,
    /// End address of the program's data segment. Anonymous memory that starts here is the program's bss
    /// section.
    data_end: u64,
    /// True if the pool of the heap (first) and the pool of mappings (second) are mapped.
    is_mapped: [bool; 2],
}

impl<S: Source> Pooled<S> {
    /// Puts the memory of a program into the pools of a layout.
    ///
    /// # Errors
    /// If the source has no mapping events, or a pool is too large.
    pub fn new(source: S, layout: LayoutFile) -> Result<Self, TraceError> {
        let mut metadata = source.metadata().clone();
        let path = Path::new(&metadata.name);
        if !metadata.has_events {
            let problem = "it does not tell what the program maps, so no pool can be made";
            let expected = "a trace of Perforate's own recorder, or a workload";
            return Err(TraceError::unsuitable(path, problem, expected));
        }
        for pool in [Pool::Brk, Pool::Mmap] {
            let bytes = layout.pool(pool).map_or(0, |pool| pool.bytes);
            if bytes > MOST_BYTES {
                let problem = format!("the pool {} has {bytes} bytes", pool.name());
                return Err(TraceError::unsuitable(&layout.path(), problem, "at most 8 TB"));
            }
        }
        metadata.assumptions.push(format!(
            "memory lies in the pools of the layout {}: there, permissions, advice and unmapping have no \
             effect on pages",
            layout.name
        ));
        let processes = Processes {
            layout: Arc::new(layout),
            all: HashMap::new(),
            running: ProcessId::default(),
        };
        Ok(Self { source, metadata, processes, events: Vec::new() })
    }
}

impl<S: Source> Source for Pooled<S> {
    fn metadata(&self) -> &SourceMetadata {
        &self.metadata
    }

    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        let more = self.source.next_chunk(chunk)?;
        let Chunk { instructions, accesses, events } = chunk;
        let mut rest = accesses.as_mut_slice();
        let mut done = 0;
        for (before, event) in events.drain(..) {
            let count = access_count(&instructions[done..before as usize]);
            let (now, later) = std::mem::take(&mut rest).split_at_mut(count);
            self.processes.running().translate(now);
            (rest, done) = (later, before as usize);
            self.processes.rewrite_event(event, &mut |event| self.events.push((before, event)))?;
        }
        self.processes.running().translate(rest);
        std::mem::swap(&mut chunk.events, &mut self.events);
        Ok(more)
    }

    fn skip(&mut self, instructions: u64) -> Result<u64, TraceError> {
        self.source.skip(instructions)
    }

    fn truncated(&self) -> Option<&Truncation> {
        self.source.truncated()
    }
}

impl LayoutFile {
    /// Name of the layout as a path, for errors.
    fn path(&self) -> std::path::PathBuf {
        format!("layout {}", self.name).into()
    }

    /// Makes the error that the pool has no room for `bytes` bytes.
    fn full(&self, pool: Pool, bytes: u64) -> TraceError {
        let has = self.pool(pool).map_or(0, |pool| pool.bytes);
        let name = pool.name();
        let problem = format!(
            "the pool {name} of {has} bytes has no room for {bytes} bytes that the program wants"
        );
        let expected = format!("a longer pool, in the line {name},-1,0,…");
        TraceError::unsuitable(&self.path(), problem, &expected)
    }
}

impl Processes {
    fn running(&mut self) -> &mut Memory {
        self.all.entry(self.running).or_default()
    }

    /// Passes an event to `push`; an event about memory in pools is replaced by events for the pools.
    fn rewrite_event(
        &mut self,
        event: ProgramEvent,
        push: &mut dyn FnMut(ProgramEvent),
    ) -> Result<(), TraceError> {
        match event {
            ProgramEvent::Fork { child } => {
                let copy = self.running().clone();
                self.all.insert(child, copy);
            }
            ProgramEvent::Exec => *self.running() = Memory::default(),
            ProgramEvent::Exit { process } => drop(self.all.remove(&process)),
            ProgramEvent::Switch { process, .. } => self.running = process,
            _ => {
                let layout = Arc::clone(&self.layout);
                let memory = self.running();
                memory.last = (0..0, None);
                return memory.rewrite_event(event, &layout, push);
            }
        }
        push(event);
        Ok(())
    }
}

impl Memory {
    /// Translates accesses to their addresses in the pools. An access that crosses the end of a range is cut
    /// there, because the next range may have a different offset.
    fn translate(&mut self, accesses: &mut [MemoryAccess]) {
        for access in accesses {
            let address = access.address.value();
            if !self.last.0.contains(&address) {
                let (range, by) = self.moves.around(address);
                self.last = (range, by.copied());
            }
            let (range, by) = &self.last;
            let Some(by @ 1..) = *by else { continue };
            access.address = VirtualAddress::new(address.wrapping_add(by));
            access.size = access.size.min(u16::try_from(range.end - address).unwrap_or(u16::MAX));
        }
    }

    fn rewrite_event(
        &mut self,
        event: ProgramEvent,
        layout: &LayoutFile,
        push: &mut dyn FnMut(ProgramEvent),
    ) -> Result<(), TraceError> {
        check_place(&event, layout)?;
        match event {
            ProgramEvent::Map { start, length, permissions, backing, shared, populate, .. } => {
                let range = pages(start, length);
                if backing == Backing::File && permissions.write && range.start < LIBRARIES {
                    self.data_end = range.end;
                }
                let is_pooled = backing == Backing::Anonymous && !shared;
                if !is_pooled || layout.pool(Pool::Mmap).is_none() || self.is_fixed(&range) {
                    self.release(range.clone());
                    self.moves.insert(range, 0);
                    push(event);
                    return Ok(());
                }
                self.release(range.clone());
                let to = self.map(range.clone(), layout, push)?;
                if populate {
                    let advice = Advice::POPULATE_WRITE;
                    let length = range.end - range.start;
                    push(ProgramEvent::Advise { start: VirtualAddress::new(to), length, advice });
                }
            }
            ProgramEvent::Brk { start, end } if layout.pool(Pool::Brk).is_some() => {
                self.grow_heap((start.value(), end.value()), layout, push)?;
            }
            ProgramEvent::Unmap { start, length } => {
                let range = pages(start, length);
                let unpooled_parts = self.unpooled_parts(&range);
                self.release(range);
                for (start, length) in unpooled_parts {
                    push(ProgramEvent::Unmap { start, length });
                }
            }
            ProgramEvent::Protect { start, length, permissions, accessible } => {
                for (start, length) in self.unpooled_parts(&pages(start, length)) {
                    push(ProgramEvent::Protect { start, length, permissions, accessible });
                }
            }
            ProgramEvent::Advise { start, length, advice } => {
                for (range, by) in self.moves.parts(pages(start, length)) {
                    let by = by.copied().unwrap_or(0);
                    if by == 0 || advice.populates() {
                        let start = VirtualAddress::new(range.start.wrapping_add(by));
                        let length = range.end - range.start;
                        push(ProgramEvent::Advise { start, length, advice });
                    }
                }
            }
            ProgramEvent::Name { start, length, name } => {
                for (range, by) in self.moves.parts(pages(start, length)) {
                    let start = range.start.wrapping_add(by.copied().unwrap_or(0));
                    let start = VirtualAddress::new(start);
                    let length = range.end - range.start;
                    push(ProgramEvent::Name { start, length, name: name.clone() });
                }
            }
            ProgramEvent::Remap { from, from_length, to, to_length } => {
                let (old, new) = (pages(from, from_length), pages(to, to_length));
                return self.remap(old, new, layout, push, event);
            }
            other => push(other),
        }
        Ok(())
    }

    /// True if a new mapping must keep its address: it replaces memory that is in no pool, or follows the
    /// program's data, as the loader's mapping of the bss section does. The bss of libraries cannot be
    /// distinguished from other mappings.
    fn is_fixed(&self, range: &Range<u64>) -> bool {
        range.start == self.data_end || self.moves.within(range.clone()).any(|(_, by)| *by == 0)
    }

    /// Parts of an address range that are in no pool, each as start and length in bytes.
    fn unpooled_parts(&self, range: &Range<u64>) -> Vec<(VirtualAddress, u64)> {
        let parts = self.moves.parts(range.clone());
        parts
            .filter(|(_, by)| by.is_none_or(|by| *by == 0))
            .map(|(part, _)| (VirtualAddress::new(part.start), part.end - part.start))
            .collect()
    }

    /// Frees all memory in pools that the program has at these addresses.
    fn release(&mut self, range: Range<u64>) {
        for (range, by) in self.moves.remove(&range) {
            if let Some(offset) = offset_in_mappings(range.start.wrapping_add(by)) {
                self.room.free(offset..offset + (range.end - range.start));
            }
        }
    }

    /// Places a new mapping of the program in the pool of mappings, and records the offset that moves its
    /// addresses there. Returns its address in the pool.
    fn map(
        &mut self,
        range: Range<u64>,
        layout: &LayoutFile,
        push: &mut dyn FnMut(ProgramEvent),
    ) -> Result<u64, TraceError> {
        let first = self.map_pool(Pool::Mmap, layout, push);
        let pool_bytes = layout.pool(Pool::Mmap).map_or(0, |pool| pool.bytes);
        let bytes = range.end - range.start;
        let place = self.room.take(bytes, pool_bytes);
        let place = first + place.ok_or_else(|| layout.full(Pool::Mmap, bytes))?;
        let by = place.wrapping_sub(range.start);
        self.moves.insert(range, by);
        Ok(place)
    }

    fn grow_heap(
        &mut self,
        (start, end): (u64, u64),
        layout: &LayoutFile,
        push: &mut dyn FnMut(ProgramEvent),
    ) -> Result<(), TraceError> {
        let Range { start, end } = pages(VirtualAddress::new(start), end.saturating_sub(start));
        let pool_bytes = layout.pool(Pool::Brk).map_or(0, |pool| pool.bytes);
        if end - start > pool_bytes {
            return Err(layout.full(Pool::Brk, end - start));
        }
        let by = self.map_pool(Pool::Brk, layout, push).wrapping_sub(start);
        let before = self.heap.replace(end).unwrap_or(start);
        self.release(before.min(end)..before.max(end));
        self.moves.insert(before..end, by);
        Ok(())
    }

    /// Maps a pool, with an event to `push`, if it is not mapped yet. Returns the pool's address.
    fn map_pool(
        &mut self,
        pool: Pool,
        layout: &LayoutFile,
        push: &mut dyn FnMut(ProgramEvent),
    ) -> u64 {
        let first = pool.address().expect("a pool with a place");
        let is_mapped = &mut self.is_mapped[pool as usize];
        if !std::mem::replace(is_mapped, true) {
            push(ProgramEvent::Map {
                start: VirtualAddress::new(first),
                length: layout.pool(pool).map_or(0, |pool| pool.bytes),
                permissions: Permissions::READ_WRITE,
                accessible: true,
                backing: Backing::Anonymous,
                shared: false,
                populate: false,
            });
        }
        first
    }

    /// Moves or resizes a mapping (mremap). A mapping in a pool grows in place if the pool has room behind
    /// it.
    fn remap(
        &mut self,
        old: Range<u64>,
        new: Range<u64>,
        layout: &LayoutFile,
        push: &mut dyn FnMut(ProgramEvent),
        event: ProgramEvent,
    ) -> Result<(), TraceError> {
        let (range, by) = self.moves.around(old.start);
        let Some(by @ 1..) = by.copied() else {
            self.release(new.clone());
            self.release(old);
            self.moves.insert(new, 0);
            push(event);
            return Ok(());
        };
        let pool_bytes = layout.pool(Pool::Mmap).map_or(0, |pool| pool.bytes);
        let grown = old.end..new.end;
        let place = offset_in_mappings(grown.start.wrapping_add(by));
        if let Some(place) = place
            && old.start == new.start
            && range.contains(&(old.end - 1))
            && !grown.is_empty()
            && self.room.extend(place..place + (grown.end - grown.start), pool_bytes)
        {
            self.moves.insert(grown, by);
            return Ok(());
        }
        self.release(old);
        self.release(new.clone());
        self.map(new, layout, push).map(|_| ())
    }
}

/// Byte offset of an address in the pool of mappings; `None` if the address is outside.
fn offset_in_mappings(address: u64) -> Option<u64> {
    let offset = address.wrapping_sub(Pool::Mmap.address()?);
    (offset < MOST_BYTES).then_some(offset)
}

/// Checks that an event maps nothing at the addresses of the layout's pools.
fn check_place(event: &ProgramEvent, layout: &LayoutFile) -> Result<(), TraceError> {
    let (start, length) = match *event {
        ProgramEvent::Map { start, length, .. } => (start, length),
        ProgramEvent::Remap { to, to_length, .. } => (to, to_length),
        ProgramEvent::Brk { start, end } => (start, end.value().saturating_sub(start.value())),
        _ => return Ok(()),
    };
    let range = pages(start, length);
    let overlaps = |pool: &Pool| {
        pool.address().is_some_and(|first| range.start < first + MOST_BYTES && first < range.end)
    };
    let Some(pool) = Pool::ALL.iter().find(|pool| overlaps(pool)) else { return Ok(()) };
    let problem = format!("the program maps {:#x}, where the pool {} lies", start, pool.name());
    let expected = "a program that is not in pools of a layout already";
    Err(TraceError::unsuitable(&layout.path(), problem, expected))
}

/// Expands an address range to whole pages, up to the end of the address space.
fn pages(start: VirtualAddress, length: u64) -> Range<u64> {
    let start = start.value() / PAGE_BYTES * PAGE_BYTES;
    let end = start.saturating_add(length).checked_next_multiple_of(PAGE_BYTES);
    start..end.unwrap_or(u64::MAX / PAGE_BYTES * PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use perforate_types::{AccessKind, Instruction, PageSize};

    use super::super::{Interval, PoolLayout};
    use super::*;

    const BRK: u64 = 0x2a00_0000_0000;
    const MMAP: u64 = 0x3500_0000_0000;
    const KB: u64 = 1 << 10;

    /// Source for tests, which delivers the given chunks.
    struct FixedChunks(SourceMetadata, std::vec::IntoIter<Chunk>);

    impl Source for FixedChunks {
        fn metadata(&self) -> &SourceMetadata {
            &self.0
        }

        fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
            *chunk = self.1.next().unwrap_or_default();
            Ok(!chunk.instructions.is_empty() || !chunk.events.is_empty())
        }

        fn skip(&mut self, _: u64) -> Result<u64, TraceError> {
            unreachable!("no test skips")
        }
    }

    /// Layout of the tests: a heap of 2MB, and a pool of mappings of 64KB.
    fn layout() -> LayoutFile {
        let interval = Interval { offsets: 0..2 << 20, size: PageSize::Size2M };
        let heap = PoolLayout::new(2 << 20, [interval]);
        let mapped = PoolLayout::new(64 * KB, []);
        LayoutFile { name: "test".into(), pools: [Some(heap), Some(mapped), None] }
    }

    /// Part of a test program: an event, or a read of one byte.
    #[derive(Clone)]
    enum Step {
        Event(ProgramEvent),
        Read(u64),
    }
    use Step::{Event, Read};

    fn chunk(steps: Vec<Step>) -> Chunk {
        let mut chunk = Chunk::default();
        for step in steps {
            match step {
                Event(event) => chunk.push_event(event),
                Read(address) => {
                    let address = VirtualAddress::new(address);
                    let access = MemoryAccess { address, size: 8, kind: AccessKind::Read };
                    chunk.push(Instruction::default(), &[access]);
                }
            }
        }
        chunk
    }

    /// Events and read addresses in the pools, or the error as text.
    type Outcome = Result<(Vec<ProgramEvent>, Vec<u64>), String>;

    fn run(steps: Vec<Step>) -> Outcome {
        run_with(layout(), steps)
    }

    /// Runs a program of these steps with the layout. The outcome must be the same if all steps are in one
    /// chunk and if each step is a chunk.
    fn run_with(layout: LayoutFile, steps: Vec<Step>) -> Outcome {
        let single = steps.iter().map(|step| chunk(vec![step.clone()])).collect();
        let outcome = run_chunks(layout.clone(), vec![chunk(steps)]);
        assert_eq!(run_chunks(layout, single), outcome);
        outcome
    }

    fn run_chunks(layout: LayoutFile, chunks: Vec<Chunk>) -> Outcome {
        let metadata = SourceMetadata { has_events: true, ..SourceMetadata::default() };
        let given = FixedChunks(metadata, chunks.into_iter());
        let mut pooled = Pooled::new(given, layout).map_err(|error| error.to_string())?;
        let (mut events, mut reads, mut chunk) = (Vec::new(), Vec::new(), Chunk::default());
        while pooled.next_chunk(&mut chunk).map_err(|error| error.to_string())? {
            events.extend(chunk.events.iter().map(|(_, event)| event.clone()));
            reads.extend(chunk.accesses.iter().map(|access| access.address.value()));
        }
        Ok((events, reads))
    }

    fn at(address: u64) -> VirtualAddress {
        VirtualAddress::new(address)
    }

    fn map(start: u64, length: u64, backing: Backing) -> ProgramEvent {
        ProgramEvent::Map {
            start: at(start),
            length,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing,
            shared: false,
            populate: false,
        }
    }

    fn anonymous(start: u64, length: u64) -> Step {
        Event(map(start, length, Backing::Anonymous))
    }

    fn unmap(start: u64, length: u64) -> ProgramEvent {
        ProgramEvent::Unmap { start: at(start), length }
    }

    #[test]
    fn mappings_are_put_where_there_is_room_first() {
        let (events, reads) = run(vec![
            anonymous(0x7000_0000, 16 * KB),
            Read(0x7000_0008),
            anonymous(0x6000_0000, 8 * KB),
            Read(0x6000_1ff8),
            Event(unmap(0x7000_0000, 8 * KB)),
            anonymous(0x5000_0000, 12 * KB), // 8KB are free before the rest of the first mapping
            Read(0x5000_0000),
            anonymous(0x4000_0000, 8 * KB),
            Read(0x4000_1000),
            Read(0x7000_2000),
            Read(0x7000_0000), // in no mapping any more
        ])
        .unwrap();
        assert_eq!(events, [map(MMAP, 64 * KB, Backing::Anonymous)], "the pool, once");
        let expected = [
            MMAP + 8,
            MMAP + 16 * KB + 0x1ff8,
            MMAP + 24 * KB,
            MMAP + 0x1000,
            MMAP + 0x2000,
            0x7000_0000,
        ];
        assert_eq!(reads, expected);
    }

    /// Only memory that was mapped outside of all pools keeps its place.
    #[test]
    fn a_mapping_over_another_of_the_pool_stays_in_the_pool() {
        let (events, reads) = run(vec![
            anonymous(0x7000_0000, 16 * KB),
            anonymous(0x7000_0000, 8 * KB),
            Read(0x7000_0008),
            Read(0x7000_2000),
        ])
        .unwrap();
        assert_eq!(events, [map(MMAP, 64 * KB, Backing::Anonymous)], "the pool, once");
        assert_eq!(reads, [MMAP + 8, MMAP + 8 * KB]);
    }

    #[test]
    fn the_heap_grows_and_shrinks_in_its_pool() {
        let brk = |end| Event(ProgramEvent::Brk { start: at(0x1000_1000), end: at(end) });
        let (events, reads) = run(vec![
            brk(0x1000_1000),
            brk(0x1000_3000),
            Read(0x1000_1010),
            brk(0x1000_5000),
            Read(0x1000_2ffc), // across the old end: one mapping
            Read(0x1000_4000),
            brk(0x1000_2000),
            Read(0x1000_1000),
            Read(0x1000_4000),
        ])
        .unwrap();
        assert_eq!(events, [map(BRK, 2 << 20, Backing::Anonymous)]);
        let expected = [BRK + 0x10, BRK + 0x1ffc, BRK + 0x3000, BRK, 0x1000_4000];
        assert_eq!(reads, expected);
    }

    #[test]
    fn mappings_of_the_loader_stay_in_place() {
        let file = map(0x40_0000, 8 * KB, Backing::File);
        let library = map(0x7f00_0000_0000, 8 * KB, Backing::File);
        let stack = map(0x7fff_0000, 64 * KB, Backing::Stack);
        let bss = map(0x40_2000, 4 * KB, Backing::Anonymous); // follows the program
        let data = map(0x40_1000, 4 * KB, Backing::Anonymous); // replaces a part of the program
        let protect = |start, length| ProgramEvent::Protect {
            start: at(start),
            length,
            permissions: Permissions::READ,
            accessible: true,
        };
        let steps = [&file, &bss, &stack, &library, &data].map(|event| Event(event.clone()));
        let (events, reads) = run(steps
            .into_iter()
            .chain([
                Read(0x40_2000),
                anonymous(0x7f00_0000_2000, 8 * KB), // memory after a library may be anything
                Read(0x7f00_0000_2000),
                anonymous(0x50_0000, 8 * KB),
                Event(protect(0x40_0000, 4 * KB)),
                Event(protect(0x50_0000, 4 * KB)), // in a pool: no event
                Event(unmap(0x40_2000, 4 * KB)),
                Event(unmap(0x50_0000, 8 * KB)),
            ])
            .collect())
        .unwrap();
        let pool = map(MMAP, 64 * KB, Backing::Anonymous);
        let expected = [
            file,
            bss,
            stack,
            library,
            data,
            pool,
            protect(0x40_0000, 4 * KB),
            unmap(0x40_2000, 4 * KB),
        ];
        assert_eq!(events, expected);
        assert_eq!(reads, [0x40_2000, MMAP]);
    }

    #[test]
    fn mappings_that_move_or_grow_keep_to_the_pool() {
        let remap = |from, from_length, to, to_length| {
            let (from, to) = (at(from), at(to));
            Event(ProgramEvent::Remap { from, from_length, to, to_length })
        };
        let (events, reads) = run(vec![
            anonymous(0x7000_0000, 4 * KB),
            remap(0x7000_0000, 4 * KB, 0x7000_0000, 12 * KB), // in place: the room after it is free
            Read(0x7000_2000),
            anonymous(0x6000_0000, 4 * KB),
            remap(0x7000_0000, 12 * KB, 0x5000_0000, 20 * KB), // no room: moves behind the other mapping
            Read(0x5000_4000),
            anonymous(0x4000_0000, 12 * KB), // at the place of the first mapping
            Read(0x4000_0000),
        ])
        .unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!(reads, [MMAP + 8 * KB, MMAP + 16 * KB + 0x4000, MMAP]);
    }

    #[test]
    fn forked_processes_have_pools_of_their_own() {
        let switch = |process| ProgramEvent::Switch {
            process: ProcessId(process),
            thread: perforate_types::ThreadId(process),
        };
        let fork = ProgramEvent::Fork { child: ProcessId(1) };
        let (events, reads) = run(vec![
            anonymous(0x7000_0000, 8 * KB),
            Event(fork.clone()),
            Event(unmap(0x7000_0000, 8 * KB)),
            Read(0x7000_0000),
            Event(switch(1)),
            Read(0x7000_0000),
            anonymous(0x6000_0000, 4 * KB),
            Read(0x6000_0000),
            Event(ProgramEvent::Exec),
            Read(0x6000_0000),
        ])
        .unwrap();
        let pool = map(MMAP, 64 * KB, Backing::Anonymous);
        assert_eq!(events, [pool, fork, switch(1), ProgramEvent::Exec]);
        assert_eq!(reads, [0x7000_0000, MMAP, MMAP + 8 * KB, 0x6000_0000]);
    }

    #[test]
    fn populated_mappings_are_populated_in_the_pool() {
        let ProgramEvent::Map { start, length, permissions, accessible, backing, shared, .. } =
            map(0x7000_0000, 8 * KB, Backing::Anonymous)
        else {
            unreachable!()
        };
        let populate = true;
        let event =
            ProgramEvent::Map { start, length, permissions, accessible, backing, shared, populate };
        let (events, _) = run(vec![anonymous(0x6000_0000, 4 * KB), Event(event)]).unwrap();
        let advice = Advice::Other(23);
        let expected = ProgramEvent::Advise { start: at(MMAP + 4 * KB), length: 8 * KB, advice };
        assert_eq!(events[1..], [expected]);
    }

    #[test]
    fn accesses_end_where_their_memory_does() {
        let steps = vec![anonymous(0x7000_0000, 4 * KB), Read(0x7000_0ffc)];
        let metadata = SourceMetadata { has_events: true, ..SourceMetadata::default() };
        let given = FixedChunks(metadata, vec![chunk(steps)].into_iter());
        let mut pooled = Pooled::new(given, layout()).unwrap();
        let mut chunk = Chunk::default();
        assert!(pooled.next_chunk(&mut chunk).unwrap());
        assert_eq!((chunk.accesses[0].address, chunk.accesses[0].size), (at(MMAP + 0xffc), 4));
    }

    #[test]
    fn full_pools_and_sources_without_events_are_errors() {
        let error = run(vec![anonymous(0x7000_0000, 68 * KB)]).unwrap_err();
        let expected = "layout test: the pool mmap of 65536 bytes has no room for 69632 bytes that \
                        the program wants; expected a longer pool, in the line mmap,-1,0,…";
        assert_eq!(error, expected);
        let brk = ProgramEvent::Brk { start: at(0x1000), end: at(0x30_0000) };
        assert!(run(vec![Event(brk)]).unwrap_err().contains("the pool brk of 2097152 bytes"));
        let error = run(vec![anonymous(MMAP + 0x1000, 4096)]).unwrap_err();
        assert!(error.contains("where the pool mmap lies; expected a program"), "{error}");
        let mut large = layout();
        large.pools[1].as_mut().unwrap().bytes = 9 << 40;
        assert!(run_with(large, vec![]).unwrap_err().contains("at most 8 TB"));
        let silent = FixedChunks(SourceMetadata::default(), Vec::new().into_iter());
        let error = Pooled::new(silent, layout()).err().unwrap().to_string();
        assert!(error.contains("does not tell what the program maps"), "{error}");
    }
}
