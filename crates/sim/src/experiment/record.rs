//! What an experiment leaves behind: JSON lines of three kinds.

use serde::Serialize;

use super::{Axis, Claim, Curve, Expectation, Experiment, Verdict};
use crate::capacity::Sampling;

/// Everything that came of an experiment, in the order of its records.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The experiment.
    pub experiment: Experiment,
    /// Draws that were made.
    pub samples: u64,
    /// Seed of the draws.
    pub seed: u64,
    /// What was measured.
    pub curves: Vec<Curve>,
}

/// One line of results.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record<'a> {
    /// The experiment itself, before its points and claims.
    Experiment {
        /// Name.
        experiment: &'a str,
        /// What it shows.
        title: &'a str,
        /// Where it comes from.
        source: &'a str,
        /// Label of the axis.
        axis_label: &'a str,
        /// Label of the values.
        value_label: &'a str,
        /// Names and labels of the curves, in order.
        curves: Vec<(&'a str, &'a str)>,
        /// Slices or blocks drawn for each point.
        samples: u64,
        /// Seed of the draws.
        seed: u64,
        /// Remarks.
        notes: &'a [String],
        /// The file.
        config: &'a Experiment,
        /// Version of the program.
        version: &'static str,
    },
    /// One point of a curve.
    Point {
        /// The experiment's name.
        experiment: &'a str,
        /// The curve's name.
        curve: &'a str,
        /// Place on the axis.
        x: f64,
        /// Whether it is a point of the axis; others are there for a claim.
        on_axis: bool,
        /// The value by the closed form.
        closed_form: Option<f64>,
        /// The average of the draws.
        sampled: Option<f64>,
        /// Half of its 95 % confidence interval.
        half_width_95: Option<f64>,
        /// Independent draws.
        draws: Option<u64>,
        /// Whether both agree.
        agrees: Option<bool>,
    },
    /// A claim and what came of it.
    Claim {
        /// The experiment's name.
        experiment: &'a str,
        /// The claim as the file has it.
        #[serde(flatten)]
        claim: &'a Claim,
        /// The paper's number.
        paper: f64,
        /// `=`, `≤` or `≥`: how it is meant.
        relation: &'static str,
        /// Our number.
        ours: Option<f64>,
        /// What to think of it.
        verdict: Verdict,
    },
}

impl Outcome {
    pub(super) fn new(experiment: &Experiment, sampling: Sampling, curves: Vec<Curve>) -> Self {
        let Sampling { samples, seed } = sampling;
        Self { experiment: experiment.clone(), samples, seed, curves }
    }

    /// Each claim with our number and the verdict.
    pub fn judged(&self) -> impl Iterator<Item = (&Claim, Option<f64>, Verdict)> {
        self.experiment.claims.iter().map(|claim| {
            let ours = claim.ours(&self.curves);
            (claim, ours, claim.judge(ours))
        })
    }

    /// All records: the experiment, its points, its claims.
    pub fn records(&self) -> Vec<Record<'_>> {
        let mut records = vec![self.header()];
        let places = self.experiment.axis.points();
        for curve in &self.curves {
            records.extend(curve.points.iter().map(|point| {
                Record::Point {
                    experiment: &self.experiment.name,
                    curve: &curve.name,
                    x: point.x,
                    on_axis: places.contains(&point.x),
                    closed_form: point.closed_form,
                    sampled: point.sampled.map(|sampled| sampled.mean),
                    // Of a single run nothing is known.
                    half_width_95: point
                        .sampled
                        .filter(|sampled| sampled.draws > 1)
                        .map(|sampled| sampled.half_width_95),
                    draws: point.sampled.map(|sampled| sampled.draws),
                    agrees: point.agrees(),
                }
            }));
        }
        records.extend(self.judged().map(|(claim, ours, verdict)| {
            let (paper, relation) = match claim.expectation {
                Expectation::Value(value) => (value, "="),
                Expectation::AtMost(most) => (most, "≤"),
                Expectation::AtLeast(least) => (least, "≥"),
            };
            let experiment = &self.experiment.name;
            Record::Claim { experiment, claim, paper, relation, ours, verdict }
        }));
        records
    }

    fn header(&self) -> Record<'_> {
        let Experiment { name, title, source, notes, subject, axis, .. } = &self.experiment;
        let Axis { label, .. } = axis;
        let names = self.curves.iter().map(|curve| (curve.name.as_str(), curve.label.as_str()));
        Record::Experiment {
            experiment: name,
            title,
            source,
            axis_label: label,
            value_label: subject.value_label(),
            curves: names.collect(),
            samples: self.samples,
            seed: self.seed,
            notes,
            config: &self.experiment,
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}
