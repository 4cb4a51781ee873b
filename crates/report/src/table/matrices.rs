//! Pairs of guest and host: one matrix per figure, side by side where there is room.

use unicode_width::UnicodeWidthStr;

use super::{GAP, HEADING, break_name, cut};
use crate::comparison::{Comparison, Spread};
use crate::format::plain_text;
use crate::matrix::{Matrix, OVERHEAD, Pairs, matrices as all_matrices};

/// What stands above the names of the guests.
const CORNER: &str = "guest \\ host";
/// Headings are broken at one of these widths, the first with which a matrix fits.
const HEADINGS: [usize; 3] = [HEADING, 10, 8];
/// Distance between matrices side by side.
const BETWEEN: usize = 5;

/// Text and its width.
struct Drawn {
    lines: Vec<String>,
    width: usize,
}

/// One column of a matrix.
struct Column {
    heading: Vec<String>,
    /// By guest: value, and its range where one is shown.
    cells: Vec<[String; 2]>,
    width: usize,
}

/// All matrices with what their reader must know; `is_all_above` if the table above has the pairs.
pub(super) fn matrices(
    comparison: &Comparison<'_>,
    pairs: &Pairs<'_>,
    columns: usize,
    is_all_above: bool,
) -> String {
    let matrices = all_matrices(comparison, pairs);
    let drawn: Vec<Drawn> =
        matrices.iter().flat_map(|matrix| draw(matrix, pairs, columns)).collect();
    let mut text = side_by_side(&drawn, columns);
    for line in legend(pairs, &matrices, is_all_above) {
        text.push('\n');
        text.push_str(&wrap(&line, columns));
    }
    text.push('\n');
    text
}

fn legend(pairs: &Pairs<'_>, matrices: &[Matrix], is_all_above: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if pairs.has_native {
        lines.push("native: the guest's scheme without virtualization.".to_string());
    }
    let has_gap = |matrix: &Matrix| {
        let mut values = pairs.schemes().map(|scheme| matrix.value(Some(scheme)));
        values.any(|value| value.is_none())
    };
    if pairs.is_missing_some() || matrices.iter().any(has_gap) {
        lines.push("–: not run, or without this figure.".to_string());
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

/// A matrix, in several pieces where it is too wide for the terminal.
fn draw(matrix: &Matrix, pairs: &Pairs<'_>, columns: usize) -> Vec<Drawn> {
    let names: Vec<String> = pairs.guests.iter().map(|name| plain_text(name)).collect();
    let widest = names.iter().map(|name| name.width()).fold(CORNER.width(), usize::max);
    let label = widest.min(columns / 4);
    let room = columns - label;
    let fits = |all: &[Column]| all.iter().map(|one| one.width + GAP).sum::<usize>() <= room;
    let ways = [true, false].into_iter().flat_map(|ranges| HEADINGS.map(|most| (ranges, most)));
    let all = |(ranges, most)| -> Vec<Column> {
        let headings = pairs.columns().map(|name| break_name(&plain_text(name), most));
        headings
            .enumerate()
            .map(|(place, name)| column(matrix, pairs, place, name, ranges))
            .collect()
    };
    let columns_drawn =
        ways.map(all).find(|all| fits(all)).unwrap_or_else(|| all((false, HEADINGS[2])));
    let mut pieces = Vec::new();
    let mut start = 0;
    while start < columns_drawn.len() {
        let mut end = start + 1;
        while end < columns_drawn.len() && fits(&columns_drawn[start..=end]) {
            end += 1;
        }
        pieces.push(piece(matrix, &names, &columns_drawn[start..end], label, columns));
        start = end;
    }
    pieces
}

fn column(
    matrix: &Matrix,
    pairs: &Pairs<'_>,
    place: usize,
    heading: Vec<String>,
    with_ranges: bool,
) -> Column {
    let cell = |guest: usize| {
        let scheme = pairs.scheme(guest, place);
        let shown = scheme.map_or("–".to_string(), |scheme| matrix.metric.text(scheme));
        let range = matrix.value(scheme).filter(|_| with_ranges);
        [shown, range.map_or(String::new(), |spread| range_text(matrix, spread))]
    };
    let cells: Vec<[String; 2]> = (0..pairs.guests.len()).map(cell).collect();
    let widths = heading.iter().chain(cells.iter().flatten()).map(|text| text.width());
    let width = widths.max().unwrap_or(0);
    Column { heading, cells, width }
}

/// Least to most over the seeds; empty where they are the same.
fn range_text(matrix: &Matrix, spread: Spread) -> String {
    let write = |value| matrix.metric.write(value);
    let (least, most) = (write(spread.least), write(spread.most));
    if least == most {
        return String::new();
    }
    let bare = least.trim_end_matches(" %").trim_end_matches('×');
    format!("{bare}–{most}")
}

fn piece(matrix: &Matrix, names: &[String], all: &[Column], label: usize, most: usize) -> Drawn {
    let row = |name: &str, cell: &dyn Fn(&Column) -> String| {
        let name = cut(name, label);
        let mut line = format!("{name}{}", " ".repeat(label - name.width()));
        for column in all {
            let cell = cell(column);
            line.push_str(&" ".repeat(GAP + column.width - cell.width()));
            line.push_str(&cell);
        }
        line.trim_end().to_string()
    };
    let mut lines = vec![cut(&plain_text(&matrix.metric.label), most)];
    let height = all.iter().map(|column| column.heading.len()).max().unwrap_or(0);
    for line in 0..height {
        let corner = if line + 1 == height { CORNER } else { "" };
        lines.push(row(corner, &|column| {
            let above = height - column.heading.len();
            line.checked_sub(above).map_or(String::new(), |piece| column.heading[piece].clone())
        }));
    }
    let rule = label + all.iter().map(|column| column.width + GAP).sum::<usize>();
    lines.push("─".repeat(rule));
    for (guest, name) in names.iter().enumerate() {
        lines.push(row(name, &|column| column.cells[guest][0].clone()));
        if all.iter().any(|column| !column.cells[guest][1].is_empty()) {
            lines.push(row("", &|column| column.cells[guest][1].clone()));
        }
    }
    let width = lines.iter().map(|line| line.width()).max().unwrap_or(0);
    Drawn { lines, width }
}

/// As many beside each other as fit, the rest below.
fn side_by_side(drawn: &[Drawn], columns: usize) -> String {
    let mut text = String::new();
    let mut start = 0;
    while start < drawn.len() {
        let mut end = start + 1;
        let mut used = drawn[start].width;
        while end < drawn.len() && used + BETWEEN + drawn[end].width <= columns {
            used += BETWEEN + drawn[end].width;
            end += 1;
        }
        let row = &drawn[start..end];
        let height = row.iter().map(|one| one.lines.len()).max().unwrap_or(0);
        for line in 0..height {
            text.push('\n');
            let mut written = String::new();
            for one in row {
                let part = one.lines.get(line).map_or("", String::as_str);
                written.push_str(part);
                written.push_str(&" ".repeat(one.width - part.width() + BETWEEN));
            }
            text.push_str(written.trim_end());
        }
        text.push('\n');
        start = end;
    }
    text
}

/// Text broken between words, with lines after the first set in.
fn wrap(text: &str, columns: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        if !lines[last].trim().is_empty() && lines[last].width() + 1 + word.width() > columns {
            lines.push("  ".to_string());
        }
        let last = lines.len() - 1;
        if !lines[last].trim().is_empty() {
            lines[last].push(' ');
        }
        lines[last].push_str(word);
    }
    lines.join("\n")
}
