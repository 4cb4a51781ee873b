//! The comparison as a table for the terminal.

mod matrices;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::RunResult;
use crate::comparison::{Comparison, SchemeRuns, comparisons};
use crate::format::{MISSING, plain_text};
use crate::matrix::Pairs;
use crate::metric::{Metric, metrics};
use crate::sampled::{self, SampledRow};

const GAP: usize = 2;
/// A heading wider than this is broken, at hyphens where it has some.
const HEADING: usize = 12;
/// More lines than this are cut off.
const HEADING_LINES: usize = 6;
/// Below this width lines are not broken any further.
const LEAST_COLUMNS: usize = 40;

/// The results as a table at most `columns` characters wide: figures as rows, schemes as columns.
///
/// Schemes that do not fit beside each other continue below. With several seeds the table shows
/// medians. Pairs of guest and host follow as matrices, and stand there alone where they do not fit
/// beside each other. Widths under 40 are taken as 40.
pub fn table(results: &[RunResult], columns: usize) -> String {
    let columns = columns.max(LEAST_COLUMNS);
    let parts: Vec<String> =
        comparisons(results).iter().map(|comparison| one_table(comparison, columns)).collect();
    parts.join("\n")
}

fn one_table(comparison: &Comparison<'_>, columns: usize) -> String {
    let mut text = figures(comparison, columns);
    write_sampled(&mut text, comparison, columns);
    text
}

/// What the windows of a sampled trace say of the program.
fn write_sampled(text: &mut String, comparison: &Comparison<'_>, columns: usize) {
    let Some(caption) = sampled::caption(comparison) else {
        return;
    };
    let rows = sampled::rows(comparison);
    let label = |row: &SampledRow| format!("  {}", row.label);
    let label_width = rows.iter().map(|row| label(row).width()).max().unwrap_or(0);
    let column = |(index, scheme): (usize, &SchemeRuns<'_>)| {
        let cell = |row: &SampledRow| {
            row.values[index].map_or(MISSING.to_string(), |figure| row.text(figure))
        };
        Column::of(scheme.name, rows.iter().map(cell).collect())
    };
    let columns_of_schemes: Vec<Column> =
        comparison.schemes.iter().enumerate().map(column).collect();
    text.push_str(&format!("\n{}\n", cut(&caption, columns)));
    for block in blocks(&columns_of_schemes, columns.saturating_sub(label_width)) {
        write_heading(text, block, label_width);
        for (index, row) in rows.iter().enumerate() {
            write_line(text, &label(row), label_width, block, |column| column.cells[index].clone());
        }
    }
}

fn figures(comparison: &Comparison<'_>, columns: usize) -> String {
    let mut text = title(comparison, columns);
    let Some(pairs) = Pairs::of(comparison) else {
        write_schemes(&mut text, comparison, 0..comparison.schemes.len(), columns);
        return text;
    };
    let mut all = String::new();
    let blocks = write_schemes(&mut all, comparison, 0..comparison.schemes.len(), columns);
    let native = (0..comparison.schemes.len())
        .filter(|&index| comparison.schemes[index].pair().is_none())
        .collect::<Vec<usize>>();
    if blocks == 1 {
        text.push_str(&all);
    } else if !native.is_empty() {
        write_schemes(&mut text, comparison, native, columns);
    }
    text.push_str(&matrices::matrices(comparison, &pairs, columns, blocks == 1));
    text
}

/// Writes all figures of some schemes; returns how many blocks they took.
fn write_schemes(
    text: &mut String,
    comparison: &Comparison<'_>,
    schemes: impl IntoIterator<Item = usize>,
    columns: usize,
) -> usize {
    let schemes: Vec<usize> = schemes.into_iter().collect();
    let mut metrics = metrics(comparison);
    metrics.retain(|metric| metric.says_something_of(schemes.iter().copied()));
    let label_width = metrics.iter().map(|metric| metric.label.width() + 2).max().unwrap_or(0);
    let label_width = label_width.min(columns / 2);
    let columns_of_schemes: Vec<Column> = schemes
        .iter()
        .map(|&index| Column::new(comparison.schemes[index].name, index, &metrics))
        .collect();
    let blocks = blocks(&columns_of_schemes, columns.saturating_sub(label_width));
    for block in &blocks {
        write_block(text, block, &metrics, label_width);
    }
    blocks.len()
}

fn title(comparison: &Comparison<'_>, columns: usize) -> String {
    let mut parts = vec![plain_text(comparison.workload)];
    if !comparison.machine.is_empty() {
        parts.push(format!("machine {}", plain_text(comparison.machine)));
    }
    if !comparison.difference.is_empty() {
        parts.push(plain_text(&comparison.difference));
    }
    if comparison.seeds() > 1 {
        parts.push(format!("medians of {} seeds", comparison.seeds()));
    }
    format!("{}\n", cut(&parts.join(" · "), columns))
}

/// One scheme's column.
struct Column {
    heading: Vec<String>,
    cells: Vec<String>,
    width: usize,
}

impl Column {
    fn new(name: &str, scheme: usize, metrics: &[Metric]) -> Self {
        Self::of(name, metrics.iter().map(|metric| metric.text(scheme)).collect())
    }

    fn of(name: &str, cells: Vec<String>) -> Self {
        let heading = break_name(&plain_text(name), HEADING);
        let width = heading.iter().chain(&cells).map(|cell| cell.width()).max().unwrap_or(0);
        Self { heading, cells, width }
    }
}

/// Groups of neighbouring columns that fit into `room`; at least one column each.
fn blocks(columns: &[Column], room: usize) -> Vec<&[Column]> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut used = 0;
    for (index, column) in columns.iter().enumerate() {
        if index > start && used + GAP + column.width > room {
            found.push(&columns[start..index]);
            start = index;
            used = 0;
        }
        used += GAP + column.width;
    }
    found.push(&columns[start..]);
    found
}

fn write_heading(text: &mut String, block: &[Column], label_width: usize) {
    let heading_lines = block.iter().map(|column| column.heading.len()).max().unwrap_or(0);
    text.push('\n');
    for line in 0..heading_lines {
        let cell = |column: &Column| {
            // Headings stand on the same ground line.
            let above = heading_lines - column.heading.len();
            line.checked_sub(above).map_or(String::new(), |piece| column.heading[piece].clone())
        };
        write_line(text, "", label_width, block, cell);
    }
    let rule: usize = label_width + block.iter().map(|column| column.width + GAP).sum::<usize>();
    text.push_str(&"─".repeat(rule));
    text.push('\n');
}

fn write_block(text: &mut String, block: &[Column], metrics: &[Metric], label_width: usize) {
    write_heading(text, block, label_width);
    let mut group = "";
    for (row, metric) in metrics.iter().enumerate() {
        if metric.group != group {
            group = metric.group;
            text.push_str(group);
            text.push('\n');
        }
        let label = format!("  {}", plain_text(&metric.label));
        write_line(text, &label, label_width, block, |column| column.cells[row].clone());
    }
}

fn write_line(
    text: &mut String,
    label: &str,
    label_width: usize,
    block: &[Column],
    cell: impl Fn(&Column) -> String,
) {
    let label = cut(label, label_width);
    let mut line = label.clone();
    line.push_str(&" ".repeat(label_width - label.width()));
    for column in block {
        let cell = cell(column);
        line.push_str(&" ".repeat(GAP + column.width - cell.width()));
        line.push_str(&cell);
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

/// A long name in pieces, broken after hyphens, or anywhere where there are none.
fn break_name(name: &str, most: usize) -> Vec<String> {
    let mut pieces: Vec<String> = vec![String::new()];
    for part in name.split_inclusive(['-', '+', ' ']) {
        let last = pieces.len() - 1;
        if !pieces[last].is_empty() && pieces[last].width() + part.trim_end().width() > most {
            pieces.push(String::new());
        }
        for character in part.chars() {
            let last = pieces.len() - 1;
            let width = pieces[last].width() + character.width().unwrap_or(0);
            if width > most && character != ' ' {
                pieces.push(String::new());
            }
            let last = pieces.len() - 1;
            pieces[last].push(character);
        }
    }
    pieces.iter().map(|piece| piece.trim().to_string()).take(HEADING_LINES).collect()
}

/// Text shortened to `width` terminal columns.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_string();
    }
    let mut short = String::new();
    let mut used = 1;
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if used > width {
            break;
        }
        short.push(character);
    }
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_break_after_hyphens() {
        assert_eq!(break_name("perforated-on-demand", 12), ["perforated-", "on-demand"]);
        assert_eq!(break_name("thp", 12), ["thp"]);
        assert_eq!(break_name("nohyphensinthisname", 12), ["nohyphensint", "hisname"]);
        assert_eq!(cut("perforated", 5), "perf…");
        assert_eq!(cut("漢字漢字", 5), "漢字…");
    }
}
