//! Terminal output for experiments.

use perforate_records::{
    ClaimRecord, CurveRecord, ExperimentRecord, ExperimentResults, PointRecord, Verdict,
};

use super::claim::{
    between, explanation_text, interval_text, look, note_text, ours_text, paper_text, range_text,
    slack_text,
};
use super::headline::headline;
use super::show::Written;
use super::tally::{KindTally, PaperTally, Tally, claims, kinds, papers, tested};
use super::{agreement_text, joint, place_text, statistics_text};
use crate::format::MISSING;
use crate::text::{Column, ColumnOf, blocks, rows, wrapped};

/// Indentation of lines that belong to a claim, in characters.
const INDENT: usize = 10;
/// Maximum number of points in a table. Of more points, only every second, third, … is printed.
const ROWS: usize = 24;
/// Maximum number of experiments whose curves are printed. Of more experiments, only the claims are printed.
const MOST_IN_FULL: usize = 3;
/// Width at which the labels of curves and places are broken in headings, in characters. None is cut, since
/// labels may differ at their end only.
const LABEL: usize = 24;

/// Returns the claims of experiments with their verdicts as text, at most `columns` (at least 100) characters
/// wide. If there are only a few experiments, tables of their curves are included. Joint readings come last.
pub fn experiments_table(results: &ExperimentResults, columns: usize) -> String {
    let ExperimentResults { experiments: results, joint } = results;
    let in_full = results.len() <= MOST_IN_FULL;
    let one = |result| one(result, columns, in_full);
    let mut text = headline(claims(results))
        .map_or_else(String::new, |headline| wrapped("", &headline, columns) + "\n");
    text += &results.iter().map(one).collect::<Vec<_>>().join("\n");
    let tally = Tally::of(claims(results));
    if tally.total() > 0 {
        text += &format!("\nclaims: {}, of {}\n", tally.text(), tally.total());
        let tested = tested(results);
        if tested.total() > 0 {
            text += &format!("numbers and thresholds: {}, of {}\n", tested.text(), tested.total());
        }
        text.push('\n');
        text += &tallies(&papers(results), columns);
        text.push('\n');
        text += &kind_tallies(&kinds(results), columns);
        text += &unexplained(results).map_or_else(String::new, |line| wrapped("", &line, columns));
    }
    text + &joint::text(joint)
}

/// Returns a table of the numbers of claims by verdict, with a row for each paper.
fn tallies(papers: &[PaperTally], columns: usize) -> String {
    let all: [ColumnOf<'_, PaperTally>; 6] = [
        ("", &|paper| paper.name.clone()),
        ("claims", &|paper| paper.tally.total().to_string()),
        ("reproduced", &|paper| paper.tally.reproduced.to_string()),
        ("direction", &|paper| paper.tally.same_direction.to_string()),
        ("not", &|paper| paper.tally.not_reproduced.to_string()),
        ("ids fully", &|paper| format!("{} of {}", paper.whole_ids, paper.ids)),
    ];
    rows(papers, &all, columns)
}

/// Returns a table of the numbers of claims by verdict, with a row for each kind of claim.
fn kind_tallies(kinds: &[KindTally], columns: usize) -> String {
    let all: [ColumnOf<'_, KindTally>; 6] = [
        ("", &|kind| kind.name.to_owned()),
        ("claims", &|kind| kind.tally.total().to_string()),
        ("reproduced", &|kind| kind.tally.reproduced.to_string()),
        ("direction", &|kind| kind.tally.same_direction.to_string()),
        ("not", &|kind| kind.tally.not_reproduced.to_string()),
        ("in a reading", &|kind| {
            kind.in_some_reading.map_or_else(|| MISSING.to_owned(), |count| count.to_string())
        }),
    ];
    let has_readings = kinds.iter().any(|kind| kind.in_some_reading.is_some());
    rows(kinds, &all[..5 + usize::from(has_readings)], columns)
}

/// Returns a remark if an experiment that was run in full (not `quick`) deviates from a paper and its file
/// does not explain the deviation.
fn unexplained(results: &[ExperimentRecord]) -> Option<String> {
    let full = results.iter().filter(|result| !result.quick);
    let claims = full.flat_map(|result| &result.claims);
    let lacks = |claim: &&ClaimRecord| {
        claim.verdict == Verdict::NotReproduced
            && explanation_text(claim).is_none()
            && note_text(claim).is_none()
    };
    let count = claims.filter(lacks).count();
    (count > 0).then(|| format!("not reproduced and not explained in their file: {count}"))
}

fn one(result: &ExperimentRecord, columns: usize, in_full: bool) -> String {
    let source = match result.source.as_str() {
        "" => String::new(),
        source => format!(" ({source})"),
    };
    let quick = if result.quick { ", quick" } else { "" };
    let head = format!("{}: {}{source}{quick}", result.experiment, result.title);
    let mut text = wrapped("", &head, columns);
    if in_full {
        let about = statistics_text(result).into_iter().chain(agreement_text(result));
        text.extend(about.map(|line| wrapped("", &line, columns)));
        text += &values(result, columns);
        text.push('\n');
    }
    text.extend(result.claims.iter().map(|claim| claim_text(claim, columns, in_full)));
    let notes = result.notes.iter().filter(|_| in_full);
    text.extend(notes.map(|note| wrapped("note: ", note, columns)));
    text
}

/// Returns a table of the curves of each chart, and a table of the curves that are in no chart.
fn values(result: &ExperimentRecord, columns: usize) -> String {
    if result.curves.iter().all(|curve| curve.points.iter().all(|point| !point.on_axis)) {
        return "\nNo points were measured.\n".to_owned();
    }
    let mut groups: Vec<(&str, Vec<&CurveRecord>)> = Vec::new();
    for chart in &result.charts {
        let named = |name: &String| result.curves.iter().find(|curve| curve.name == *name);
        let curves: Vec<&CurveRecord> = chart.curves.iter().filter_map(named).collect();
        // Charts with the same curves have the same values, which are printed once.
        if groups.iter().all(|(_, other)| !is_same(other, &curves)) {
            groups.push((&chart.title, curves));
        }
    }
    let is_drawn = |curve: &&CurveRecord| {
        let mut drawn = groups.iter().flat_map(|(_, curves)| curves);
        drawn.any(|other| std::ptr::eq(*other, *curve))
    };
    let rest: Vec<&CurveRecord> = result.curves.iter().filter(|curve| !is_drawn(curve)).collect();
    let heading = if groups.is_empty() { "" } else { "Other values" };
    groups.push((heading, rest));
    let has_titles = groups.iter().filter(|(_, curves)| !curves.is_empty()).count() > 1;
    let table = |(title, curves): &(&str, Vec<&CurveRecord>)| {
        let title = if has_titles { *title } else { "" };
        curves_table(result, title, curves, columns)
    };
    groups.iter().map(table).collect()
}

fn is_same(one: &[&CurveRecord], other: &[&CurveRecord]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| std::ptr::eq(*a, *b))
}

/// Returns a table of curves over the axis, split into blocks that fit the width. If there are more curves
/// than places, each curve is a row.
fn curves_table(
    result: &ExperimentRecord,
    title: &str,
    curves: &[&CurveRecord],
    columns: usize,
) -> String {
    let mut places: Vec<&PointRecord> = Vec::new();
    for point in curves.iter().flat_map(|curve| &curve.points).filter(|point| point.on_axis) {
        if !places.iter().any(|place| is_same_place(place, point)) {
            places.push(point);
        }
    }
    if places.is_empty() {
        return String::new();
    }
    let stride = places.len().div_ceil(ROWS);
    let places: Vec<&PointRecord> = places.into_iter().step_by(stride).collect();
    let place_text = |place: &&PointRecord| place_text(result, place);
    let labels = |cells| Column::texts_under(LABEL, &result.axis_label, cells);
    let blocks = if curves.len() > places.len() {
        let labels = labels(curves.iter().map(|curve| curve.label.clone()).collect());
        let column = |place: &&PointRecord| {
            let cells = curves.iter().map(|curve| cell(curve, place)).collect();
            Column::broken_at(LABEL, &place_text(place), cells)
        };
        let all: Vec<Column> = places.iter().map(column).collect();
        blocks(&labels, &all, columns)
    } else {
        let column = |curve: &&CurveRecord| {
            let cells = places.iter().map(|place| cell(curve, place)).collect();
            Column::broken_at(LABEL, &curve.label, cells)
        };
        let all: Vec<Column> = curves.iter().map(column).collect();
        blocks(&labels(places.iter().map(place_text).collect()), &all, columns)
    };
    let title = if title.is_empty() { "\n".to_owned() } else { format!("\n{title}\n") };
    title + &blocks.join("\n")
}

fn is_same_place(one: &PointRecord, other: &PointRecord) -> bool {
    one.x == other.x && one.place == other.place
}

/// Returns the value of a curve with its interval, at the place of the point `row`.
fn cell(curve: &CurveRecord, row: &PointRecord) -> String {
    let Some(point) = curve.points.iter().find(|point| is_same_place(point, row)) else {
        return MISSING.to_owned();
    };
    let interval = between(curve.show, point.low, point.high)
        .map_or_else(String::new, |interval| format!(" ({interval})"));
    let differs = point.drawn.is_some_and(|drawn| drawn.agrees == Some(false));
    let mark = if differs { " ≠" } else { "" };
    let drawn = point.drawn.filter(|_| differs);
    let drawn =
        drawn.map_or_else(String::new, |drawn| format!(" drawn {}", curve.show.text(drawn.drawn)));
    format!("{}{mark}{drawn}{interval}", curve.show.text_or_missing(point.value))
}

fn claim_text(claim: &ClaimRecord, columns: usize, with_note: bool) -> String {
    let margin = " ".repeat(INDENT);
    let id = format!("  {} ", claim.id);
    let mut text = wrapped(&format!("{id:<INDENT$}"), &claim.statement, columns);
    let interval = interval_text(claim).map_or_else(String::new, |text| format!(" ({text})"));
    let ours = format!("ours {}{interval}", ours_text(claim));
    let paper = format!("paper {}", paper_text(claim));
    text += &format!("{margin}{paper:<20}  {ours:<30}  {}\n", look(claim.verdict).0);
    if let Some(slack) = slack_text(claim) {
        text += &wrapped(&margin, &slack, columns);
    }
    if let Some(range) = range_text(claim) {
        text += &wrapped(&margin, &range, columns);
    }
    if let Some(note) = claim.note.as_deref().filter(|_| with_note) {
        text += &wrapped(&margin, note, columns);
    }
    if claim.verdict == Verdict::NotReproduced {
        let why = explanation_text(claim);
        let why = why.as_deref().unwrap_or("not explained in its file");
        text += &wrapped(&format!("{margin}why: "), why, columns);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An experiment of one curve with so many points on its axis, and so many claims.
    fn experiment(name: &str, points: usize) -> String {
        let header = format!(
            r#"{{"record":"experiment","experiment":"{name}","title":"T","curves":[{{"name":"c","label":"C"}}]}}"#
        );
        let point = |x: usize| {
            format!(
                r#"{{"record":"point","experiment":"{name}","curve":"c","x":{x},"value":{x}.5}}"#
            )
        };
        let claim = format!(
            r#"{{"record":"claim","experiment":"{name}","id":"P-C1","statement":"s","verdict":"not_reproduced","note":"a note"}}"#
        );
        [header]
            .into_iter()
            .chain((0..points).map(point))
            .chain([claim])
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn shown(experiments: &[(&str, usize)]) -> String {
        let lines: Vec<String> =
            experiments.iter().map(|(name, points)| experiment(name, *points)).collect();
        experiments_table(&perforate_records::read_experiments(&lines.join("\n")).unwrap(), 100)
    }

    /// Of up to 24 points each is printed, of more every second, third and so on.
    #[test]
    fn long_curves_are_printed_in_steps() {
        let rows = |points: usize| {
            shown(&[("x", points)]).lines().filter(|line| line.ends_with(".5")).count()
        };
        assert_eq!([24, 25, 48, 49].map(rows), [24, 13, 24, 17]);
        assert!(shown(&[("x", 0)]).contains("No points were measured."));
    }

    #[test]
    fn curves_of_up_to_three_experiments_are_printed() {
        let three = shown(&[("x", 2), ("y", 2), ("z", 2)]);
        assert!(three.contains("1.5") && three.contains("a note"));
        let four = shown(&[("x", 2), ("y", 2), ("z", 2), ("w", 2)]);
        assert!(!four.contains("1.5") && !four.contains("a note") && four.contains("w: T"));
        assert!(!four.contains("not explained in their file:"), "notes are explanations");
        assert!(four.contains("claims: 0 reproduced, 0 same direction, 4 not reproduced, of 4"));
    }
}
