//! The text that `perforate validate` prints.

use perforate_host::machine::Processor;
use perforate_host::validate::{Outcome, RowOutcome, Spread};
use perforate_report::text::wrapped;

use crate::output::{COLUMNS, notes};

/// Width of a row's name.
const NAME: usize = 17;
/// Width of a measured value with its spread.
const MEASURED: usize = 21;
/// Width of a predicted value with its verdict.
const PREDICTED: usize = 18;

/// The whole text.
pub fn text(outcome: &Outcome) -> String {
    let mut text = title(&outcome.processor, &outcome.machine.name);
    text += "\nTime with 4KB pages ÷ time with 2MB pages\n";
    text += &heading(outcome, "median (least–most)");
    for row in &outcome.rows {
        let measured = row.ratio.map_or("–".into(), |ratio| spread(&ratio, 2));
        text += &line(row, &measured, |index| {
            let predicted = &row.predicted[index];
            let verdict = predicted.verdict.map_or("–".into(), |verdict| verdict.to_string());
            format!("{:.2} {verdict}", predicted.ratio)
        });
    }
    text += &times(outcome);
    text += &walks(outcome);
    text += "\nAll rows\n";
    for score in outcome.scores() {
        text += &format!(
            "{:<NAME$}{} agree, {} same way, {} disagree, {} too noisy; typical miss {:.0} %\n",
            score.assumption,
            score.agrees,
            score.same_direction,
            score.disagrees,
            score.noisy,
            100.0 * score.typical_error
        );
    }
    text += &format!("\n{}\n", wrapped("", &outcome.summary(), COLUMNS));
    text + notes(&outcome.notes, COLUMNS).as_str()
}

/// The processor that was measured, and the machine that it was predicted with.
pub(super) fn title(processor: &Processor, machine: &str) -> String {
    let name = &processor.name;
    format!(
        "{}{}, predicted with {machine}\n",
        if name.is_empty() { "unknown processor" } else { name },
        if processor.is_virtual { " (virtual machine)" } else { "" },
    )
}

fn heading(outcome: &Outcome, measured: &str) -> String {
    let mut text = format!("{:<NAME$}{measured:>MEASURED$}", "");
    for assumption in &outcome.assumptions {
        text += &format!("{:>PREDICTED$}", assumption.name);
    }
    text + "\n"
}

/// A row with its name, the measured value and the predicted one under each assumption.
fn line(row: &RowOutcome, measured: &str, predicted: impl Fn(usize) -> String) -> String {
    let mut text = format!("{}{measured:>MEASURED$}", named(&row.name));
    for index in 0..row.predicted.len() {
        text += &format!("{:>PREDICTED$}", predicted(index));
    }
    text + "\n"
}

/// Measured medians of a row in nanoseconds, and the predicted values: with 4KB and with 2MB pages.
fn nanoseconds(row: &RowOutcome) -> Option<([f64; 2], Vec<[f64; 2]>)> {
    let measured = [row.small_ns?.median, row.large_ns?.median];
    let predicted = row.predicted.iter();
    let predicted = predicted.map(|one| Some([one.small_pages_ns?, one.large_pages_ns?]));
    Some((measured, predicted.collect::<Option<_>>()?))
}

/// Nanoseconds of one operation.
fn times(outcome: &Outcome) -> String {
    let pair = |[small, large]: [f64; 2]| format!("{} | {}", digits(small), digits(large));
    let mut lines = String::new();
    for row in &outcome.rows {
        let Some((measured, predicted)) = nanoseconds(row) else { continue };
        lines += &line(row, &pair(measured), |index| pair(predicted[index]));
    }
    titled(outcome, "Nanoseconds per operation, 4KB | 2MB pages", lines)
}

/// The cost of translation with 4KB pages over 2MB pages, for each access of a chase.
fn walks(outcome: &Outcome) -> String {
    let more = |[small, large]: [f64; 2]| format!("{:.1}", small - large);
    let mut lines = String::new();
    for row in outcome.rows.iter().filter(|row| row.is_chase) {
        let Some((measured, predicted)) = nanoseconds(row) else { continue };
        lines += &line(row, &more(measured), |index| more(predicted[index]));
    }
    let title = "Nanoseconds that 4KB pages add to an access of a chase: the cost of walks";
    titled(outcome, title, lines)
}

/// Lines under a title and a heading; nothing without lines.
fn titled(outcome: &Outcome, title: &str, lines: String) -> String {
    if lines.is_empty() {
        return lines;
    }
    format!("\n{title}\n{}{lines}", heading(outcome, "median"))
}

/// The name in its column, or on a line of its own if it is too long.
fn named(name: &str) -> String {
    let length = name.chars().count();
    if length < NAME { format!("{name:<NAME$}") } else { format!("{name}\n{:<NAME$}", "") }
}

fn spread(spread: &Spread, digits: usize) -> String {
    let Spread { min, median, max } = spread;
    format!("{median:.digits$} ({min:.digits$}–{max:.digits$})")
}

/// Formats with about three digits.
fn digits(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        assert_eq!(named("chase 1M").chars().count(), NAME);
        assert_eq!(
            named("a program with arguments"),
            format!("a program with arguments\n{:17}", "")
        );
        let values = Spread { min: 1.0, median: 1.234, max: 2.0 };
        assert_eq!(spread(&values, 2), "1.23 (1.00–2.00)");
        assert_eq!((digits(1.234), digits(99.96)), ("1.23".into(), "100.0".into()));
    }
}
