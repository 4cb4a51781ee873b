//! Common code of foreign formats: the input stream, and the [`Source`] that wraps a format.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use perforate_types::{Chunk, Instruction, MemoryAccess, ProcessId, ProgramEvent, ThreadId};

use super::compressed::Stream;
use crate::source::{CHUNK_INSTRUCTIONS, Truncation, file_name, skip_by_decoding};
use crate::{Source, SourceMetadata, TraceError};

/// Assumption about traces whose format has no events, as shown to users.
pub(super) const NO_EVENTS: &str = "no map events; memory is mapped where it is touched";
/// Assumption about traces whose format only lists accesses, as shown to users.
pub(super) const ACCESSES_ONLY: &str =
    "registers, branches and operations are not recorded; no dependencies assumed";

/// Decompressed content of a file, with the number of bytes read.
pub(super) struct Input {
    pub(super) path: PathBuf,
    stream: Stream,
    compression: &'static str,
    /// Number of bytes of the decompressed content that were read so far.
    pub(super) offset: u64,
}

impl Input {
    pub(super) fn new(path: &Path, stream: Stream, compression: &'static str) -> Self {
        Self { path: path.to_owned(), stream, compression, offset: 0 }
    }

    /// Returns the next bytes, at most `bytes`, without consuming them.
    pub(super) fn peek(&mut self, bytes: u64) -> Result<Vec<u8>, TraceError> {
        let mut sample = Vec::new();
        let result = (&mut self.stream).take(bytes).read_to_end(&mut sample);
        result.map_err(|error| self.failed(error, sample.len()))?;
        let rest = std::mem::replace(&mut self.stream, Box::new(io::empty()));
        self.stream = Box::new(io::Cursor::new(sample.clone()).chain(rest));
        Ok(sample)
    }

    /// Fills `buffer` with the next bytes of the content. Returns the number of bytes read, which is smaller
    /// than the buffer only at the end.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, TraceError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.stream.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error, filled)),
            }
        }
        self.offset += filled as u64;
        Ok(filled)
    }

    fn failed(&self, error: io::Error, further: usize) -> TraceError {
        if self.compression == "none" {
            return TraceError::io(&self.path, "read", error);
        }
        // xz reports OutOfMemory; zstd reports it in its message.
        let needs_memory =
            error.kind() == io::ErrorKind::OutOfMemory || error.to_string().contains("memory");
        if needs_memory {
            let problem =
                format!("the {} stream takes too much memory to unpack", self.compression);
            let expected = "a smaller dictionary or gzip; all files of a trace have 2 GB together";
            return self.damaged(self.offset + further as u64, problem, expected);
        }
        TraceError::damaged(
            &self.path,
            self.offset + further as u64,
            format!("the {} stream is damaged or cut off ({error})", self.compression),
            "a whole compressed file",
        )
    }

    /// Makes the error that the decompressed content at `offset` is invalid.
    pub(super) fn damaged(&self, offset: u64, problem: String, expected: &str) -> TraceError {
        TraceError::damaged(&self.path, offset, problem, expected)
    }
}

/// Limit on the bytes of content that produces no instruction, such as empty lines and time stamps. Gigabytes
/// of such content compress to almost nothing and take much time, so a file may contain only a bounded number
/// of these bytes per instruction or access.
pub(super) struct FillerLimit {
    /// Name of the content that is limited, such as empty lines, for the error message.
    content: &'static str,
    /// Bytes of content without instructions that were read so far.
    bytes: u64,
    /// Bytes of content without instructions that may have been read by now.
    allowed_bytes: u64,
}

impl FillerLimit {
    /// Bytes of content without instructions that any file may have.
    const FREE_BYTES: u64 = 16 << 20;
    /// Further bytes of content without instructions that a file may have per instruction or access.
    const BYTES_PER_ENTRY: u64 = 4096;

    /// Makes a limit of which nothing is used; `content` names the limited content in errors.
    pub(super) const fn new(content: &'static str) -> Self {
        Self { content, bytes: 0, allowed_bytes: 0 }
    }

    /// Raises the limit on filler bytes, because the file has one more instruction or access.
    #[inline]
    pub(super) fn note_entry(&mut self) {
        self.allowed_bytes += Self::BYTES_PER_ENTRY;
    }

    /// Counts bytes that produce no instruction. `Err` if they exceed the limit.
    #[inline]
    pub(super) fn add(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes += bytes as u64;
        if self.bytes <= Self::FREE_BYTES + self.allowed_bytes {
            return Ok(());
        }
        Err(format!("{} bytes of {}", self.bytes, self.content))
    }
}

/// Reader of an [`Input`] line by line.
pub(super) struct Lines {
    pub(super) input: Input,
    /// Last line that was read, with its line feed if it has one.
    pub(super) line: Vec<u8>,
    /// Number of lines that were read so far, which is the number of the last one.
    number: u64,
    /// Offset of the last line's first byte in the decompressed content.
    start: u64,
    /// True if the last line has no line feed.
    is_cut_off: bool,
    filler: FillerLimit,
    /// Description of valid lines, for error messages.
    expected: &'static str,
}

impl Lines {
    /// Maximum length of a line in bytes.
    const MOST_BYTES: u64 = 4096;

    pub(super) fn new(input: Input, expected: &'static str) -> Self {
        let filler = FillerLimit::new("empty lines and comments");
        Self { input, line: Vec::new(), number: 0, start: 0, is_cut_off: false, filler, expected }
    }

    /// Reads the next line. Returns false at the end of the input.
    pub(super) fn advance(&mut self) -> Result<bool, TraceError> {
        let start = self.input.offset;
        self.line.clear();
        let mut limited = (&mut self.input.stream).take(Self::MOST_BYTES);
        let result = limited.read_until(b'\n', &mut self.line);
        result.map_err(|error| self.input.failed(error, self.line.len()))?;
        if self.line.is_empty() {
            return Ok(false);
        }
        (self.start, self.number) = (start, self.number + 1);
        self.input.offset += self.line.len() as u64;
        self.is_cut_off = !self.line.ends_with(b"\n");
        if self.line.len() as u64 == Self::MOST_BYTES && self.is_cut_off {
            return Err(self.wrong("a line too long".into()));
        }
        Ok(true)
    }

    /// True if the last line has no line feed, so that its end may be missing.
    pub(super) fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// At the end of the input: the place at which the file is cut off, after `instructions` whole ones.
    /// `None` if the last line has its end, or if the place was returned already.
    pub(super) fn take_truncation(&mut self, instructions: usize) -> Option<Truncation> {
        let problem = "the last line has no line end; the file may be cut off".to_owned();
        let (offset, instructions) = (self.start, instructions as u64);
        std::mem::take(&mut self.is_cut_off).then_some(Truncation { offset, instructions, problem })
    }

    /// Counts the last line as an instruction or access, or as filler (content without either) if it is
    /// ignored. Fails if there is too much filler.
    pub(super) fn count(&mut self, is_ignored: bool) -> Result<(), TraceError> {
        if is_ignored {
            return self.filler.add(self.line.len()).map_err(|problem| self.wrong(problem));
        }
        self.filler.note_entry();
        Ok(())
    }

    /// Makes an error with the number of the last line.
    pub(super) fn wrong(&self, problem: String) -> TraceError {
        self.wrong_for(problem, self.expected)
    }

    /// Makes an error with the number of the last line, in whose place `expected` would be right.
    pub(super) fn wrong_for(&self, problem: String, expected: &str) -> TraceError {
        TraceError::line(&self.input.path, self.number, problem, expected)
    }
}

/// Quotes text of a trace for an error, at most 40 characters.
pub(super) fn quote(text: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(text).trim_end().chars().take(40).collect();
    format!("{text:?}")
}

/// Buffer at the current position of an [`Input`], for formats whose readers look ahead.
pub(super) struct Window {
    pub(super) input: Input,
    buffer: Vec<u8>,
    start: usize,
}

impl Window {
    const BYTES: usize = 1 << 16;

    pub(super) fn new(input: Input) -> Self {
        Self { input, buffer: Vec::new(), start: 0 }
    }

    /// Returns the buffered bytes: at least `wanted` (at most 64KB), or fewer at the end of the input.
    pub(super) fn at_least(&mut self, wanted: usize) -> Result<&[u8], TraceError> {
        if self.buffer.len() - self.start < wanted.min(Self::BYTES) {
            self.buffer.drain(..self.start);
            self.start = 0;
            let kept = self.buffer.len();
            self.buffer.resize(Self::BYTES, 0);
            let filled = self.input.fill(&mut self.buffer[kept..]);
            self.buffer.truncate(kept + *filled.as_ref().unwrap_or(&0));
            filled?;
        }
        Ok(&self.buffer[self.start..])
    }

    /// Consumes the first `bytes` bytes that [`Window::at_least`] returned.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.buffer.len());
    }

    /// Offset of the next byte in the input's content.
    pub(super) fn offset(&self) -> u64 {
        self.input.offset - (self.buffer.len() - self.start) as u64
    }
}

/// Instruction of which more accesses may follow in the trace.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) instruction: Option<Instruction>,
    accesses: Vec<MemoryAccess>,
}

impl Pending {
    /// Adds an access to the pending instruction. An instruction with more than 255 accesses is delivered as
    /// several.
    pub(super) fn access(&mut self, access: MemoryAccess, chunk: &mut Chunk) {
        if self.accesses.len() == usize::from(u8::MAX) {
            let again = self.instruction;
            self.complete(chunk);
            self.instruction = again;
        }
        self.accesses.push(access);
    }

    /// Moves the pending instruction, if any, into `chunk`.
    pub(super) fn complete(&mut self, chunk: &mut Chunk) {
        if let Some(instruction) = self.instruction.take() {
            chunk.push(instruction, &self.accesses);
            self.accesses.clear();
        }
    }
}

/// The running process and thread of a trace, both numbered in order of appearance, from 0.
#[derive(Default)]
pub(super) struct SwitchTracker {
    processes: HashMap<u64, u16>,
    threads: HashMap<(u64, u64), u16>,
    current: Option<(u64, u64)>,
}

impl SwitchTracker {
    /// Switches to this thread of this process. Returns an event if the thread is not running already and is
    /// not the trace's first thread. `Err` if there are too many processes or threads to number.
    #[inline]
    pub(super) fn switch(&mut self, process: u64, thread: u64) -> Result<Option<ProgramEvent>, ()> {
        if self.current == Some((process, thread)) {
            return Ok(None);
        }
        let first = self.current.is_none();
        self.current = Some((process, thread));
        let process_number = number(&mut self.processes, process)?;
        let thread = number(&mut self.threads, (process, thread))?;
        let switch =
            ProgramEvent::Switch { process: ProcessId(process_number), thread: ThreadId(thread) };
        Ok((!first).then_some(switch))
    }
}

/// Returns the number of `key` in order of appearance; a new key gets the next number. `Err` if no number is
/// left.
fn number<K: Eq + Hash>(known: &mut HashMap<K, u16>, key: K) -> Result<u16, ()> {
    let next = u16::try_from(known.len());
    match known.entry(key) {
        Entry::Occupied(entry) => Ok(*entry.get()),
        Entry::Vacant(entry) => Ok(*entry.insert(next.map_err(drop)?)),
    }
}

/// Reader of a foreign format, that is, of a trace in a format other than Perforate's.
pub(super) trait Format: Send + 'static {
    /// Metadata that the format provides. The caller fills in the name.
    fn metadata(&self) -> SourceMetadata;

    /// Appends up to `at_most` instructions to an empty chunk. Appends none at the end of the trace. Returns the
    /// point at which the file is cut off, if it was read that far; its number of instructions counts from the
    /// start of the chunk.
    fn fill(&mut self, chunk: &mut Chunk, at_most: usize)
    -> Result<Option<Truncation>, TraceError>;
}

/// Adapter that makes a [`Source`] of a reader of a foreign format.
pub(super) struct ForeignSource<F> {
    metadata: SourceMetadata,
    format: F,
    /// Number of instructions read from the trace so far.
    instructions: u64,
    truncation: Option<Truncation>,
    /// Last switch of the running thread among the skipped instructions; the next chunk starts with it.
    /// Foreign formats have no other events.
    switch: Option<ProgramEvent>,
}

impl<F: Format> ForeignSource<F> {
    pub(super) fn new(path: &Path, format: F) -> Self {
        let metadata = SourceMetadata { name: file_name(path), ..format.metadata() };
        Self { metadata, format, instructions: 0, truncation: None, switch: None }
    }

    fn fill(&mut self, chunk: &mut Chunk, at_most: usize) -> Result<bool, TraceError> {
        if let Some(found) = self.format.fill(chunk, at_most)? {
            let instructions = self.instructions + found.instructions;
            self.truncation.get_or_insert(Truncation { instructions, ..found });
        }
        self.instructions += chunk.instructions.len() as u64;
        Ok(!chunk.instructions.is_empty())
    }
}

impl<F: Format> Source for ForeignSource<F> {
    fn metadata(&self) -> &SourceMetadata {
        &self.metadata
    }

    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        chunk.clear();
        chunk.events.extend(self.switch.take().map(|event| (0, event)));
        let more = self.fill(chunk, CHUNK_INSTRUCTIONS)?;
        if !more {
            chunk.clear(); // a switch without later instructions
        }
        Ok(more)
    }

    fn skip(&mut self, instructions: u64) -> Result<u64, TraceError> {
        let mut switch = self.switch.take();
        let keep = |event| switch = Some(event);
        let skipped = skip_by_decoding(instructions, keep, |chunk, most| self.fill(chunk, most));
        self.switch = switch;
        skipped
    }

    fn truncated(&self) -> Option<&Truncation> {
        self.truncation.as_ref()
    }
}
