//! Chart of verdicts by paper, the first chart on a page of several experiments.

use perforate_records::{ExperimentRecord, Verdict};

use super::claim::look;
use super::tally::{PaperTally, Tally, papers};
use crate::chart::{Axis, Mark, Series, Stacks, broken};
use crate::html::{Cell, Figure, Grid, Heading};

/// A verdict, and the function that returns its number of claims.
type Kind = (Verdict, fn(&Tally) -> usize);

const KINDS: [Kind; 3] = [
    (Verdict::Reproduced, |tally| tally.reproduced),
    (Verdict::SameDirection, |tally| tally.same_direction),
    (Verdict::NotReproduced, |tally| tally.not_reproduced),
];

/// Returns a series for each verdict.
pub(super) fn series() -> Vec<Series> {
    let series = |(verdict, _): &Kind| {
        let (label, _, colour) = look(*verdict);
        Series { label: label.into(), colour, ..Series::default() }
    };
    KINDS.iter().map(series).collect()
}

/// Returns a chart of the numbers of claims by verdict, with a bar for each paper. `None` if there are no
/// claims.
pub(super) fn figure(results: &[ExperimentRecord]) -> Option<Figure> {
    let papers = papers(results);
    let marks = papers.iter().flat_map(|paper| {
        KINDS.map(|(verdict, count)| Mark {
            place: broken(&paper.name),
            series: look(verdict).0.into(),
            value: Some(count(&paper.tally) as f64),
            text: count(&paper.tally).to_string(),
            ..Mark::default()
        })
    });
    let chart = Stacks {
        series: series(),
        places: papers.iter().map(|paper| broken(&paper.name)).collect(),
        marks: marks.collect(),
        value: Axis { label: "claims", suffix: "" },
        place: "paper",
    };
    let mut chart = chart.spec();
    chart["height"] = (44 * papers.len()).into();
    let row = |paper: &PaperTally| {
        let counts = KINDS.iter().map(|(_, count)| Cell::count(count(&paper.tally) as u64));
        std::iter::once(Cell::text(&paper.name)).chain(counts).collect()
    };
    let head = ["paper"].into_iter().chain(KINDS.map(|(verdict, _)| look(verdict).0));
    (!papers.is_empty()).then(|| Figure {
        id: "verdicts".into(),
        name: "verdicts by paper".into(),
        title: "What became of the papers' claims".into(),
        caption: "Claims by paper. A number is reproduced where ours, or its interval, is within its tolerance.".into(),
        chart,
        data: Grid {
            head: head.map(Heading::from).collect(),
            rows: papers.iter().map(row).collect(),
        },
    })
}
