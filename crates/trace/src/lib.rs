//! Trace format, readers of foreign formats, synthetic workloads, and layouts of page sizes.

pub mod bundled;
mod content;
mod convert;
mod error;
mod foreign;
mod format;
pub mod layout;
mod program;
mod source;
mod standard_input;
mod synthetic;
mod threads;

pub use convert::{convert, metadata_for, write_chunk};
pub use error::TraceError;
pub use foreign::{
    Compression, ForeignWriter, Losses, PageMap, Schedule, TraceFormat, formats_of_name, open,
    open_bytes, split_format,
};
pub use format::{StoppedBy, TraceMetadata, TraceReader, TraceSummary, TraceWriter, WriterOptions};
pub use source::{CHUNK_INSTRUCTIONS, Limited, Source, SourceMetadata, Truncation};
pub use standard_input::{STANDARD_INPUT, standard_input_bytes};
pub use synthetic::{
    ForkCase, ForkOptions, ReadersOptions, StoreOptions, WORKLOADS, Workload, WorkloadSpec,
};
pub use threads::{SharedOut, SideBySide, Together};
