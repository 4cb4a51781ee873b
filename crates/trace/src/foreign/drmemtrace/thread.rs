//! One file of a drmemtrace trace, usually with one thread.

use perforate_types::{
    AccessKind, Branch, Chunk, Instruction, MemoryAccess, Operation, VirtualAddress,
};

use super::encoding::Encodings;
use super::record::{self, Facts, Flow, Record};
use super::shared::Shared;
use crate::TraceError;
use crate::foreign::foreign_source::{Input, Pending, Window};

/// Action of a thread's reader after it has processed a record.
enum Next {
    /// Read the next record.
    Record,
    /// Process the same record again: it contains several instructions.
    Same,
    /// Stop: the following records happened at this time, in microseconds.
    Time(u64),
}

/// Reason for which [`Thread::advance`] returned.
pub(super) enum Stop {
    /// The chunk has the requested number of instructions.
    Full,
    /// The following records happened at this time, in microseconds.
    Time(u64),
    /// The file has ended.
    End,
}

pub(super) struct Thread {
    window: Window,
    pending: Pending,
    /// True if the pending instruction is a conditional branch whose outcome the next address shows.
    next_tells: bool,
    /// Number of instructions of the current bundle (a record of several consecutive instructions) that were
    /// delivered or are pending.
    bundled: usize,
    /// Address of the first byte after the last instruction.
    after: u64,
    /// Address of the thread's last instruction, or the address given by a record that states an address but
    /// no instruction length.
    ip: Option<u64>,
    process: u64,
    thread: u64,
    in_kernel: bool,
    /// Encodings of instructions; `None` if the trace names no registers.
    encodings: Option<Encodings>,
    finished: bool,
    /// Number of bytes of a partial record at the end of the file.
    rest: usize,
}

impl Thread {
    pub(super) fn new(input: Input) -> Self {
        Self {
            window: Window::new(input),
            pending: Pending::default(),
            next_tells: false,
            bundled: 0,
            after: 0,
            ip: None,
            process: 0,
            thread: 0,
            in_kernel: false,
            encodings: None,
            finished: false,
            rest: 0,
        }
    }

    /// Reads the first records without consuming them. Returns their time stamp in microseconds (0 if there
    /// is none) and the properties of the trace.
    pub(super) fn look_ahead(&mut self) -> Result<(u64, Facts), TraceError> {
        let (mut time, mut facts) = (0, Facts::default());
        let start = self.window.at_least(64 * record::BYTES)?;
        for bytes in start.chunks_exact(record::BYTES).take(64) {
            match Record::decode(bytes) {
                Record { kind: record::MARKER, size: record::TIME, value } => {
                    time = value;
                    break;
                }
                marker if marker.kind == record::MARKER => facts.take(marker),
                _ => {}
            }
        }
        self.encodings = facts.has_registers().then(Encodings::default);
        Ok((time, facts))
    }

    /// Path of the thread's file.
    pub(super) fn name(&self) -> String {
        self.window.input.path.display().to_string()
    }

    /// Offset and description of a premature end of the file; `None` if the file ended properly.
    pub(super) fn early_end(&self) -> Option<(u64, String)> {
        let offset = self.window.offset();
        if self.rest > 0 {
            Some((offset, format!("a record is cut off after {} bytes", self.rest)))
        } else {
            (!self.finished).then(|| (offset, "the file ends without a footer".to_owned()))
        }
    }

    /// Appends instructions until the chunk has `at_most`, a time stamp follows, or the file ends.
    pub(super) fn advance(
        &mut self,
        chunk: &mut Chunk,
        at_most: usize,
        shared: &mut Shared,
    ) -> Result<Stop, TraceError> {
        while chunk.instructions.len() < at_most {
            let bytes = self.window.at_least(record::BYTES)?;
            if bytes.len() < record::BYTES {
                self.rest = bytes.len();
                self.complete(chunk, None);
                return Ok(Stop::End);
            }
            let one = Record::decode(bytes);
            let next = self.apply(one, chunk, shared)?;
            if !matches!(next, Next::Same) {
                self.window.consume(record::BYTES);
            }
            if let Next::Time(time) = next {
                return Ok(Stop::Time(time));
            }
        }
        Ok(Stop::Full)
    }

    /// Processes a record: updates the thread's state, and may add an instruction to `chunk`.
    fn apply(
        &mut self,
        one: Record,
        chunk: &mut Chunk,
        shared: &mut Shared,
    ) -> Result<Next, TraceError> {
        if let Some(flow) = record::flow(one.kind) {
            self.instruction(one.value, one.size, flow, chunk, shared)?;
            return Ok(Next::Record);
        }
        match one.kind {
            0 | record::WRITE => self.access(one, chunk, shared)?,
            record::BUNDLE => return self.bundle(one, chunk, shared),
            record::THREAD | record::THREAD_EXIT => {
                self.complete(chunk, None);
                self.thread = one.value;
                self.process = shared.process_of(one.value).unwrap_or(self.process);
            }
            record::PROCESS => {
                self.complete(chunk, None);
                self.process = one.value;
                shared.note_process(self.thread, one.value);
            }
            record::FOOTER => self.finished = true,
            record::MARKER => {
                if let Err(problem) = shared.filler.add(record::BYTES) {
                    return Err(
                        self.damaged(problem, "at most 16 MB, and 4 KB for each instruction")
                    );
                }
                return self.marker(one, chunk);
            }
            record::ENCODING => {
                if let Some(encodings) = &mut self.encodings
                    && let Err(problem) = encodings.add(one)
                {
                    return Err(self.wrong_encoding(problem));
                }
            }
            ..=record::LAST => {} // prefetches, flushes, headers, instruction bytes
            _ => return Err(self.damaged(format!("a record of type {}", one.kind), "0 to 49")),
        }
        Ok(Next::Record)
    }

    fn instruction(
        &mut self,
        ip: u64,
        length: u16,
        flow: Flow,
        chunk: &mut Chunk,
        shared: &mut Shared,
    ) -> Result<(), TraceError> {
        if self.in_kernel {
            self.encodings.iter_mut().for_each(Encodings::drop_next);
            return Ok(());
        }
        self.complete(chunk, Some(ip));
        self.ip = Some(ip);
        self.after = ip.wrapping_add(u64::from(length));
        if length == 0 {
            // The record only gives the address for the following accesses.
            self.encodings.iter_mut().for_each(Encodings::drop_next);
            return Ok(());
        }
        let (branch, taken) = match flow {
            Flow::Known(branch, taken) => (branch, taken),
            Flow::NextTells => (Branch::Conditional, false),
        };
        self.next_tells = matches!(flow, Flow::NextTells);
        let mut instruction = Instruction {
            ip: VirtualAddress::new(ip),
            length: u8::try_from(length).ok().filter(|&length| length <= 15).unwrap_or(0),
            branch,
            taken,
            ..Instruction::default()
        };
        if let Some(encodings) = &mut self.encodings
            && let Err(problem) =
                encodings.complete(&mut instruction, self.process, &mut shared.known)
        {
            return Err(self.wrong_encoding(problem));
        }
        self.begin(instruction, chunk, shared)
    }

    /// Makes `instruction` the pending one. Adds a switch event to `chunk` if it runs in another process or
    /// thread than the instruction before.
    fn begin(
        &mut self,
        instruction: Instruction,
        chunk: &mut Chunk,
        shared: &mut Shared,
    ) -> Result<(), TraceError> {
        let event = shared.running.switch(self.process, self.thread).map_err(|()| {
            self.damaged("too many threads or processes".to_owned(), "at most 65536")
        })?;
        event.into_iter().for_each(|event| chunk.push_event(event));
        shared.filler.note_entry();
        self.pending.instruction = Some(instruction);
        Ok(())
    }

    /// Processes the next instruction of a bundle record. The instructions of a bundle follow each other
    /// directly; the bytes of the record's value are their lengths.
    fn bundle(
        &mut self,
        one: Record,
        chunk: &mut Chunk,
        shared: &mut Shared,
    ) -> Result<Next, TraceError> {
        let lengths = one.value.to_le_bytes();
        let Some(lengths) = lengths.get(..usize::from(one.size)) else {
            return Err(self.damaged(format!("a bundle of {} instructions", one.size), "at most 8"));
        };
        if let Some(&length) = lengths.get(self.bundled) {
            let flow = Flow::Known(Branch::None, false);
            self.instruction(self.after, u16::from(length), flow, chunk, shared)?;
            self.bundled += 1;
        }
        if self.bundled < lengths.len() {
            return Ok(Next::Same);
        }
        self.bundled = 0;
        Ok(Next::Record)
    }

    fn access(
        &mut self,
        one: Record,
        chunk: &mut Chunk,
        shared: &mut Shared,
    ) -> Result<(), TraceError> {
        if self.in_kernel {
            return Ok(());
        }
        if self.pending.instruction.is_none() {
            let Some(ip) = self.ip else {
                let problem = "an access before the first instruction".to_owned();
                return Err(self.damaged(problem, "an instruction first"));
            };
            let ip = VirtualAddress::new(ip);
            self.begin(Instruction { ip, ..Instruction::default() }, chunk, shared)?;
        }
        let kind = if one.kind == record::WRITE { AccessKind::Write } else { AccessKind::Read };
        let address = VirtualAddress::new(one.value);
        self.pending.access(MemoryAccess { address, size: one.size.max(1), kind }, chunk);
        Ok(())
    }

    fn marker(&mut self, one: Record, chunk: &mut Chunk) -> Result<Next, TraceError> {
        match one.size {
            record::TIME => {
                if self.system_call_follows()? {
                    self.serialize();
                }
                self.complete(chunk, None);
                return Ok(Next::Time(one.value));
            }
            marker if record::SYSTEM_CALL.contains(&marker) => self.serialize(),
            marker if record::KERNEL_CODE_BEGINS.contains(&marker) => self.in_kernel = true,
            marker if record::KERNEL_CODE_ENDS.contains(&marker) => self.in_kernel = false,
            _ => {}
        }
        Ok(Next::Record)
    }

    /// Marks the pending instruction as serializing, because it makes a system call.
    fn serialize(&mut self) {
        if let Some(instruction) = &mut self.pending.instruction {
            instruction.operation = Operation::Serializing;
        }
    }

    /// True if the next time stamp belongs to a system call. Since version 6 of the format, it is placed,
    /// with the number of the processor, between the instruction and the marker of the call.
    fn system_call_follows(&mut self) -> Result<bool, TraceError> {
        if self.pending.instruction.is_none() {
            return Ok(false);
        }
        let records = self.window.at_least(4 * record::BYTES)?.chunks_exact(record::BYTES);
        let mut after = records.take(4).skip(1).map(Record::decode);
        let is_processor =
            |one: &Record| one.kind == record::MARKER && one.size == record::PROCESSOR;
        let next = after.find(|one| !is_processor(one));
        Ok(next.is_some_and(|one| {
            one.kind == record::MARKER && record::SYSTEM_CALL.contains(&one.size)
        }))
    }

    /// Adds the pending instruction to `chunk`. `next` is the address of the following instruction.
    fn complete(&mut self, chunk: &mut Chunk, next: Option<u64>) {
        if let Some(instruction) = &mut self.pending.instruction
            && self.next_tells
        {
            instruction.taken = next.is_some_and(|next| next != self.after);
        }
        self.next_tells = false;
        self.pending.complete(chunk);
    }

    fn wrong_encoding(&self, problem: String) -> TraceError {
        let expected = "4 bytes, and with registers 5 and one for each of at most 8, up to a \
                        multiple of 4";
        self.damaged(problem, expected)
    }

    fn damaged(&self, problem: String, expected: &str) -> TraceError {
        self.window.input.damaged(self.window.offset(), problem, expected)
    }
}
