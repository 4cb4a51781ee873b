//! The comparison as a table for the terminal.

use perforate_results::{RunResult, Vocabulary};

use super::{Column, blocks, cut, matrices, wrapped};
use crate::comparison::{Comparison, comparisons};
use crate::format::MISSING;
use crate::matrix::Pairs;
use crate::metric::{Metric, metrics};
use crate::sampled::{self, SampledRow};

/// Below this width lines are not broken any further.
const LEAST_COLUMNS: usize = 40;

/// The results as a table at most `columns` characters wide: figures as rows, schemes as columns.
///
/// Schemes that do not fit beside each other continue below. With several seeds the table shows
/// medians. Pairs of guest and host follow as matrices, and stand there alone where they do not fit
/// beside each other. Widths under 40 are taken as 40.
pub fn table(results: &[RunResult], vocabulary: &Vocabulary, columns: usize) -> String {
    let columns = columns.max(LEAST_COLUMNS);
    let comparisons = comparisons(results, vocabulary);
    let parts: Vec<String> =
        comparisons.iter().map(|comparison| one_table(comparison, columns)).collect();
    parts.join("\n")
}

fn one_table(comparison: &Comparison<'_>, columns: usize) -> String {
    title(comparison, columns) + &figures(comparison, columns) + &sampled(comparison, columns)
}

fn title(comparison: &Comparison<'_>, columns: usize) -> String {
    let mut parts = vec![comparison.workload.to_owned()];
    if !comparison.machine.is_empty() {
        parts.push(format!("machine {}", comparison.machine));
    }
    if !comparison.difference.is_empty() {
        parts.push(comparison.difference.clone());
    }
    if comparison.seeds() > 1 {
        parts.push(format!("medians of {} seeds", comparison.seeds()));
    }
    format!("{}\n", cut(&parts.join(" · "), columns))
}

fn figures(comparison: &Comparison<'_>, columns: usize) -> String {
    let all: Vec<usize> = (0..comparison.schemes.len()).collect();
    let tables = tables(comparison, &all, columns);
    let Some(pairs) = Pairs::of(comparison) else { return tables.concat() };
    let is_native = |&index: &usize| comparison.schemes[index].pair().is_none();
    let native: Vec<usize> = all.into_iter().filter(is_native).collect();
    let is_all_above = tables.len() == 1;
    let above = if is_all_above { tables } else { self::tables(comparison, &native, columns) };
    above.concat() + &matrices::matrices(comparison, &pairs, columns, is_all_above)
}

/// All figures of some schemes, in as many tables as their widths need.
fn tables(comparison: &Comparison<'_>, schemes: &[usize], columns: usize) -> Vec<String> {
    let mut metrics = metrics(comparison);
    metrics.retain(|metric| metric.says_something_of(schemes.iter().copied()));
    // A line without values begins each group.
    let mut rows: Vec<(String, Option<&Metric>)> = Vec::new();
    let mut group = "";
    for metric in &metrics {
        if metric.group != group {
            group = metric.group;
            rows.push((group.to_owned(), None));
        }
        rows.push((format!("  {}", metric.label), Some(metric)));
    }
    let labels = Column::texts("", rows.iter().map(|row| row.0.clone()).collect());
    let column = |&scheme: &usize| {
        let cell =
            |row: &(String, Option<&Metric>)| row.1.map_or(String::new(), |one| one.text(scheme));
        Column::numbers(comparison.schemes[scheme].name, rows.iter().map(cell).collect())
    };
    let schemes: Vec<Column> = schemes.iter().map(column).collect();
    blocks(&labels, &schemes, columns).iter().map(|block| format!("\n{block}")).collect()
}

/// What the windows of a sampled trace say of the program.
fn sampled(comparison: &Comparison<'_>, columns: usize) -> String {
    let Some(caption) = sampled::caption(comparison) else {
        return String::new();
    };
    let rows = sampled::rows(comparison);
    let labels = rows.iter().map(|row| format!("  {}", row.label)).collect();
    let column = |(index, scheme): (usize, &crate::comparison::SchemeRuns<'_>)| {
        let cell = |row: &SampledRow| {
            row.values[index].map_or(MISSING.to_string(), |figure| row.text(figure))
        };
        Column::numbers(scheme.name, rows.iter().map(cell).collect())
    };
    let schemes: Vec<Column> = comparison.schemes.iter().enumerate().map(column).collect();
    let tables = blocks(&Column::texts("", labels), &schemes, columns);
    format!("\n{}\n{}", wrapped("", &caption, columns), tables.join("\n"))
}
