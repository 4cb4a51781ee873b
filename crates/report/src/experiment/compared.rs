//! Charts that compare the papers' values with ours, with a row for each claim.

use std::collections::HashSet;

use perforate_records::{ClaimKind, ClaimRecord, ExperimentRecord, Show, UnstatedRange};
use perforate_types::counted;

use super::claim::{claimed, interval_text, look, ours_text, paper_text};
use super::show::Written;
use super::verdicts;
use crate::chart::{Axis, Dots, Mark, Scatter, broken};
use crate::html::{Cell, Figure, Grid};

const SHOWS: [(Show, &str); 4] = [
    (Show::Gain, "gains"),
    (Show::Percent, "shares"),
    (Show::Ratio, "quotients"),
    (Show::Number, "numbers"),
];

/// Returns a chart of the papers' values and ours for each notation (percentages, gains, ratios, numbers) in
/// which claims are written. `id` is the prefix of the charts' anchors.
pub(super) fn figures(result: &ExperimentRecord, id: &str) -> Vec<Figure> {
    let figures = SHOWS.iter().filter_map(|(show, name)| figure(result, *show, name, id));
    figures.collect()
}

fn figure(result: &ExperimentRecord, show: Show, name: &str, id: &str) -> Option<Figure> {
    let claims = result.claims.iter().filter(|claim| claim.is_tested() && claim.show == show);
    let claims: Vec<&ClaimRecord> = claims.filter(|claim| claim.paper.is_some()).collect();
    if claims.is_empty() {
        return None;
    }
    let mut taken = HashSet::new();
    let marks: Vec<Mark> = claims
        .iter()
        .map(|claim| {
            let all = (1..).map(|number| match number {
                1 => broken(&format!("{} {}", claim.id, claim.statement)),
                _ => broken(&format!("{} ({number}) {}", claim.id, claim.statement)),
            });
            let place = all.into_iter().find(|place| taken.insert(place.clone()));
            mark(claim, place.unwrap_or_default())
        })
        .collect();
    let has_ranges = claims.iter().any(|claim| claim.unstated.is_some());
    let open =
        if has_ranges { " Grey: range of ours over what the paper leaves open." } else { "" };
    Some(Figure {
        id: format!("{id}-compared-{name}"),
        name: format!("{} paper and ours {name}", result.experiment),
        title: format!("The paper's {name} and ours"),
        caption: format!(
            "Diamonds: the paper's number, or its bound. Dots: ours; lines: range over the seeds.{open}"
        ),
        data: data(&claims, show),
        chart: Dots { marks, value: Axis { label: "", suffix: show.notation().suffix } }.spec(),
    })
}

fn mark(claim: &ClaimRecord, place: String) -> Mark {
    let shown = |value: Option<f64>| value.map(|value| claim.show.shown(value));
    let (low, high) = match (claim.ours_low, claim.ours_high) {
        (Some(low), Some(high)) if low < high => (Some(low), Some(high)),
        _ => (None, None),
    };
    Mark {
        place,
        x: None,
        series: claim.statement.clone(),
        value: shown(claim.ours.filter(|value| value.is_finite())),
        low: shown(low),
        high: shown(high),
        text: ours_text(claim),
        interval: interval_text(claim).unwrap_or_default(),
        claimed: claimed(claim),
        brief: String::new(),
    }
}

fn data(claims: &[&ClaimRecord], show: Show) -> Grid {
    let open = |claim: &ClaimRecord, of: fn(&UnstatedRange) -> f64| {
        show.cell(claim.unstated.as_ref().map(of))
    };
    Grid::of(
        claims,
        [
            ("claim".into(), &|claim| Cell::text(&claim.id)),
            ("what".into(), &|claim| Cell::text(&claim.statement)),
            (show.heading("paper"), &|claim| show.cell(claim.paper)),
            (show.heading("to"), &|claim| show.cell(claim.paper_high)),
            (show.heading("ours"), &|claim| show.cell(claim.ours)),
            (show.heading("least over what is left open"), &|claim| {
                open(claim, |range| range.least)
            }),
            (show.heading("greatest"), &|claim| open(claim, |range| range.greatest)),
        ],
    )
}

/// Returns a chart of ours over the published value for each notation in which enough claims are written, over
/// all experiments.
pub(super) fn over_published(results: &[ExperimentRecord]) -> Vec<Figure> {
    SHOWS
        .iter()
        .map(|(show, name)| (published(results, *show), *show, name))
        .filter(|(claims, ..)| claims.len() >= FEWEST_POINTS)
        .map(|(claims, show, name)| scatter(&claims, show, name))
        .collect()
}

/// Claims of all experiments in this notation that are published as one number; bounds have no value to be
/// equal to.
fn published(results: &[ExperimentRecord], show: Show) -> Vec<&ClaimRecord> {
    let is_shown = |claim: &&ClaimRecord| {
        claim.kind == Some(ClaimKind::Number)
            && claim.show == show
            && claim.relation == "="
            && claim.paper.is_some()
            && claim.ours.is_some_and(f64::is_finite)
    };
    results.iter().flat_map(|result| &result.claims).filter(is_shown).collect()
}

/// Fewest claims for which a scatter chart is drawn.
const FEWEST_POINTS: usize = 6;

fn scatter(claims: &[&ClaimRecord], show: Show, name: &str) -> Figure {
    let is_positive = |claim: &&ClaimRecord| {
        [claim.paper, claim.ours, claim.ours_low].into_iter().flatten().all(|value| value > 0.0)
    };
    let is_logarithmic = show == Show::Number && claims.iter().all(is_positive);
    let marks = claims.iter().map(|claim| Mark {
        x: claim.paper.map(|paper| show.shown(paper)),
        series: look(claim.verdict).0.into(),
        brief: paper_text(claim),
        ..mark(claim, format!("{} {}", claim.id, claim.statement))
    });
    let suffix = show.notation().suffix;
    let chart = Scatter {
        series: verdicts::series(),
        marks: marks.collect(),
        published: Axis { label: "published", suffix },
        ours: Axis { label: "ours", suffix },
        is_logarithmic,
    };
    Figure {
        id: format!("over-published-{name}"),
        name: format!("ours over published {name}"),
        title: format!("Our {name} over the published ones"),
        caption: format!(
            "{} that are published as one number. On the dashed line both are equal; lines: range over the seeds.",
            counted(claims.len(), "claim")
        ),
        data: data(claims, show),
        chart: chart.spec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(more: &str) -> ClaimRecord {
        let text = format!(
            r#"{{"id":"P-C1","statement":"as fast","verdict":"reproduced","kind":"number"{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn numbers_of_all_experiments_are_drawn_over_the_published_ones() {
        let number = |paper: f64, ours: &str| {
            claim(&format!(r#","show":"gain","relation":"=","paper":{paper},"ours":{ours}"#))
        };
        let result = |claims: Vec<ClaimRecord>| {
            let text =
                r#"{"record":"experiment","experiment":"x","title":"t","curves":[],"charts":[]}"#;
            let record: ExperimentRecord = serde_json::from_str(text).unwrap();
            ExperimentRecord { claims, ..record }
        };
        let mut bound = number(1.2, "1.3");
        bound.relation = "≥".into();
        let first = result(vec![number(1.5, "1.25"), number(2.0, "3.0"), number(1.1, "1.1")]);
        let mut second = result(vec![number(1.2, "0.9"), number(1.3, "1.3"), bound]);
        assert!(over_published(&[first.clone(), second.clone()]).is_empty(), "five are too few");
        second.claims.push(number(1.4, "1.2"));
        let figures = over_published(&[first, second]);
        assert_eq!(figures.len(), 1);
        let marks = figures[0].chart["data"]["values"].as_array().unwrap();
        let near = |mark: &serde_json::Value, field: &str, expected: f64| {
            assert!((mark[field].as_f64().unwrap() - expected).abs() < 1e-9, "{mark}");
        };
        assert_eq!(marks.len(), 6);
        near(&marks[0], "x", 50.0);
        near(&marks[0], "value", 25.0);
        near(&marks[3], "value", -10.0);
        let domain = &figures[0].chart["layer"][0]["encoding"]["x"]["scale"]["domain"];
        assert!((domain[0].as_f64().unwrap() + 10.0).abs() < 1e-9, "{domain}");
        assert!((domain[1].as_f64().unwrap() - 200.0).abs() < 1e-9, "{domain}");
    }

    #[test]
    fn a_row_has_the_papers_number_ours_and_its_ranges() {
        let claim = claim(
            r#","show":"gain","paper":1.5,"relation":"=","ours":1.6,"ours_low":1.55,"ours_high":1.7,
               "unstated":{"default":1.6,"least":1.25,"greatest":2.0,"variants":9,"reproduced":1,
               "reading":"inside_the_range","parts":[]}"#,
        );
        let mark = mark(&claim, "here".into());
        let near = |value: Option<f64>, expected: f64| (value.unwrap() - expected).abs() < 1e-9;
        assert!(near(mark.value, 60.0) && near(mark.low, 55.0) && near(mark.high, 70.0));
        let claimed = mark.claimed.unwrap();
        assert!(near(Some(claimed.paper), 50.0) && near(claimed.open_low, 25.0));
        assert!(near(claimed.open_high, 100.0));
        assert_eq!(claimed.open_text, "+25.0 % to +100.0 %");
        assert_eq!(data(&[&claim], Show::Gain).rows.len(), 1);
    }

    #[test]
    fn claims_without_a_number_have_no_diamond() {
        assert!(mark(&claim(r#","ours":1.0"#), String::new()).claimed.is_none());
    }

    #[test]
    fn an_interval_without_width_is_not_drawn() {
        let ends = |low: f64, high: f64| {
            let more = format!(r#","ours":1.5,"ours_low":{low},"ours_high":{high}"#);
            let mark = mark(&claim(&more), String::new());
            (mark.low.is_some(), mark.high.is_some())
        };
        assert_eq!(ends(1.5, 1.5), (false, false));
        assert_eq!(ends(1.5, 1.51), (true, true));
    }
}
