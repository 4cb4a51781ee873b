//! The experiments that come with the program.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::common::{records, run};
use perforate_experiment::{AtPlace, Experiment, ExperimentOptions, Outcome, Plan};
use perforate_records::Verdict;

const QUICK: ExperimentOptions =
    ExperimentOptions { quick: true, seeds: None, seed: None, samples: None };

/// Those that draw slices or blocks; simulated runs take too long for tests.
static DRAWN: LazyLock<Vec<Outcome>> = LazyLock::new(|| {
    let draws = |experiment: &Experiment| experiment.settings.contains_key("samples");
    let experiments = Experiment::bundled().into_iter().filter(draws);
    let experiments: Vec<Experiment> = experiments.map(|one| one.with(&QUICK)).collect();
    run(&experiments).unwrap()
});

#[test]
fn everything_they_need_can_be_measured() {
    for options in [QUICK, ExperimentOptions::default()] {
        let experiments = Experiment::bundled().into_iter().map(|one| one.with(&options));
        let experiments: Vec<Experiment> = experiments.collect();
        let plan = Plan::of(&experiments, "tests").unwrap();
        assert!(plan.point_count() > experiments.len());
    }
}

#[test]
fn they_carry_their_own_names_and_say_where_they_come_from() {
    for experiment in Experiment::bundled() {
        let reloaded = Experiment::load(&experiment.name).unwrap();
        assert_eq!(reloaded, experiment);
        assert!(!experiment.title.is_empty() && !experiment.source.is_empty());
        assert!(experiment.charts.iter().all(|chart| !chart.value_label.is_empty()));
    }
}

/// What tested an explanation is there to be run again.
#[test]
fn explanations_are_tested_by_experiments_that_there_are() {
    let experiments = Experiment::bundled();
    let names: BTreeSet<&str> = experiments.iter().map(|one| one.name.as_str()).collect();
    for experiment in &experiments {
        for claim in &experiment.claims {
            let Some(by) = &claim.tested_by else { continue };
            let is_there =
                ["--unstated", "full set"].contains(&by.as_str()) || names.contains(by.as_str());
            assert!(is_there, "{}: {}: {by}", experiment.name, claim.statement);
        }
    }
}

/// What was drawn agrees with closed forms, and all claims about these are reproduced but the two
/// with a threshold other than the paper's.
#[test]
fn capacities() {
    let mut verdicts = Vec::new();
    for outcome in DRAWN.iter() {
        let name = &outcome.experiment.name;
        let places = || outcome.curves.iter().flat_map(|curve| &curve.places);
        let agrees = |at: &AtPlace| at.drawn.and_then(|drawn| drawn.agrees);
        assert!(places().all(|at| agrees(at) != Some(false)), "{name}");
        assert!(places().any(|at| agrees(at) == Some(true)), "{name}");
        for claim in &outcome.experiment.claims {
            let judged = outcome.judge(claim);
            let expected = match claim.direction_from {
                Some(_) => Verdict::SameDirection,
                None => Verdict::Reproduced,
            };
            assert_eq!(judged.verdict, expected, "{name} {}: {:?}", claim.id, judged.ours);
            verdicts.push(claim.id.clone());
        }
    }
    for id in ["G-C2", "G-C3", "G-C4", "P-C13"] {
        assert!(verdicts.iter().any(|known| known == id), "{id}");
    }
}

/// The axis has the points of claims as well, and the records say which those are.
#[test]
fn points_of_claims_are_measured() {
    let outcome = DRAWN.iter().find(|one| one.experiment.name == "gtsm/fig14").unwrap();
    let lines = records(outcome);
    let at = |x: f64| {
        let is_it = |line: &&serde_json::Value| line["record"] == "point" && line["x"] == x;
        lines.iter().find(is_it).expect("the point is there")["on_axis"].as_bool().unwrap()
    };
    assert!(at(0.0025) && !at(0.014));
    assert_eq!(lines[0]["record"], "experiment");
    assert_eq!(lines[0]["axis_form"], "share");
    let claim = lines.iter().find(|line| line["record"] == "claim").unwrap();
    assert_eq!((&claim["kind"], &claim["verdict"]), (&"closed-form".into(), &"reproduced".into()));
}

/// Every claim in the lists of the three papers' claims is in an experiment.
#[test]
fn no_claim_is_dropped() {
    let claimed: BTreeSet<String> = Experiment::bundled()
        .into_iter()
        .flat_map(|experiment| experiment.claims)
        .map(|claim| claim.id)
        .collect();
    let all = [("P", 14), ("G", 12), ("D", 8)];
    let ids =
        all.iter().flat_map(|(paper, count)| (1..=*count).map(move |n| format!("{paper}-C{n}")));
    let missing: Vec<String> = ids.filter(|id| !claimed.contains(id)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
