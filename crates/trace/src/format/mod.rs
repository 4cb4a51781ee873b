//! The trace format: chunked, compressed, checksummed, seekable; see `docs/trace-format.md`.
//!
//! A file is a signature followed by chunks. Static instructions are written once, in dictionary
//! chunks; an instruction chunk holds only what the models of [`flow`] and [`addresses`] cannot
//! predict, in columns that zstd compresses further.

pub(crate) mod addresses;
pub(crate) mod columns;
pub(crate) mod dictionary;
pub(crate) mod events;
mod file;
pub(crate) mod flow;
pub(crate) mod header;
pub(crate) mod index;
pub(crate) mod instructions;
pub(crate) mod metadata;
mod reader;
mod writer;

pub use metadata::{StoppedBy, TraceMetadata};
pub use reader::TraceReader;
pub use writer::{TraceSummary, TraceWriter, WriterOptions};

/// First bytes of every trace file: a byte outside ASCII, a name, a line end that text-mode
/// copying would change, and the version.
pub(crate) const SIGNATURE: [u8; 8] = *b"\x89PTRACE\n";

/// Version of the format, stored after the signature as a little-endian 32-bit number.
pub(crate) const VERSION: u32 = 2;
/// The oldest version that is read.
pub(crate) const OLDEST_VERSION: u32 = 1;

/// Length in bytes of signature and version.
pub(crate) const PREAMBLE_BYTES: u64 = 12;

/// Longest payload of a chunk in bytes, and most bytes of its columns together, uncompressed.
pub(crate) const MAX_PAYLOAD_BYTES: u32 = 64 << 20;

/// Longest metadata in bytes, uncompressed: JSON of any shape takes many times as much in memory.
pub(crate) const MAX_METADATA_BYTES: usize = 8 << 20;

/// Most instructions in one chunk.
pub(crate) const MAX_CHUNK_INSTRUCTIONS: u32 = 1 << 21;

/// Memory accesses after which a chunk ends.
pub(crate) const MAX_CHUNK_ACCESSES: usize = 1 << 21;

/// Events after which a chunk ends.
pub(crate) const MAX_CHUNK_EVENTS: usize = 1 << 16;

/// Longest list of events in a chunk in bytes, uncompressed: they take some times as much in memory.
pub(crate) const MAX_EVENTS_BYTES: usize = 16 << 20;

/// Most events, with figures of phases counted as events, that wait for the instruction that they come
/// before: those of all that is passed over, or of a chunk.
pub(crate) const MAX_WAITING_EVENTS: usize = 1 << 22;

/// Most events between two instructions. Programs make some before the first, and few after; what
/// has more has no other content, and would be read for minutes.
pub(crate) const MAX_EVENTS_IN_A_ROW: u64 = 10_000_000;

/// Most gaps in a trace: whoever reads it keeps figures of the windows between them.
pub(crate) const MAX_GAPS: u64 = 1 << 20;

/// Most figures of a phase, with its name and theirs in pieces of 64 bytes.
pub(crate) const MAX_PHASE_FIGURES: usize = 1 << 12;

/// Most records in a dictionary; a full dictionary is dropped and a new one begun.
pub(crate) const MAX_DICTIONARY_RECORDS: usize = 1 << 20;

/// Most operand shapes in a dictionary.
pub(crate) const MAX_DICTIONARY_OPERANDS: usize = 1 << 22;
