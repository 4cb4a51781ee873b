//! Terminal output for comparisons.

use perforate_records::{RunResult, Vocabulary};

use super::{Column, blocks, cut, folded, matrices, wrapped};
use crate::answer::answer;
use crate::comparison::{Comparison, MOST_COLUMNS, comparisons};
use crate::format::MISSING;
use crate::matrix::Pairs;
use crate::metric::{Metric, metrics};
use crate::sampled::{self, SampledRow};
use crate::threads::{FIGURES, Figure, MOST_ROWS, ThreadRows};

/// Least width of the output in characters; narrower terminals are treated as this wide.
const LEAST_COLUMNS: usize = 40;

/// Selection of the figures that a table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Rows for the most important figures only.
    Main,
    /// Rows for all figures: registered counters, and those that the report computes.
    All,
}

/// Returns the results as text, at most `columns` characters wide: the answer, then a table with a
/// row for each figure and a column for each scheme. With more than six schemes, the table of main
/// figures has a row for each scheme instead.
///
/// Schemes that do not fit into the width are in further tables. With several seeds, tables show
/// medians. Matrices over pairs of guest and host follow; if the pairs do not fit into the first
/// table, only the matrices show them. Widths below 40 are treated as 40.
pub fn table(results: &[RunResult], vocabulary: &Vocabulary, columns: usize, rows: Rows) -> String {
    let columns = columns.max(LEAST_COLUMNS);
    let comparisons = comparisons(results, vocabulary);
    let parts: Vec<String> =
        comparisons.iter().map(|comparison| one_table(comparison, columns, rows)).collect();
    parts.join("\n")
}

fn one_table(comparison: &Comparison<'_>, columns: usize, rows: Rows) -> String {
    let text = title(comparison, columns) + &answers(comparison, columns);
    match rows {
        Rows::Main => {
            text + &main_figures(comparison, columns) + &threads(comparison, columns, MOST_ROWS)
        }
        Rows::All => {
            let figures = figures(comparison, columns) + &sampled(comparison, columns);
            text + &figures + &threads(comparison, columns, usize::MAX)
        }
    }
}

/// Returns the table of hardware threads; an empty text if a scheme has more than `most` of these threads.
fn threads(comparison: &Comparison<'_>, columns: usize, most: usize) -> String {
    let Some(threads) = ThreadRows::of(comparison) else { return String::new() };
    if threads.most() > most {
        let about = format!("{} hardware threads; --all prints what each did", threads.most());
        return format!("\n{}", wrapped("", &about, columns));
    }
    let names = threads.0.iter().map(|row| format!("{}  {}", row.scheme, row.thread));
    let column = |(figure, (heading, ..)): (usize, &Figure)| {
        Column::numbers(heading, threads.0.iter().map(|row| row.text(figure)).collect())
    };
    let figures: Vec<Column> = FIGURES.iter().enumerate().map(column).collect();
    format!("\n{}", blocks(&Column::texts("", names.collect()), &figures, columns).join("\n"))
}

/// Returns the full answer of a comparison, with a paragraph for each sentence.
fn answers(comparison: &Comparison<'_>, columns: usize) -> String {
    let sentences = answer(comparison);
    let lines: Vec<String> =
        sentences.iter().map(|sentence| folded(&sentence.text(), columns)).collect();
    if lines.is_empty() { String::new() } else { format!("\n{}", lines.concat()) }
}

/// Returns the table of the main figures of all schemes.
fn main_figures(comparison: &Comparison<'_>, columns: usize) -> String {
    if let Some(pairs) = Pairs::of(comparison)
        && comparison.schemes.len() > MOST_COLUMNS
    {
        return matrices::matrices(comparison, &pairs, columns, false);
    }
    let mut metrics = metrics(comparison);
    metrics.retain(|metric| metric.is_main);
    let table = if comparison.schemes.len() > MOST_COLUMNS {
        schemes_as_rows(comparison, &metrics, columns)
    } else {
        schemes_as_columns(comparison, &metrics, columns)
    };
    let is_unsure = |metric: &Metric| {
        (0..comparison.schemes.len()).any(|scheme| metric.text(scheme).starts_with('~'))
    };
    let mut about: Vec<String> = sampled::seen(comparison).into_iter().collect();
    if metrics.iter().any(|metric| metric.intervals.iter().flatten().count() > 0) {
        about.push("±: half of the 95 % interval".into());
    }
    if metrics.iter().any(is_unsure) {
        about.push("~1: no difference that this run can show".into());
    }
    let about = about.join("; ");
    format!("\n{table}{}", wrapped("", &about, columns))
}

fn schemes_as_columns(comparison: &Comparison<'_>, metrics: &[Metric], columns: usize) -> String {
    let labels = metrics.iter().map(|metric| metric.label.clone()).collect();
    let column = |(scheme, runs): (usize, &crate::comparison::SchemeRuns<'_>)| {
        Column::numbers(runs.name, metrics.iter().map(|metric| metric.text(scheme)).collect())
    };
    let schemes: Vec<Column> = comparison.schemes.iter().enumerate().map(column).collect();
    blocks(&Column::texts("", labels), &schemes, columns).join("\n")
}

/// Returns a table with a row for each scheme, and as many metrics as fit into the width.
fn schemes_as_rows(comparison: &Comparison<'_>, metrics: &[Metric], columns: usize) -> String {
    let names = comparison.schemes.iter().map(|scheme| scheme.name.to_owned()).collect();
    let column = |metric: &Metric| {
        let cells = (0..comparison.schemes.len()).map(|scheme| metric.text(scheme)).collect();
        Column::numbers(&metric.label, cells)
    };
    let figures: Vec<Column> = metrics.iter().map(column).collect();
    let found = blocks(&Column::texts("", names), &figures, columns);
    found.into_iter().next().unwrap_or_default()
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

/// Returns all figures of these schemes, in as many tables as the width requires.
fn tables(comparison: &Comparison<'_>, schemes: &[usize], columns: usize) -> Vec<String> {
    let mut metrics = metrics(comparison);
    metrics.retain(|metric| metric.says_something_of(schemes.iter().copied()));
    // A line without values is the heading of each group.
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

/// Returns the table of estimates for the whole program from a sampled trace; empty if no run is sampled.
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
