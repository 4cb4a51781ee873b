//! Destination of replayed instructions, with counts.

use std::collections::HashSet;
use std::ops::Range;

use perforate_trace::TraceWriter;
use perforate_types::{Instruction, MemoryAccess, ProcessId, ProgramEvent, ThreadId};

use crate::RecordError;

/// Consumer of instructions and events in program order.
pub trait Sink {
    /// Receives one instruction with its accesses.
    fn push(
        &mut self,
        instruction: &Instruction,
        accesses: &[MemoryAccess],
    ) -> Result<(), RecordError>;

    /// Receives one event, which happens before the next instruction.
    fn event(&mut self, event: ProgramEvent) -> Result<(), RecordError>;
}

impl Sink for TraceWriter {
    fn push(
        &mut self,
        instruction: &Instruction,
        accesses: &[MemoryAccess],
    ) -> Result<(), RecordError> {
        Ok(TraceWriter::push(self, instruction, accesses)?)
    }

    fn event(&mut self, event: ProgramEvent) -> Result<(), RecordError> {
        Ok(TraceWriter::event(self, event)?)
    }
}

/// Number of entries in the cache of recently touched pages, which saves most look-ups in the set.
const RECENT_PAGES: usize = 1 << 12;
/// Number of bits in a virtual page number.
const PAGE_BITS: u32 = 36;

/// Process and thread of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Number of the process in the trace.
    pub process: ProcessId,
    /// Number of the thread in the trace.
    pub thread: ThreadId,
}

/// Counts of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCounts {
    /// Number of recorded instructions.
    pub instructions: u64,
    /// Number of distinct 4KB pages of data and code.
    pub pages_touched: u64,
}

/// Wrapper of a sink, with counts, a limit, and the running process and thread.
pub struct Output<S> {
    /// Destination of instructions and events.
    pub sink: S,
    /// Number of instructions so far.
    pub instructions: u64,
    /// Number of memory accesses so far.
    pub accesses: u64,
    /// True while instructions are only counted, in a window that is not kept.
    pub is_dropping: bool,
    /// Number of dropped instructions that are not part of a gap event yet.
    pub dropped: u64,
    limit: u64,
    place: Place,
    /// Instructions of the running process that are not counted in `processes` yet.
    uncounted: u64,
    processes: Vec<ProcessCounts>,
    /// Touched pages, with the process number above the page number.
    pages: HashSet<u64>,
    recent: Vec<u64>,
}

impl<S: Sink> Output<S> {
    /// Makes an output of at most `limit` instructions.
    pub fn new(sink: S, limit: u64) -> Self {
        Self {
            sink,
            instructions: 0,
            accesses: 0,
            is_dropping: false,
            dropped: 0,
            limit,
            place: Place::default(),
            uncounted: 0,
            processes: Vec::new(),
            pages: HashSet::new(),
            recent: vec![u64::MAX; RECENT_PAGES],
        }
    }

    /// True if the limit is reached.
    pub fn is_full(&self) -> bool {
        self.instructions >= self.limit
    }

    /// Counts of each process so far, by number.
    pub fn processes(&mut self) -> &[ProcessCounts] {
        self.count();
        &self.processes
    }

    /// Begins a block in `code`, executed by `place`. The next pushed instructions belong to this
    /// block.
    pub fn begin_block(&mut self, place: Place, code: Range<u64>) -> Result<(), RecordError> {
        if self.is_full() {
            return Ok(());
        }
        self.switch(place)?;
        self.touch(code.start);
        self.touch(code.end.saturating_sub(1).max(code.start));
        Ok(())
    }

    /// Adds an instruction of the current block. Ignored beyond the limit.
    #[inline]
    pub fn push(
        &mut self,
        instruction: &Instruction,
        accesses: &[MemoryAccess],
    ) -> Result<(), RecordError> {
        if self.is_full() {
            return Ok(());
        }
        for access in accesses {
            let first = access.address.value();
            let last = first.wrapping_add(u64::from(access.size.saturating_sub(1)));
            self.touch(first);
            if first >> 12 != last >> 12 {
                self.touch(last);
            }
        }
        self.instructions += 1;
        self.uncounted += 1;
        self.accesses += accesses.len() as u64;
        self.sink.push(instruction, accesses)
    }

    /// Adds an event. Ignored beyond the limit.
    pub fn event(&mut self, place: Place, event: ProgramEvent) -> Result<(), RecordError> {
        if self.is_full() {
            return Ok(());
        }
        self.switch(place)?;
        self.sink.event(event)
    }

    /// Adds an event that belongs to no thread.
    pub fn common_event(&mut self, event: ProgramEvent) -> Result<(), RecordError> {
        if self.is_full() { Ok(()) } else { self.sink.event(event) }
    }

    fn switch(&mut self, place: Place) -> Result<(), RecordError> {
        if self.place == place {
            return Ok(());
        }
        self.count();
        self.place = place;
        let Place { process, thread } = place;
        self.sink.event(ProgramEvent::Switch { process, thread })
    }

    fn counts(&mut self) -> &mut ProcessCounts {
        let process = usize::from(self.place.process.0);
        if self.processes.len() <= process {
            self.processes.resize(process + 1, ProcessCounts::default());
        }
        &mut self.processes[process]
    }

    fn count(&mut self) {
        let uncounted = std::mem::take(&mut self.uncounted);
        self.counts().instructions += uncounted;
    }

    #[inline]
    fn touch(&mut self, address: u64) {
        let page = address >> 12 | u64::from(self.place.process.0) << PAGE_BITS;
        let recent = &mut self.recent[page as usize % RECENT_PAGES];
        if *recent != page {
            *recent = page;
            if self.pages.insert(page) {
                self.counts().pages_touched += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perforate_types::{AccessKind, VirtualAddress};

    /// A sink that stores nothing.
    struct Nothing;

    impl Sink for Nothing {
        fn push(&mut self, _: &Instruction, _: &[MemoryAccess]) -> Result<(), RecordError> {
            Ok(())
        }

        fn event(&mut self, _: ProgramEvent) -> Result<(), RecordError> {
            Ok(())
        }
    }

    /// Number of pages touched by the accesses of one instruction.
    fn pages(accesses: &[(u64, u16)]) -> u64 {
        let mut output = Output::new(Nothing, 10);
        let accesses: Vec<MemoryAccess> = accesses
            .iter()
            .map(|&(address, size)| {
                let address = VirtualAddress::new(address);
                MemoryAccess { address, size, kind: AccessKind::Read }
            })
            .collect();
        output.push(&Instruction::default(), &accesses).unwrap();
        output.processes()[0].pages_touched
    }

    /// An access touches a second page if its last byte is on another page.
    #[test]
    fn an_access_across_pages_touches_both() {
        assert_eq!(pages(&[(0x1ff8, 8)]), 1, "up to the last byte of the page");
        assert_eq!(pages(&[(0x1ff9, 8)]), 2, "a byte further");
        assert_eq!(pages(&[(0x1fff, 1), (0x1fff, 0)]), 1);
        assert_eq!(pages(&[(0x1ffc, 8), (0x2000, 8)]), 2, "each page once");
        assert_eq!(pages(&[(0x1ffc, 8), (0x2ffc, 8)]), 3);
    }
}
