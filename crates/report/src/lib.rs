//! Reports on results files: tables for the terminal, and a single HTML page that works offline.
//!
//! This crate reads records (`perforate_records`: runs, experiments, snapshots) and depends on none
//! of the simulator's types. Labels, units and headings of registered counters come from the
//! [`Vocabulary`](perforate_records::Vocabulary). Unregistered counters appear under their plain
//! names, missing ones as “–”.
//!
//! ```
//! use perforate_records::{Vocabulary, read_results};
//! use perforate_report::{ReportOptions, Rows, html, table};
//! let text = r#"{"scheme":"4k","workload":"random","counters":{"walks":12}}"#;
//! let results = read_results(text)?;
//! let options = ReportOptions { title: "Example".into(), ..ReportOptions::default() };
//! let page = html(&results, &options);
//! assert!(page.starts_with("<!DOCTYPE html>"));
//! assert!(table(&results, &Vocabulary::default(), 100, Rows::Main).contains("random"));
//! # Ok::<(), perforate_records::RecordsError>(())
//! ```

mod advice;
mod answer;
mod chart;
mod comparison;
mod curves;
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

pub use advice::{advice_html, advice_text, clock_name, measured_verdict, more_memory};
pub use curves::{curves_html, curves_table};
pub use error::ReportError;
pub use experiment::{Tally, experiments_figures, experiments_html, experiments_table};
pub use html::ReportOptions;
pub use ids::{COUNTERS_USED, WHOLES_USED};
pub use page::{figures, html};
pub use snapshot::{snapshot_html, snapshot_table};
pub use summary::{SchemeSummary, Summary, speed_over, summaries, summary_html};
pub use svg::{CAN_DRAW_FIGURES, HOW_TO_GET_FIGURES, SavedFigure};
pub use text::{Rows, table};
pub use varied::varied_table;
