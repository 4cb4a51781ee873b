//! The trace format, readers and writers of foreign formats, and threads of a trace.

pub mod bundled;
mod content;
mod convert;
mod error;
mod foreign;
mod format;
mod source;
mod standard_input;
mod threads;

pub use convert::{convert, metadata_for, write_chunk};
pub use error::TraceError;
pub use foreign::{
    Compression, ForeignWriter, Losses, PageMap, Schedule, TraceFormat, formats_of_name, open,
    open_bytes, split_format,
};
pub use format::{StoppedBy, TraceMetadata, TraceReader, TraceSummary, TraceWriter, WriterOptions};
pub use source::{
    CHUNK_INSTRUCTIONS, Limited, SYNTHETIC, Source, SourceMetadata, Truncation, skip_by_decoding,
};
pub use standard_input::{STANDARD_INPUT, standard_input_bytes};
pub use threads::{ConcurrentPrograms, InterleavedThreads, SharedOut};
