//! Merge of the records of all threads of all processes into one stream of instructions and events.

pub mod address_space;
mod advised;
mod allowed;
pub mod images;
pub mod output;
pub mod relocation;
mod syscalls;

use std::collections::VecDeque;
use std::ops::Range;

use perforate_types::{Advice, Branch, Instruction, MemoryAccess, ProgramEvent, ThreadId};

use crate::RecordError;
use crate::emulator::questions::Answer;
use crate::emulator::spool::Batch;
use crate::instructions::accesses::{self, Piece};
use crate::instructions::blocks::{Blocks, Dictionary};
use crate::instructions::execution::{RunningRepetition, executed, repeat};
use crate::options::Ending;
use crate::record::{self, Control, MAX_NAME_BYTES, Record, SYSCALL_WORDS};

use allowed::AllowedPages;
use images::{Image, Images};
use output::{Output, Runner, Sink};
use syscalls::{Syscall, is_failure};

/// Reason for which [`Replay::advance`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More records of the plugin are needed to continue.
    Starved,
    /// A ring's thread has loaded a program. The caller must provide the program's mappings.
    Image {
        /// Index of the thread's ring.
        ring: usize,
        /// Number of the process image.
        image: u64,
    },
    /// Recording starts in the process image of a ring's thread. The caller must provide the pages of the
    /// image that are in memory or swapped out.
    Start {
        /// Index of the thread's ring.
        ring: usize,
        /// Number of instructions skipped so far, over all threads.
        skipped: u64,
        /// Number of the recorded part that begins: parts of the run are numbered, recorded (odd) and skipped
        /// (even) in turn.
        phase: u64,
    },
    /// A limit of the trace is reached, which ends the recording.
    Full(Ending),
}

/// State of the replay of the thread that uses a ring.
#[derive(Default)]
struct Thread {
    id: ThreadId,
    /// Number of the process image in which the thread runs.
    image: u64,
    /// Records of the ring. Records before `position` are already replayed.
    records: Vec<u64>,
    position: usize,
    /// Number of the translated block that runs; `None` if none does.
    block: Option<u32>,
    pieces: Vec<Piece>,
    syscall: Option<Syscall>,
    /// Bytes that have arrived of the name that the thread's next system call gives to memory.
    name: Vec<u8>,
    /// Number of the child's process image, while the thread is in a call of fork.
    forks: Option<u64>,
    repetition: Option<RunningRepetition>,
    /// Recorder's answers to the thread's questions that the replay has not reached yet.
    answers: VecDeque<Answer>,
}

impl Thread {
    fn peek(&self) -> Option<Record> {
        self.records.get(self.position).map(|word| record::decode(*word))
    }

    /// Data words (such as system-call arguments) that follow the next record in the ring; `None` if they
    /// have not arrived yet.
    fn words(&self, control: Control) -> Option<[u64; SYSCALL_WORDS]> {
        let after = self.position + 1;
        let words = self.records.get(after..after + control.words())?;
        let mut all = [0; SYSCALL_WORDS];
        all[..words.len()].copy_from_slice(words);
        Some(all)
    }
}

/// True for events that make a process lose memory: unmapping, moving, or advice that frees pages.
fn takes_memory(event: &ProgramEvent) -> bool {
    matches!(
        event,
        ProgramEvent::Unmap { .. }
            | ProgramEvent::Remap { .. }
            | ProgramEvent::Advise { advice: Advice::DontNeed | Advice::Free, .. }
    )
}

/// Replay of the plugin's records as instructions and events of a trace.
pub struct Replay<S> {
    /// State of each recorded thread, indexed by the ring buffer into which the thread's virtual CPU writes.
    threads: Vec<Thread>,
    /// Index of the ring whose segment (records of one thread between two points of synchronization) is being
    /// replayed.
    current: Option<usize>,
    next_ticket: u64,
    next_thread: u16,
    blocks: Blocks,
    allowed: AllowedPages,
    /// Number of accesses to memory that is not mapped according to the recorded system calls.
    pub unmapped: u64,
    /// Number of mappings at other addresses than Linux would have chosen, see [`Syscall::is_misplaced`].
    pub misplaced: u64,
    /// Buffer for the accesses of one instruction, which is reused to avoid allocations.
    joined: Vec<MemoryAccess>,
    /// Process images of the recording, by number.
    pub images: Images,
    /// Destination of instructions and events; `None` until recording has started.
    pub output: Option<Output<S>>,
}

impl<S: Sink> Replay<S> {
    /// Makes a replay without threads.
    pub fn new() -> Self {
        Self {
            threads: Vec::new(),
            current: None,
            next_ticket: 0,
            next_thread: 0,
            blocks: Blocks::new(),
            allowed: AllowedPages::new(),
            unmapped: 0,
            misplaced: 0,
            joined: Vec::new(),
            images: Images::default(),
            output: None,
        }
    }

    /// Appends a batch of records to those of its ring's thread, and the batch's answer to the thread's
    /// answers.
    pub fn add(&mut self, mut batch: Batch) {
        if self.threads.len() <= batch.ring {
            self.threads.resize_with(batch.ring + 1, Thread::default);
        }
        let thread = &mut self.threads[batch.ring];
        thread.answers.extend(batch.answer);
        if thread.position == thread.records.len() {
            (thread.records, thread.position) = (batch.records, 0);
            return;
        }
        thread.records.drain(..thread.position);
        thread.position = 0;
        thread.records.append(&mut batch.records);
    }

    /// Removes and returns the oldest answer of the recorder to a question of a ring's thread; `None` if
    /// there is no answer yet.
    pub fn answer(&mut self, ring: usize) -> Option<Answer> {
        self.threads[ring].answers.pop_front()
    }

    /// True if the thread that uses a ring has ended and writes no more records.
    pub fn is_thread_over(&self, ring: usize) -> bool {
        let last = self.threads[ring].records.last().map(|word| record::decode(*word));
        matches!(last, Some(Record::Control(Control::ThreadEnd, _)))
    }

    /// Number of threads that the replay has seen so far.
    pub fn thread_count(&self) -> u16 {
        self.next_thread
    }

    /// Replays records until they run out or the caller has to act.
    pub fn advance(&mut self, dictionary: &impl Dictionary) -> Result<Step, RecordError> {
        loop {
            if let Some(ending) = self.output.as_ref().and_then(Output::limit_reached) {
                return Ok(Step::Full(ending));
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

    /// Finds the segment of records that is next in the order of tickets, the numbers that segments of all
    /// threads drew from a common counter at their start. Tickets have no gaps, so this segment is present or
    /// will arrive.
    fn choose_segment(&mut self) -> Result<Option<Step>, RecordError> {
        for ring in 0..self.threads.len() {
            self.change_threads(ring)?;
            match self.threads[ring].peek() {
                Some(Record::Control(Control::Segment, ticket)) if ticket == self.next_ticket => {
                    self.threads[ring].position += 1;
                    self.next_ticket += 1;
                    self.current = Some(ring);
                    return Ok(None);
                }
                Some(Record::Control(Control::Segment | Control::ThreadStart, _)) | None => {}
                Some(_) => return Err(RecordError::Damaged("a record outside any segment")),
            }
        }
        Ok(Some(Step::Starved))
    }

    /// Processes a ring's next records if they are about ended or started threads, up to the next segment.
    fn change_threads(&mut self, ring: usize) -> Result<(), RecordError> {
        loop {
            match self.threads[ring].peek() {
                Some(Record::Control(Control::ThreadEnd, _)) => {
                    self.threads[ring].position += 1;
                    self.end_thread(ring)?;
                }
                Some(Record::Control(Control::ThreadStart, image)) => {
                    let Some(words) = self.threads[ring].words(Control::ThreadStart) else {
                        return Ok(());
                    };
                    self.start_thread(ring, image, words[0] as u32)?;
                }
                _ => return Ok(()),
            }
        }
    }

    fn start_thread(&mut self, ring: usize, image: u64, pid: u32) -> Result<(), RecordError> {
        let of = self.images.get(image)?;
        of.process = pid;
        of.threads += 1;
        of.has_started = true;
        let thread = &mut self.threads[ring];
        let position = thread.position + 1 + Control::ThreadStart.words();
        let records = std::mem::take(&mut thread.records);
        let answers = std::mem::take(&mut thread.answers);
        let id = ThreadId(self.next_thread);
        *thread = Thread { id, image, records, position, answers, ..Thread::default() };
        self.next_thread = self.next_thread.saturating_add(1);
        Ok(())
    }

    /// Ends the thread of a ring. The end of a process's last thread ends the process, unless it executes
    /// another program.
    fn end_thread(&mut self, ring: usize) -> Result<(), RecordError> {
        let thread = &mut self.threads[ring];
        let is_in_exec = thread.syscall.take().is_some_and(|call| call.is_exec());
        let image = self.images.get(thread.image)?;
        image.threads = image.threads.saturating_sub(1);
        image.is_in_exec |= is_in_exec;
        if image.threads == 0 && !image.is_in_exec {
            let image = thread.image;
            self.end_process(image)?;
        }
        Ok(())
    }

    /// Ends the process of an image, unless it has ended already or runs another image now.
    pub fn end_process(&mut self, image: u64) -> Result<(), RecordError> {
        let image = self.images.get(image)?;
        if image.has_ended {
            return Ok(());
        }
        image.has_ended = true;
        if let (Some(process), true) = (image.id, image.is_known)
            && let Some(output) = &mut self.output
        {
            output.common_event(ProgramEvent::Exit { process })?;
        }
        Ok(())
    }

    /// Skips tickets (order numbers of segments) whose segments will never arrive, because their processes
    /// were killed before writing: continues with the lowest ticket that is present. Returns false if no
    /// segment is present.
    pub fn skip_lost_ticket(&mut self) -> bool {
        let waiting = self.threads.iter().filter_map(|thread| match thread.peek()? {
            Record::Control(Control::Segment, ticket) => Some(ticket),
            _ => None,
        });
        match (self.current, waiting.min()) {
            (None, Some(ticket)) if ticket > self.next_ticket => {
                self.next_ticket = ticket;
                true
            }
            _ => false,
        }
    }

    fn replay_segment(
        &mut self,
        ring: usize,
        dictionary: &impl Dictionary,
    ) -> Result<Option<Step>, RecordError> {
        while let Some(found) = self.threads[ring].peek() {
            match found {
                Record::Access { .. } if self.is_dropping() => {}
                Record::Access { index, write, size, address } => {
                    let thread = &mut self.threads[ring];
                    let image = self.images.get(thread.image)?;
                    let access = accesses::access(image.relocation.relocate(address), size, write);
                    thread.pieces.push((index, access));
                    if self.output.is_some() && !image.has_ended {
                        let last = address.saturating_add(u64::from(size) - 1);
                        let places = [address, last];
                        let places =
                            if address >> 12 == last >> 12 { &places[..1] } else { &places };
                        let number = thread.image;
                        let is_allowed = |address: &u64| {
                            self.allowed.check(number, *address, write, &image.space)
                        };
                        self.unmapped += u64::from(!places.iter().all(is_allowed));
                    }
                }
                Record::Block(number) => {
                    let start = self.block_start(ring, number, dictionary)?;
                    self.finish_block(ring, Some(start))?;
                    self.threads[ring].block = Some(number);
                    if self.output.as_ref().and_then(Output::limit_reached).is_some() {
                        return Ok(None);
                    }
                }
                Record::Control(control, payload) => {
                    let Some(words) = self.threads[ring].words(control) else {
                        return Ok(Some(Step::Starved));
                    };
                    self.threads[ring].position += 1 + control.words();
                    match self.control(ring, control, payload, words, dictionary)? {
                        None if self.current.is_none() => return Ok(None),
                        None => continue,
                        step => return Ok(step),
                    }
                }
                Record::Invalid => return Err(RecordError::Damaged("an unknown record")),
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
        dictionary: &impl Dictionary,
    ) -> Result<Option<Step>, RecordError> {
        let image = self.threads[ring].image;
        match control {
            Control::End => {
                let next = payload.checked_sub(1).map(|number| number as u32);
                let next = next.map(|number| self.block_start(ring, number, dictionary));
                self.finish_block(ring, next.transpose()?)?;
                self.current = None;
            }
            Control::ThreadEnd => {
                // The thread was killed in the middle of a segment.
                self.finish_block(ring, None)?;
                self.current = None;
                self.end_thread(ring)?;
            }
            Control::Syscall => {
                self.finish_block(ring, None)?;
                let name = std::mem::take(&mut self.threads[ring].name);
                let call = Syscall { number: payload, arguments: words, name };
                let events = call.begin(&self.images.get(image)?.space);
                self.threads[ring].syscall = Some(call);
                events.into_iter().try_for_each(|event| self.event(ring, event))?;
            }
            Control::Name => {
                let name = &mut self.threads[ring].name;
                let bytes = words.map(u64::to_le_bytes);
                let room = (MAX_NAME_BYTES - name.len()).min(payload as usize);
                name.extend(bytes.as_flattened().iter().take(room));
            }
            Control::Return => self.end_call(ring, payload, words[0] as i64)?,
            Control::Fork => {
                self.finish_block(ring, None)?;
                self.fork(ring, payload, words[0] != 0)?;
            }
            Control::Exit => {
                self.finish_block(ring, None)?;
                self.end_process(image)?;
            }
            Control::Image => {
                self.images.load(image)?;
                return Ok(Some(Step::Image { ring, image }));
            }
            Control::Start => {
                return Ok(Some(Step::Start { ring, skipped: payload, phase: words[0] }));
            }
            Control::Segment | Control::ThreadStart => {
                return Err(RecordError::Damaged("a segment inside another"));
            }
        }
        Ok(None)
    }

    fn end_call(&mut self, ring: usize, number: u64, result: i64) -> Result<(), RecordError> {
        let thread = &mut self.threads[ring];
        let forked = thread.forks.take();
        if let Some(child) = forked.filter(|_| is_failure(result)) {
            self.end_process(child)?;
        }
        let thread = &mut self.threads[ring];
        let Some(call) = thread.syscall.take().filter(|call| call.number == number) else {
            return Ok(());
        };
        self.misplaced += u64::from(call.is_misplaced(result));
        let events = call.end(result, &self.images.get(thread.image)?.space);
        events.into_iter().try_for_each(|event| self.event(ring, event))
    }

    fn fork(&mut self, ring: usize, image: u64, shares: bool) -> Result<(), RecordError> {
        let parent = self.threads[ring].image;
        let child = self.images.fork(parent, image, shares)?;
        self.threads[ring].forks = Some(image);
        let runner = self.runner(ring)?;
        if self.images.get(image)?.is_known
            && let Some(output) = &mut self.output
        {
            output.event(runner, ProgramEvent::Fork { child })?;
        }
        Ok(())
    }

    fn is_dropping(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.is_dropping)
    }

    /// Process and thread that use a ring, as numbered in the trace.
    fn runner(&mut self, ring: usize) -> Result<Runner, RecordError> {
        let Thread { id, image, .. } = self.threads[ring];
        Ok(Runner { process: self.images.get(image)?.memory(), thread: id })
    }

    fn event(&mut self, ring: usize, event: ProgramEvent) -> Result<(), RecordError> {
        let runner = self.runner(ring)?;
        self.allowed.forget();
        let image = self.images.get(self.threads[ring].image)?;
        image.space.apply(&event);
        let image = match image.lender {
            None => image,
            // In the emulator, the child of a vfork has a copy of its parent's memory, and the parent
            // keeps memory that the child gives up.
            Some(_) if takes_memory(&event) => return Ok(()),
            Some(lender) => {
                let lender = self.images.get(lender)?;
                lender.space.apply(&event);
                lender
            }
        };
        if image.is_traced() {
            put(&mut self.output, image, runner, &event)?;
        }
        Ok(())
    }

    /// Writes the mappings of an image to the trace when its recording starts. `present` returns the parts of
    /// an address range whose pages are in memory or swapped out.
    pub fn start_image(
        &mut self,
        ring: usize,
        mut present: impl FnMut(Range<u64>) -> Vec<Range<u64>>,
    ) -> Result<(), RecordError> {
        let runner = self.runner(ring)?;
        let own = self.threads[ring].image;
        let lender = self.images.get(own)?.lender;
        let image = self.images.get(lender.unwrap_or(own))?;
        let mut events = Vec::new();
        match (image.is_known, image.is_mapped) {
            // A later window: pages were touched since the last window.
            (true, true) => {
                events.extend(image.space.populating_events(present));
            }
            (is_known, _) => {
                events.extend(is_known.then_some(ProgramEvent::Exec));
                events.extend(image.space.events(&mut present));
            }
        }
        (image.is_known, image.is_mapped) = (true, true);
        for event in &events {
            put(&mut self.output, image, runner, event)?;
        }
        Ok(())
    }

    fn block_start(
        &mut self,
        ring: usize,
        number: u32,
        dictionary: &impl Dictionary,
    ) -> Result<u64, RecordError> {
        let relocation = &self.images.get(self.threads[ring].image)?.relocation;
        self.blocks.load(number, dictionary, relocation)
    }

    /// Emits the executed instructions of the thread's last block, now that the address of the next one is
    /// known.
    fn finish_block(&mut self, ring: usize, next: Option<u64>) -> Result<(), RecordError> {
        let runner = self.runner(ring)?;
        let thread = &mut self.threads[ring];
        let image = self.images.get(thread.image)?;
        // Other threads may run briefly after exit_group.
        let (Some(number), Some(output), false) =
            (thread.block.take(), &mut self.output, image.has_ended)
        else {
            thread.pieces.clear();
            return Ok(());
        };
        let Some(block) = self.blocks.get(number) else { return Ok(()) };
        let instructions = self.blocks.instructions(block);
        let executed = executed(&self.blocks, block, next, &image.relocation);
        if output.is_dropping {
            output.dropped += executed as u64;
            thread.pieces.clear();
            thread.repetition = None;
            return Ok(());
        }
        let Some(first) = instructions.first() else { return Ok(()) };
        let start = first.instruction.ip.value();
        output
            .begin_block(runner, start..start.wrapping_add(block.end.wrapping_sub(block.start)))?;
        let mut pieces = thread.pieces.as_slice();
        for (index, decoded) in instructions[..executed].iter().enumerate() {
            let own = pieces.iter().take_while(|(of, _)| usize::from(*of) <= index).count();
            let (now, later) = pieces.split_at(own);
            pieces = later;
            let is_last = index + 1 == instructions.len();
            if decoded.repeats && is_last {
                let at = block.end.wrapping_sub(u64::from(decoded.instruction.length));
                let goes_on = next == Some(at);
                repeat(&mut thread.repetition, decoded, now, goes_on, |instruction, accesses| {
                    output.push(instruction, accesses)
                })?;
                continue;
            }
            self.joined.clear();
            if !now.is_empty() {
                accesses::join(decoded, now, &mut self.joined);
            }
            if is_last && decoded.instruction.branch == Branch::Conditional {
                let taken = next.is_some_and(|next| next != block.end);
                output.push(&Instruction { taken, ..decoded.instruction }, &self.joined)?;
            } else {
                output.push(&decoded.instruction, &self.joined)?;
            }
        }
        thread.pieces.clear();
        Ok(())
    }
}

/// Writes an event of a process image to the trace, at native addresses.
fn put<S: Sink>(
    output: &mut Option<Output<S>>,
    image: &Image,
    runner: Runner,
    event: &ProgramEvent,
) -> Result<(), RecordError> {
    let Some(output) = output else { return Ok(()) };
    for event in image.relocation.relocate_event(event) {
        output.event(runner, event)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
