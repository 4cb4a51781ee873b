//! The schema of results files: one JSON object per line, one line per run.
//!
//! A [`RunResult`] is what a run writes and what reports read. Reading forgives: fields that are
//! missing or null have their defaults, unknown ones are ignored, odd values in maps are dropped. A
//! line that is no result at all is refused, by its number. The bytes that are written depend on the
//! run alone.
//!
//! A [`Vocabulary`] is what the program that reads knows of counters and schemes; results may mention
//! others.

mod batches;
mod clean;
mod contents;
mod interval;
mod lenient;
mod memory;
mod read;
mod region;
mod run;
mod sampled;
mod student;
mod vocabulary;

pub use batches::Batches;
pub use clean::{clean, read_json};
pub use contents::{ContentsPoint, EntryCounts};
pub use interval::Interval;
pub use memory::{CellRun, MemoryMap, MemoryPoint};
pub use read::{ResultsError, read_results};
pub use region::Region;
pub use run::{HardwareThread, RunResult, Series, Warmup};
pub use sampled::{Sampled, SampledFigure};
pub use vocabulary::Vocabulary;
