//! Text output of `perforate validate`.

use perforate_host::counters::Rates;
use perforate_host::machine::Processor;
use perforate_host::validate::{Outcome, Prediction, RowOutcome, Spread};
use perforate_report::text::wrapped;

use crate::output::{COLUMNS, notes};

/// Width of a row's name.
const NAME: usize = 17;
/// Width of a measured value with its spread.
const MEASURED: usize = 23;
/// Width of a predicted value with its verdict.
const PREDICTED: usize = 20;

/// A value that hardware counters have, by its name in a title.
type Counted = (&'static str, fn(&Rates) -> Option<f64>);

/// The values of hardware counters.
const COUNTED: [Counted; 4] = [
    ("Cycles", |rates| rates.cycles),
    ("Instructions", |rates| rates.instructions),
    ("Misses of all data TLBs (loads) | predicted: page walks", |rates| rates.tlb_misses),
    ("Cycles of page walks, each walker counted (loads) | predicted: of all", |rates| {
        rates.walk_cycles
    }),
];

/// The whole text: the answer first.
pub fn text(outcome: &Outcome) -> String {
    let mut text = title(&outcome.processor, &outcome.machine.name);
    text += &format!("\n{}", wrapped("", &outcome.summary(), COLUMNS));
    text += "\nEffect of 2MB pages: the same takes so much longer with 4KB pages\n";
    text += &heading(outcome, "median (least – most)");
    for row in &outcome.rows {
        let measured = row.ratio.map_or("–".into(), |ratio| effects(&ratio));
        text += &line(row, &measured, |predicted| {
            let verdict = predicted.verdict.map_or("–".into(), |verdict| verdict.to_string());
            format!("{} {verdict}", effect(predicted.ratio))
        });
    }
    text += &times(outcome);
    text += &program_times(outcome);
    text += &walks(outcome);
    COUNTED.iter().for_each(|counted| text += &counters(outcome, counted));
    text += &scores(outcome);
    text + "\n" + notes(&outcome.notes, COLUMNS).as_str()
}

/// The processor that was measured, and the machine that it was predicted with.
pub(super) fn title(processor: &Processor, machine: &str) -> String {
    let name = &processor.name;
    format!(
        "{}{}, predicted with {machine}\n",
        if name.is_empty() { "unknown processor" } else { name },
        if processor.is_virtual() { format!(" ({})", processor.hypervisor) } else { String::new() },
    )
}

/// Verdicts counted over all rows.
fn scores(outcome: &Outcome) -> String {
    let mut text = format!(
        "\nAll rows\n{:<NAME$}{:>8}{:>10}{:>11}{:>11}{:>11}{:>14}{:>14}\n",
        "effects",
        "agree",
        "same way",
        "disagree",
        "too noisy",
        "no effect",
        "in all miss",
        "times agree"
    );
    for score in outcome.scores() {
        let missed =
            score.effect_error.map_or("–".into(), |error| format!("{:.0} %", 100.0 * error));
        let times = format!("{} of {}", score.times_agree, score.times);
        text += &format!(
            "{:<NAME$}{:>8}{:>10}{:>11}{:>11}{:>11}{missed:>14}{times:>14}\n",
            score.assumption,
            score.agrees,
            score.same_direction,
            score.disagrees,
            score.noisy,
            score.no_effect
        );
    }
    text
}

fn heading(outcome: &Outcome, measured: &str) -> String {
    let mut text = format!("{:<NAME$}{measured:>MEASURED$}", "");
    for assumption in &outcome.assumptions {
        text += &format!("{:>PREDICTED$}", assumption.name);
    }
    text + "\n"
}

/// A row with its name, the measured value and the predicted one under each assumption.
fn line(row: &RowOutcome, measured: &str, predicted: impl Fn(&Prediction) -> String) -> String {
    let mut text = format!("{}{measured:>MEASURED$}", named(&row.name));
    for prediction in &row.predicted {
        text += &format!("{:>PREDICTED$}", predicted(prediction));
    }
    text + "\n"
}

/// Measured medians of a row in nanoseconds: with 4KB and with 2MB pages.
fn measured_ns(row: &RowOutcome) -> Option<[f64; 2]> {
    Some([row.small_ns?.median, row.large_ns?.median])
}

fn predicted_ns(predicted: &Prediction) -> Option<[f64; 2]> {
    Some([predicted.small_pages_ns?, predicted.large_pages_ns?])
}

/// Two values, with 4KB and with 2MB pages.
fn pair([small, large]: [f64; 2]) -> String {
    format!("{} | {}", digits(small), digits(large))
}

/// Predicted times, and by how much the one that is farther off is.
fn predicted_pair(predicted: &Prediction, times: Option<[f64; 2]>) -> String {
    let factor = predicted.time_ratio.map_or(String::new(), |ratio| format!(" ×{ratio:.2}"));
    times.map_or("–".into(), |times| format!("{}{factor}", pair(times)))
}

/// Nanoseconds of one operation.
fn times(outcome: &Outcome) -> String {
    let mut lines = String::new();
    for row in &outcome.rows {
        let Some(measured) = measured_ns(row) else { continue };
        lines += &line(row, &pair(measured), |one| predicted_pair(one, predicted_ns(one)));
    }
    let title =
        "Nanoseconds per operation, 4KB | 2MB pages; × predicted by measured, the farther one";
    titled(outcome, title, lines)
}

/// Seconds of whole programs.
fn program_times(outcome: &Outcome) -> String {
    let mut lines = String::new();
    for row in &outcome.rows {
        let Some(seconds) = row.seconds else { continue };
        let measured = pair(seconds.map(|spread| spread.median));
        lines += &line(row, &measured, |one| predicted_pair(one, one.seconds));
    }
    let title = "Seconds of the whole program in user mode, 4KB | 2MB pages; × as above";
    titled(outcome, title, lines)
}

/// The cost of translation with 4KB pages over 2MB pages, for each access of a chase.
fn walks(outcome: &Outcome) -> String {
    let more = |[small, large]: [f64; 2]| format!("{:.1}", small - large);
    let mut lines = String::new();
    for row in outcome.rows.iter().filter(|row| row.is_chase) {
        let Some(measured) = measured_ns(row) else { continue };
        lines += &line(row, &more(measured), |one| predicted_ns(one).map_or("–".into(), more));
    }
    let title = "Nanoseconds that 4KB pages add to an access of a chase: the cost of walks";
    titled(outcome, title, lines)
}

/// Readings of one hardware counter beside its predicted values.
fn counters(outcome: &Outcome, (name, value): &Counted) -> String {
    let both = |rates: &[Rates; 2]| Some([value(&rates[0])?, value(&rates[1])?]);
    let mut lines = String::new();
    for row in &outcome.rows {
        let Some(measured) = row.counters.as_ref().and_then(both) else { continue };
        lines += &line(row, &pair(measured), |one| both(&one.counters).map_or("–".into(), pair));
    }
    let unit = "per operation, of programs per 1,000 instructions; 4KB | 2MB pages";
    titled(outcome, &format!("{name}\n{unit}"), lines)
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

/// The effect of a ratio in percent.
fn effect(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    if percent.abs() < 9.95 { format!("{percent:+.1} %") } else { format!("{percent:+.0} %") }
}

/// The effect of measured ratios, with its interval.
fn effects(ratio: &Spread) -> String {
    let Spread { min, median, max } = *ratio;
    let bare = |ratio| effect(ratio).trim_end_matches(" %").to_owned();
    format!("{} ({} – {})", effect(median), bare(min), bare(max))
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
        assert_eq!(effects(&values), "+23 % (+0.0 – +100)");
        assert_eq!((effect(0.942), effect(1.0996)), ("-5.8 %".into(), "+10 %".into()));
        assert_eq!((digits(1.234), digits(99.96)), ("1.23".into(), "100.0".into()));
    }
}
