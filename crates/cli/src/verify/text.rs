//! Text of a verification: the judgement first, times, pages by area, notes.

use perforate_records::{AreaPages, Clock, Verification, VerifiedRun};
use perforate_report::text::{cut, wrapped};
use perforate_report::{clock_name, measured_verdict};

use crate::output::notes;

/// Width of the text in characters.
const COLUMNS: usize = 80;
/// Width of the first column.
const NAME: usize = 26;
/// Width of each other column.
const VALUE: usize = 17;
/// Resident memory in bytes below which an area has no line.
const LEAST_BYTES: u64 = 1 << 20;

/// Quantity of a run: its name, its value if that is known, and the format of the value.
type Quantity = (&'static str, fn(&VerifiedRun) -> Option<f64>, fn(f64) -> String);

const QUANTITIES: [Quantity; 5] = [
    ("processor time, s", |run| Some(run.seconds(Clock::Processor)), |value| format!("{value:.3}")),
    ("of that, in the kernel, s", |run| Some(run.system_seconds), |value| format!("{value:.3}")),
    ("elapsed time, s", |run| Some(run.wall_seconds), |value| format!("{value:.3}")),
    ("page faults", |run| Some(run.page_faults as f64), |value| format!("{value:.0}")),
    (
        "largest resident memory",
        |run| run.max_resident_bytes.map(|bytes| bytes as f64),
        |value| format!("{:.0} MB", value / f64::from(1 << 20)),
    ),
];

/// Formats a verification at 80 columns.
pub fn text(found: &Verification) -> String {
    format!("{}\n{}", wrapped("", &measured_verdict(found), COLUMNS), tables(found))
}

/// Formats the tables and notes of a verification at 80 columns.
pub fn tables(found: &Verification) -> String {
    let mut text = line("medians of the runs", ["as it is", "with advice", "ratio"]);
    for (name, value, format) in QUANTITIES {
        let [before, after] = [false, true].map(|advised| found.median(advised, value));
        let (Some(before), Some(after)) = (before, after) else { continue };
        let ratio = if after > 0.0 { format!("{:.3}", before / after) } else { "–".into() };
        text += &line(name, [&format(before), &format(after), &ratio]);
    }
    for name in found
        .runs
        .iter()
        .flat_map(|run| run.counters.keys())
        .collect::<std::collections::BTreeSet<_>>()
    {
        let value =
            |run: &VerifiedRun| Some(run.counters.get(name).map_or(0.0, |count| *count as f64));
        let [before, after] =
            [false, true].map(|advised| found.median(advised, value).unwrap_or(0.0));
        let ratio = if after > 0.0 { format!("{:.3}", before / after) } else { "–".into() };
        text += &line(name, [&format!("{before:.3e}"), &format!("{after:.3e}"), &ratio]);
    }
    text += &ratios(found);
    text += &areas(found);
    if found.notes.is_empty() { text } else { text + "\n" + notes(&found.notes, COLUMNS).as_str() }
}

/// Table of the ratios of all kinds of time over pairs of runs.
fn ratios(found: &Verification) -> String {
    let heading = format!("ratio of {} pairs of runs", found.runs.len() / 2);
    let mut text = format!("\n{}", line(&heading, ["mean", "95 % from", "to"]));
    for clock in [Clock::Processor, Clock::User, Clock::Wall] {
        if let Some(found) = Verification::ratio(&found.runs, clock) {
            let values = [found.ratio, found.low, found.high].map(|value| format!("{value:.3}"));
            text += &line(clock_name(clock), values.each_ref().map(String::as_str));
        }
    }
    text
}

/// Table of the areas' resident memory and its share in large pages.
fn areas(found: &Verification) -> String {
    let mut text =
        format!("\n{}", line("MB resident (in 2MB pages)", ["as it is", "with advice", ""]));
    for (index, area) in found.areas.iter().enumerate() {
        let pages = [false, true].map(|advised| found.pages(advised, index));
        if area.is_advised || pages.iter().any(|pages| pages.resident_bytes >= LEAST_BYTES) {
            let [before, after] = pages.map(|pages| share(&pages));
            let advised = if area.is_advised { "advised" } else { "" };
            text += &line(&cut(&area.name, NAME - 1), [&before, &after, advised]);
        }
    }
    text
}

fn share(pages: &AreaPages) -> String {
    let megabytes = pages.resident_bytes as f64 / f64::from(1 << 20);
    format!("{megabytes:.0} ({:.0} %)", 100.0 * pages.large_share())
}

fn line(name: &str, values: [&str; 3]) -> String {
    let [first, second, third] = values;
    let line = format!("{name:<NAME$}{first:>VALUE$}{second:>VALUE$}{third:>VALUE$}");
    line.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use perforate_records::{GainRatio, Judgement, VerifiedArea};

    use super::*;

    #[test]
    fn the_text_has_80_columns_and_the_judgement_first() {
        let run = |is_advised, user_seconds| VerifiedRun {
            is_advised,
            user_seconds,
            wall_seconds: 1.1 * user_seconds,
            system_seconds: 0.1,
            page_faults: if is_advised { 1000 } else { 262_144 },
            max_resident_bytes: Some(1 << 30),
            areas: vec![AreaPages {
                resident_bytes: 1 << 30,
                large_bytes: u64::from(is_advised) << 29,
            }],
            ..VerifiedRun::default()
        };
        let measured = GainRatio { ratio: 1.21, low: 1.13, high: 1.29 };
        let predicted = GainRatio { ratio: 1.24, low: 1.1, high: 1.4 };
        let found = Verification {
            program: "x".into(),
            setting: "madvise".into(),
            runs: vec![run(false, 1.2), run(true, 1.0), run(true, 1.0), run(false, 1.2)],
            areas: vec![VerifiedArea { name: "mapping3:0-1G".into(), is_advised: true }],
            clock: Clock::Processor,
            measured,
            predicted: Some(predicted),
            unmeasured: None,
            judgement: Some(Judgement::of(&measured, &predicted)),
            effect_error: Verification::error_of_effect(&measured, &predicted),
            notes: vec!["a note".into()],
        };
        let text = text(&found);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let first = "Worth it: measured 1.210× (1.130 to 1.290) by processor time (as it is ÷ with\n\
                     advice). Predicted: 1.240× (1.100 to 1.400): right, off by 14 % of the effect.\n";
        assert!(text.starts_with(first), "{text}");
        let row = "mapping3:0-1G                    1024 (0 %)      1024 (50 %)          advised\n";
        assert!(text.contains(row), "{text}");
    }
}
