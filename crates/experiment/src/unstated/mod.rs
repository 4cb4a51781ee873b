//! Measurements in several readings of what the sources of a machine or experiment leave open
//! (`--unstated`).
//!
//! A reading has one value for each choice that is left open. [`ranges`] has the readings of a single
//! experiment and gives the range of each claim; [`joint`] has readings of all experiments of a paper.

mod joint;
mod ranges;

use std::collections::BTreeSet;
use std::str::FromStr;

use perforate_config::Count;
use perforate_records::{ExperimentResults, paper_of};
use perforate_sim::{Alternative, Machine, Plausible};
use perforate_types::Random;
use serde::{Deserialize, Serialize};

use crate::engine::Plan;
use crate::error::ExperimentError;
use crate::file::{Experiment, Place, Text};
use crate::formula::Reference;
use crate::outcome::Outcome;
use crate::plan::Formulas;
use crate::store::Store;
use joint::Joint;
use ranges::Ranges;

/// Readings of what the papers leave open, beside the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unstated {
    /// For each experiment: every value alone, and this number of readings with many values changed.
    Ranges(u16),
    /// For each paper: this number of readings that are the same for all of its experiments.
    Joint(u16),
}

/// Number of readings of `joint` without a number.
const JOINT: u16 = 64;

impl FromStr for Unstated {
    type Err = String;

    /// Parses `16`, `joint` or `joint:64`.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| match text.parse::<Count<0, { u16::MAX as u64 }>>() {
            Ok(count) => Ok(count.get() as u16),
            Err(error) => Err(format!("{error}, joint, or joint:N")),
        };
        match text.split_once(':') {
            None if text == "joint" => Ok(Self::Joint(JOINT)),
            Some(("joint", count)) => number(count).map(Self::Joint),
            _ => number(text).map(Self::Ranges),
        }
    }
}

/// Experiments that are measured together, with the readings of what they leave open.
pub struct Study {
    experiments: Vec<Experiment>,
    /// Variants of each experiment; `None` without [`Unstated::Ranges`], or if nothing is open.
    ranges: Vec<Option<Ranges>>,
    /// Variants for each paper, which all its experiments share: each variant chooses a value for everything that
    /// the paper leaves open. Empty without [`Unstated::Joint`].
    joint: Vec<Joint>,
}

impl Study {
    /// Makes the variants of experiments.
    ///
    /// # Errors
    /// An unknown machine.
    pub fn of(
        experiments: Vec<Experiment>,
        unstated: Option<Unstated>,
    ) -> Result<Self, ExperimentError> {
        let mut study =
            Self { ranges: vec![None; experiments.len()], joint: Vec::new(), experiments };
        match unstated {
            Some(Unstated::Ranges(together)) => {
                let of = |experiment| Ranges::of(experiment, together.into());
                study.ranges = study.experiments.iter().map(of).collect::<Result<_, _>>()?;
            }
            Some(Unstated::Joint(count)) => {
                let claims = study.experiments.iter().flat_map(|experiment| &experiment.claims);
                let papers: BTreeSet<&str> = claims.map(|claim| paper_of(&claim.id)).collect();
                let of = |paper| Joint::of(paper, &study.experiments, count.into());
                let joint = papers.into_iter().map(of).collect::<Result<Vec<_>, _>>()?;
                study.joint = joint.into_iter().flatten().collect();
            }
            None => {}
        }
        Ok(study)
    }

    /// Plans the points of the experiments and of their variants.
    ///
    /// # Errors
    /// Errors of [`Plan::of`].
    pub fn plan(&self, build: &str) -> Result<Plan, ExperimentError> {
        let ranges = self.ranges.iter().flatten().flat_map(Ranges::experiments);
        let joint = self.joint.iter().flat_map(Joint::experiments);
        Plan::of(self.experiments.iter().chain(ranges).chain(joint), build)
    }

    /// Returns the records of the experiments from the stored measurements. `quick` is true if `--quick` was
    /// set.
    ///
    /// # Errors
    /// Errors of [`Outcome::of`].
    pub fn results(
        &self,
        plan: &Plan,
        store: &Store,
        quick: bool,
    ) -> Result<ExperimentResults, ExperimentError> {
        let record = |(experiment, ranges): (&Experiment, &Option<Ranges>)| {
            let outcome = Outcome::of(experiment.clone(), plan, store)?;
            let ranges = ranges.as_ref().map(|ranges| ranges.of_claims(plan, store)).transpose()?;
            Ok(outcome.record(quick, ranges.unwrap_or_default()))
        };
        let experiments = self.experiments.iter().zip(&self.ranges).map(record);
        let joint = self.joint.iter().map(|joint| joint.record(plan, store, quick));
        Ok(ExperimentResults {
            experiments: experiments.collect::<Result<_, _>>()?,
            joint: joint.collect::<Result<_, _>>()?,
        })
    }
}

/// An experiment that is reduced to its claims, with the parameters that its sources leave open.
#[derive(Clone, Debug)]
struct Open {
    /// The experiment with all parameters at their defaults.
    default: Experiment,
    /// Parameters that the sources leave open and on which the claims depend, each with its alternative
    /// values.
    parts: Vec<(Plausible, Vec<Alternative>)>,
}

impl Open {
    /// Finds what the experiment and its machine leave open.
    ///
    /// # Errors
    /// An unknown machine.
    fn of(experiment: &Experiment) -> Result<Self, ExperimentError> {
        let wrong = |problem| ExperimentError::Wrong { name: experiment.name.clone(), problem };
        let kind = experiment.kind().map_err(wrong)?;
        let settings = (kind.settings)();
        let default = for_claims(experiment);
        let figures = figures(&default).map_err(wrong)?;
        let mut parts = of_choices(experiment).map_err(wrong)?;
        // A state with a different machine has different keys.
        let is_one_machine =
            !experiment.states.iter().any(|state| state.settings.contains_key("machine"));
        let known = settings.iter().find(|known| known.name == "machine");
        if let Some(known) = known.filter(|_| is_one_machine) {
            let named = experiment.settings.get("machine").map(|text| text.0.as_str());
            let machine = named.unwrap_or(&known.default);
            if !machine.contains('{') {
                let open = Machine::left_open(machine).map_err(|error| wrong(error.to_string()))?;
                parts.extend(open.into_iter().filter(|(_, alternatives)| {
                    alternatives.iter().any(|one| matters(one, &figures, kind.name))
                }));
            }
        }
        Ok(Self { default, parts })
    }

    /// Returns the number of alternative values of each parameter.
    fn sizes(&self) -> Vec<usize> {
        self.parts.iter().map(|(_, values)| values.len()).collect()
    }

    /// Returns the experiment with these alternative values.
    fn with<'a>(&self, alternatives: impl IntoIterator<Item = &'a Alternative>) -> Experiment {
        let mut experiment = self.default.clone();
        for alternative in alternatives {
            for (key, value) in &alternative.changes {
                // Keys of machine files contain a dot; names of choices do not.
                match experiment.choices.get_mut(key) {
                    Some(choice) => choice.0.clone_from(value),
                    None => {
                        experiment.settings.insert(format!("machine.{key}"), Text(value.clone()));
                    }
                }
            }
        }
        // A parameter cannot be changed if another one removes its section.
        let texts = experiment.settings.iter();
        let absent = texts.filter(|(_, text)| text.0 == Machine::ABSENT);
        let absent: Vec<String> = absent.map(|(key, _)| format!("{key}.")).collect();
        experiment.settings.retain(|key, _| !absent.iter().any(|section| key.starts_with(section)));
        experiment
    }
}

/// Reduces the experiment to one seed and to the curves that its claims need.
fn for_claims(experiment: &Experiment) -> Experiment {
    let mut experiment = Experiment { seeds: 1, charts: Vec::new(), ..experiment.clone() };
    let claims = &experiment.claims;
    experiment.curves.retain(|curve| claims.iter().any(|claim| claim.needs(&curve.name)));
    let places: Vec<Vec<Place>> = claims.iter().map(|claim| claim.measure().places()).collect();
    if places.iter().all(|places| !places.is_empty()) {
        experiment.axis.keep(&places.concat());
    }
    experiment
}

/// Returns the measured figures that the experiment's curves need, with their subjects, such as `ipc(4k+4k)`.
fn figures(experiment: &Experiment) -> Result<Vec<String>, String> {
    let mut figures = Vec::new();
    for place in experiment.places() {
        let references = Formulas::at(experiment, &place)?.references;
        let name = |reference: Reference| format!("{}({})", reference.figure, reference.subject);
        figures.extend(references.into_iter().map(name));
    }
    Ok(figures)
}

/// Returns the choices that the experiment file leaves open, each with its alternative values.
fn of_choices(experiment: &Experiment) -> Result<Vec<(Plausible, Vec<Alternative>)>, String> {
    let of = |plausible: &Plausible| {
        Ok((plausible.clone(), plausible.alternatives(&toml::Table::new())?))
    };
    experiment.plausible.iter().map(of).collect()
}

/// True if an alternative can change one of these figures. Energy and operating-system parameters affect only
/// figures of energy and of operating-system work. Structures for virtualization affect only pairs of
/// guest and host.
fn matters(alternative: &Alternative, figures: &[String], kind: &str) -> bool {
    let names = |word: &str| kind != "simulation" || figures.iter().any(|name| name.contains(word));
    alternative.changes.iter().any(|(key, _)| match key.split('.').next() {
        Some("energy") => names("energy"),
        Some("operating_system") => names("operating_system"),
        Some("virtualization") => names("+"),
        _ => true,
    })
}

/// Generates `count` random combinations of numbers, one for each parameter: 0 for the default, or the number
/// of an alternative value, of which the parameter has `sizes`. Each value occurs about equally often (a Latin
/// hypercube).
fn combinations(sizes: &[usize], count: usize) -> impl Iterator<Item = Vec<usize>> + use<> {
    let mut random = Random::keyed(1, 0, 0);
    let column = |size: &usize| {
        let mut column: Vec<usize> = (0..count).map(|number| number % (size + 1)).collect();
        for last in (1..count).rev() {
            column.swap(last, random.below(last as u64 + 1) as usize);
        }
        column
    };
    let columns: Vec<Vec<usize>> = sizes.iter().map(column).collect();
    (0..count).map(move |number| columns.iter().map(|column| column[number]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_a_number_or_joint() {
        let parse = |text: &str| text.parse::<Unstated>();
        assert_eq!(parse("16"), Ok(Unstated::Ranges(16)));
        assert_eq!(parse("joint"), Ok(Unstated::Joint(64)));
        assert_eq!(parse("joint:0"), Ok(Unstated::Joint(0)));
        for wrong in ["", "jointly", "joint:", "joint:x", "16:joint", "-1", "65536", "joint:65536"]
        {
            let message = parse(wrong).unwrap_err();
            assert!(message.contains("joint:N"), "{wrong}: {message}");
        }
    }

    #[test]
    fn combinations_use_every_value_about_equally_often() {
        let parts = Machine::left_open("perforated-table2").unwrap();
        let sizes: Vec<usize> = parts.iter().map(|(_, values)| values.len()).collect();
        let chosen: Vec<_> = combinations(&sizes, 60).collect();
        for (index, (part, values)) in parts.iter().enumerate() {
            for value in 0..=values.len() {
                let count = chosen.iter().filter(|chosen| chosen[index] == value).count();
                let even = 60 / (values.len() + 1);
                assert!(count.abs_diff(even) <= 1, "{}: {count} of {even}", part.name);
            }
        }
    }
}
