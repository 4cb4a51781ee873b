//! Matrices over pairs of guest and host: one for each figure, side by side if they fit.

use unicode_width::UnicodeWidthStr;

use super::{Column, HEADING, blocks, cut, wrapped};
use crate::comparison::Comparison;
use crate::format::MISSING;
use crate::matrix::{Matrix, OVERHEAD, Pairs, matrices as all_matrices};

/// Heading of the column with the guests' names.
const CORNER: &str = "guest \\ host";
/// Widths in characters at which headings are broken. The first width that makes the matrix fit is used.
const HEADINGS: [usize; 3] = [HEADING, 10, 8];
/// Distance in characters between matrices that are side by side.
const BETWEEN: usize = 5;

/// Returns the matrices of all figures with an explanation. `is_all_above` is true if the table of main
/// figures, above the matrices, has all pairs of guest and host already.
pub(super) fn matrices(
    comparison: &Comparison<'_>,
    pairs: &Pairs<'_>,
    columns: usize,
    is_all_above: bool,
) -> String {
    let matrices = all_matrices(comparison, pairs);
    let drawn: Vec<String> =
        matrices.iter().flat_map(|matrix| draw(matrix, pairs, columns)).collect();
    let legend = legend(pairs, &matrices, is_all_above);
    let legend = legend.iter().map(|line| wrapped("", line, columns));
    format!("{}\n{}", side_by_side(&drawn, columns), legend.collect::<String>())
}

fn legend(pairs: &Pairs<'_>, matrices: &[Matrix], is_all_above: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if pairs.has_native {
        lines.push("native: the guest's scheme without virtualization.".to_string());
    }
    if pairs.has_gap(matrices) {
        lines.push(format!("{MISSING}: not run, or without this figure."));
    }
    let schemes = || pairs.schemes().map(Some);
    if matrices.iter().any(|matrix| schemes().any(|one| matrix.half_width(one).is_some())) {
        let about = "±: half of the 95 % interval; ~1: no difference that this run can show.";
        lines.push(about.to_string());
    }
    if matrices.iter().any(|matrix| matrix.key == "overhead") {
        lines.push(format!("translation overhead: {OVERHEAD}"));
    }
    if !is_all_above {
        let count = pairs.count();
        lines.push(format!("All figures of the {count} pairs: results file and HTML report."));
    }
    lines
}

/// Draws a matrix, in several parts if it is wider than the terminal.
fn draw(matrix: &Matrix, pairs: &Pairs<'_>, columns: usize) -> Vec<String> {
    let tables = |(with_ranges, heading)| {
        let label = columns / 4;
        let has_ranges =
            with_ranges && pairs.schemes().any(|one| !matrix.uncertainty(Some(one)).is_empty());
        let lines = |text: String, below: String| {
            if has_ranges { vec![text, below] } else { vec![text] }
        };
        let names = pairs.guests.iter().flat_map(|name| lines(cut(name, label), String::new()));
        let column = |(place, name): (usize, &str)| {
            let cells = (0..pairs.guests.len()).flat_map(|guest| {
                let scheme = pairs.scheme(guest, place);
                let value = matrix.text(scheme).unwrap_or_else(|| MISSING.to_owned());
                lines(value, matrix.uncertainty(scheme))
            });
            Column::broken_at(heading, name, cells.collect())
        };
        let all: Vec<Column> = pairs.columns().enumerate().map(column).collect();
        blocks(&Column::texts(CORNER, names.collect()), &all, columns)
    };
    let mut ways = [true, false].into_iter().flat_map(|ranges| HEADINGS.map(|most| (ranges, most)));
    let whole = ways.by_ref().map(tables).find(|tables| tables.len() == 1);
    let pieces = whole.unwrap_or_else(|| tables((false, HEADINGS[2])));
    let title = cut(&matrix.metric.label, columns);
    pieces.iter().map(|piece| format!("{title}\n{piece}")).collect()
}

/// Places as many drawn matrices side by side as fit into the width, and the rest below them.
fn side_by_side(drawn: &[String], columns: usize) -> String {
    let width = |one: &String| one.lines().map(UnicodeWidthStr::width).max().unwrap_or(0);
    let mut text = String::new();
    let mut rest = drawn;
    while !rest.is_empty() {
        let mut used = 0;
        let fitting = rest.iter().take_while(|one| {
            used += width(one) + BETWEEN;
            used <= columns + BETWEEN
        });
        let (row, others) = rest.split_at(fitting.count().max(1));
        let height = row.iter().map(|one| one.lines().count()).max().unwrap_or(0);
        for line in 0..height {
            let parts = row.iter().map(|one| {
                let part = one.lines().nth(line).unwrap_or_default();
                part.to_owned() + &" ".repeat(width(one) - part.width() + BETWEEN)
            });
            text += &format!("\n{}", parts.collect::<String>().trim_end());
        }
        text.push('\n');
        rest = others;
    }
    text
}
