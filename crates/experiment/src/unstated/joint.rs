//! Joint readings: the numbers and thresholds of a paper, all judged under the same values of what the paper
//! leaves open.

use std::collections::BTreeMap;

use perforate_records::{ClaimKind, JointChoice, JointClaim, JointRecord, Verdict, paper_of};

use super::{Open, combinations};
use crate::engine::Plan;
use crate::error::ExperimentError;
use crate::file::Experiment;
use crate::outcome::{Judged, Outcome};
use crate::store::Store;

/// Value of each choice that differs from its default, by the choice's name.
type Reading = BTreeMap<String, String>;

/// Experiments with claims of one paper, each in the same readings.
pub(super) struct Joint {
    /// Prefix of the ids of the paper's claims.
    paper: String,
    choices: Vec<JointChoice>,
    /// Distinct readings; the first is the default.
    readings: Vec<Reading>,
    experiments: Vec<Variants>,
}

/// An experiment in all readings.
struct Variants {
    /// Distinct variants of the experiment, which is reduced to the paper's claims.
    distinct: Vec<Experiment>,
    /// Index of the variant that belongs to each reading. Readings that differ only in choices on which the
    /// experiment does not depend have the same variant.
    by_reading: Vec<usize>,
}

impl Joint {
    /// Returns the variants of the experiments in `count` readings beside the default. If all combinations of
    /// values are no more than that, these are the readings. `None` if the experiments have no number or
    /// threshold of the paper.
    ///
    /// # Errors
    /// An unknown machine.
    pub fn of(
        paper: &str,
        experiments: &[Experiment],
        count: usize,
    ) -> Result<Option<Self>, ExperimentError> {
        let experiments = experiments.iter().filter_map(|experiment| of_paper(experiment, paper));
        let open: Vec<Open> =
            experiments.map(|experiment| Open::of(&experiment)).collect::<Result<_, _>>()?;
        if open.is_empty() {
            return Ok(None);
        }
        let choices = choices(&open);
        let readings = readings(&choices, count);
        let experiments = open.iter().map(|open| Variants::of(open, &readings)).collect();
        Ok(Some(Self { paper: paper.into(), choices, readings, experiments }))
    }

    /// Returns all experiments that must be measured.
    pub fn experiments(&self) -> impl Iterator<Item = &Experiment> {
        self.experiments.iter().flat_map(|variants| &variants.distinct)
    }

    /// Judges all claims in all readings.
    ///
    /// # Errors
    /// Errors of [`Outcome::of`].
    pub fn record(
        &self,
        plan: &Plan,
        store: &Store,
        quick: bool,
    ) -> Result<JointRecord, ExperimentError> {
        let mut claims = Vec::new();
        for Variants { distinct, by_reading } in &self.experiments {
            let outcomes = distinct.iter().map(|one| Outcome::of(one.clone(), plan, store));
            let outcomes = outcomes.collect::<Result<Vec<_>, _>>()?;
            for claim in &distinct[0].claims {
                let judged: Vec<Judged> =
                    outcomes.iter().map(|outcome| outcome.judge(claim)).collect();
                let in_readings = || by_reading.iter().map(|&index| &judged[index]);
                let ours = |judged: &Judged| Some(judged.farthest(claim)?.median);
                claims.push(JointClaim {
                    claim: outcomes[by_reading[0]].claim(claim, None),
                    ours_in: in_readings().map(ours).collect(),
                    holds_in: in_readings()
                        .map(|judged| judged.verdict == Verdict::Reproduced)
                        .collect(),
                });
            }
        }
        let (choices, readings) = (self.choices.clone(), self.readings.clone());
        Ok(JointRecord { paper: self.paper.clone(), quick, choices, readings, claims })
    }
}

impl Variants {
    fn of(open: &Open, readings: &[Reading]) -> Self {
        let (mut distinct, mut by_reading) = (Vec::new(), Vec::new());
        for reading in readings {
            let chosen = open.parts.iter().filter_map(|(part, alternatives)| {
                let value = reading.get(&part.name)?;
                alternatives.iter().find(|alternative| alternative.description == *value)
            });
            let variant = open.with(chosen);
            let known = distinct.iter().position(|other| *other == variant);
            by_reading.push(known.unwrap_or_else(|| {
                distinct.push(variant);
                distinct.len() - 1
            }));
        }
        Self { distinct, by_reading }
    }
}

/// Reduces an experiment to the numbers and thresholds of a paper; `None` if it has none.
fn of_paper(experiment: &Experiment, paper: &str) -> Option<Experiment> {
    let mut experiment = experiment.clone();
    experiment.claims.retain(|claim| {
        paper_of(&claim.id) == paper && claim.kind.is_some_and(ClaimKind::is_tested)
    });
    (!experiment.claims.is_empty()).then_some(experiment)
}

/// Returns the choices that the experiments leave open. Choices of the same name are one choice, with the values
/// that any of the experiments has.
fn choices(open: &[Open]) -> Vec<JointChoice> {
    let mut choices: Vec<JointChoice> = Vec::new();
    for (part, alternatives) in open.iter().flat_map(|open| &open.parts) {
        let known = choices.iter().position(|choice| choice.name == part.name);
        let index = known.unwrap_or_else(|| {
            let (name, reason) = (part.name.clone(), part.reason.clone());
            choices.push(JointChoice { name, reason, values: Vec::new() });
            choices.len() - 1
        });
        for alternative in alternatives {
            if !choices[index].values.contains(&alternative.description) {
                choices[index].values.push(alternative.description.clone());
            }
        }
    }
    choices
}

/// Returns the default reading and a sample of `count` others without repetition, or all readings if these are
/// no more.
fn readings(choices: &[JointChoice], count: usize) -> Vec<Reading> {
    let sizes: Vec<usize> = choices.iter().map(|choice| choice.values.len()).collect();
    let all = sizes.iter().fold(1, |product: usize, size| product.saturating_mul(size + 1));
    let sample: Vec<Vec<usize>> = if all <= count + 1 {
        (0..all).map(|number| digits(number, &sizes)).collect()
    } else {
        std::iter::once(vec![0; sizes.len()]).chain(combinations(&sizes, count)).collect()
    };
    let mut readings: Vec<Reading> = Vec::new();
    for numbers in sample {
        let changed = choices.iter().zip(numbers).filter_map(|(choice, number)| {
            let value = choice.values.get(number.checked_sub(1)?)?;
            Some((choice.name.clone(), value.clone()))
        });
        let reading = changed.collect();
        if !readings.contains(&reading) {
            readings.push(reading);
        }
    }
    readings
}

/// Returns the combination of this number, with a digit of 0 to `size` for each size.
fn digits(mut number: usize, sizes: &[usize]) -> Vec<usize> {
    let digit = |size: &usize| {
        let digit = number % (size + 1);
        number /= size + 1;
        digit
    };
    sizes.iter().map(digit).collect()
}
