//! Outcome of an experiment: curves with medians and intervals, and verdicts on its claims.

use std::collections::{BTreeMap, BTreeSet};

use perforate_records::{AxisForm, DrawnRecord, Show, Verdict};

use crate::engine::Plan;
use crate::error::ExperimentError;
use crate::file::{Average, Claim, Curve, Experiment, Measure, Place};
use crate::formula::{Formula, Reference};
use crate::kind::Measurement;
use crate::plan::{Formulas, Point, seeds};
use crate::statistics::{Summary, geometric_mean, mean, median};
use crate::store::Store;

/// Results of an experiment: the values of its curves.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Experiment that was measured.
    pub experiment: Experiment,
    /// Values of the curves, in the order of the experiment file.
    pub curves: Vec<Values>,
}

/// Values of one curve over the axis.
#[derive(Clone, Debug)]
pub struct Values {
    /// Values of the curve at each place of the axis, in order.
    pub places: Vec<AtPlace>,
}

/// Values of a curve at one place of the axis.
#[derive(Clone, Debug, PartialEq)]
pub struct AtPlace {
    /// Place of these values on the axis.
    pub place: Place,
    /// Value of the curve for each seed; `None` if a measured figure in its formula is missing.
    pub values: Vec<Option<f64>>,
    /// Monte Carlo estimate of the value with the first seed; `None` if the curve has no estimate.
    pub drawn: Option<DrawnRecord>,
}

impl AtPlace {
    /// Returns the median of the values that are not missing, with its confidence interval over the seeds;
    /// `None` if all are missing.
    pub fn summary(&self) -> Option<Summary> {
        Summary::of(&self.values.iter().flatten().copied().collect::<Vec<_>>())
    }
}

/// Measured values for a claim of a paper, with the verdict on the claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Median over the seeds with its confidence interval, for each place that the claim is about; `None` if
    /// missing.
    pub ours: Vec<Option<Summary>>,
    /// Verdict on the claim.
    pub verdict: Verdict,
}

impl Judged {
    /// Returns the value that misses the claim's expectation by most; `None` if all values are missing.
    pub fn farthest(&self, claim: &Claim) -> Option<Summary> {
        let distance = |summary: &Summary| claim.expectation().distance(summary.median);
        let known = self.ours.iter().flatten();
        known.max_by(|one, other| distance(one).total_cmp(&distance(other))).copied()
    }
}

impl Outcome {
    /// Computes the curves of an experiment from the measurements in `store`.
    ///
    /// # Errors
    /// A point (single measurement) that is not in the store, or a figure in a formula that no measurement
    /// contains.
    pub fn of(experiment: Experiment, plan: &Plan, store: &Store) -> Result<Self, ExperimentError> {
        let wrong = |problem| ExperimentError::Wrong { name: experiment.name.clone(), problem };
        let mut curves: Vec<Values> =
            experiment.curves.iter().map(|_| Values { places: Vec::new() }).collect();
        let mut figures = Figures::default();
        for place in experiment.places() {
            let formulas = Formulas::at(&experiment, &place).map_err(wrong)?;
            let mut columns: Vec<AtPlace> = curves
                .iter()
                .map(|_| AtPlace { place: place.clone(), values: Vec::new(), drawn: None })
                .collect();
            for (number, seed) in seeds(&experiment).enumerate() {
                let measured = measured(&experiment, &formulas, &place, seed, plan, store)?;
                figures.add(&formulas, &measured);
                let value = formulas.evaluator(|reference| {
                    let figures =
                        measured.get(&(reference.subject.clone(), reference.state.clone()));
                    figures?.get(&reference.figure).copied()
                });
                for (column, curve) in columns.iter_mut().zip(&formulas.curves) {
                    let of_seed = value(&curve.value);
                    column.values.push(of_seed);
                    if number == 0 {
                        column.drawn = drawn(&curve.drawn, of_seed, &value);
                    }
                }
            }
            for (curve, column) in curves.iter_mut().zip(columns) {
                curve.places.push(column);
            }
        }
        figures.check().map_err(wrong)?;
        Ok(Self { experiment, curves })
    }

    /// Returns the curve of this name with its values; `None` if the experiment has no such curve.
    pub fn curve(&self, name: &str) -> Option<(&Curve, &Values)> {
        let mut curves = self.experiment.curves.iter().zip(&self.curves);
        curves.find(|(curve, _)| curve.name == name)
    }

    /// Returns the measured values for a claim of a paper, with the verdict on the claim.
    pub fn judge(&self, claim: &Claim) -> Judged {
        let Some((_, values)) = self.curve(&claim.curve) else {
            return Judged { ours: Vec::new(), verdict: Verdict::NotReproduced };
        };
        let ours = self.ours(claim, values);
        let medians: Vec<Option<f64>> =
            ours.iter().map(|summary| summary.map(|summary| summary.median)).collect();
        Judged { verdict: claim.judge(&medians, self.show(claim)), ours }
    }

    /// Returns the notation (such as percentage or gain) in which reports print a claim's values: that of its
    /// curve. The place at which the curve crosses a threshold has the axis's notation instead, and a
    /// difference of two gains is a percentage.
    pub fn show(&self, claim: &Claim) -> Show {
        let of_curve = self.curve(&claim.curve).map_or(Show::default(), |(curve, _)| curve.show);
        match (claim.measure(), of_curve) {
            (Measure::FallsTo(_), _) => match self.experiment.axis.form() {
                AxisForm::Share => Show::Percent,
                AxisForm::Number | AxisForm::Places => Show::Number,
            },
            (Measure::LeadOver(_), Show::Gain) => Show::Percent,
            (_, show) => show,
        }
    }

    fn ours(&self, claim: &Claim, values: &Values) -> Vec<Option<Summary>> {
        let seeds = 0..self.experiment.seeds as usize;
        let over_seeds = |of: &dyn Fn(usize) -> Option<f64>| {
            Summary::of(&seeds.clone().filter_map(of).collect::<Vec<_>>())
        };
        match &claim.measure() {
            Measure::At(place) => {
                let at = values.places.iter().find(|at| at.place == *place);
                vec![at.and_then(AtPlace::summary)]
            }
            Measure::FallsTo(y) => vec![over_seeds(&|seed| values.falls_to(*y, seed))],
            Measure::LeadOver(other) => {
                let other = self.curve(other).map(|(_, values)| values);
                vec![over_seeds(&|seed| values.least_lead(other?, seed))]
            }
            Measure::Over(average, places) => vec![over_seeds(&|seed| {
                let of_seed: Option<Vec<f64>> =
                    values.at(places).map(|at| at.values[seed]).collect();
                average.of(&of_seed?)
            })],
            Measure::Every(places) => values.at(places).map(AtPlace::summary).collect(),
        }
    }
}

/// Measurements at one place and with one seed, by subject and state.
type Measured<'a> = BTreeMap<(String, Option<String>), &'a Measurement>;

fn measured<'a>(
    experiment: &Experiment,
    formulas: &Formulas,
    place: &Place,
    seed: u64,
    plan: &Plan,
    store: &'a Store,
) -> Result<Measured<'a>, ExperimentError> {
    let wrong = |problem| ExperimentError::Wrong { name: experiment.name.clone(), problem };
    let kind = experiment.kind().map_err(wrong)?.name;
    let values = experiment.values(place);
    let mut measured = BTreeMap::new();
    for Reference { subject, state, .. } in formulas.references.iter().cloned() {
        let settings = experiment.settings(state.as_deref(), &values).map_err(wrong)?;
        let point = Point { kind, settings, seed, subject: subject.clone() };
        let figures = plan
            .key(&point)
            .and_then(|key| store.get(key))
            .ok_or_else(|| wrong(format!("{subject} at {place}, seed {seed}, was not measured")))?;
        measured.insert((subject, state), figures);
    }
    Ok(measured)
}

/// Evaluates the Monte Carlo estimate of a value whose closed form is `exact`. Both agree if they differ by
/// less than twice the half-width of the interval, which is four standard deviations. The interval itself
/// would be too strict, because 5 % of a figure's points are outside it.
fn drawn(
    formulas: &[Option<Formula>; 3],
    exact: Option<f64>,
    value: &dyn Fn(&Formula) -> Option<f64>,
) -> Option<DrawnRecord> {
    let [mean, half_width, draws] = formulas.each_ref().map(|formula| value(formula.as_ref()?));
    let drawn = mean?;
    let agrees = exact.zip(half_width).map(|(exact, half)| (drawn - exact).abs() <= 2.0 * half);
    Some(DrawnRecord { drawn, drawn_half_width_95: half_width, draws, agrees })
}

/// Names of measured figures: those in formulas, and those in measurements. A figure of a formula that no
/// measurement contains is an error of the experiment file, not a missing value.
#[derive(Default)]
struct Figures {
    asked: BTreeSet<String>,
    known: BTreeSet<String>,
}

impl Figures {
    fn add(&mut self, formulas: &Formulas, measured: &Measured<'_>) {
        self.asked.extend(formulas.references.iter().map(|reference| reference.figure.clone()));
        for name in measured.values().flat_map(|figures| figures.keys()) {
            if !self.known.contains(name) {
                self.known.insert(name.clone());
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        let Some(figure) = self.asked.difference(&self.known).next() else { return Ok(()) };
        let known: Vec<&str> = self.known.iter().map(String::as_str).collect();
        let near = perforate_config::suggestion(figure, &known);
        Err(format!("no measurement has a figure {figure:?}; {near}"))
    }
}

impl Values {
    /// Returns the curve's values at the named places; at all places if `names` is empty.
    fn at<'a>(&'a self, names: &'a [String]) -> impl Iterator<Item = &'a AtPlace> {
        let wanted = |at: &&AtPlace| {
            names.is_empty() || names.iter().any(|name| at.place == Place::Name(name.clone()))
        };
        self.places.iter().filter(wanted)
    }

    fn of_seed(&self, seed: usize) -> Vec<(f64, f64)> {
        let point = |at: &AtPlace| Some((at.place.number()?, at.values[seed]?));
        self.places.iter().filter_map(point).collect()
    }

    /// Returns the last place up to which all values of the curve are at least `y`, interpolated between two
    /// points. `None` if the curve starts below `y` or never falls below it.
    fn falls_to(&self, y: f64, seed: usize) -> Option<f64> {
        let places = self.of_seed(seed);
        let below = places.iter().position(|&(_, value)| value < y)?;
        let (before, after) = (places.get(below.checked_sub(1)?)?, places[below]);
        let part = (before.1 - y) / (before.1 - after.1);
        Some(before.0 + part * (after.0 - before.0))
    }

    /// Returns the smallest difference of this curve from `other` over all places; `None` if all are missing.
    fn least_lead(&self, other: &Self, seed: usize) -> Option<f64> {
        let pairs = self.places.iter().zip(&other.places);
        let leads = pairs.filter_map(|(at, other)| Some(at.values[seed]? - other.values[seed]?));
        leads.min_by(f64::total_cmp)
    }
}

impl Average {
    /// Reduces `values` to a single number; `None` if `values` is empty.
    pub fn of(self, values: &[f64]) -> Option<f64> {
        match self {
            Self::Mean => mean(values),
            Self::GeometricMean => geometric_mean(values),
            Self::Median => median(values),
            Self::Least => values.iter().copied().min_by(f64::total_cmp),
            Self::Greatest => values.iter().copied().max_by(f64::total_cmp),
        }
    }
}
