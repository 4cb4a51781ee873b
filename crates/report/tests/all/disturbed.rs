//! Pages and tables of records of which a seed has changed some values, so that they have figures on both sides
//! of most thresholds, and lists of other lengths. `tests/data/disturbed.txt` has a hash of each, and of each ten of
//! more that are only shown as text; `UPDATE_KEPT=1`
//! writes it after an intended change.

use std::fmt::Write as _;

use perforate_kept::{self as kept, TextHash};
use perforate_records::{MissRatioRecord, read_experiments, read_results, read_snapshot};
use perforate_report::{
    Rows, advice_html, advice_text, curves_html, curves_table, experiments_html, experiments_table,
    html, snapshot_html, snapshot_table, summaries, summary_html, table, varied_table,
};
use serde_json::{Value, json};

use crate::document::{data, markup};
use crate::vocabulary::{options, vocabulary};
use crate::{advice, curves, kept as same, memory, records, snapshot, threads, why};

/// Pseudo-random choices.
struct Random {
    numbers: perforate_types::Random,
    /// True if only numbers and flags are changed, and no names, lists and fields.
    keeps_shape: bool,
}

impl Random {
    fn below(&mut self, end: usize) -> usize {
        (self.numbers.next() % end as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// Factors of changed numbers.
const FACTORS: [f64; 9] = [0.0, 0.001, 0.1, 0.5, 0.97, 1.03, 2.0, 10.0, 100.0];

/// Texts that stand for each other: a changed record may have another one of the same list.
const KINDS: [&[&str]; 10] = [
    &["reproduced", "same_direction", "not_reproduced"],
    &["at_the_default", "inside_the_range", "in_none"],
    &["lines", "bars", "stacked"],
    &["=", "≥", "≤", "<", ">", "≈"],
    &["worth", "already-on", "costs-memory", "unclear", "not-worth", "too-little", "ranking"],
    &["trace", "samples", "accessed-bits"],
    &["right", "wrong", "within-error"],
    &["processor", "user", "wall"],
    &["as it is", "4KB pages", "recommended", "all large", "if all can be had", "free"],
    &["4k", "thp", "1g", "perforated", "perforated-naive", "segment", "ideal", "free"],
];
/// Number of lists, at the beginning of [`KINDS`], whose texts are no names of other parts of a record.
const NAMELESS: usize = 4;

/// Changes some values of a record.
fn disturb(value: &mut Value, random: &mut Random) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| disturb(field, random));
            if !random.keeps_shape && random.one_in(150) {
                let names: Vec<String> = fields.keys().cloned().collect();
                names.get(random.below(names.len().max(1))).map(|name| fields.remove(name));
            }
        }
        Value::Array(elements) => {
            elements.iter_mut().for_each(|element| disturb(element, random));
            match random.below(16) {
                _ if random.keeps_shape => {}
                0 => elements.truncate(random.below(elements.len() + 1)),
                1 if elements.len() < 40 => elements.extend_from_within(..),
                2 => elements.reverse(),
                _ => {}
            }
        }
        Value::Number(number) if random.one_in(6) => {
            let factor = FACTORS[random.below(FACTORS.len())];
            *value = match number.as_u64() {
                Some(whole) => json!((whole as f64 * factor) as u64),
                None => json!(number.as_f64().unwrap_or_default() * factor),
            };
        }
        Value::Bool(flag) if random.one_in(5) => *flag = !*flag,
        Value::String(text) if kinds_of(text, random).is_some() => {
            let kinds = kinds_of(text, random).unwrap_or_default();
            if random.one_in(10) {
                *text = kinds[random.below(kinds.len())].to_owned();
            }
        }
        Value::Null | Value::String(_) if random.keeps_shape => {}
        Value::Null if random.one_in(12) => *value = json!(random.below(8) as f64 / 4.0),
        Value::String(text) if random.one_in(200) => *text = "other\nname".repeat(random.below(4)),
        _ => {}
    }
}

fn kinds_of(text: &str, random: &Random) -> Option<&'static [&'static str]> {
    let count = if random.keeps_shape { NAMELESS } else { KINDS.len() };
    KINDS.into_iter().take(count).find(|kinds| kinds.contains(&text))
}

/// Returns a record, one value a line, with some of its values changed.
fn disturbed(lines: &str, seed: usize, keeps_shape: bool) -> String {
    let mut random = Random { numbers: perforate_types::Random::new(seed as u64), keeps_shape };
    let values = serde_json::Deserializer::from_str(lines).into_iter::<Value>();
    let changed = values.map(|value| {
        let mut value = value.expect("the records are valid");
        disturb(&mut value, &mut random);
        value.to_string()
    });
    changed.collect::<Vec<_>>().join("\n")
}

/// Adds hashes of what `show` makes of `count` changed records that can still be read.
fn add(
    kept: &mut String,
    (name, lines): (&str, &str),
    (count, keeps_shape): (usize, bool),
    show: impl Fn(&str) -> Option<[String; 2]>,
) {
    let changed = (0..count * 40).map(|seed| (seed, disturbed(lines, seed, keeps_shape)));
    let shown = changed.filter_map(|(seed, lines)| Some((seed, show(&lines)?)));
    let mut found = 0;
    for (seed, [text, page]) in shown.take(count) {
        let (text, page) = (TextHash::of(&text), TextHash::of(&page));
        writeln!(kept, "{name} | {seed} | {text} | {page}").expect("a string takes all");
        found += 1;
    }
    assert_eq!(found, count, "{name}: too few changed records can be read");
}

/// Adds a hash of the texts that `show` makes of each ten of `count` changed records, at several widths.
fn add_texts(
    kept: &mut String,
    (name, lines): (&str, &str),
    (count, keeps_shape): (usize, bool),
    show: impl Fn(&str, usize) -> Option<String>,
) {
    let widths = [80, 44, 100, 60, 132];
    // Other seeds than those of the pages.
    let shown = (100_000..100_000 + count * 40)
        .filter_map(|seed| show(&disturbed(lines, seed, keeps_shape), widths[seed % widths.len()]));
    let shown: Vec<String> = shown.take(count).collect();
    assert_eq!(shown.len(), count, "{name}: too few changed records can be read");
    for (number, ten) in shown.chunks(10).enumerate() {
        let hash = TextHash::of(&ten.concat());
        writeln!(kept, "{name} | texts {number} | {hash}").expect("a string takes all");
    }
}

/// The part of a page that does not depend on a version of the compression.
fn content(page: &str) -> String {
    let data = if page.contains("id=\"data\"") { data(page).to_string() } else { String::new() };
    [markup(page), data].concat()
}

#[test]
fn pages_and_tables_of_changed_records_are_as_they_were() {
    let (vocabulary, options, mut kept) = (vocabulary(), options("Kept", "p"), String::new());
    for (name, lines) in [
        ("sample", same::SAMPLE.to_owned()),
        ("every counter", same::every_counter(&vocabulary)),
        ("pairs", records::pairs()),
        ("memory", memory::runs().join("\n")),
        ("why", why::three_runs().join("\n")),
        ("varied", same::varied()),
        ("sampled", same::sampled()),
        ("threads", threads::two_cores()),
        ("timed windows", threads::timed_windows()),
    ] {
        add(&mut kept, (name, &lines), (8, false), |lines| {
            let results = read_results(lines).ok()?;
            let text = table(&results, &vocabulary, 110, Rows::All);
            let varied = varied_table(&results, &vocabulary, 100).unwrap_or_default();
            let page = content(&html(&results, &options));
            let summary = content(&summary_html(&results, &vocabulary));
            Some([[text, varied].concat(), [page, summary].concat()])
        });
        add_texts(&mut kept, (name, &lines), (20, false), |lines, columns| {
            let results = read_results(lines).ok()?;
            let summaries = serde_json::to_string(&summaries(&results, &vocabulary)).ok()?;
            let varied = varied_table(&results, &vocabulary, columns).unwrap_or_default();
            let text = table(&results, &vocabulary, columns, Rows::Main);
            Some([text, varied, summaries].concat())
        });
    }
    let others = records::others();
    for (name, lines, count) in [
        ("experiments", records::all(), 6),
        ("odd experiments", others, 6),
        ("joint readings", records::joint(), 12),
    ] {
        add(&mut kept, (name, &lines), (count, true), |lines| {
            let results = read_experiments(lines).ok()?;
            let page = content(&experiments_html(&results, &options));
            Some([experiments_table(&results, 100), page])
        });
        add_texts(&mut kept, (name, &lines), (20, true), |lines, columns| {
            Some(experiments_table(&read_experiments(lines).ok()?, columns))
        });
    }
    let (full_host, full_process) = (snapshot::full_host(), snapshot::full_process());
    for (name, lines) in [
        ("host", snapshot::HOST),
        ("process", snapshot::PROCESS),
        ("full host", &*full_host),
        ("full process", &*full_process),
    ] {
        add(&mut kept, (name, lines), (20, false), |lines| {
            let snapshot = read_snapshot(lines).ok()?;
            let page = content(&snapshot_html(&snapshot, &options));
            Some([snapshot_table(&snapshot, 100), page])
        });
        add_texts(&mut kept, (name, lines), (40, false), |lines, columns| {
            Some(snapshot_table(&read_snapshot(lines).ok()?, columns))
        });
    }
    for (name, record) in advice::kinds() {
        let lines = serde_json::to_string(&record).expect("records can be written");
        add(&mut kept, (name, &lines), (12, false), |lines| {
            let record = serde_json::from_str(lines).ok()?;
            Some([advice_text(&record, 80), content(&advice_html(&record, &options))])
        });
        add_texts(&mut kept, (name, &lines), (30, false), |lines, columns| {
            Some(advice_text(&serde_json::from_str(lines).ok()?, columns))
        });
    }
    let lines = serde_json::to_string(&curves::record()).expect("records can be written");
    add(&mut kept, ("curves", &lines), (20, false), |lines| {
        let record: MissRatioRecord = serde_json::from_str(lines).ok()?;
        Some([curves_table(&record, 80), content(&curves_html(&record, &options))])
    });
    add_texts(&mut kept, ("curves", &lines), (20, false), |lines, columns| {
        Some(curves_table(&serde_json::from_str(lines).ok()?, columns))
    });
    kept::compare(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/disturbed.txt"), &kept);
}
