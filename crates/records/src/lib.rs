//! Records of commands, one struct for each: filled by the crate that measures, written as JSON, read
//! from files, and shown by reports.
//!
//! A [`RunResult`] is a line of a results file, an [`ExperimentRecord`] several lines, a [`Snapshot`] a
//! file. Reading forgives: fields that are missing or null have their defaults, unknown ones are
//! ignored, odd values in maps are dropped. A line that is no record at all is refused, by its number.
//! The bytes that are written depend on what was measured alone.
//!
//! A [`Vocabulary`] is what the program that reads knows of counters and schemes; results may mention
//! others.

mod batches;
mod contents;
mod experiment;
mod interval;
mod json;
mod lenient;
mod memory;
mod read;
mod region;
mod run;
mod sampled;
mod snapshot;
mod student;
mod vocabulary;

pub use batches::Batches;
pub use contents::{ContentsPoint, EntryCounts};
pub use experiment::{
    AxisForm, ChartForm, ChartRecord, ClaimKind, ClaimRecord, CurveRecord, DrawnRecord,
    ExperimentRecord, PartRange, PointRecord, Reading, Show, UnstatedRange, Verdict, config_of,
    read_experiments,
};
pub use interval::Interval;
pub use json::{clean, harmless, harmless_json, json_line, read_json};
pub use memory::{CellRun, MemoryMap, MemoryPoint};
pub use read::{RecordsError, read_results};
pub use region::Region;
pub use run::{HardwareThread, RunResult, Series, Warmup};
pub use sampled::{Sampled, SampledFigure};
pub use snapshot::{
    BlockReach, FREE_ORDERS, FreeBlocksByType, HostRecord, PageblockCount, ProcessArea,
    ProcessContents, ProcessRecord, ProcessTotals, RequestShares, Snapshot, SnapshotOrder,
    SnapshotRequest, SnapshotZone, Survey, read_snapshot,
};
pub use vocabulary::Vocabulary;
