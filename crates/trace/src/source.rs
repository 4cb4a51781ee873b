//! Sources of instructions: a common trait for recorded traces, foreign traces and workloads.

use std::fmt;

use perforate_types::{Chunk, ProgramEvent, access_count};
use serde::Serialize;

use crate::{StoppedBy, TraceError};

/// Maximum number of instructions per [`Chunk`] that a source delivers: few enough that a decoded chunk
/// stays in the L2 cache.
pub const CHUNK_INSTRUCTIONS: usize = 8 * 1024;

/// Value of [`SourceMetadata::format`] for synthetic workloads, which are generated and may have no end.
pub const SYNTHETIC: &str = "synthetic";

/// Assumption about traces that name registers without marking those that form addresses.
pub(crate) const ALL_MAKE_ADDRESSES: &str =
    "which registers form addresses is not recorded; loads and stores wait for all that are read";

/// Description of a source of instructions, and of the information that it provides.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SourceMetadata {
    /// File name without folder, or the specification of the workload with all its parameters.
    pub name: String,
    /// Format of the source: [`SYNTHETIC`] or the name of a [`crate::TraceFormat`].
    pub format: &'static str,
    /// Total number of instructions of the source; `None` if unknown or unlimited.
    pub instructions: Option<u64>,
    /// True if the source delivers mapping events, so that memory is mapped as the program mapped it.
    pub has_events: bool,
    /// True if instructions name the registers that they read and write.
    pub has_dependencies: bool,
    /// True if branch instructions are marked with their kind.
    pub has_branches: bool,
    /// Phase that ends the program's set-up, if it reports one. Instructions before this phase are not
    /// part of a run's warm-up, and do not count towards its length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup_until: Option<&'static str>,
    /// True if the recording ended before its program did.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_cut_off: bool,
    /// Number of instructions of the program before the first recorded one.
    #[serde(skip_serializing_if = "is_zero")]
    pub instructions_skipped: u64,
    /// Number of programs that run at the same time as the first one, and whose instructions count as well.
    #[serde(skip_serializing_if = "is_zero")]
    pub programs_beside: u64,
    /// Limit or request that ended the recording; `None` if the program ended, or if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<StoppedBy>,
    /// Failure of the recorded program, as a clause; `None` if it succeeded, or if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Number of accesses to memory that the trace does not map, as the recorder counted them; 0 if
    /// unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub accesses_unmapped: u64,
    /// Description of the recording in one line, from the content of a foreign trace.
    #[serde(skip)]
    pub recording: Option<String>,
    /// Assumptions about information that the source lacks, one sentence each.
    pub assumptions: Vec<String>,
}

impl SourceMetadata {
    /// Instructions of a run's warm-up by default: a fifth of the source, or none after a set-up, which warms caches
    /// and TLBs itself. `None` if the length of the source is not known.
    pub fn default_warmup(&self) -> Option<u64> {
        match self.setup_until {
            Some(_) => Some(0),
            None => self.instructions.map(|instructions| instructions / 5),
        }
    }
}

pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Place and reason of the premature end of a recorded trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Length in bytes of the readable part of the file.
    pub offset: u64,
    /// Number of instructions in the readable part of the trace.
    pub instructions: u64,
    /// Description of what is missing, for messages.
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
    /// Description of the source and of the information that it provides.
    fn metadata(&self) -> &SourceMetadata;

    /// Clears `chunk` and fills it with the next instructions, at most [`CHUNK_INSTRUCTIONS`], with
    /// their accesses and events. Returns false, with an empty chunk, at the end. A chunk may contain
    /// only events.
    ///
    /// # Errors
    /// If the trace is damaged. Later calls return the same error or the end.
    fn next_chunk(&mut self, chunk: &mut Chunk) -> Result<bool, TraceError>;

    /// Skips the next `instructions` instructions. Returns the number of skipped instructions, which is
    /// smaller only at the end. Skipped events are kept: they come first in the next chunk.
    ///
    /// # Errors
    /// The errors of [`Source::next_chunk`].
    fn skip(&mut self, instructions: u64) -> Result<u64, TraceError>;

    /// Place and reason of the premature end of the trace; `None` if it is complete or not a file.
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

/// Source that ends after a number of instructions of another source, with the events before and between
/// them. A program's set-up precedes these instructions and does not count.
pub struct Limited<S> {
    source: S,
    metadata: SourceMetadata,
    /// Phase at which counting of instructions starts; `None` once it has begun.
    awaited: Option<&'static str>,
    remaining: u64,
}

impl<S: Source> Limited<S> {
    /// Makes a source that ends after `instructions` instructions of `source`.
    pub fn new(source: S, instructions: u64) -> Self {
        let mut metadata = source.metadata().clone();
        metadata.instructions = match metadata.instructions {
            Some(all) => Some(all.min(instructions)),
            None if metadata.format == SYNTHETIC => Some(instructions),
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

/// Shortens a chunk to its first `instructions` instructions.
fn truncate(chunk: &mut Chunk, instructions: usize) {
    let Some(rest) = chunk.instructions.get(instructions..) else { return };
    chunk.accesses.truncate(chunk.accesses.len() - access_count(rest));
    chunk.instructions.truncate(instructions);
    chunk.events.retain(|(before, _)| (*before as usize) < instructions);
}

/// Skips by decoding, for sources without an index: `fill` appends at most a number of instructions, and
/// returns false at the end. Skipped events are passed to `keep`. Returns the number of skipped
/// instructions.
///
/// # Errors
/// The errors of `fill`.
pub fn skip_by_decoding(
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

/// Returns the name of the file without its folder.
pub(crate) fn file_name(path: &std::path::Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
