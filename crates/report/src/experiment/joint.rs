//! Joint readings: how many claims of a paper hold under one reading of what the paper leaves open.

use maud::{Markup, html};
use perforate_records::{ChoiceEffect, ExcludingPair, JointClaim, JointRecord, ValueEffect};
use perforate_types::counted;

use super::claim::paper_text;
use super::show::Written;
use super::tally::paper_name;
use crate::chart::{Axis, Ground, Lines, Mark, Series};
use crate::html::{Cell, Figure, Grid, Page, all, figures, file_name, headings};
use crate::text::wrapped;

/// Width of the text in characters.
const WIDTH: usize = 80;
/// Maximum number of pairs of claims, and of choices, that are listed.
const MOST_LISTED: usize = 8;
/// Sentence on the use of the best reading.
const NO_DEFAULT: &str =
    "The best reading is a result and never a default: no parameter is set by it.";

/// Returns the joint readings of all papers as text.
pub(super) fn text(records: &[JointRecord]) -> String {
    records.iter().map(of_paper).collect()
}

fn of_paper(record: &JointRecord) -> String {
    let margin = "  ";
    let line = |text: &str| wrapped(margin, text, WIDTH);
    let title = format!("One reading for all claims, {}", paper_name(&record.paper));
    let mut text = format!("\n{}", wrapped("", &title, WIDTH));
    text += &line(&scope(record));
    text += &counts(record)
        .into_iter()
        .map(|(what, count)| format!("{margin}{what:<44}{count:>4}\n"))
        .collect::<String>();
    if record.choices.is_empty() {
        return text;
    }
    let section = |title: &str, items: Vec<String>, none: &str| {
        let items: String = items.iter().map(|item| wrapped("    - ", item, WIDTH)).collect();
        let items = if items.is_empty() { wrapped("    ", none, WIDTH) } else { items };
        line(title) + &items
    };
    let changes = changes(record).into_iter();
    let changes = changes.map(|(name, _, value)| format!("{name}: {value}")).collect();
    text += &section("The best reading differs from the default in", changes, "nothing.");
    let (gained, lost) = gained_and_lost(record);
    text += &section("Claims that hold there and not at the default", gained, "None.");
    text += &section("Claims that hold at the default and not there", lost, "None.");
    let pairs = record.excluding();
    let title = format!(
        "{} never hold together, though each claim holds in some reading",
        counted(pairs.len(), "pair")
    );
    let items = pairs.iter().take(MOST_LISTED).map(|pair| pair_text(record, pair)).collect();
    text += &section(&format!("{title}{}", first_of(pairs.len())), items, "None.");
    let clear: Vec<ChoiceEffect<'_>> = clear(record);
    let title = "Choices that decide: mean number of claims that hold (least to most)";
    let items = clear.iter().take(MOST_LISTED).map(effect_text).collect();
    text += &section(
        &format!("{title}{}", first_of(clear.len())),
        items,
        "None: no difference is more than twice its standard error.",
    );
    text + &line(NO_DEFAULT)
}

/// Returns a remark on the length of a list that is cut off.
fn first_of(count: usize) -> String {
    if count > MOST_LISTED { format!("; the strongest {MOST_LISTED}:") } else { ":".to_owned() }
}

/// Describes the claims, the readings and the choices in a sentence.
fn scope(record: &JointRecord) -> String {
    let claims = record.claims.len();
    let (one, many) = ("number or threshold", "numbers and thresholds");
    let claims = format!("{claims} {}", if claims == 1 { one } else { many });
    if record.choices.is_empty() {
        return format!("{claims}; none depends on anything that the paper leaves open.");
    }
    let quick = if record.quick { ", quick" } else { "" };
    let readings = counted(record.readings.len(), "reading");
    let readings = match record.is_exhaustive() {
        true => format!("all {readings}"),
        false => format!("a sample of {readings}"),
    };
    let choices = counted(record.choices.len(), "choice");
    format!("{claims}, each judged in {readings} of {choices} left open (first seed{quick}).")
}

/// Returns how many claims hold at the default, alone, jointly, always and never.
fn counts(record: &JointRecord) -> [(&'static str, usize); 5] {
    let readings = record.readings.len();
    let always = record.claims.iter().filter(|claim| claim.held() == readings).count();
    [
        ("hold at the default", record.held(0)),
        ("hold in some reading, each alone", record.held_alone()),
        ("hold together in the best reading", record.held(record.best())),
        ("hold in every reading", always),
        ("hold in no reading", record.claims.len() - record.held_alone()),
    ]
}

/// Returns the name, the reason and the value of each choice that the best reading changes.
fn changes(record: &JointRecord) -> Vec<(&str, &str, &str)> {
    let Some(best) = record.readings.get(record.best()) else { return Vec::new() };
    let choices = record.choices.iter();
    choices
        .filter_map(|choice| Some((&*choice.name, &*choice.reason, &**best.get(&choice.name)?)))
        .collect()
}

/// Describes the claims that hold in the best reading only, and those that hold at the default only.
fn gained_and_lost(record: &JointRecord) -> (Vec<String>, Vec<String>) {
    let best = record.best();
    let of = |holds: usize, fails: usize| {
        let claims = record.claims.iter();
        let claims = claims.filter(|claim| claim.holds(holds) && !claim.holds(fails));
        claims.map(named).collect()
    };
    (of(best, 0), of(0, best))
}

fn named(claim: &JointClaim) -> String {
    let claim = &claim.claim;
    format!("{} {} ({})", claim.id, claim.statement, claim.experiment)
}

fn pair_text(record: &JointRecord, pair: &ExcludingPair<'_>) -> String {
    let all = record.readings.len();
    let [one, other] = pair.claims.map(named);
    let [first, second] = pair.held;
    format!("{one}, in {first} of {all} readings; and {other}, in {second}")
}

/// Returns the effects that are more than twice their standard error.
fn clear(record: &JointRecord) -> Vec<ChoiceEffect<'_>> {
    record.effects().into_iter().filter(|effect| effect.is_clear).collect()
}

fn effect_text(effect: &ChoiceEffect<'_>) -> String {
    let values: Vec<String> = effect.values.iter().map(value_text).collect();
    format!("{}: {}", effect.choice.name, values.join("; "))
}

fn value_text(value: &ValueEffect<'_>) -> String {
    let ValueEffect { mean, least, most, .. } = value;
    format!("{} {mean:.1} ({least} to {most})", value.value.unwrap_or("default"))
}

/// Returns the page's section on joint readings; empty without them.
pub(super) fn section(records: &[JointRecord], page: &mut Page) -> Markup {
    if records.is_empty() {
        return Markup::default();
    }
    html! {
        section.comparison {
            h2 #joint { "One reading for all claims" }
            p.lead {
                "Numbers and thresholds of a paper, all judged under the same values of everything that the paper leaves open. "
                (NO_DEFAULT)
            }
            (all(records.iter().map(|record| paper_section(record, page))))
        }
    }
}

fn paper_section(record: &JointRecord, page: &mut Page) -> Markup {
    let name = paper_name(&record.paper);
    let label = |what: &str| format!("{what}: {name}");
    let (pairs, clear) = (record.excluding(), clear(record));
    html! {
        h3 { (name) }
        p.about { (scope(record)) }
        (Grid::of(counts(record), [
            ("claims that".into(), &|(what, _)| Cell::text(what)),
            ("number".into(), &|(_, count)| Cell::count(*count as u64)),
        ]).scrolling(&label("Claims that hold"), "main"))
        @if !record.choices.is_empty() {
            (figures([figure(record, &name)], page))
            p.lead { "The best reading, where it differs from the default" }
            (best_reading(record).scrolling(&label("Best reading"), "main"))
            p.lead { "The claims in the best reading" }
            (claims(record).scrolling(&label("Claims in the best reading"), "main claims"))
            @if !pairs.is_empty() {
                p.lead {
                    "Claims that exclude each other: each holds in some reading, and never both"
                    (first_of(pairs.len()))
                }
                ul { @for pair in pairs.iter().take(MOST_LISTED) { li { (pair_text(record, pair)) } } }
            }
            @if !clear.is_empty() {
                p.lead { "Choices that decide how many claims hold" (first_of(clear.len())) }
                (deciding(&clear).scrolling(&label("Choices that decide"), "main"))
            }
        }
    }
}

/// Returns a chart of the numbers of claims that hold in each reading, sorted, with those at the default.
fn figure(record: &JointRecord, name: &str) -> Figure {
    let mut order: Vec<usize> = (0..record.readings.len()).collect();
    order.sort_by_key(|&reading| std::cmp::Reverse(record.held(reading)));
    let mark = |series: &str, rank: usize, reading: usize| Mark {
        x: Some(rank as f64),
        series: series.into(),
        value: Some(record.held(reading) as f64),
        text: format!("{} of {}", record.held(reading), record.claims.len()),
        ..Mark::default()
    };
    let ranked = || (1..).zip(&order).map(|(rank, &reading)| (rank, reading));
    let (readings, default) = ("readings, most claims first", "the default");
    let marks = ranked().map(|(rank, reading)| mark(readings, rank, reading));
    let of_default = [1, order.len()].map(|rank| mark(default, rank, 0));
    let series = |(number, label): (usize, &str)| Series {
        label: label.into(),
        colour: ["series0", "series1"][number],
        number,
        ..Series::default()
    };
    let chart = Lines {
        series: [readings, default].into_iter().enumerate().map(series).collect(),
        marks: marks.chain(of_default).collect(),
        ground: Ground::Numbers { least: 1.0, most: order.len() as f64 },
        axis: Axis { label: "reading", suffix: "" },
        value: Axis { label: "claims that hold", suffix: "" },
        range: (0.0, record.claims.len().max(1) as f64),
    };
    Figure {
        id: format!("joint-{}", file_name(name)),
        name: format!("joint readings {name}"),
        title: "Claims that hold together, by reading".into(),
        caption: format!(
            "Of {}; each alone, {} hold in some reading.",
            counted(record.claims.len(), "claim"),
            record.held_alone()
        ),
        chart: chart.spec(),
        data: Grid::of(
            ranked(),
            [
                ("rank".into(), &|(rank, _)| Cell::count(*rank as u64)),
                ("claims that hold".into(), &|(_, reading)| {
                    Cell::count(record.held(*reading) as u64)
                }),
                ("differs from the default in".into(), &|(_, reading)| {
                    let reading = record.readings[*reading].iter();
                    let values: Vec<_> =
                        reading.map(|(name, value)| format!("{name}: {value}")).collect();
                    Cell::prose(&values.join("; "), "")
                }),
            ],
        ),
    }
}

fn best_reading(record: &JointRecord) -> Grid {
    Grid::of(
        changes(record),
        [
            ("left open".into(), &|(name, reason, _)| Cell::prose(name, reason)),
            ("value in the best reading".into(), &|(_, _, value)| Cell::prose(value, "")),
        ],
    )
}

/// Returns a table of all claims with our values at the default and in the best reading.
fn claims(record: &JointRecord) -> Grid {
    let best = record.best();
    let ours = |claim: &JointClaim, reading: usize| {
        let value = claim.ours_in.get(reading).copied().flatten();
        let sign = if claim.holds(reading) { "✓" } else { "✗" };
        let show = claim.claim.show;
        Cell::number_as(
            &format!("{} {sign}", show.text_or_missing(value)),
            value.map(|value| show.shown(value)),
        )
    };
    Grid::of(
        &record.claims,
        [
            ("claim".into(), &|claim| Cell::text(&claim.claim.id)),
            ("what".into(), &|claim| Cell::prose(&claim.claim.statement, "")),
            ("paper".into(), &|claim| Cell::text(&paper_text(&claim.claim))),
            ("ours at the default".into(), &|claim| ours(claim, 0)),
            ("ours in the best reading".into(), &|claim| ours(claim, best)),
            ("readings in which it holds".into(), &|claim| Cell::count(claim.held() as u64)),
        ],
    )
}

fn deciding(effects: &[ChoiceEffect<'_>]) -> Grid {
    let row = |effect: &ChoiceEffect<'_>, value: &ValueEffect<'_>| {
        vec![
            Cell::prose(&effect.choice.name, ""),
            Cell::prose(value.value.unwrap_or("default"), ""),
            Cell::count(value.readings as u64),
            Cell::value(Some(value.mean), |mean| format!("{mean:.1}")),
            Cell::count(value.least as u64),
            Cell::count(value.most as u64),
        ]
    };
    let listed = effects.iter().take(MOST_LISTED);
    let rows = listed.flat_map(|effect| effect.values.iter().map(move |value| row(effect, value)));
    let head = ["left open", "value", "readings", "claims that hold, mean", "least", "most"];
    Grid { head: headings(head), rows: rows.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_records_are_described_by_their_length() {
        assert_eq!((first_of(8), first_of(9)), (":".into(), "; the strongest 8:".into()));
        let record = |claims: usize, choices: &str, readings: &str, quick: bool| {
            let claim = r#"{"id":"P-C1","statement":"s","verdict":"reproduced","holds_in":[true]}"#;
            let claims = vec![claim; claims].join(",");
            let text = format!(
                r#"{{"paper":"P","quick":{quick},"choices":[{choices}],"readings":[{readings}],"claims":[{claims}]}}"#
            );
            serde_json::from_str::<JointRecord>(&text).unwrap()
        };
        let choice = r#"{"name":"n","values":["v"]}"#;
        for (record, expected) in [
            (
                record(1, "", "{}", false),
                "1 number or threshold; none depends on anything that the paper leaves open.",
            ),
            (
                record(2, "", "{}", true),
                "2 numbers and thresholds; none depends on anything that the paper leaves open.",
            ),
            (
                record(2, choice, r#"{},{"n":"v"}"#, true),
                "2 numbers and thresholds, each judged in all 2 readings of 1 choice left open (first seed, quick).",
            ),
            (
                record(1, choice, "{}", false),
                "1 number or threshold, each judged in a sample of 1 reading of 1 choice left open (first seed).",
            ),
        ] {
            assert_eq!(scope(&record), expected);
        }
        let text = text(&[record(1, "", "{}", false)]);
        assert!(text.contains("One reading for all claims, P: perforated pages\n"), "{text}");
        assert!(text.contains("hold in every reading                          1\n"), "{text}");
        assert!(!text.contains("best reading differs"), "{text}");
    }

    /// At the default the first holds, in the best reading the two others, in every reading none, in none the last.
    #[test]
    fn claims_are_counted_at_the_default_and_in_the_best_reading() {
        let claim = |id: &str, holds: [bool; 3]| {
            format!(
                r#"{{"id":"{id}","statement":"s","verdict":"reproduced","experiment":"e","holds_in":{holds:?}}}"#
            )
        };
        let claims = [
            claim("A", [true, false, false]),
            claim("B", [false, true, false]),
            claim("C", [false, true, true]),
            claim("D", [false, false, false]),
        ];
        let text = format!(
            r#"{{"paper":"P","choices":[{{"name":"n","reason":"r","values":["v","w"]}},{{"name":"m","values":["x"]}}],
                "readings":[{{}},{{"n":"v"}},{{"n":"w"}}],"claims":[{}]}}"#,
            claims.join(",")
        );
        let record: JointRecord = serde_json::from_str(&text).unwrap();
        assert_eq!(counts(&record).map(|(_, count)| count), [1, 3, 2, 0, 1]);
        assert_eq!(changes(&record), [("n", "r", "v")]);
        let (gained, lost) = gained_and_lost(&record);
        assert_eq!(
            (gained, lost),
            (vec!["B s (e)".to_owned(), "C s (e)".into()], vec!["A s (e)".to_owned()])
        );
        let pair = &record.excluding()[0];
        assert_eq!(pair_text(&record, pair), "A s (e), in 1 of 3 readings; and C s (e), in 2");
        let value = record.effects().remove(0);
        assert_eq!(effect_text(&value), "n: v 2.0 (2 to 2); default 1.0 (1 to 1); w 1.0 (1 to 1)");
        assert_eq!(
            figure(&record, "P").caption,
            "Of 4 claims; each alone, 3 hold in some reading."
        );
    }
}
