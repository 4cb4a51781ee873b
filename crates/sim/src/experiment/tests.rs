use std::sync::LazyLock;

use super::*;

fn run(name: &str, options: &ExperimentOptions) -> Outcome {
    Experiment::load(name).unwrap().run(options, &mut |_| ()).unwrap()
}

const QUICK: ExperimentOptions = ExperimentOptions { samples: None, seed: None, quick: true };

/// A quick run of all that draw slices or blocks, in order; runs of schemes take too long.
static OUTCOMES: LazyLock<Vec<Outcome>> = LazyLock::new(|| {
    let experiments = Experiment::bundled().into_iter();
    let of_draws = experiments.filter(|experiment| !experiment.subject.draws_runs());
    of_draws.map(|experiment| experiment.run(&QUICK, &mut |_| ()).unwrap()).collect()
});

#[test]
fn bundled_experiments_carry_their_own_names() {
    for (experiment, (name, _)) in Experiment::bundled().iter().zip(BUNDLED) {
        assert_eq!(experiment.name, *name);
        assert!(!experiment.title.is_empty() && !experiment.source.is_empty());
    }
}

/// G-C2, G-C3, G-C4 and what P says of 5.5 %: all are reproduced but one that is marked so.
#[test]
fn claims_of_the_bundled_experiments() {
    let mut ids = Vec::new();
    for outcome in OUTCOMES.iter() {
        let name = &outcome.experiment.name;
        for (claim, ours, verdict) in outcome.judged() {
            let expected = match claim.direction_from {
                Some(_) => Verdict::SameDirection,
                None => Verdict::Reproduced,
            };
            assert_eq!(verdict, expected, "{name} {}: {ours:?}", claim.id);
            ids.push(claim.id.clone());
        }
    }
    for id in ["G-C2", "G-C3", "G-C4", "P-C13"] {
        assert!(ids.iter().any(|known| known == id), "{id}");
    }
}

#[test]
fn draws_agree_with_closed_forms_and_depend_on_the_seed_only() {
    for outcome in OUTCOMES.iter() {
        let name = &outcome.experiment.name;
        assert_eq!(outcome.samples, ExperimentOptions::QUICK_SAMPLES);
        let points = || outcome.curves.iter().flat_map(|curve| &curve.points);
        assert!(points().all(|point| point.agrees() != Some(false)), "{name}");
        assert!(points().any(|point| point.agrees() == Some(true)), "{name}");
    }
    let options = ExperimentOptions { samples: Some(1000), seed: None, quick: false };
    let first = run("gtsm/fig14", &options);
    assert_eq!(first.curves, run("gtsm/fig14", &options).curves);
    assert_ne!(
        first.curves,
        run("gtsm/fig14", &ExperimentOptions { seed: Some(2), ..options }).curves
    );
}

/// The axis has the points of claims as well, and the records say which those are.
#[test]
fn points_of_claims_are_measured() {
    let outcome = run("gtsm/fig14", &ExperimentOptions { samples: Some(10), ..QUICK });
    let lines: Vec<serde_json::Value> =
        outcome.records().iter().map(|record| serde_json::to_value(record).unwrap()).collect();
    let at = |x: f64| {
        let is_it = |line: &&serde_json::Value| line["record"] == "point" && line["x"] == x;
        lines.iter().find(is_it).expect("the point is there")["on_axis"].as_bool().unwrap()
    };
    assert!(at(0.0025) && !at(0.014));
    assert_eq!(lines[0]["record"], "experiment");
    assert_eq!(lines[0]["samples"], 10);
    let claim = lines.iter().find(|line| line["record"] == "claim").unwrap();
    assert_eq!((&claim["kind"], &claim["verdict"]), (&"close".into(), &"reproduced".into()));
}

#[test]
fn mistakes_name_the_file_and_the_key() {
    let (_, text) = BUNDLED[2];
    let fails = |from: &str, to: &str, expected: &str| {
        assert!(text.contains(from), "{from}");
        let message = Experiment::parse("e.toml", &text.replacen(from, to, 1)).unwrap_err();
        let message = message.to_string();
        assert!(message.starts_with("experiment e.toml: "), "{message}");
        assert!(message.contains(expected) && !message.contains('\n'), "{message}");
    };
    fails("title = ", "titel = ", "line 2: unknown field `titel`");
    fails("step = 0.0025", "step = 0.0", "axis.step is 0");
    fails("to = 0.1", "to = 1.1", "axis.to is 1.1, not a share");
    fails("kind = \"capacity-share\"", "kind = \"capacity\"", "unknown variant `capacity`");
    fails("\"gt-pde-4m\"", "\"gt-pde-8m\"", "subject.designs: no design \"gt-pde-8m\"");
    fails("\"gt-pde-4m\"", "\"2m\"", "curve \"2m\" is there twice");
    fails("threshold = 32", "threshold = 31", "subject.threshold has 31");
    fails("samples = ", "samples = 0 # ", "sampling.samples is 0, not 1 to");
    fails("curve = \"gt-pde-4m\"", "curve = \"other\"", "no curve \"other\"; there are 2m");
    let unknown = Experiment::load("gtsm/fig99").unwrap_err().to_string();
    assert!(unknown.contains("gtsm/fig99") && unknown.contains("gtsm/fig14"), "{unknown}");
}

/// 8MB in 64MB of memory: few faults leave superpages and no blocks for 2MB pages, 4KB pages never are
/// large mappings.
const RUNS: &str = r#"
name = "runs"
title = "Coverage"
source = "a test"
[subject]
kind = "faulty-memory"
workload = "random:size=8M"
machine = "gtsm-table4"
memory = "64M"
schemes = ["4k", "thp", "gt-pde-1m"]
value = "large-page-coverage"
instructions = 2_000
warmup = 1_000
[axis]
label = "retired frames"
from = 0.0
to = 0.02
step = 0.02
[sampling]
samples = 2
seed = 1
"#;

#[test]
fn runs_on_faulty_memory() {
    let options = ExperimentOptions { seed: Some(u64::MAX), ..ExperimentOptions::default() };
    let experiment = Experiment::parse("runs", RUNS).unwrap();
    let outcome = experiment.run(&options, &mut |_| ()).unwrap();
    assert_eq!(outcome.samples, 2);
    let value = |curve: usize, point: usize| {
        let sampled = outcome.curves[curve].points[point].sampled.unwrap();
        assert_eq!(sampled.draws, 2);
        sampled.mean
    };
    assert_eq!((value(0, 0), value(0, 1)), (0.0, 0.0));
    assert!(value(1, 0) > 0.9 && value(2, 0) > 0.9, "no faults");
    assert_eq!(value(1, 1), 0.0);
    assert!(value(2, 1) > 0.9, "B-blocks of 32KB are left in half of each slice");
    assert_eq!(outcome.curves, experiment.run(&options, &mut |_| ()).unwrap().curves);
}

#[test]
fn mistakes_in_runs_name_the_key() {
    for (from, to, expected) in [
        ("samples = 2", "samples = 1_000_000", "sampling.samples is 1000000, not 1 to 1000"),
        ("\"thp\"", "\"huge\"", "subject.schemes: no scheme \"huge\""),
        ("\"64M\"", "\"1M\"", "at least 4M of memory are needed"),
        ("warmup = 1_000", "warmup = 2_000", "subject.warmup is not less than"),
        ("large-page-coverage", "ipc-of-ideal", "subject.schemes lacks \"ideal\""),
    ] {
        let text = RUNS.replacen(from, to, 1);
        let message = Experiment::parse("e.toml", &text).unwrap_err().to_string();
        assert!(message.contains(expected) && !message.contains('\n'), "{message}");
    }
}
