//! Joint readings: the claims of two experiments under the same values of what their paper leaves open.

use perforate_experiment::{Experiment, Shard, Store, Study, Unstated};
use perforate_records::{ExperimentResults, JointClaim, JointRecord};

/// An experiment whose curve adds up choices. Functional runs of 8MB make its points; no machine is varied,
/// because it is an input.
fn toy(name: &str, value: &str, choices: &[(&str, &[u32])], claims: &str) -> Experiment {
    let defaults: String =
        choices.iter().map(|(choice, values)| format!("{choice} = \"{}\"\n", values[0])).collect();
    let plausible = choices.iter().map(|(choice, values)| {
        let values: Vec<String> =
            values[1..].iter().map(|value| format!("{{ {choice} = \"{value}\" }}")).collect();
        let values = values.join(", ");
        format!("[[plausible]]\nname = \"the {choice}\"\nreason = \"r\"\nvalues = [{values}]\n")
    });
    let text = format!(
        r#"
name = "{name}"
title = "t"
source = "s"
seeds = 2
[inputs]
machine = "gtsm-table4"
[settings]
workload = "random:size=8M"
machine = "{{machine}}"
memory = "{{size}}M"
fragmentation = "none"
functional = true
instructions = "2k"
warmup = "1k"
[choices]
{defaults}
{plausible}
[axis]
label = "x"
values = [0.0]
[[curve]]
name = "sum"
value = "{value} + 0 * large_page_coverage(4k)"
show = "number"
{claims}"#,
        plausible = plausible.collect::<String>()
    );
    Experiment::parse(name, &text).unwrap_or_else(|error| panic!("{error}"))
}

fn claim(id: &str, kind: &str, expectation: &str) -> String {
    format!(
        "[[claim]]\nid = \"{id}\"\nstatement = \"s\"\nsource = \"s\"\nkind = \"{kind}\"\n\
         curve = \"sum\"\nat = 0.0\n{expectation}\n"
    )
}

/// Size of memory in MB: a choice that both experiments have, and on which their points depend.
const SIZE: (&str, &[u32]) = ("size", &[64, 96]);

/// Two experiments of paper T. `T-1` and `T-2` hold together for a = 3, 96MB and c = 2 only; `T-3` and `T-4`
/// contradict `T-1`.
fn pair() -> Vec<Experiment> {
    let one = [
        claim("T-1", "number", "value = 99.0"),
        claim("T-3", "threshold", "at_most = 66.0"),
        claim("T-5", "sign", "at_most = 0.0"),
        claim("U-1", "number", "value = 65.0"),
    ];
    let two =
        [claim("T-2", "number", "value = 98.0"), claim("T-4", "number", "value = 65.0")].concat();
    let one = one.concat();
    vec![
        toy("toy/one", "{a} + {size}", &[("a", &[1, 2, 3]), SIZE], &one),
        toy("toy/two", "{c} + {size}", &[("c", &[1, 2]), SIZE], &two),
    ]
}

/// Experiments of [`pair`] with two of their claims only.
fn pair_with(ids: [&str; 2]) -> Vec<Experiment> {
    let mut experiments = pair();
    for experiment in &mut experiments {
        experiment.claims.retain(|claim| ids.contains(&claim.id.as_str()));
    }
    experiments
}

fn study(experiments: Vec<Experiment>, count: u16) -> Study {
    Study::of(experiments, Some(Unstated::Joint(count))).unwrap()
}

/// Measures everything, and returns the results.
fn measured(study: &Study) -> ExperimentResults {
    let mut store = Store::in_memory("b".into());
    let plan = study.plan("b").unwrap();
    plan.measure(&mut store, Shard::WHOLE, 2, &|_| {}).unwrap();
    study.results(&plan, &store, true).unwrap()
}

fn of_claim<'r>(record: &'r JointRecord, id: &str) -> &'r JointClaim {
    record.claims.iter().find(|claim| claim.claim.id == id).expect(id)
}

#[test]
fn the_one_reading_in_which_claims_hold_together_is_found() {
    let results = measured(&study(pair(), 64));
    let [record, other] = &results.joint[..] else { panic!("papers T and U") };
    assert_eq!((record.paper.as_str(), other.paper.as_str()), ("T", "U"));
    let ids: Vec<&str> = record.claims.iter().map(|claim| claim.claim.id.as_str()).collect();
    assert_eq!(ids, ["T-1", "T-3", "T-2", "T-4"], "a sign is no number");
    assert_eq!(record.readings.len(), 3 * 2 * 2);
    assert!(record.is_exhaustive() && record.readings[0].is_empty());
    // At the default, a + 64 = 65 and c + 64 = 65.
    assert_eq!((record.held(0), record.held_alone()), (2, 4));
    let together = |ids: [&str; 2]| {
        let readings = 0..record.readings.len();
        readings
            .filter(|&reading| ids.iter().all(|id| of_claim(record, id).holds(reading)))
            .collect()
    };
    let found: Vec<usize> = together(["T-1", "T-2"]);
    let [only] = found[..] else { panic!("{found:?}") };
    let values: Vec<(&str, &str)> =
        record.readings[only].iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(values, [("the a", "a = 3"), ("the c", "c = 2"), ("the size", "size = 96")]);
    assert_eq!(of_claim(record, "T-1").ours_in[only], Some(99.0));
    assert_eq!(of_claim(record, "T-1").claim.ours, Some(65.0), "at the default");
    // The best reading is the default: as many claims, and nothing differs.
    assert_eq!(record.best(), 0);
    assert_eq!(other.claims.len(), 1);
}

#[test]
fn the_best_reading_may_be_the_only_one() {
    let results = measured(&study(pair_with(["T-1", "T-2"]), 64));
    let record = &results.joint[0];
    assert_eq!((record.held(0), record.held_alone(), record.held(record.best())), (0, 2, 2));
    assert_eq!(record.readings[record.best()].len(), 3);
    assert!(record.excluding().is_empty());
}

/// Both experiments have the same size of memory in a reading, so claims that need different ones exclude each
/// other.
#[test]
fn claims_that_exclude_each_other_are_reported() {
    let results = measured(&study(pair(), 64));
    let record = &results.joint[0];
    let pairs = record.excluding();
    let ids: Vec<[&str; 2]> =
        pairs.iter().map(|pair| pair.claims.map(|claim| claim.claim.id.as_str())).collect();
    assert!(ids.contains(&["T-1", "T-3"]), "one experiment: {ids:?}");
    assert!(ids.contains(&["T-1", "T-4"]), "two experiments: {ids:?}");
    assert!(!ids.contains(&["T-1", "T-2"]) && !ids.contains(&["T-3", "T-4"]), "{ids:?}");
}

#[test]
fn the_choice_that_decides_is_named() {
    let results = measured(&study(pair_with(["T-3", "T-4"]), 64));
    let effects = results.joint[0].effects();
    let size = &effects[0];
    assert_eq!((size.choice.name.as_str(), size.is_clear), ("the size", true));
    let [small, large] = &size.values[..] else { panic!("{size:?}") };
    assert_eq!((small.value, small.least, small.most), (None, 0, 2));
    assert_eq!((large.value, large.mean), (Some("size = 96"), 0.0));
}

#[test]
fn a_sample_is_the_same_every_time_and_has_every_value() {
    let lines = || measured(&study(pair(), 6)).lines();
    let text = lines();
    assert_eq!(text, lines());
    let results = perforate_records::read_experiments(&text).unwrap();
    assert_eq!(results.lines().len(), text.len());
    let record = &results.joint[0];
    assert!(!record.is_exhaustive() && record.readings.len() <= 7);
    for choice in &record.choices {
        for value in &choice.values {
            let has = |reading: &&std::collections::BTreeMap<String, String>| {
                reading.get(&choice.name) == Some(value)
            };
            assert!(record.readings.iter().find(has).is_some(), "{}: {value}", choice.name);
        }
    }
    assert!(
        record
            .readings
            .iter()
            .enumerate()
            .all(|(number, reading)| { !record.readings[..number].contains(reading) })
    );
}

#[test]
fn joint_readings_go_on_after_an_interruption_and_in_parts() {
    let study = study(pair(), 64);
    let whole = measured(&study).lines();
    let plan = study.plan("b").unwrap();
    // Two sizes of memory; experiments with all seeds, variants with the first.
    assert_eq!(plan.point_count(), 3);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("points.jsonl");
    let mut store = Store::open(&path, "b".into()).unwrap();
    plan.measure(&mut store, Shard { index: 2, count: 3 }, 1, &|_| {}).unwrap();
    let message = study.results(&plan, &store, true).unwrap_err().to_string();
    assert!(message.contains("was not measured"), "{message}");
    drop(store);
    let mut store = Store::open(&path, "b".into()).unwrap();
    plan.measure(&mut store, Shard::WHOLE, 1, &|step| assert_eq!(step.total, 2)).unwrap();
    assert_eq!(study.results(&plan, &store, true).unwrap().lines(), whole);
    let mut joined = Store::in_memory("b".into());
    for index in 1..=2 {
        let path = folder.path().join(format!("{index}.jsonl"));
        let mut store = Store::open(&path, "b".into()).unwrap();
        plan.measure(&mut store, Shard { index, count: 2 }, 1, &|_| {}).unwrap();
        joined.add_from(&path).unwrap();
    }
    assert_eq!(study.results(&plan, &joined, true).unwrap().lines(), whole);
}

/// Machines have many choices, whose values must be possible together. Choices of a paper's machine are the
/// same in all of its experiments.
#[test]
fn every_paper_can_be_measured_in_joint_readings() {
    let mut experiments = Experiment::bundled();
    for experiment in &mut experiments {
        let claims = std::mem::take(&mut experiment.claims);
        experiment.claims = claims.into_iter().take(1).collect();
    }
    let study = study(experiments, 3);
    assert!(study.plan("b").unwrap().point_count() > 0);
}
