//! Where instructions come from: one trait for recorded traces, foreign traces and workloads.

use std::fmt;

use perforate_types::{Chunk, ProgramEvent};
use serde::Serialize;

use crate::{StoppedBy, TraceError};

/// Instructions per [`Chunk`] that a source delivers at most: few enough that a decoded chunk
/// stays in a second-level cache.
pub const CHUNK_INSTRUCTIONS: usize = 8 * 1024;

/// Said of traces that name registers but not which of them form addresses.
pub(crate) const ALL_MAKE_ADDRESSES: &str =
    "which registers form addresses is not recorded; loads and stores wait for all that are read";

/// What a source is and what it can tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SourceMetadata {
    /// File name without its folder, or the workload with all its parameters.
    pub name: String,
    /// `synthetic` or the name of a [`crate::TraceFormat`].
    pub format: &'static str,
    /// How many instructions there are in all; `None` where that is unknown or endless.
    pub instructions: Option<u64>,
    /// Whether map events are delivered, so that memory is mapped as the program mapped it.
    pub has_events: bool,
    /// Whether instructions name the registers they read and write.
    pub has_dependencies: bool,
    /// Whether branches are marked as such.
    pub has_branches: bool,
    /// The phase up to which the program sets up what it works on, if it says so: what comes before
    /// is no part of a run's warm-up, and does not count against its length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup_until: Option<&'static str>,
    /// Whether the program ran on after the last instruction: its recording was ended before it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_cut_off: bool,
    /// The limit or request that ended the recording; none if the program ended, or the trace does not
    /// say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<StoppedBy>,
    /// Accesses to memory that the trace does not map, as its recorder counted them; 0 if it did not.
    #[serde(skip_serializing_if = "is_zero")]
    pub accesses_unmapped: u64,
    /// What a foreign trace says of how it was recorded, in a line.
    #[serde(skip)]
    pub recording: Option<String>,
    /// What the source does not know and what was assumed instead, one sentence each.
    pub assumptions: Vec<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Where and why a recorded trace stops early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Length in bytes of the part of the file that is whole.
    pub offset: u64,
    /// Instructions in that part.
    pub instructions: u64,
    /// What is missing.
    pub problem: String,
}

impl fmt::Display for Truncation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, instructions, problem } = self;
        write!(f, "byte {offset}: {problem}; the {instructions} instructions before it are whole")
    }
}

/// A stream of instructions, memory accesses and program events in program order.
pub trait Source: Send {
    /// What the source is and what it can tell.
    fn metadata(&self) -> &SourceMetadata;

    /// Empties `chunk` and fills it with what comes next, at most [`CHUNK_INSTRUCTIONS`]
    /// instructions. Returns false, with an empty chunk, at the end. A chunk that holds only
    /// events is possible.
    ///
    /// # Errors
    /// What is wrong with the trace; later calls return the same or the end.
    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError>;

    /// Passes over the next `instructions` instructions and returns how many there were (fewer
    /// only at the end). Events among them are not lost: they come first in the next chunk.
    ///
    /// # Errors
    /// As [`Source::next_chunk`].
    fn skip(&mut self, instructions: u64) -> Result<u64, TraceError>;

    /// Where the trace stops early, if it is a file that was cut off or not finished.
    fn truncated(&self) -> Option<&Truncation> {
        None
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn metadata(&self) -> &SourceMetadata {
        (**self).metadata()
    }

    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        (**self).next_chunk(chunk)
    }

    fn skip(&mut self, instructions: u64) -> Result<u64, TraceError> {
        (**self).skip(instructions)
    }

    fn truncated(&self) -> Option<&Truncation> {
        (**self).truncated()
    }
}

/// The first `instructions` instructions of another source, with the events before and between
/// them; a program's set-up comes before and does not count.
pub struct Limited<S> {
    source: S,
    metadata: SourceMetadata,
    /// The phase from which instructions count, until it has begun.
    awaited: Option<&'static str>,
    remaining: u64,
}

impl<S: Source> Limited<S> {
    /// Ends `source` after `instructions` instructions.
    pub fn new(source: S, instructions: u64) -> Self {
        let mut metadata = source.metadata().clone();
        metadata.instructions = match metadata.instructions {
            Some(all) => Some(all.min(instructions)),
            None if metadata.format == crate::synthetic::FORMAT => Some(instructions),
            None => None,
        };
        let awaited = metadata.setup_until;
        Self { source, metadata, awaited, remaining: instructions }
    }
}

impl<S: Source> Source for Limited<S> {
    fn metadata(&self) -> &SourceMetadata {
        &self.metadata
    }

    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError> {
        if self.remaining == 0 {
            chunk.clear();
            return Ok(false);
        }
        let more = self.source.next_chunk(chunk)?;
        let setup = match self.awaited {
            None => 0,
            Some(phase) => match chunk.phase_start(phase) {
                None => return Ok(more),
                Some(instructions) => instructions,
            },
        };
        self.awaited = None;
        let wanted = self.remaining.saturating_add(setup as u64);
        truncate(chunk, usize::try_from(wanted).unwrap_or(usize::MAX));
        self.remaining -= (chunk.instructions.len() - setup) as u64;
        Ok(more)
    }

    fn skip(&mut self, instructions: u64) -> Result<u64, TraceError> {
        if self.awaited.is_some() {
            return self.source.skip(instructions);
        }
        let skipped = self.source.skip(instructions.min(self.remaining))?;
        self.remaining -= skipped;
        Ok(skipped)
    }

    fn truncated(&self) -> Option<&Truncation> {
        self.source.truncated()
    }
}

/// Cuts a chunk after `instructions` instructions.
fn truncate(chunk: &mut Chunk, instructions: usize) {
    let Some(rest) = chunk.instructions.get(instructions..) else { return };
    let dropped: usize = rest.iter().map(|instruction| usize::from(instruction.accesses)).sum();
    chunk.accesses.truncate(chunk.accesses.len() - dropped);
    chunk.instructions.truncate(instructions);
    chunk.events.retain(|(before, _)| (*before as usize) < instructions);
}

/// Skips by decoding: what sources without an index do. Events passed over are given to `keep`.
pub(crate) fn skip_by_decoding(
    instructions: u64,
    mut keep: impl FnMut(ProgramEvent),
    mut fill: impl FnMut(&mut Chunk, usize) -> Result<bool, TraceError>,
) -> Result<u64, TraceError> {
    let mut chunk = Chunk::default();
    let mut skipped = 0;
    while skipped < instructions {
        let at_most = (instructions - skipped).min(CHUNK_INSTRUCTIONS as u64) as usize;
        chunk.clear();
        if !fill(&mut chunk, at_most)? {
            break;
        }
        skipped += chunk.instructions.len() as u64;
        chunk.events.drain(..).for_each(|(_, event)| keep(event));
    }
    Ok(skipped)
}

/// The file's name without its folder.
pub(crate) fn file_name(path: &std::path::Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
