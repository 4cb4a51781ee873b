//! Where replayed instructions go, and what is counted on the way.

use std::collections::HashSet;

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

/// A sink with counters, a limit, and the thread that runs.
pub struct Output<S> {
    /// Where everything goes.
    pub sink: S,
    /// Instructions so far.
    pub instructions: u64,
    /// Memory accesses so far.
    pub accesses: u64,
    limit: u64,
    thread: ThreadId,
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
            thread: ThreadId(0),
            pages: HashSet::new(),
            recent: vec![u64::MAX; RECENT_PAGES],
        }
    }

    /// Whether the limit is reached.
    pub fn is_full(&self) -> bool {
        self.instructions >= self.limit
    }

    /// Distinct 4KB pages of data and code so far.
    pub fn pages_touched(&self) -> u64 {
        self.pages.len() as u64
    }

    /// One instruction of `thread`; ignored beyond the limit.
    pub fn push(
        &mut self,
        thread: ThreadId,
        instruction: &Instruction,
        accesses: &[MemoryAccess],
    ) -> Result<(), CaptureError> {
        if self.is_full() {
            return Ok(());
        }
        self.switch(thread)?;
        self.touch(instruction.ip.value());
        for access in accesses {
            let first = access.address.value();
            let last = first + u64::from(access.size - 1);
            self.touch(first);
            if first >> 12 != last >> 12 {
                self.touch(last);
            }
        }
        self.instructions += 1;
        self.accesses += accesses.len() as u64;
        self.sink.push(instruction, accesses)
    }

    /// One event of `thread`; ignored beyond the limit.
    pub fn event(&mut self, thread: ThreadId, event: ProgramEvent) -> Result<(), CaptureError> {
        if self.is_full() {
            return Ok(());
        }
        self.switch(thread)?;
        self.sink.event(event)
    }

    fn switch(&mut self, thread: ThreadId) -> Result<(), CaptureError> {
        if self.thread == thread {
            return Ok(());
        }
        self.thread = thread;
        self.sink.event(ProgramEvent::Switch { process: ProcessId(0), thread })
    }

    fn touch(&mut self, address: u64) {
        let page = address >> 12;
        let recent = &mut self.recent[page as usize % RECENT_PAGES];
        if *recent != page {
            *recent = page;
            self.pages.insert(page);
        }
    }
}
