//! Report of results files: a terminal table and one HTML page that opens offline.
//!
//! A results file holds one JSON object per line, one line per run ([`RunResult`]). This crate
//! reads nothing else (but records of experiments, [`read_experiments`], and of snapshots,
//! [`read_snapshot`]) and knows none of the simulator's types. What counters and schemes are is told
//! by the [`Vocabulary`] that comes with the results: its counters have labels, units and headings,
//! others are shown by name; counters that are missing are shown as “–”.
//!
//! ```
//! use perforate_report::{ReportOptions, Rows, Vocabulary, html, read_results, table};
//! let text = r#"{"scheme":"4k","workload":"random","counters":{"walks":12}}"#;
//! let results = read_results(text)?;
//! let options = ReportOptions { title: "Example".into(), ..ReportOptions::default() };
//! let page = html(&results, &options);
//! assert!(page.starts_with("<!DOCTYPE html>"));
//! assert!(table(&results, &Vocabulary::default(), 100, Rows::Main).contains("random"));
//! # Ok::<(), perforate_report::ReportError>(())
//! ```

mod answer;
mod chart;
mod comparison;
mod degrees;
mod error;
mod experiment;
mod format;
mod html;
mod ids;
mod labels;
mod matrix;
mod metric;
mod page;
mod palette;
mod sampled;
mod snapshot;
mod summary;
mod svg;
pub mod text;
mod threads;
mod varied;
mod waiting;

pub use error::{ReportError, read_results};
pub use experiment::{
    ExperimentResult, Tally, experiments_figures, experiments_html, experiments_table,
    read_experiments,
};
pub use html::ReportOptions;
pub use ids::{COUNTERS_USED, FAMILIES_USED};
pub use page::{figures, html};
pub use perforate_results::{RunResult, Vocabulary};
pub use snapshot::{
    HostRecord, ProcessRecord, Snapshot, read_snapshot, snapshot_html, snapshot_table,
};
pub use summary::{Estimate, SchemeSummary, Summary, speed_over, summaries, summary_html};
pub use svg::{CAN_DRAW_FIGURES, HOW_TO_GET_FIGURES, SavedFigure};
pub use text::{Rows, table};
pub use varied::varied_table;
