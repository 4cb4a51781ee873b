//! Final traces of DynamoRIO's drmemtrace: records of 12 bytes, little-endian: type and size (16
//! bits each), address or value (64 bits). One file per thread; their threads are merged by the
//! time stamps in them.
//!
//! Raw traces, as the tracer writes them, need the traced program's binaries; DynamoRIO itself
//! makes final traces of them.

mod folder;
mod record;
mod thread;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

use perforate_types::Chunk;

pub(super) use self::folder::files;
use self::thread::{Stop, Thread};
use super::foreign_source::{Format, Input, Running};
use super::formats::TraceFormat;
use crate::source::Truncation;
use crate::{SourceMetadata, TraceError};

/// What the beginning of a file says about it.
#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    /// A final trace.
    Final,
    /// A raw trace, or one of 32-bit programs: what is wrong, and what would be right.
    Unreadable(&'static str, &'static str),
}

/// How final traces are made of raw ones.
pub(super) const HOW_TO_FINISH: &str = "a final trace: `bin64/drrun -t drmemtrace -indir DIR`, \
     DIR being the drmemtrace.*.dir folder, writes final traces to DIR/trace";

/// What drmemtrace's files begin with: `None` for any other file.
pub(super) fn recognize(sample: &[u8]) -> Option<Kind> {
    let start: [u8; 8] = sample.get(..8)?.try_into().ok()?;
    let [_, _, _, _, _, _, version, kind] = start;
    // The top bits of a raw header: extended record, header of the new or the old order.
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

/// The threads of a drmemtrace trace being read.
pub(super) struct Drmemtrace {
    threads: Vec<Thread>,
    /// Threads that are not at their end, by the time of what they do next, earliest first.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    running: Running,
    facts: record::Facts,
    instructions: u64,
    truncation: Option<Truncation>,
}

impl Drmemtrace {
    /// Reads one file of each thread, or one of all.
    pub(super) fn new(inputs: Vec<Input>) -> Result<Self, TraceError> {
        let mut threads: Vec<Thread> = inputs.into_iter().map(Thread::new).collect();
        let mut facts = record::Facts::default();
        let mut waiting = BinaryHeap::new();
        for (number, thread) in threads.iter_mut().enumerate() {
            let (time, of_thread) = thread.look_ahead()?;
            facts.file_type |= of_thread.file_type;
            waiting.push(Reverse((time, number)));
        }
        Ok(Self {
            threads,
            waiting,
            running: Running::default(),
            facts,
            instructions: 0,
            truncation: None,
        })
    }

    /// Notes that a thread's file ends too early.
    fn note_end(&mut self, number: usize, done: u64) {
        if let Some((offset, problem)) = self.threads[number].early_end() {
            let problem = match self.threads.len() {
                1 => problem,
                _ => format!("{}: {problem}", self.threads[number].name()),
            };
            let instructions = self.instructions + done;
            self.truncation.get_or_insert(Truncation { offset, instructions, problem });
        }
    }
}

impl Format for Drmemtrace {
    fn metadata(&self) -> SourceMetadata {
        SourceMetadata {
            format: TraceFormat::Drmemtrace.name(),
            has_branches: true,
            assumptions: self.facts.assumptions(),
            ..SourceMetadata::default()
        }
    }

    fn fill(&mut self, chunk: &mut Chunk, at_most: usize) -> Result<(), TraceError> {
        while chunk.instructions.len() < at_most {
            let Some(mut next) = self.waiting.peek_mut() else { break };
            let number = next.0.1;
            match self.threads[number].advance(chunk, at_most, &mut self.running)? {
                Stop::Full => {}
                // A thread's clock does not go back, whatever its file says.
                Stop::Time(time) => next.0.0 = time.max(next.0.0),
                Stop::End => {
                    std::collections::binary_heap::PeekMut::pop(next);
                    self.note_end(number, chunk.instructions.len() as u64);
                }
            }
        }
        self.instructions += chunk.instructions.len() as u64;
        Ok(())
    }

    fn truncated(&self) -> Option<&Truncation> {
        self.truncation.as_ref()
    }
}

/// The trace of one file.
pub(super) fn of_file(input: Input) -> Result<Drmemtrace, TraceError> {
    Drmemtrace::new(vec![input])
}

/// The trace of a folder's files, opened by `open`.
pub(super) fn of_folder(
    folder: &Path,
    open: impl Fn(&Path) -> Result<Input, TraceError>,
) -> Result<Drmemtrace, TraceError> {
    let inputs: Result<Vec<Input>, TraceError> =
        files(folder)?.iter().map(|path| open(path)).collect();
    Drmemtrace::new(inputs?)
}
