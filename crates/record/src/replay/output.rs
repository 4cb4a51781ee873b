//! Destination of replayed instructions, which counts them.

use std::collections::HashSet;
use std::ops::Range;

use perforate_trace::TraceWriter;
use perforate_types::{Instruction, MemoryAccess, ProcessId, ProgramEvent, ThreadId};

use crate::RecordError;
use crate::options::Ending;

/// Consumer of instructions and events in program order.
pub trait Sink {
    /// Receives the next instruction of the trace, with its accesses.
    fn push(
        &mut self,
        instruction: &Instruction,
        accesses: &[MemoryAccess],
    ) -> Result<(), RecordError>;

    /// Receives an event of the trace, which happens before the next instruction.
    fn event(&mut self, event: ProgramEvent) -> Result<(), RecordError>;

    /// Size in bytes of what was written so far.
    fn bytes(&self) -> u64;
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

    #[inline]
    fn bytes(&self) -> u64 {
        self.summary().bytes
    }
}

/// Number of entries in the cache of recently touched pages, which saves most look-ups in the set of all
/// touched pages.
const RECENT_PAGES: usize = 1 << 12;
/// Number of bits of a virtual page number in an element of the set of touched pages.
const PAGE_BITS: u32 = 36;

/// Process and thread that execute an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runner {
    /// Number of the process in the trace.
    pub process: ProcessId,
    /// Number of the thread in the trace.
    pub thread: ThreadId,
}

/// Numbers of recorded instructions and touched pages of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCounts {
    /// Number of recorded instructions of the process.
    pub instructions: u64,
    /// Number of distinct 4KB pages of data and code that the process touched.
    pub pages_touched: u64,
}

/// Limits at which an output is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of instructions.
    pub instructions: u64,
    /// Size of the written trace in bytes. A chunk is written as a whole, so the last one may exceed the size.
    pub bytes: u64,
}

impl Limits {
    /// Limits that no output reaches.
    pub const NONE: Self = Self { instructions: u64::MAX, bytes: u64::MAX };
}

/// Wrapper of a sink that counts instructions, accesses and touched pages, stops at limits,
/// and inserts an event when the process or thread changes.
pub struct Output<S> {
    /// Destination of instructions and events.
    pub sink: S,
    /// Number of instructions passed to the sink so far.
    pub instructions: u64,
    /// Number of memory accesses passed to the sink so far.
    pub accesses: u64,
    /// True while instructions are only counted, because adaptive sampling leaves their window out of the
    /// trace.
    pub is_dropping: bool,
    /// Number of instructions that were not passed to the sink since the last gap event (the event in a trace
    /// with the number of left-out instructions).
    pub dropped: u64,
    limits: Limits,
    runner: Runner,
    /// Number of instructions of the running process that are not counted in `processes` yet.
    uncounted: u64,
    processes: Vec<ProcessCounts>,
    /// Set of touched pages: process number (high bits) and page number (low bits).
    pages: HashSet<u64>,
    recent: Vec<u64>,
}

impl<S: Sink> Output<S> {
    /// Makes an output that passes instructions to `sink` until one of `limits` is reached.
    pub fn new(sink: S, limits: Limits) -> Self {
        Self {
            sink,
            instructions: 0,
            accesses: 0,
            is_dropping: false,
            dropped: 0,
            limits,
            runner: Runner::default(),
            uncounted: 0,
            processes: Vec::new(),
            pages: HashSet::new(),
            recent: vec![u64::MAX; RECENT_PAGES],
        }
    }

    /// Ending of the recording if a limit is reached.
    #[inline]
    pub fn limit_reached(&self) -> Option<Ending> {
        let Limits { instructions, bytes } = self.limits;
        if self.instructions >= instructions {
            return Some(Ending::Limit);
        }
        (self.sink.bytes() >= bytes).then_some(Ending::Size)
    }

    fn is_full(&self) -> bool {
        self.limit_reached().is_some()
    }

    /// Counts of instructions and touched pages so far, by number of the process.
    pub fn processes(&mut self) -> &[ProcessCounts] {
        self.count();
        &self.processes
    }

    /// Begins a translated block, whose code is at the addresses `code` and which `runner` executes. The next
    /// pushed instructions belong to this block.
    pub fn begin_block(&mut self, runner: Runner, code: Range<u64>) -> Result<(), RecordError> {
        if self.is_full() {
            return Ok(());
        }
        self.switch(runner)?;
        self.touch(code.start);
        self.touch(code.end.saturating_sub(1).max(code.start));
        Ok(())
    }

    /// Passes an instruction of the current block to the sink, unless a limit is reached.
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

    /// Passes an event of `runner` to the sink, unless a limit is reached.
    pub fn event(&mut self, runner: Runner, event: ProgramEvent) -> Result<(), RecordError> {
        if self.is_full() {
            return Ok(());
        }
        self.switch(runner)?;
        self.sink.event(event)
    }

    /// Passes an event that belongs to no thread to the sink.
    pub fn common_event(&mut self, event: ProgramEvent) -> Result<(), RecordError> {
        if self.is_full() { Ok(()) } else { self.sink.event(event) }
    }

    fn switch(&mut self, runner: Runner) -> Result<(), RecordError> {
        if self.runner == runner {
            return Ok(());
        }
        self.count();
        self.runner = runner;
        let Runner { process, thread } = runner;
        self.sink.event(ProgramEvent::Switch { process, thread })
    }

    fn counts(&mut self) -> &mut ProcessCounts {
        let process = usize::from(self.runner.process.0);
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
        let page = address >> 12 | u64::from(self.runner.process.0) << PAGE_BITS;
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

    /// Sink for tests, which counts a byte for each instruction and stores nothing.
    #[derive(Default)]
    struct Nothing {
        bytes: u64,
    }

    fn at_most(instructions: u64) -> Output<Nothing> {
        Output::new(Nothing::default(), Limits { instructions, ..Limits::NONE })
    }

    impl Sink for Nothing {
        fn push(&mut self, _: &Instruction, _: &[MemoryAccess]) -> Result<(), RecordError> {
            self.bytes += 1;
            Ok(())
        }

        fn event(&mut self, _: ProgramEvent) -> Result<(), RecordError> {
            Ok(())
        }

        fn bytes(&self) -> u64 {
            self.bytes
        }
    }

    /// Counts the pages touched by one instruction with these accesses.
    fn pages(accesses: &[(u64, u16)]) -> u64 {
        let mut output = at_most(10);
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

    /// Instructions and pages belong to the process that runs now, not to the one before.
    #[test]
    fn each_process_has_its_own_counts() {
        let runner =
            |process, thread| Runner { process: ProcessId(process), thread: ThreadId(thread) };
        let mut output = at_most(7);
        let mut run = |runner, code: Range<u64>, instructions| {
            output.begin_block(runner, code).unwrap();
            (0..instructions).for_each(|_| output.push(&Instruction::default(), &[]).unwrap());
            output.processes().to_vec()
        };
        let counts = |instructions, pages_touched| ProcessCounts { instructions, pages_touched };
        assert_eq!(run(runner(0, 0), 0x1000..0x1010, 2), [counts(2, 1)]);
        // The block's code ends in a second page; a byte less, and it does not.
        assert_eq!(
            run(runner(2, 1), 0x1ff0..0x2001, 1),
            [counts(2, 1), counts(0, 0), counts(1, 2)]
        );
        assert_eq!(run(runner(1, 2), 0x1ff0..0x2000, 3)[1], counts(3, 1));
        let last = run(runner(0, 0), 0x1000..0x1010, 3);
        assert_eq!(last, [counts(3, 1), counts(3, 1), counts(1, 2)], "the limit is 7 in all");
        assert_eq!(output.limit_reached(), Some(Ending::Limit));
        let mut output = at_most(10);
        output.begin_block(runner(0, 0), 0x1000..0x1010).unwrap();
        output.push(&Instruction::default(), &[]).unwrap();
        output.event(runner(1, 1), ProgramEvent::Exec).unwrap();
        output.push(&Instruction::default(), &[]).unwrap();
        let both: Vec<u64> = output.processes().iter().map(|counts| counts.instructions).collect();
        assert_eq!(both, [1, 1], "an event changes the process, too");
        assert_eq!((output.instructions, output.accesses), (2, 0));
    }

    /// Nothing is passed on once the trace has its size, whatever still waits.
    #[test]
    fn an_output_ends_at_its_size() {
        let limits = Limits { instructions: 8, bytes: 5 };
        let mut output = Output::new(Nothing::default(), limits);
        for pushed in 0..20 {
            let expected = (pushed >= 5).then_some(Ending::Size);
            assert_eq!(output.limit_reached(), expected, "{pushed}");
            output.push(&Instruction::default(), &[]).unwrap();
        }
        assert_eq!((output.instructions, output.sink.bytes), (5, 5));
    }
}
