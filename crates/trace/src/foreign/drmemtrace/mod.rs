//! Reader of final traces of DynamoRIO's drmemtrace: records of 12 bytes, little-endian: type and size
//! (16 bits each), address or value (64 bits). There is one file per thread; threads are merged by
//! their time stamps. A file is open from its first time stamp to its end.
//!
//! Raw traces, as the tracer writes them, cannot be read without the traced program's binaries.
//! DynamoRIO converts raw traces to final traces.

mod beside;
mod encoding;
mod folder;
mod record;
mod shared;
mod thread;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

use perforate_types::Chunk;

pub use self::beside::{PageMap, Schedule};
pub(super) use self::folder::files;
use self::shared::Shared;
use self::thread::{Stop, Thread};
use super::foreign_source::{Format, Input};
use super::formats::TraceFormat;
use crate::source::Truncation;
use crate::{SourceMetadata, TraceError};

/// Kind of a drmemtrace file: readable or not.
#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    /// A final trace, as opposed to the tracer's raw output, of 64-bit programs.
    Final,
    /// A raw trace, or a trace of a 32-bit program: problem, and what was expected.
    Unreadable(&'static str, &'static str),
}

/// Instructions for users: how to convert raw traces to final traces.
pub(super) const HOW_TO_FINISH: &str = "a final trace: `bin64/drrun -t drmemtrace -indir DIR`, \
     DIR being the drmemtrace.*.dir folder, writes final traces to DIR/trace";

/// Recognizes files of drmemtrace by their beginning. `None` for any other file.
pub(super) fn recognize(sample: &[u8]) -> Option<Kind> {
    let start: [u8; 8] = sample.get(..8)?.try_into().ok()?;
    let [_, _, _, _, _, _, version, kind] = start;
    // Top bits of a raw header: an extended record, a header in the new or the old order.
    let raw_header = match kind {
        0xc4 => (1..=31).contains(&version),
        0xc0 => start[1..6] == [0; 5] && (1..=31).contains(&start[0]),
        _ => false,
    };
    if raw_header {
        return Some(Kind::Unreadable("a raw drmemtrace file", HOW_TO_FINISH));
    }
    if start[..4] != [record::HEADER as u8, 0, 0, 0] || start[4] == 0 || start[5..8] != [0; 3] {
        return None;
    }
    if sample.get(8..10) == Some(&[record::MARKER as u8, 0]) {
        let expected = "records of 12 bytes, as 64-bit programs have them";
        return Some(Kind::Unreadable("a drmemtrace file of a 32-bit program", expected));
    }
    let records = sample.chunks_exact(record::BYTES);
    let known = |one: &[u8]| u16::from_le_bytes([one[0], one[1]]) <= record::LAST;
    records.take(64).all(known).then_some(Kind::Final)
}

/// Function that opens a trace file; the second argument is the number of files in the trace.
type Open = fn(&Path, usize) -> Result<Input, TraceError>;

/// A file of a drmemtrace trace, usually with one thread.
enum File {
    /// A file that is not open yet, because the trace has not reached the file's first time stamp.
    Ahead(PathBuf, Open),
    Begun(Box<Thread>),
    Ended,
}

impl File {
    /// Opens the file if necessary, and returns its thread. `files` is the number of files in the trace.
    fn begun(&mut self, files: usize) -> Result<&mut Thread, TraceError> {
        if let Self::Ahead(path, open) = self {
            let mut thread = Thread::new(open(path, files)?);
            thread.look_ahead()?;
            *self = Self::Begun(Box::new(thread));
        }
        match self {
            Self::Begun(thread) => Ok(thread),
            Self::Ahead(..) | Self::Ended => unreachable!("only files before their end wait"),
        }
    }
}

/// Reader of a drmemtrace trace.
#[derive(Default)]
pub(super) struct Drmemtrace {
    files: Vec<File>,
    /// Indices of unfinished files by the time stamp of their next records, earliest first.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    shared: Shared,
    facts: record::Facts,
    truncation: Option<Truncation>,
}

impl Drmemtrace {
    /// Adds a trace file, with the time stamp and properties from its first records.
    fn add(&mut self, file: File, (time, facts): (u64, record::Facts)) {
        self.facts.join(facts);
        self.waiting.push(Reverse((time, self.files.len())));
        self.files.push(file);
    }

    /// Closes file `number`. Records a truncation of the trace if the file ended early; `instructions` of the
    /// current chunk come before.
    fn end(&mut self, number: usize, instructions: u64) {
        let File::Begun(thread) = std::mem::replace(&mut self.files[number], File::Ended) else {
            return;
        };
        if let Some((offset, problem)) = thread.early_end() {
            let problem = match self.files.len() {
                1 => problem,
                _ => format!("{}: {problem}", thread.name()),
            };
            self.truncation.get_or_insert(Truncation { offset, instructions, problem });
        }
    }
}

impl Format for Drmemtrace {
    fn metadata(&self) -> SourceMetadata {
        SourceMetadata {
            format: TraceFormat::Drmemtrace.name(),
            has_branches: true,
            has_dependencies: self.facts.has_registers(),
            recording: Some(self.facts.description(self.files.len())),
            assumptions: self.facts.assumptions(),
            ..SourceMetadata::default()
        }
    }

    fn fill(
        &mut self,
        chunk: &mut Chunk,
        at_most: usize,
    ) -> Result<Option<Truncation>, TraceError> {
        while chunk.instructions.len() < at_most {
            let Some(Reverse((time, number))) = self.waiting.pop() else { break };
            let files = self.files.len();
            let thread = self.files[number].begun(files)?;
            match thread.advance(chunk, at_most, &mut self.shared)? {
                Stop::Full => self.waiting.push(Reverse((time, number))),
                // Time stamps of a thread must not go back, even if its file has them.
                Stop::Time(next) => self.waiting.push(Reverse((next.max(time), number))),
                Stop::End => self.end(number, chunk.instructions.len() as u64),
            }
        }
        Ok(self.truncation.take())
    }
}

/// Makes a reader of a single trace file.
pub(super) fn of_file(input: Input) -> Result<Drmemtrace, TraceError> {
    let mut trace = Drmemtrace::default();
    let mut thread = Thread::new(input);
    let facts = thread.look_ahead()?;
    trace.add(File::Begun(Box::new(thread)), facts);
    Ok(trace)
}

/// Makes a reader of all trace files in a folder.
pub(super) fn of_folder(folder: &Path, open: Open) -> Result<Drmemtrace, TraceError> {
    let list = files(folder)?;
    folder::allow_open_files(list.len());
    let mut trace = Drmemtrace::default();
    let files = list.len();
    for path in list {
        let facts = Thread::new(open(&path, files)?).look_ahead()?;
        trace.add(File::Ahead(path, open), facts);
    }
    Ok(trace)
}
