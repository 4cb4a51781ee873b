//! Charts that compare the papers' values with ours, with a row for each claim.

use std::collections::HashSet;

use perforate_records::{ClaimRecord, ExperimentRecord, Show, UnstatedRange};

use super::claim::{claimed, interval_text, ours_text};
use super::show::Written;
use crate::chart::{Axis, Dots, Mark, broken};
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
