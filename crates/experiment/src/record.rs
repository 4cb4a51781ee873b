//! What an experiment leaves behind: JSON lines of three kinds.

use serde::Serialize;

use crate::file::{
    Average, AxisForm, Chart, ChartForm, Claim, ClaimKind, Expectation, Experiment, Measure, Place,
    Show, Verdict,
};
use crate::outcome::{AtPlace, Judged, Outcome};
use crate::unstated::Range;

/// One line of results.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record<'a> {
    /// The experiment itself, before its points and claims.
    Experiment(Box<Header<'a>>),
    /// One point of a curve.
    Point(Point<'a>),
    /// A claim and what came of it.
    Claim(Box<ClaimRecord<'a>>),
}

/// An experiment without its points.
#[derive(Clone, Debug, Serialize)]
pub struct Header<'a> {
    /// Name.
    experiment: &'a str,
    /// The file it was loaded from; none for one that comes with the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    /// What it shows.
    title: &'a str,
    /// Where it comes from.
    source: &'a str,
    /// Remarks.
    notes: &'a [String],
    /// Label of the axis.
    axis_label: &'a str,
    /// What the axis consists of.
    axis_form: AxisForm,
    /// Names and labels of places.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<(String, String)>,
    /// Curves in order.
    curves: Vec<CurveRecord<'a>>,
    /// Charts in order.
    charts: Vec<ChartRecord<'a>>,
    /// Runs of everything.
    seeds: u64,
    /// The first seed.
    seed: u64,
    /// Whether it was a coarse run.
    quick: bool,
    /// Programs of the paper and what stands for them.
    stand_ins: &'a [(String, String)],
    /// The stated warm-up.
    warmup: Option<String>,
    /// The file, parameters put in.
    config: &'a Experiment,
    /// Version of the program.
    version: &'static str,
}

/// A curve without its points.
#[derive(Clone, Debug, Serialize)]
pub struct CurveRecord<'a> {
    name: &'a str,
    label: &'a str,
    show: Show,
}

/// A chart.
#[derive(Clone, Debug, Serialize)]
pub struct ChartRecord<'a> {
    title: &'a str,
    form: ChartForm,
    value_label: &'a str,
    curves: &'a [String],
}

/// One point of a curve.
#[derive(Clone, Debug, Serialize)]
pub struct Point<'a> {
    /// The experiment's name.
    experiment: &'a str,
    /// The curve's name.
    curve: &'a str,
    /// Place on an axis of numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<f64>,
    /// Place with a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<&'a str>,
    /// Whether it is a point of the axis; others are there for a claim.
    on_axis: bool,
    /// The median of the runs.
    value: Option<f64>,
    /// Where the true median lies, and how surely.
    #[serde(flatten)]
    interval: Option<Interval>,
    /// Runs that have the value.
    runs: usize,
    /// What was drawn at random beside a closed form.
    #[serde(flatten)]
    drawn: Option<DrawnRecord>,
}

/// Ends of an interval around a median.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Interval {
    low: f64,
    high: f64,
    confidence: f64,
}

/// What was drawn at random.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DrawnRecord {
    drawn: f64,
    drawn_half_width_95: Option<f64>,
    draws: Option<f64>,
    agrees: Option<bool>,
}

/// A claim and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct ClaimRecord<'a> {
    experiment: &'a str,
    id: &'a str,
    statement: &'a str,
    source: &'a str,
    kind: ClaimKind,
    curve: &'a str,
    /// The place of the curve that it is about, where that is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<&'a str>,
    /// Treatment of the values of several places: `every`, or the name of an average.
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<Over>,
    /// The places, if they are not all of the axis.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    places: &'a [String],
    show: Show,
    /// The paper's number; of a range its lower end.
    paper: f64,
    /// The upper end of a range.
    #[serde(skip_serializing_if = "Option::is_none")]
    paper_high: Option<f64>,
    /// `=`, `≤`, `≥` or `range`: how it is meant.
    relation: &'static str,
    /// Our number; of several places the one that is farthest off.
    ours: Option<f64>,
    /// Its interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    ours_low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ours_high: Option<f64>,
    /// Least and greatest of several places.
    #[serde(skip_serializing_if = "Option::is_none")]
    ours_least: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ours_greatest: Option<f64>,
    tolerance: f64,
    verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tested_by: Option<&'a str>,
    /// How far our number depends on what the sources leave open.
    #[serde(skip_serializing_if = "Option::is_none")]
    unstated: Option<&'a Range>,
}

/// Treatment of the values of several places that a claim is about.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
enum Over {
    Every(&'static str),
    Average(Average),
}

impl Outcome {
    /// All records: the experiment, its points, its claims. `ranges` has one place for each claim, or
    /// none.
    pub fn records<'a>(&'a self, quick: bool, ranges: &'a [Option<Range>]) -> Vec<Record<'a>> {
        let experiment = &self.experiment;
        let mut records = vec![Record::Experiment(Box::new(header(experiment, quick)))];
        let on_axis = experiment.axis.points();
        for (curve, values) in experiment.curves.iter().zip(&self.curves) {
            let point = |at| point(&experiment.name, &curve.name, at, &on_axis);
            records.extend(values.places.iter().map(point).map(Record::Point));
        }
        let ranges = ranges.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        let claims = experiment.claims.iter().zip(ranges);
        let claims = claims.map(|(claim, range)| self.claim(claim, range));
        records.extend(claims.map(|claim| Record::Claim(Box::new(claim))));
        records
    }

    fn claim<'a>(&'a self, claim: &'a Claim, unstated: Option<&'a Range>) -> ClaimRecord<'a> {
        let judged = self.judge(claim);
        let farthest = judged.farthest(claim);
        let Judged { ours, verdict } = judged;
        let show = self.show(claim);
        let (paper, paper_high, relation) = match claim.expectation {
            Expectation::Value(value) => (value, None, "="),
            Expectation::AtMost(most) => (most, None, "≤"),
            Expectation::AtLeast(least) => (least, None, "≥"),
            Expectation::Range(low, high) => (low, Some(high), "range"),
        };
        let at = if let Measure::At(place) = &claim.measure { Some(place) } else { None };
        let (over, places) = match &claim.measure {
            Measure::Every(places) => (Some(Over::Every("every")), places.as_slice()),
            Measure::Over(average, places) => (Some(Over::Average(*average)), places.as_slice()),
            _ => (None, [].as_slice()),
        };
        let several = ours.len() > 1;
        let medians = || ours.iter().flatten().map(|summary| summary.median);
        let interval = farthest.filter(|summary| summary.runs > 1);
        ClaimRecord {
            experiment: &self.experiment.name,
            id: &claim.id,
            statement: &claim.statement,
            source: &claim.source,
            kind: claim.kind,
            curve: &claim.curve,
            x: at.and_then(Place::number),
            place: at.and_then(|place| {
                if let Place::Name(name) = place { Some(name.as_str()) } else { None }
            }),
            over,
            places,
            show,
            paper,
            paper_high,
            relation,
            ours: farthest.map(|summary| summary.median),
            ours_low: interval.map(|summary| summary.low),
            ours_high: interval.map(|summary| summary.high),
            ours_least: medians().min_by(f64::total_cmp).filter(|_| several),
            ours_greatest: medians().max_by(f64::total_cmp).filter(|_| several),
            tolerance: claim.tolerance,
            verdict,
            note: claim.note.as_deref(),
            explanation: claim.explanation.as_deref(),
            tested_by: claim.tested_by.as_deref(),
            unstated,
        }
    }
}

fn chart(chart: &Chart) -> ChartRecord<'_> {
    let Chart { title, form, value_label, curves } = chart;
    ChartRecord { title, form: *form, value_label, curves }
}

fn header(experiment: &Experiment, quick: bool) -> Header<'_> {
    let curves = experiment.curves.iter().map(|curve| CurveRecord {
        name: &curve.name,
        label: curve.label.as_deref().unwrap_or(&curve.name),
        show: curve.show,
    });
    Header {
        experiment: &experiment.name,
        file: experiment.file.as_deref(),
        title: &experiment.title,
        source: &experiment.source,
        notes: &experiment.notes,
        axis_label: &experiment.axis.label,
        axis_form: experiment.axis.form(),
        places: experiment.axis.labels(),
        curves: curves.collect(),
        charts: experiment.charts.iter().map(chart).collect(),
        seeds: experiment.seeds,
        seed: experiment.seed,
        quick,
        stand_ins: &experiment.stand_ins,
        warmup: experiment.warmup(),
        config: experiment,
        version: env!("CARGO_PKG_VERSION"),
    }
}

fn point<'a>(experiment: &'a str, curve: &'a str, at: &'a AtPlace, on_axis: &[Place]) -> Point<'a> {
    let summary = at.summary();
    Point {
        experiment,
        curve,
        x: at.place.number(),
        place: match &at.place {
            Place::Number(_) => None,
            Place::Name(name) => Some(name),
        },
        on_axis: on_axis.contains(&at.place),
        value: summary.map(|summary| summary.median),
        interval: summary.filter(|summary| summary.runs > 1).map(|summary| Interval {
            low: summary.low,
            high: summary.high,
            confidence: summary.confidence,
        }),
        runs: summary.map_or(0, |summary| summary.runs),
        drawn: at.drawn.map(|drawn| DrawnRecord {
            drawn: drawn.mean,
            drawn_half_width_95: drawn.half_width_95,
            draws: drawn.draws,
            agrees: at.agrees(),
        }),
    }
}
