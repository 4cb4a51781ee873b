//! The trace format: chunked, compressed, checksummed, seekable; see `docs/trace-format.md`.
//!
//! A file is a signature followed by chunks. Static instructions are written once, in dictionary
//! chunks. An instruction chunk contains only the mispredictions of the models in [`flow`] and
//! [`addresses`], in columns that zstd compresses further.

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

/// First bytes of every trace file: a byte outside ASCII, a name, and a line feed, which text-mode
/// copying would change. The version follows.
pub(crate) const SIGNATURE: [u8; 8] = *b"\x89PTRACE\n";

/// Version of the trace format, stored after the signature as a little-endian 32-bit number.
pub(crate) const VERSION: u32 = 4;
/// Versions of the trace format that can be read, any two at least two bits apart: this number has no
/// checksum. Version 2 added the registers that form addresses, version 4 the names of address ranges.
pub(crate) const VERSIONS: [u32; 3] = [1, 2, VERSION];

/// Length in bytes of signature and version at the beginning of a trace file.
pub(crate) const PREAMBLE_BYTES: u64 = 12;

/// Maximum length of a chunk's payload in bytes, and maximum total length of its uncompressed columns.
pub(crate) const MAX_PAYLOAD_BYTES: u32 = 64 << 20;

/// Maximum length of uncompressed metadata in bytes. JSON can take many times its length in memory.
pub(crate) const MAX_METADATA_BYTES: usize = 8 << 20;

/// Maximum number of instructions in a chunk.
pub(crate) const MAX_CHUNK_INSTRUCTIONS: u32 = 1 << 21;

/// Number of memory accesses after which a chunk ends.
pub(crate) const MAX_CHUNK_ACCESSES: usize = 1 << 21;

/// Number of events after which a chunk ends.
pub(crate) const MAX_CHUNK_EVENTS: usize = 1 << 16;

/// Maximum length of a chunk's uncompressed events in bytes. Events take several times their length in
/// memory.
pub(crate) const MAX_EVENTS_BYTES: usize = 16 << 20;

/// Maximum number of events that the reader holds until their instruction is delivered: the events of a
/// chunk, or of all skipped chunks. Each figure (named number) of a phase event counts as one event, and so do
/// 64 bytes of the name of an address range.
pub(crate) const MAX_WAITING_EVENTS: usize = 1 << 22;

/// Maximum number of events between two instructions. Programs map memory and the like before their first
/// instruction, and cause few events afterwards. A file with more has no other content, and reading it would
/// take minutes.
pub(crate) const MAX_EVENTS_IN_A_ROW: u64 = 10_000_000;

/// Maximum number of gaps (instructions that the recorder skipped between two windows) in a trace. Readers
/// keep statistics of each window.
pub(crate) const MAX_GAPS: u64 = 1 << 20;

/// Maximum number of figures (named numbers that a program reports) in a phase event; each 64 bytes of names
/// count as a figure.
pub(crate) const MAX_PHASE_FIGURES: usize = 1 << 12;

/// Maximum length in bytes of the name of an address range: 4 bytes for each of the 4,096 characters of the
/// longest path.
pub(crate) const MAX_NAME_BYTES: usize = 1 << 14;

/// Maximum number of records in a dictionary. A full dictionary is replaced by a new one.
pub(crate) const MAX_DICTIONARY_RECORDS: usize = 1 << 20;

/// Maximum number of memory operands of all instructions in a dictionary.
pub(crate) const MAX_DICTIONARY_OPERANDS: usize = 1 << 22;
