//! Where replayed instructions go, and what is counted on the way.

use std::collections::HashSet;
use std::ops::Range;

use perforate_trace::TraceWriter;
use perforate_types::{Instruction, MemoryAccess, ProcessId, ProgramEvent, ThreadId};

use crate::CaptureError;

/// Takes instructions and events in program order.
pub trait Sink {
    /// One instruction with its accesses.
    fn push(
        &mut self,
        instruction: &Instruction,
        accesses: &[MemoryAccess],
    ) -> Result<(), CaptureError>;

    /// One event, before the next instruction.
    fn event(&mut self, event: ProgramEvent) -> Result<(), CaptureError>;
}

impl Sink for TraceWriter {
    fn push(
        &mut self,
        instruction: &Instruction,
        accesses: &[MemoryAccess],
    ) -> Result<(), CaptureError> {
        Ok(TraceWriter::push(self, instruction, accesses)?)
    }

    fn event(&mut self, event: ProgramEvent) -> Result<(), CaptureError> {
        Ok(TraceWriter::event(self, event)?)
    }
}

/// Pages seen lately, so that most accesses need no look-up in the set.
const RECENT_PAGES: usize = 1 << 12;
/// Bits of a virtual page number.
const PAGE_BITS: u32 = 36;

/// Who executes something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The process.
    pub process: ProcessId,
    /// Its thread.
    pub thread: ThreadId,
}

/// What one process did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCounts {
    /// Instructions recorded.
    pub instructions: u64,
    /// Distinct 4KB pages of data and code.
    pub pages_touched: u64,
}

/// A sink with counters, a limit, and the process and thread that run.
pub struct Output<S> {
    /// Where everything goes.
    pub sink: S,
    /// Instructions so far.
    pub instructions: u64,
    /// Memory accesses so far.
    pub accesses: u64,
    limit: u64,
    place: Place,
    /// Instructions of the running process that are not in `processes` yet.
    uncounted: u64,
    processes: Vec<ProcessCounts>,
    /// Pages with their process above them.
    pages: HashSet<u64>,
    recent: Vec<u64>,
}

impl<S: Sink> Output<S> {
    /// Takes at most `limit` instructions.
    pub fn new(sink: S, limit: u64) -> Self {
        Self {
            sink,
            instructions: 0,
            accesses: 0,
            limit,
            place: Place::default(),
            uncounted: 0,
            processes: Vec::new(),
            pages: HashSet::new(),
            recent: vec![u64::MAX; RECENT_PAGES],
        }
    }

    /// Whether the limit is reached.
    pub fn is_full(&self) -> bool {
        self.instructions >= self.limit
    }

    /// What each process did so far, by number.
    pub fn processes(&mut self) -> &[ProcessCounts] {
        self.count();
        &self.processes
    }

    /// `place` executes code in `code`; what is pushed next is a part of it.
    pub fn begin_block(&mut self, place: Place, code: Range<u64>) -> Result<(), CaptureError> {
        if self.is_full() {
            return Ok(());
        }
        self.switch(place)?;
        self.touch(code.start);
        self.touch(code.end.saturating_sub(1).max(code.start));
        Ok(())
    }

    /// One instruction of the block that was begun last; ignored beyond the limit.
    #[inline]
    pub fn push(
        &mut self,
        instruction: &Instruction,
        accesses: &[MemoryAccess],
    ) -> Result<(), CaptureError> {
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

    /// One event; ignored beyond the limit.
    pub fn event(&mut self, place: Place, event: ProgramEvent) -> Result<(), CaptureError> {
        if self.is_full() {
            return Ok(());
        }
        self.switch(place)?;
        self.sink.event(event)
    }

    /// An event that is nobody's.
    pub fn common_event(&mut self, event: ProgramEvent) -> Result<(), CaptureError> {
        if self.is_full() { Ok(()) } else { self.sink.event(event) }
    }

    fn switch(&mut self, place: Place) -> Result<(), CaptureError> {
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
