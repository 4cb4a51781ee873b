//! Conversion of the outcome of an experiment to records.

use perforate_records::{
    ChartRecord, ClaimRecord, CurveRecord, ExperimentRecord, PointRecord, UnstatedRange, config_of,
    word,
};

use crate::file::{Chart, Claim, Expectation, Measure, Place};
use crate::outcome::{AtPlace, Judged, Outcome};

impl Outcome {
    /// Returns the record of the experiment for results files, with its points and claims. `quick` is true if
    /// `--quick` was set. `ranges` has, for each claim, the range of its values under `--unstated`; empty
    /// without that option.
    pub fn record(&self, quick: bool, ranges: Vec<Option<UnstatedRange>>) -> ExperimentRecord {
        let experiment = &self.experiment;
        let on_axis = experiment.axis.points();
        let curves = experiment.curves.iter().zip(&self.curves);
        let curves = curves.map(|(curve, values)| CurveRecord {
            name: curve.name.clone(),
            label: curve.label.as_ref().unwrap_or(&curve.name).clone(),
            show: curve.show,
            points: values.places.iter().map(|at| self.point(&curve.name, at, &on_axis)).collect(),
        });
        let ranges = ranges.into_iter().chain(std::iter::repeat(None));
        let claims = experiment.claims.iter().zip(ranges);
        ExperimentRecord {
            experiment: experiment.name.clone(),
            file: experiment.file.clone(),
            title: experiment.title.clone(),
            source: experiment.source.clone(),
            notes: experiment.notes.clone(),
            axis_label: experiment.axis.label.clone(),
            axis_form: experiment.axis.form(),
            places: experiment.axis.labels(),
            curves: curves.collect(),
            charts: experiment.charts.iter().map(chart).collect(),
            seeds: Some(experiment.seeds),
            seed: Some(experiment.seed),
            quick,
            stand_ins: experiment.stand_ins.clone(),
            warmup: experiment.warmup(),
            config: config_of(experiment),
            version: env!("CARGO_PKG_VERSION").into(),
            claims: claims.map(|(claim, range)| self.claim(claim, range)).collect(),
        }
    }

    fn point(&self, curve: &str, at: &AtPlace, on_axis: &[Place]) -> PointRecord {
        let summary = at.summary();
        let interval = summary.filter(|summary| summary.runs > 1);
        let (x, place) = number_or_name(&at.place);
        PointRecord {
            experiment: self.experiment.name.clone(),
            curve: curve.into(),
            x,
            place,
            on_axis: on_axis.contains(&at.place),
            value: summary.map(|summary| summary.median),
            low: interval.map(|summary| summary.low),
            high: interval.map(|summary| summary.high),
            confidence: interval.map(|summary| summary.confidence),
            runs: Some(summary.map_or(0, |summary| summary.runs as u64)),
            drawn: at.drawn,
        }
    }

    fn claim(&self, claim: &Claim, unstated: Option<UnstatedRange>) -> ClaimRecord {
        let judged = self.judge(claim);
        let farthest = judged.farthest(claim);
        let Judged { ours, verdict } = judged;
        let (paper, paper_high, relation) = match claim.expectation() {
            Expectation::Value(value) => (value, None, "="),
            Expectation::AtMost(most) => (most, None, "≤"),
            Expectation::AtLeast(least) => (least, None, "≥"),
            Expectation::Range(low, high) => (low, Some(high), "range"),
        };
        let (mut x, mut place, mut over, mut places) = (None, None, None, Vec::new());
        match claim.measure() {
            Measure::At(at) => (x, place) = number_or_name(&at),
            Measure::Every(names) => (over, places) = (Some("every".to_owned()), names),
            Measure::Over(average, names) => (over, places) = (Some(word(average)), names),
            Measure::FallsTo(_) | Measure::LeadOver(_) => {}
        }
        let several = ours.len() > 1;
        let medians = || ours.iter().flatten().map(|summary| summary.median);
        let interval = farthest.filter(|summary| summary.runs > 1);
        ClaimRecord {
            experiment: self.experiment.name.clone(),
            id: claim.id.clone(),
            statement: claim.statement.clone(),
            source: claim.source.clone(),
            kind: claim.kind,
            curve: claim.curve.clone(),
            x,
            place,
            over,
            places,
            show: self.show(claim),
            paper: Some(paper),
            paper_high,
            relation: relation.into(),
            ours: farthest.map(|summary| summary.median),
            ours_low: interval.map(|summary| summary.low),
            ours_high: interval.map(|summary| summary.high),
            ours_least: medians().min_by(f64::total_cmp).filter(|_| several),
            ours_greatest: medians().max_by(f64::total_cmp).filter(|_| several),
            tolerance: Some(claim.tolerance),
            verdict,
            note: claim.note.clone(),
            explanation: claim.explanation.clone(),
            tested_by: claim.tested_by.clone(),
            unstated,
        }
    }
}

fn number_or_name(place: &Place) -> (Option<f64>, Option<String>) {
    match place {
        Place::Number(number) => (Some(*number), None),
        Place::Name(name) => (None, Some(name.clone())),
    }
}

fn chart(chart: &Chart) -> ChartRecord {
    let Chart { title, form, value_label, curves } = chart.clone();
    ChartRecord { title, form, value_label, curves }
}
