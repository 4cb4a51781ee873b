//! Sensitivity of claims to parameters that the sources of a machine or experiment leave open.
//!
//! The experiment is repeated for its claims: once for each alternative value that is plausible,
//! and then with many parameters changed at the same time.

use perforate_os::Random;
use perforate_records::{ClaimKind, PartRange, Reading, UnstatedRange, Verdict};
use perforate_sim::{Alternative, Machine, Plausible};

use crate::engine::Plan;
use crate::error::ExperimentError;
use crate::file::{Claim, Experiment, Place, Text};
use crate::formula::Reference;
use crate::outcome::Outcome;
use crate::plan::Formulas;
use crate::store::Store;

/// An experiment with variants of its machine and of the choices in its file.
#[derive(Clone, Debug)]
pub struct Unstated {
    /// Parameters that the sources leave open, each with its alternative values.
    parts: Vec<(Plausible, Vec<Alternative>)>,
    /// The experiment on the unchanged machine, reduced to its claims.
    default: Experiment,
    /// Variants with one changed parameter: for each parameter, one experiment for each of its values.
    one_at_a_time: Vec<Vec<Experiment>>,
    /// Variants in which many parameters are changed at the same time.
    together: Vec<Experiment>,
}

impl Unstated {
    /// Returns the variants of an experiment that change parameters which the sources leave open; `together`
    /// of the variants change many parameters at once. `None` if the claims depend on no such parameter.
    ///
    /// # Errors
    /// An unknown machine.
    pub fn of(experiment: &Experiment, together: usize) -> Result<Option<Self>, ExperimentError> {
        let wrong = |problem| ExperimentError::Wrong { name: experiment.name.clone(), problem };
        // Tests of explanations already change the parameter that they are about.
        if experiment.claims.iter().all(|claim| claim.kind == Some(ClaimKind::Test)) {
            return Ok(None);
        }
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
        if parts.is_empty() {
            return Ok(None);
        }
        let one = |alternative: &Alternative| with(&default, [alternative]);
        let one_at_a_time =
            parts.iter().map(|(_, values)| values.iter().map(one).collect()).collect();
        let together = combinations(&parts, together)
            .map(|chosen| with(&default, chosen.into_iter().flatten()))
            .collect();
        Ok(Some(Self { parts, default, one_at_a_time, together }))
    }

    /// Returns all experiments that must be measured: the unchanged one and its variants.
    pub fn experiments(&self) -> impl Iterator<Item = &Experiment> {
        let one_at_a_time = self.one_at_a_time.iter().flatten();
        std::iter::once(&self.default).chain(one_at_a_time).chain(&self.together)
    }

    /// Returns the range of each claim over all variants, in the order of the claims; `None` for a claim
    /// without values.
    ///
    /// # Errors
    /// Errors of [`Outcome::of`].
    pub fn ranges(
        &self,
        plan: &Plan,
        store: &Store,
    ) -> Result<Vec<Option<UnstatedRange>>, ExperimentError> {
        let outcome = |experiment: &Experiment| Outcome::of(experiment.clone(), plan, store);
        let default = outcome(&self.default)?;
        let one_at_a_time = self.one_at_a_time.iter();
        let one_at_a_time = one_at_a_time
            .map(|values| values.iter().map(outcome).collect::<Result<Vec<_>, _>>())
            .collect::<Result<Vec<_>, _>>()?;
        let together =
            self.together.iter().map(outcome).collect::<Result<Vec<_>, ExperimentError>>()?;
        let range = |claim| self.range(claim, &default, &one_at_a_time, &together);
        Ok(self.default.claims.iter().map(range).collect())
    }

    fn range(
        &self,
        claim: &Claim,
        default: &Outcome,
        one_at_a_time: &[Vec<Outcome>],
        together: &[Outcome],
    ) -> Option<UnstatedRange> {
        let ours =
            |outcome: &Outcome| outcome.judge(claim).farthest(claim).map(|summary| summary.median);
        let at_default = ours(default);
        let all = || std::iter::once(default).chain(one_at_a_time.iter().flatten()).chain(together);
        let values = all().filter_map(ours);
        let (least, greatest) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |ends, value| {
            (ends.0.min(value), ends.1.max(value))
        });
        if least > greatest {
            return None;
        }
        let holds = |outcome: &&Outcome| outcome.judge(claim).verdict == Verdict::Reproduced;
        let reproduced = all().filter(holds).count();
        let reading = if holds(&default) {
            Reading::AtTheDefault
        } else if reproduced > 0 || claim.expectation().is_met_between(least, greatest) {
            Reading::InsideTheRange
        } else {
            Reading::InNone
        };
        let parts = self.parts.iter().zip(one_at_a_time);
        let mut parts: Vec<PartRange> = parts
            .map(|((part, alternatives), outcomes)| PartRange {
                name: part.name.clone(),
                reason: part.reason.clone(),
                values: alternatives
                    .iter()
                    .zip(outcomes)
                    .map(|(alternative, outcome)| (alternative.description.clone(), ours(outcome)))
                    .collect(),
            })
            .collect();
        let effect = |part: &PartRange| {
            let values = part.values.iter().filter_map(|(_, value)| Some((*value)? - at_default?));
            values.map(f64::abs).max_by(f64::total_cmp).unwrap_or(0.0)
        };
        parts.sort_by(|one, other| effect(other).total_cmp(&effect(one)));
        let variants = all().count();
        Some(UnstatedRange {
            default: at_default,
            least,
            greatest,
            variants,
            reproduced,
            reading,
            parts,
        })
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

fn with<'a>(
    experiment: &Experiment,
    alternatives: impl IntoIterator<Item = &'a Alternative>,
) -> Experiment {
    let mut experiment = experiment.clone();
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

/// Generates `count` random combinations with one value, or the default, of each parameter. Each value occurs
/// about equally often (a Latin hypercube).
fn combinations(
    parts: &[(Plausible, Vec<Alternative>)],
    count: usize,
) -> impl Iterator<Item = Vec<Option<&Alternative>>> {
    let mut random = Random::new(1, 0, 0);
    let columns: Vec<Vec<usize>> = parts
        .iter()
        .map(|(_, values)| {
            let mut column: Vec<usize> =
                (0..count).map(|number| number % (values.len() + 1)).collect();
            for last in (1..count).rev() {
                column.swap(last, random.below(last as u64 + 1) as usize);
            }
            column
        })
        .collect();
    (0..count).map(move |number| {
        let chosen = parts.iter().zip(&columns);
        chosen.map(|((_, values), column)| values.get(column[number].wrapping_sub(1))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
name = "mine/walkers"
title = "t"
source = "s"
seeds = 3
[settings]
machine = "perforated-table2"
workload = "random:size=64M"
memory = "1G"
instructions = "20k"
warmup = "5k"
[axis]
label = "x"
values = [0.0, 0.5, 1.0]
[[curve]]
name = "gain"
value = "ipc(thp) / ipc(4k)"
[[curve]]
name = "unclaimed"
value = "ipc(1g)"
[[claim]]
id = "X"
statement = "large pages are faster"
source = "s"
kind = "threshold"
curve = "gain"
at = 0.5
at_least = 1.0
[[claim]]
id = "Y"
statement = "but not as fast"
source = "s"
kind = "number"
curve = "gain"
at = 0.5
value = 1000.0
"#;

    #[test]
    fn claims_are_measured_with_every_value_and_with_many_together() {
        let experiment = Experiment::parse("mine", FILE).unwrap();
        let unstated = Unstated::of(&experiment, 3).unwrap().unwrap();
        assert_eq!(unstated.default.places(), [Place::Number(0.5)]);
        assert_eq!(unstated.default.curves.len(), 1, "nothing is claimed of the other");
        let names: Vec<&str> = unstated.parts.iter().map(|(part, _)| part.name.as_str()).collect();
        assert!(names.contains(&"page walkers") && !names.contains(&"energy without a source"));
        let values: usize = unstated.parts.iter().map(|(_, values)| values.len()).sum();
        let all: Vec<Experiment> = unstated.experiments().cloned().collect();
        assert_eq!(all.len(), 1 + values + 3);
        let plan = Plan::of(&all, "build").unwrap();
        let mut store = Store::in_memory("build".into());
        plan.measure(&mut store, crate::Shard::WHOLE, 2, &|_| {}).unwrap();
        let ranges = unstated.ranges(&plan, &store).unwrap();
        let [Some(faster), Some(thousandfold)] = &ranges[..] else { panic!("{ranges:?}") };
        assert_eq!(
            (faster.reading, thousandfold.reading),
            (Reading::AtTheDefault, Reading::InNone)
        );
        assert_eq!((faster.variants, faster.reproduced), (all.len(), all.len()));
        assert!(faster.least > 1.0 && faster.least < faster.greatest);
        let default = faster.default.unwrap();
        assert!((faster.least..=faster.greatest).contains(&default));
        // Parameters with the greatest effect come first.
        let effect = |part: &PartRange| {
            let values = part.values.iter().map(|(_, value)| (value.unwrap() - default).abs());
            values.max_by(f64::total_cmp).unwrap()
        };
        assert!(faster.parts.windows(2).all(|pair| effect(&pair[0]) >= effect(&pair[1])));
    }

    #[test]
    fn choices_of_the_experiment_are_tried_too() {
        let file = FILE.replace("size=64M", "size={size}").replace(
            "[axis]",
            r#"[choices]
size = "64M"
[[plausible]]
name = "size of the array"
reason = "nobody says"
values = [{ size = "32M" }, { size = "128M" }]
[axis]"#,
        );
        let experiment = Experiment::parse("mine", &file).unwrap();
        let unstated = Unstated::of(&experiment, 5).unwrap().unwrap();
        assert_eq!(unstated.parts[0].0.name, "size of the array");
        let workloads = |experiments: &[Experiment]| -> Vec<String> {
            let points = experiments.iter().flat_map(|one| crate::plan::points(one).unwrap());
            let mut workloads: Vec<_> =
                points.map(|point| point.settings.0["workload"].clone()).collect();
            workloads.dedup();
            workloads
        };
        assert_eq!(workloads(&unstated.one_at_a_time[0]), ["random:size=32M", "random:size=128M"]);
        assert_eq!(workloads(std::slice::from_ref(&unstated.default)), ["random:size=64M"]);
        let together: std::collections::BTreeSet<_> =
            workloads(&unstated.together).into_iter().collect();
        assert_eq!(together.len(), 3, "{together:?}");

        for (wrong, problem) in [
            ("values = [{ sise = \"32M\" }]", "no choice \"sise\"; did you mean size?"),
            ("values = [{ size = \"64M\" }]", "size = 64M is the choice itself"),
            ("values = []", "expected values"),
        ] {
            let file = file.replace("values = [{ size = \"32M\" }, { size = \"128M\" }]", wrong);
            let message = Experiment::parse("mine", &file).unwrap_err().to_string();
            assert!(message.contains(problem), "{message}");
        }
        let file = file.replace("size = \"64M\"", "size = \"64M\"\nother = \"1\"");
        let message = Experiment::parse("mine", &file).unwrap_err().to_string();
        assert!(message.contains("other has no other [[plausible]] value"), "{message}");
    }

    /// Every kind of measurement has a default machine, for files that name none.
    #[test]
    fn every_bundled_experiment_can_be_measured_in_every_reading() {
        for experiment in Experiment::bundled() {
            let Some(unstated) = Unstated::of(&experiment, 0).unwrap() else { continue };
            let first = unstated.default.places().remove(0);
            let one_of_each = unstated.one_at_a_time.into_iter().map(|mut all| all.remove(0));
            let all: Vec<Experiment> = one_of_each
                .map(|mut one| {
                    one.axis.keep(std::slice::from_ref(&first));
                    one
                })
                .collect();
            Plan::of(&all, "build").unwrap_or_else(|error| panic!("{}: {error}", experiment.name));
        }
    }

    #[test]
    fn combinations_use_every_value_about_equally_often() {
        let parts = Machine::left_open("perforated-table2").unwrap();
        let chosen: Vec<_> = combinations(&parts, 60).collect();
        for (index, (part, values)) in parts.iter().enumerate() {
            for value in 0..=values.len() {
                let wanted = values.get(value.wrapping_sub(1));
                let count = chosen.iter().filter(|chosen| chosen[index] == wanted).count();
                let even = 60 / (values.len() + 1);
                assert!(count.abs_diff(even) <= 1, "{}: {count} of {even}", part.name);
            }
        }
    }
}
