//! Experiments for the terminal.

use unicode_width::UnicodeWidthStr;

use super::{Claim, Curve, ExperimentResult, Point, Tally};
use crate::format::{MISSING, compact, plain_text};

/// Columns of the axis.
const AXIS: usize = 7;
/// Columns of a curve: closed form, and what was drawn with its interval.
const CURVE: usize = 23;
/// Columns of a curve that was measured in runs: their average with its interval.
const RUN_CURVE: usize = 13;
/// Columns before what belongs to a claim.
const INDENT: usize = 10;
/// Most rows of a block; of more points every second, third, … is shown.
const ROWS: usize = 24;

/// Curves and claims as text, at most `columns` (100 or more) characters wide.
pub fn experiments_table(results: &[ExperimentResult], columns: usize) -> String {
    let mut text = results.iter().map(|result| one(result, columns)).collect::<Vec<_>>().join("\n");
    let tally = results.iter().map(ExperimentResult::tally).fold(Tally::default(), |a, b| a + b);
    if results.len() > 1 {
        text += &format!("\nAll experiments: {}\n", tally_text(tally));
    }
    text
}

fn one(result: &ExperimentResult, columns: usize) -> String {
    let header = &result.header;
    let head = format!("{}: {} ({})", header.experiment, header.title, header.source);
    let mut text = wrapped("", &head, columns);
    let samples = header.samples.unwrap_or(0.0);
    let of_runs = result.is_of_runs();
    let cells = match of_runs {
        true if samples < 2.0 => "one run each".to_owned(),
        true => format!("each cell: average of {} runs ± 95 % interval", compact(samples)),
        false => {
            let draws = compact(samples);
            format!("each cell: closed form, average of {draws} draws ± 95 % interval")
        }
    };
    let about = format!("{} over {}, in %; {cells}", header.value_label, header.axis_label);
    text += &wrapped("", &about, columns);
    let (width, cell): (usize, fn(&Point) -> String) =
        if of_runs { (RUN_CURVE, run_cell) } else { (CURVE, cell) };
    let fitting = (columns.saturating_sub(AXIS) / width).max(1);
    for curves in result.curves.chunks(fitting) {
        text += &block(curves, width, cell);
    }
    text.push('\n');
    if let Some(agreement) = result.agreement_text() {
        text += &wrapped("", &agreement, columns);
    }
    if !result.claims.is_empty() {
        text += &format!("\nClaims: {}\n", tally_text(result.tally()));
        for claim in &result.claims {
            text += &claim_text(claim, columns);
        }
    }
    for note in &header.notes {
        text += &wrapped("note: ", note, columns);
    }
    text
}

fn block(curves: &[Curve], width: usize, cell: fn(&Point) -> String) -> String {
    let mut text = "\n".to_owned();
    text += &" ".repeat(AXIS);
    for curve in curves {
        let label = plain_text(&curve.label);
        text += &" ".repeat(width.saturating_sub(label.width()).max(1));
        text += &label;
    }
    text += &format!("\n{}\n", "─".repeat(AXIS + width * curves.len()));
    let Some(first) = curves.first() else { return text };
    let rows = first.points.iter().enumerate().filter(|(_, point)| point.on_axis);
    let stride = rows.clone().count().div_ceil(ROWS).max(1);
    for (row, point) in rows.step_by(stride) {
        text += &format!("{:>AXIS$}", percent(Some(point.x), 2));
        for curve in curves {
            text += &curve.points.get(row).map_or_else(String::new, cell);
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// Closed form, average and interval in percent.
fn cell(point: &Point) -> String {
    let drawn = match point.half_width_95 {
        Some(_) => format!("{}±{}", percent(point.sampled, 3), percent(point.half_width_95, 3)),
        None => percent(point.sampled, 3),
    };
    let mark = if point.agrees == Some(false) { "≠" } else { " " };
    let (closed_form, room) = (percent(point.closed_form, 3), CURVE - 10);
    format!("{closed_form:>9}{mark}{drawn:>room$}")
}

/// Average and interval of runs in percent.
fn run_cell(point: &Point) -> String {
    let average = percent(point.sampled, 1);
    let interval = point.half_width_95.map(|_| format!("±{}", percent(point.half_width_95, 1)));
    format!("{:>RUN_CURVE$}", average + &interval.unwrap_or_default())
}

fn percent(share: Option<f64>, decimals: usize) -> String {
    share.map_or_else(|| MISSING.into(), |share| format!("{:.decimals$}", share * 100.0))
}

pub(super) fn tally_text(tally: Tally) -> String {
    format!(
        "{} reproduced, {} same direction, {} not reproduced",
        tally.reproduced, tally.same_direction, tally.not_reproduced
    )
}

fn claim_text(claim: &Claim, columns: usize) -> String {
    let margin = " ".repeat(INDENT);
    let id = format!("  {}", plain_text(&claim.id));
    let mut text = wrapped(&format!("{id:<INDENT$}"), &claim.statement, columns);
    let (paper, ours) = (claim.paper_text(), claim.ours_text());
    text += &format!("{margin}paper {paper:<12} ours {ours:<10} {}\n", claim.verdict.text());
    if let Some(note) = &claim.note {
        text += &wrapped(&margin, note, columns);
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
    fn cells_have_one_width() {
        let point = Point {
            x: 0.0,
            on_axis: true,
            closed_form: Some(1.0),
            sampled: Some(1.0),
            half_width_95: Some(0.000_03),
            agrees: Some(true),
        };
        assert_eq!(cell(&point), "  100.000 100.000±0.003");
        let drawn = Point { closed_form: None, agrees: None, sampled: Some(0.5), ..point };
        assert_eq!(cell(&drawn), "        –  50.000±0.003");
        let wrong = Point { agrees: Some(false), ..point };
        assert_eq!(cell(&wrong), "  100.000≠100.000±0.003");
    }
}
