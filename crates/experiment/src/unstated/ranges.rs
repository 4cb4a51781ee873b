//! Range of each claim over plausible values of parameters that the sources leave open.
//!
//! The experiment is repeated for its claims: once for each alternative value that is plausible,
//! and then with many parameters changed at the same time.

use perforate_records::{ClaimKind, PartRange, Reading, UnstatedRange, Verdict};

use super::{Open, combinations};
use crate::engine::Plan;
use crate::error::ExperimentError;
use crate::file::{Claim, Experiment};
use crate::outcome::Outcome;
use crate::store::Store;

/// An experiment with variants of its machine and of the choices in its file, from which the range of each
/// claim follows.
#[derive(Clone, Debug)]
pub(super) struct Ranges {
    /// The experiment on the unchanged machine, reduced to its claims, with what the sources leave open.
    open: Open,
    /// Variants with one changed parameter: for each parameter, one experiment for each of its values.
    one_at_a_time: Vec<Vec<Experiment>>,
    /// Variants in which many parameters are changed at the same time.
    together: Vec<Experiment>,
}

impl Ranges {
    /// Returns the variants of an experiment that change parameters which the sources leave open; `together`
    /// of the variants change many parameters at once. `None` if the claims depend on no such parameter.
    ///
    /// # Errors
    /// An unknown machine.
    pub fn of(experiment: &Experiment, together: usize) -> Result<Option<Self>, ExperimentError> {
        // Tests of explanations already change the parameter that they are about.
        if experiment.claims.iter().all(|claim| claim.kind == Some(ClaimKind::Test)) {
            return Ok(None);
        }
        let open = Open::of(experiment)?;
        if open.parts.is_empty() {
            return Ok(None);
        }
        let one_at_a_time = open
            .parts
            .iter()
            .map(|(_, values)| values.iter().map(|alternative| open.with([alternative])).collect());
        let one_at_a_time = one_at_a_time.collect();
        let chosen = |numbers: Vec<usize>| {
            let chosen = open.parts.iter().zip(numbers);
            open.with(chosen.filter_map(|((_, values), number)| values.get(number.checked_sub(1)?)))
        };
        let together = combinations(&open.sizes(), together).map(chosen).collect();
        Ok(Some(Self { one_at_a_time, together, open }))
    }

    /// Returns all experiments that must be measured: the unchanged one and its variants.
    pub fn experiments(&self) -> impl Iterator<Item = &Experiment> {
        let one_at_a_time = self.one_at_a_time.iter().flatten();
        std::iter::once(&self.open.default).chain(one_at_a_time).chain(&self.together)
    }

    /// Returns the range of each claim over all variants, in the order of the claims; `None` for a claim
    /// without values.
    ///
    /// # Errors
    /// Errors of [`Outcome::of`].
    pub fn of_claims(
        &self,
        plan: &Plan,
        store: &Store,
    ) -> Result<Vec<Option<UnstatedRange>>, ExperimentError> {
        let outcome = |experiment: &Experiment| Outcome::of(experiment.clone(), plan, store);
        let default = outcome(&self.open.default)?;
        let one_at_a_time = self.one_at_a_time.iter();
        let one_at_a_time = one_at_a_time
            .map(|values| values.iter().map(outcome).collect::<Result<Vec<_>, _>>())
            .collect::<Result<Vec<_>, _>>()?;
        let together =
            self.together.iter().map(outcome).collect::<Result<Vec<_>, ExperimentError>>()?;
        let range = |claim| self.range(claim, &default, &one_at_a_time, &together);
        Ok(self.open.default.claims.iter().map(range).collect())
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
        let parts = self.open.parts.iter().zip(one_at_a_time);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Place;

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
        let ranges = Ranges::of(&experiment, 3).unwrap().unwrap();
        assert_eq!(ranges.open.default.places(), [Place::Number(0.5)]);
        assert_eq!(ranges.open.default.curves.len(), 1, "nothing is claimed of the other");
        let names: Vec<&str> =
            ranges.open.parts.iter().map(|(part, _)| part.name.as_str()).collect();
        assert!(names.contains(&"page walkers") && !names.contains(&"energy without a source"));
        let values: usize = ranges.open.parts.iter().map(|(_, values)| values.len()).sum();
        let all: Vec<Experiment> = ranges.experiments().cloned().collect();
        assert_eq!(all.len(), 1 + values + 3);
        let plan = Plan::of(&all, "build").unwrap();
        let mut store = Store::in_memory("build".into());
        plan.measure(&mut store, crate::Shard::WHOLE, 2, &|_| {}).unwrap();
        let found = ranges.of_claims(&plan, &store).unwrap();
        let [Some(faster), Some(thousandfold)] = &found[..] else { panic!("{found:?}") };
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

    /// Parameters of a machine have different keys where states have different machines.
    #[test]
    fn machines_of_states_have_no_common_parameters() {
        let of_states = FILE
            .replace("ipc(thp)", "ipc(thp@other)")
            .replace("[axis]", "[[state]]\nname = \"other\"\nmachine = \"gtsm-table4\"\n[axis]");
        let parts = |file: &str| Open::of(&Experiment::parse("mine", file).unwrap()).unwrap().parts;
        assert!(!parts(FILE).is_empty());
        assert!(parts(&of_states).is_empty());
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
        let ranges = Ranges::of(&experiment, 5).unwrap().unwrap();
        assert_eq!(ranges.open.parts[0].0.name, "size of the array");
        let workloads = |experiments: &[Experiment]| -> Vec<String> {
            let points = experiments.iter().flat_map(|one| crate::plan::points(one).unwrap());
            let mut workloads: Vec<_> =
                points.map(|point| point.settings.0["workload"].clone()).collect();
            workloads.dedup();
            workloads
        };
        assert_eq!(workloads(&ranges.one_at_a_time[0]), ["random:size=32M", "random:size=128M"]);
        assert_eq!(workloads(std::slice::from_ref(&ranges.open.default)), ["random:size=64M"]);
        let together: std::collections::BTreeSet<_> =
            workloads(&ranges.together).into_iter().collect();
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
            let Some(ranges) = Ranges::of(&experiment, 0).unwrap() else { continue };
            let first = ranges.open.default.places().remove(0);
            let one_of_each = ranges.one_at_a_time.into_iter().map(|mut all| all.remove(0));
            let all: Vec<Experiment> = one_of_each
                .map(|mut one| {
                    one.axis.keep(std::slice::from_ref(&first));
                    one
                })
                .collect();
            Plan::of(&all, "build").unwrap_or_else(|error| panic!("{}: {error}", experiment.name));
        }
    }
}
