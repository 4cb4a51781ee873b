//! Putting the records of all threads back into one stream of instructions.

use perforate_types::{Branch, MemoryAccess, ProgramEvent, ThreadId};

use crate::CaptureError;
use crate::accesses;
use crate::address_space::AddressSpace;
use crate::blocks::Blocks;
use crate::execution::{RunningRepetition, executed, repeat};
use crate::output::{Output, Sink};
use crate::record::{self, Control, Record, SYSCALL_WORDS};
use crate::relocation::Relocation;
use crate::syscalls::{Syscall, SyscallReader, number};

/// Where [`Replay::advance`] stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More records are needed.
    Starved,
    /// The program waits for its initial mappings to be read.
    Snapshot,
    /// The program waits for the recording to start, after so many instructions.
    Start(u64),
    /// As many instructions as wanted are recorded.
    Full,
}

/// What is known of the thread behind one ring.
#[derive(Default)]
struct Thread {
    id: ThreadId,
    /// Records not looked at yet: those from `position`.
    records: Vec<u64>,
    position: usize,
    /// The block that runs, and the accesses of its instructions so far.
    block: Option<u32>,
    pieces: Vec<(u16, MemoryAccess)>,
    syscall: Option<Syscall>,
    repetition: Option<RunningRepetition>,
}

impl Thread {
    fn peek(&self) -> Option<Record> {
        self.records.get(self.position).map(|word| record::decode(*word))
    }
}

/// The replay: records in, instructions and events out.
pub struct Replay<S> {
    threads: Vec<Thread>,
    /// Thread whose segment is being replayed.
    current: Option<usize>,
    next_ticket: u64,
    next_thread: u16,
    blocks: Blocks,
    /// Accesses of one instruction, as recorded and as joined: kept to save allocations.
    own: Vec<MemoryAccess>,
    joined: Vec<MemoryAccess>,
    syscalls: SyscallReader,
    /// The address space as it was when recording started; up to date until then.
    pub space: AddressSpace,
    /// How addresses move.
    pub relocation: Relocation,
    /// Where everything goes once recording has started.
    pub output: Option<Output<S>>,
}

impl<S: Sink> Replay<S> {
    /// A replay that has seen nothing.
    pub fn new() -> Self {
        Self {
            threads: Vec::new(),
            current: None,
            next_ticket: 0,
            next_thread: 0,
            blocks: Blocks::new(),
            own: Vec::new(),
            joined: Vec::new(),
            syscalls: SyscallReader::default(),
            space: AddressSpace::default(),
            relocation: Relocation::default(),
            output: None,
        }
    }

    /// The records of a ring that wait; new ones go to the end.
    pub fn waiting(&mut self, ring: usize) -> &mut Vec<u64> {
        if self.threads.len() <= ring {
            self.threads.resize_with(ring + 1, Thread::default);
        }
        let thread = &mut self.threads[ring];
        if thread.position * 2 >= thread.records.len() {
            thread.records.drain(..thread.position);
            thread.position = 0;
        }
        &mut thread.records
    }

    /// Threads seen so far.
    pub fn thread_count(&self) -> u16 {
        self.next_thread
    }

    /// Whether a thread is inside execve, which does not come back if it succeeds.
    pub fn is_in_exec(&self) -> bool {
        let numbers = [number::EXECVE, number::EXECVEAT];
        let calls = self.threads.iter().filter_map(|thread| thread.syscall.as_ref());
        calls.into_iter().any(|call| numbers.contains(&call.number))
    }

    /// Replays waiting records until they run out or something has to be done.
    pub fn advance(&mut self, dictionary: &[u8]) -> Result<Step, CaptureError> {
        loop {
            if self.output.as_ref().is_some_and(Output::is_full) {
                return Ok(Step::Full);
            }
            let step = match self.current {
                Some(ring) => self.replay_segment(ring, dictionary)?,
                None => self.choose_segment()?,
            };
            if let Some(step) = step {
                return Ok(step);
            }
        }
    }

    /// Finds the segment with the next ticket. Tickets are dense, so it is there or on its way.
    fn choose_segment(&mut self) -> Result<Option<Step>, CaptureError> {
        for ring in 0..self.threads.len() {
            let thread = &mut self.threads[ring];
            if thread.peek() == Some(Record::Control(Control::ThreadStart, 0)) {
                let position = thread.position + 1;
                let records = std::mem::take(&mut thread.records);
                *thread = Thread {
                    id: ThreadId(self.next_thread),
                    records,
                    position,
                    ..Thread::default()
                };
                self.next_thread = self.next_thread.saturating_add(1);
            }
            match self.threads[ring].peek() {
                Some(Record::Control(Control::Segment, ticket)) if ticket == self.next_ticket => {
                    self.threads[ring].position += 1;
                    self.next_ticket += 1;
                    self.current = Some(ring);
                    return Ok(None);
                }
                Some(Record::Control(Control::Segment, _)) | None => {}
                Some(_) => return Err(CaptureError::Damaged("a record outside any segment")),
            }
        }
        Ok(Some(Step::Starved))
    }

    fn replay_segment(
        &mut self,
        ring: usize,
        dictionary: &[u8],
    ) -> Result<Option<Step>, CaptureError> {
        while let Some(found) = self.threads[ring].peek() {
            match found {
                Record::Access { index, write, size, address } => {
                    let access = accesses::access(self.relocation.relocate(address), size, write);
                    self.threads[ring].pieces.push((index, access));
                }
                Record::Block(number) => {
                    let start = self.block_start(number, dictionary)?;
                    self.finish_block(ring, Some(start))?;
                    self.threads[ring].block = Some(number);
                    if self.output.as_ref().is_some_and(Output::is_full) {
                        return Ok(None);
                    }
                }
                Record::Control(control, payload) => {
                    let words = control.words();
                    let after = self.threads[ring].position + 1;
                    let Some(words) = self.threads[ring].records.get(after..after + words) else {
                        return Ok(Some(Step::Starved));
                    };
                    let mut arguments = [0; SYSCALL_WORDS];
                    arguments[..words.len()].copy_from_slice(words);
                    self.threads[ring].position += 1 + control.words();
                    match self.control(ring, control, payload, arguments, dictionary)? {
                        None if control == Control::End => return Ok(None),
                        None => continue,
                        step => return Ok(step),
                    }
                }
                Record::Invalid => return Err(CaptureError::Damaged("an unknown record")),
            }
            self.threads[ring].position += 1;
        }
        Ok(Some(Step::Starved))
    }

    fn control(
        &mut self,
        ring: usize,
        control: Control,
        payload: u64,
        words: [u64; SYSCALL_WORDS],
        dictionary: &[u8],
    ) -> Result<Option<Step>, CaptureError> {
        match control {
            Control::End => {
                let next = payload.checked_sub(1).map(|number| number as u32);
                let next = next.map(|number| self.block_start(number, dictionary)).transpose()?;
                self.finish_block(ring, next)?;
                self.current = None;
            }
            Control::Syscall => {
                self.finish_block(ring, None)?;
                let call = Syscall { number: payload, arguments: words };
                self.threads[ring].syscall = Some(call);
                if let Some(event) = self.syscalls.begin(&call) {
                    self.event(ring, event)?;
                }
            }
            Control::Return => {
                let call = self.threads[ring].syscall.take();
                let call = call.filter(|call| call.number == payload);
                if let Some(call) = call
                    && let Some(event) = self.syscalls.end(&call, words[0] as i64, &self.space)
                {
                    self.event(ring, event)?;
                }
            }
            Control::Snapshot => return Ok(Some(Step::Snapshot)),
            Control::Start => return Ok(Some(Step::Start(payload))),
            Control::Segment | Control::ThreadStart => {
                return Err(CaptureError::Damaged("a segment inside another"));
            }
        }
        Ok(None)
    }

    fn event(&mut self, ring: usize, event: ProgramEvent) -> Result<(), CaptureError> {
        self.space.apply(&event);
        let Some(output) = &mut self.output else { return Ok(()) };
        for event in self.relocation.relocate_event(&event) {
            output.event(self.threads[ring].id, event)?;
        }
        Ok(())
    }

    fn block_start(&mut self, number: u32, dictionary: &[u8]) -> Result<u64, CaptureError> {
        if self.blocks.get(number).is_none() {
            self.blocks.extend(dictionary, &self.relocation)?;
        }
        let block = self.blocks.get(number);
        block.map(|block| block.start).ok_or(CaptureError::Damaged("an unknown block"))
    }

    /// Emits the instructions of the block that ran, now that it is known what follows it.
    fn finish_block(&mut self, ring: usize, next: Option<u64>) -> Result<(), CaptureError> {
        let thread = &mut self.threads[ring];
        let (Some(number), Some(output)) = (thread.block.take(), &mut self.output) else {
            thread.pieces.clear();
            return Ok(());
        };
        let Some(block) = self.blocks.get(number) else { return Ok(()) };
        let instructions = self.blocks.instructions(block);
        let executed = executed(&self.blocks, block, next, &self.relocation);
        let mut pieces = thread.pieces.as_slice();
        let own = &mut self.own;
        for (index, decoded) in instructions[..executed].iter().enumerate() {
            own.clear();
            while let Some(((of, piece), rest)) = pieces.split_first()
                && usize::from(*of) <= index
            {
                own.push(*piece);
                pieces = rest;
            }
            let is_last = index + 1 == instructions.len();
            if decoded.repeats && is_last {
                let at = block.end - u64::from(decoded.instruction.length);
                let goes_on = next == Some(at);
                repeat(&mut thread.repetition, decoded, own, goes_on, |instruction, accesses| {
                    output.push(thread.id, instruction, accesses)
                })?;
                continue;
            }
            self.joined.clear();
            accesses::join(decoded, own, &mut self.joined);
            let mut instruction = decoded.instruction;
            if is_last && instruction.branch == Branch::Conditional {
                instruction.taken = next.is_some_and(|next| next != block.end);
            }
            output.push(thread.id, &instruction, &self.joined)?;
        }
        thread.pieces.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
