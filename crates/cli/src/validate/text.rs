//! Text output of `perforate validate`.

use perforate_host::counters::Rates;
use perforate_host::validate::{Outcome, Prediction, RowOutcome, Spread};

use crate::machine_text::{TableLayout, title};
use crate::output::{notes, text_columns};

/// Widths of the columns: name, measured value with its spread, predictions with verdicts.
const TABLE: TableLayout = TableLayout { name: 17, measured: 23, value: 20 };

/// Rate of a hardware counter: its title, and the function that selects the rate.
type CounterRate = (&'static str, fn(&Rates) -> Option<f64>);

/// Rates of hardware counters that the output shows.
const COUNTER_RATES: [CounterRate; 4] = [
    ("Cycles", |rates| rates.cycles),
    ("Instructions", |rates| rates.instructions),
    ("Misses of all data TLBs (loads) | predicted: page walks", |rates| rates.tlb_misses),
    ("Cycles of page walks, each walker counted (loads) | predicted: of all", |rates| {
        rates.walk_cycles
    }),
];

/// Formats all results of a validation, the answer first.
pub fn text(outcome: &Outcome) -> String {
    let mut text = title(outcome, &outcome.summary());
    text += "\nEffect of 2MB pages: additional time with 4KB pages\n";
    text += &TABLE.heading(outcome, "median (least – most)");
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
    COUNTER_RATES.iter().for_each(|rate| text += &counters(outcome, rate));
    text += &scores(outcome);
    text + "\n" + notes(&outcome.notes, text_columns()).as_str()
}

/// Formats a table with the numbers of rows by verdict: a line for each assumption of the predictions.
fn scores(outcome: &Outcome) -> String {
    const NAME: usize = TABLE.name;
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

fn line(row: &RowOutcome, measured: &str, predicted: impl Fn(&Prediction) -> String) -> String {
    TABLE.line(&row.name, measured, row.predicted.iter().map(predicted))
}

/// Formats a table with a title, of the rows that have a measured value; empty if no row has one.
fn section(
    outcome: &Outcome,
    title: &str,
    measured: impl Fn(&RowOutcome) -> Option<String>,
    predicted: impl Fn(&Prediction) -> String,
) -> String {
    let rows = outcome.rows.iter();
    let lines = rows.filter_map(|row| Some(line(row, &measured(row)?, &predicted)));
    match lines.collect::<String>() {
        lines if lines.is_empty() => lines,
        lines => format!("\n{title}\n{}{lines}", TABLE.heading(outcome, "median")),
    }
}

/// Measured median times of a row in ns: with 4KB and with 2MB pages.
fn measured_ns(row: &RowOutcome) -> Option<[f64; 2]> {
    Some([row.small_ns?.median, row.large_ns?.median])
}

fn predicted_ns(predicted: &Prediction) -> Option<[f64; 2]> {
    Some([predicted.small_pages_ns?, predicted.large_pages_ns?])
}

/// Formats two values, with 4KB and with 2MB pages.
fn pair([small, large]: [f64; 2]) -> String {
    format!("{} | {}", digits(small), digits(large))
}

/// Formats the predicted times, and the ratio of predicted to measured time that is farther from 1.
fn predicted_pair(predicted: &Prediction, times: Option<[f64; 2]>) -> String {
    let factor = predicted.time_ratio.map_or(String::new(), |ratio| format!(" ×{ratio:.2}"));
    times.map_or("–".into(), |times| format!("{}{factor}", pair(times)))
}

/// Table of times per operation, in ns.
fn times(outcome: &Outcome) -> String {
    let title =
        "Nanoseconds per operation, 4KB | 2MB pages; × predicted by measured, the farther one";
    let predicted = |one: &Prediction| predicted_pair(one, predicted_ns(one));
    section(outcome, title, |row| measured_ns(row).map(pair), predicted)
}

/// Table of times of whole programs, in seconds.
fn program_times(outcome: &Outcome) -> String {
    let title = "Seconds of the whole program in user mode, 4KB | 2MB pages; × as above";
    let measured = |row: &RowOutcome| Some(pair(row.seconds?.map(|spread| spread.median)));
    section(outcome, title, measured, |one| predicted_pair(one, one.seconds))
}

/// Table of the time that 4KB pages add to an access of a pointer chase compared with 2MB pages, in ns.
fn walks(outcome: &Outcome) -> String {
    let title = "Nanoseconds that 4KB pages add to an access of a chase: the cost of walks";
    let more = |[small, large]: [f64; 2]| format!("{:.1}", small - large);
    let measured = |row: &RowOutcome| measured_ns(row).filter(|_| row.is_chase).map(more);
    section(outcome, title, measured, |one| predicted_ns(one).map_or("–".into(), more))
}

/// Table of the measured and predicted rates of one hardware counter.
fn counters(outcome: &Outcome, (name, value): &CounterRate) -> String {
    let title =
        format!("{name}\nper operation, of programs per 1,000 instructions; 4KB | 2MB pages");
    let both = |rates: &[Rates; 2]| Some([value(&rates[0])?, value(&rates[1])?]);
    let measured = |row: &RowOutcome| row.counters.as_ref().and_then(both).map(pair);
    section(outcome, &title, measured, |one| both(&one.counters).map_or("–".into(), pair))
}

/// Formats a ratio as its difference from 1 in percent.
fn effect(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    if percent.abs() < 9.95 { format!("{percent:+.1} %") } else { format!("{percent:+.0} %") }
}

/// Formats measured ratios as differences from 1 in percent: median, minimum and maximum.
fn effects(ratio: &Spread) -> String {
    let Spread { min, median, max } = *ratio;
    let bare = |ratio| effect(ratio).trim_end_matches(" %").to_owned();
    format!("{} ({} – {})", effect(median), bare(min), bare(max))
}

/// Formats a value with about three digits.
fn digits(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        let line = |name| TABLE.line(name, "m", ["v"]);
        assert_eq!(line("chase 1M"), format!("chase 1M{:>32}{:>20}\n", "m", "v"));
        let long = "a program with arguments";
        assert_eq!(line(long), format!("{long}\n{:>40}{:>20}\n", "m", "v"));
        let values = Spread { min: 1.0, median: 1.234, max: 2.0 };
        assert_eq!(effects(&values), "+23 % (+0.0 – +100)");
        assert_eq!((effect(0.942), effect(1.0996)), ("-5.8 %".into(), "+10 %".into()));
        assert_eq!((digits(1.234), digits(99.96)), ("1.23".into(), "100.0".into()));
    }
}
