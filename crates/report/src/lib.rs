//! Report of results files: a terminal table and one HTML page that opens offline.
//!
//! A results file holds one JSON object per line, one line per run ([`RunResult`]). This crate
//! reads nothing else (but records of experiments, [`read_experiments`], and of snapshots,
//! [`read_snapshot`]) and knows none of the simulator's types: counters it has never heard of
//! are shown by name, counters that are missing are shown as “–”.
//!
//! ```
//! use perforate_report::{ReportOptions, html, read_results, table};
//! let text = r#"{"scheme":"4k","workload":"random","counters":{"walks":12}}"#;
//! let results = read_results(text)?;
//! let page = html(&results, &ReportOptions { title: "Example".into(), command: "".into() });
//! assert!(page.starts_with("<!DOCTYPE html>"));
//! assert!(table(&results, 100).contains("random"));
//! # Ok::<(), perforate_report::ReportError>(())
//! ```

mod chart;
mod clean;
mod comparison;
mod error;
mod experiment;
mod format;
mod html;
mod labels;
mod matrix;
mod metric;
mod page;
mod palette;
mod result;
mod sampled;
mod snapshot;
pub mod text;

pub use error::ReportError;
pub use experiment::{
    ExperimentResult, Tally, experiments_html, experiments_table, read_experiments,
};
pub use html::ReportOptions;
pub use page::html;
pub use result::{
    ContentsSample, MemoryMap, MemorySample, Region, RunResult, Sampled, SampledFigure, Series,
    read_results,
};
pub use snapshot::{
    HostRecord, ProcessRecord, Snapshot, read_snapshot, snapshot_html, snapshot_table,
};
pub use text::table;
