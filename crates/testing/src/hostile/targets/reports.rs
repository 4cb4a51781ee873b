//! Targets for result files that reports read.

use perforate_records::{read_experiments, read_results};
use perforate_report::{ReportOptions, Rows, experiments_html, experiments_table, html, table};

use super::{Target, target, told};
use crate::hostile::target::Seeds;

/// Memory limit of a target in bytes. An HTML page is a few times as long as the results that it
/// shows.
const PAGE_BYTES: usize = 64 << 20;

pub const TARGETS: &[Target] = &[
    target("report-results", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Some(results) = told(read_results(&text)) {
            let options = options();
            table(&results, &options.vocabulary, 100, Rows::All);
            table(&results, &options.vocabulary, 100, Rows::Main);
            check_page(&html(&results, &options));
        }
    })
    .with_seeds(Seeds::Lines("crates/report/tests/data"))
    .with_memory(PAGE_BYTES),
    target("report-experiments", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Some(results) = told(read_experiments(&text)) {
            experiments_table(&results, 100);
            check_page(&experiments_html(&results, &options()));
        }
    })
    .with_memory(PAGE_BYTES),
];

/// Returns report options with all registered counters and schemes.
pub(super) fn options() -> ReportOptions {
    let vocabulary = perforate_sim::vocabulary();
    ReportOptions {
        title: "Hostile".into(),
        command: "perforate".into(),
        vocabulary,
        ..ReportOptions::default()
    }
}

/// Asserts that an HTML page is complete, so that text of a result file has not ended it early.
pub(super) fn check_page(page: &str) {
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
}
