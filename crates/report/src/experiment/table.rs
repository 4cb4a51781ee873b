//! Experiments for the terminal.

use unicode_width::UnicodeWidthStr;

use super::claim::{Claim, Verdict, interval_text};
use super::record::Point;
use super::tally::{PaperTally, Tally, claims, papers};
use super::{Curve, ExperimentResult};
use crate::format::{MISSING, plain_text};

/// Columns before what belongs to a claim.
const INDENT: usize = 10;
/// Most rows of a block; of more points every second, third, … is shown.
const ROWS: usize = 24;
/// More experiments than these are shown by their claims alone.
const MOST_IN_FULL: usize = 3;
/// Widest label of a curve or of a place.
const LABEL: usize = 24;

/// Claims with their verdicts as text, at most `columns` (100 or more) characters wide; values of
/// the curves, too, where there are a few experiments only.
pub fn experiments_table(results: &[ExperimentResult], columns: usize) -> String {
    let in_full = results.len() <= MOST_IN_FULL;
    let one = |result| one(result, columns, in_full);
    let mut text = results.iter().map(one).collect::<Vec<_>>().join("\n");
    let tally = Tally::of(claims(results));
    if tally.total() > 0 {
        text += &format!("\nclaims: {}, of {}\n", tally.text(), tally.total());
        text += &tallies(&papers(results));
        text += &unexplained(results).map_or_else(String::new, |line| wrapped("", &line, columns));
    }
    text
}

/// Verdicts by paper.
fn tallies(papers: &[PaperTally]) -> String {
    let row = |cells: [&str; 6]| {
        let [paper, all, reproduced, direction, not, ids] = cells;
        format!("  {paper:<40}{all:>6}{reproduced:>12}{direction:>11}{not:>6}{ids:>13}\n")
    };
    let mut text = row(["", "claims", "reproduced", "direction", "not", "ids wholly"]);
    for PaperTally { name, tally, ids, whole_ids } in papers {
        let counts = [tally.total(), tally.reproduced, tally.same_direction, tally.not_reproduced]
            .map(|count| count.to_string());
        let [all, reproduced, direction, not] = counts.each_ref().map(String::as_str);
        text += &row([name, all, reproduced, direction, not, &format!("{whole_ids} of {ids}")]);
    }
    text
}

/// Says so where a full run differs from a paper and its file has no explanation.
fn unexplained(results: &[ExperimentResult]) -> Option<String> {
    let full = results.iter().filter(|result| !result.header.quick);
    let claims = full.flat_map(|result| &result.claims);
    let lacks = |claim: &&Claim| {
        claim.verdict == Verdict::NotReproduced
            && claim.explanation_text().or(claim.note_text()).is_none()
    };
    let count = claims.filter(lacks).count();
    (count > 0).then(|| format!("not reproduced and not explained in their file: {count}"))
}

fn one(result: &ExperimentResult, columns: usize, in_full: bool) -> String {
    let header = &result.header;
    let source = match header.source.as_str() {
        "" => String::new(),
        source => format!(" ({source})"),
    };
    let quick = if header.quick { ", quick" } else { "" };
    let head = format!("{}: {}{source}{quick}", header.experiment, header.title);
    let mut text = wrapped("", &head, columns);
    if in_full {
        let about = result.statistics_text().into_iter().chain(result.agreement_text());
        for line in about {
            text += &wrapped("", &line, columns);
        }
        text += &values(result, columns);
        text.push('\n');
    }
    for claim in &result.claims {
        text += &claim_text(claim, columns, in_full);
    }
    if in_full {
        for note in &header.notes {
            text += &wrapped("note: ", note, columns);
        }
    }
    text
}

/// A column of the table of values.
struct Column {
    label: String,
    cells: Vec<String>,
}

impl Column {
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.width());
        cells.fold(self.label.width(), usize::max)
    }
}

/// All curves over the axis, in as many blocks as their widths need.
fn values(result: &ExperimentResult, columns: usize) -> String {
    let mut rows: Vec<&Point> = Vec::new();
    for point in result.curves.iter().flat_map(|curve| &curve.points) {
        if point.on_axis && !rows.iter().any(|row| is_same_place(row, point)) {
            rows.push(point);
        }
    }
    if rows.is_empty() {
        return "\nNo points were measured.\n".to_owned();
    }
    let stride = rows.len().div_ceil(ROWS);
    let rows: Vec<&Point> = rows.into_iter().step_by(stride).collect();
    let axis = Column {
        label: cut(&result.header.axis_label),
        cells: rows.iter().map(|point| cut(&result.place_text(point))).collect(),
    };
    let curve = |curve: &Curve| {
        let cell = |row: &&Point| cell(curve, row);
        Column { label: cut(&curve.label), cells: rows.iter().map(cell).collect() }
    };
    let curves: Vec<Column> = result.curves.iter().map(curve).collect();
    let room = columns.saturating_sub(axis.width());
    let mut text = String::new();
    let mut rest = curves.as_slice();
    while !rest.is_empty() {
        let mut used = 0;
        let fitting = rest.iter().take_while(|column| {
            used += column.width() + 2;
            used <= room
        });
        let (block, others) = rest.split_at(fitting.count().max(1));
        text += &block_text(&axis, block);
        rest = others;
    }
    text
}

fn is_same_place(one: &Point, other: &Point) -> bool {
    one.x == other.x && one.place == other.place
}

/// Value and interval of a curve where `row` is.
fn cell(curve: &Curve, row: &Point) -> String {
    let Some(point) = curve.points.iter().find(|point| is_same_place(point, row)) else {
        return MISSING.to_owned();
    };
    let mark = if point.agrees == Some(false) { " ≠" } else { "" };
    let interval = interval_text(curve.show, point.low, point.high)
        .map_or_else(String::new, |interval| format!(" ({interval})"));
    let drawn = match (mark, point.drawn) {
        (" ≠", Some(drawn)) => format!(" drawn {}", curve.show.text(drawn)),
        _ => String::new(),
    };
    format!("{}{mark}{drawn}{interval}", curve.show.text_or_missing(point.value))
}

fn block_text(axis: &Column, block: &[Column]) -> String {
    let width = axis.width();
    let mut text = format!("\n{:<width$}", axis.label);
    for column in block {
        text += &format!("  {:>1$}", column.label, column.width());
    }
    let all = width + block.iter().map(|column| column.width() + 2).sum::<usize>();
    text += &format!("\n{}\n", "─".repeat(all));
    for (row, place) in axis.cells.iter().enumerate() {
        text += &format!("{place:<width$}");
        for column in block {
            text += &format!("  {:>1$}", column.cells[row], column.width());
        }
        text.push('\n');
    }
    text
}

/// A label in its room; columns are counted as characters, which all of ours take one of.
fn cut(label: &str) -> String {
    let label = plain_text(label);
    if label.width() <= LABEL {
        return label;
    }
    label.chars().take(LABEL - 1).chain(['…']).collect()
}

fn claim_text(claim: &Claim, columns: usize, with_note: bool) -> String {
    let margin = " ".repeat(INDENT);
    let id = format!("  {} ", plain_text(&claim.id));
    let mut text = wrapped(&format!("{id:<INDENT$}"), &claim.statement, columns);
    let interval = claim.interval_text().map_or_else(String::new, |text| format!(" ({text})"));
    let ours = format!("ours {}{interval}", claim.ours_text());
    let paper = format!("paper {}", claim.paper_text());
    text += &format!("{margin}{paper:<20}  {ours:<30}  {}\n", claim.verdict.text());
    let note = claim.note.as_deref().filter(|_| with_note);
    if let Some(note) = note {
        text += &wrapped(&margin, note, columns);
    }
    if claim.verdict == Verdict::NotReproduced {
        let why = claim.explanation_text().unwrap_or("not explained in its file");
        text += &wrapped(&format!("{margin}why: "), why, columns);
    }
    text
}

/// Text in lines of at most `columns`, with `lead` before the first and as much room before the
/// others.
fn wrapped(lead: &str, text: &str, columns: usize) -> String {
    let mut lines = vec![lead.to_owned()];
    let mut is_new = true;
    for word in plain_text(text).split_whitespace() {
        let last = lines.len() - 1;
        if !is_new && lines[last].width() + 1 + word.width() > columns {
            lines.push(" ".repeat(lead.width()));
            is_new = true;
        }
        let line = lines.last_mut().expect("there is a first line");
        if !is_new {
            line.push(' ');
        }
        line.push_str(word);
        is_new = false;
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_wrapped_and_indented() {
        assert_eq!(wrapped("", "one two three", 8), "one two\nthree\n");
        assert_eq!(wrapped("a ", "b c d", 5), "a b c\n  d\n");
        assert_eq!(wrapped("a ", "longer than", 5), "a longer\n  than\n");
    }

    #[test]
    fn long_labels_are_cut() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut("a label of twenty-five ch").width(), LABEL);
    }
}
