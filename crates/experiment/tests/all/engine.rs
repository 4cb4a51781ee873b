//! Measuring, going on after an interruption, parts, and what comes out.

use crate::common::{records, run};
use perforate_experiment::{
    Experiment, ExperimentOptions, Job, Measurement, Outcome, Plan, Shard, Store,
};
use perforate_records::Verdict;

/// 8MB in 64MB of memory: few faults leave superpages and no blocks for 2MB pages, 4KB pages never are
/// large mappings.
const RUNS: &str = r#"
name = "runs"
title = "Coverage"
source = "a test"
seeds = 2
[settings]
workload = "random:size=8M"
machine = "gtsm-table4"
memory = "64M"
fragmentation = "none"
faulty = "uniform={x%}"
functional = true
instructions = "2k"
warmup = "1k"
[axis]
label = "retired frames"
values = [0.0, 0.02]
[parameters]
scheme = ["4k", "thp", "gt-pde-1m"]
[[curve]]
name = "{scheme}"
value = "large_page_coverage({scheme})"
[[curve]]
name = "twice"
value = "half * 4"
show = "gain"
[[claim]]
id = "T-1"
statement = "No 2MB page with faults"
source = "by hand"
kind = "closed-form"
curve = "thp"
at = 0.02
value = 0.0
[[claim]]
id = "T-2"
statement = "Superpages lead at every place"
source = "by hand"
kind = "threshold"
curve = "gt-pde-1m"
lead_over = "4k"
at_least = 0.9
[[claim]]
id = "T-3"
statement = "Least and greatest of 2MB pages"
source = "by hand"
kind = "number"
curve = "thp"
every = true
range = [0.5, 1.0]
[definitions]
half = "large_page_coverage(gt-pde-1m) / 2"
"#;

fn experiment(from: &str, to: &str) -> Experiment {
    assert!(RUNS.contains(from), "{from}");
    Experiment::parse("e.toml", &RUNS.replacen(from, to, 1)).unwrap()
}

#[test]
fn runs_by_hand() {
    let outcome = run(&[experiment("seeds = 2", "seeds = 2\nseed = 18446744073709551615")]);
    let outcome = &outcome.unwrap()[0];
    let value = |curve: &str, place: usize| {
        let summary = outcome.curve(curve).unwrap().1.places[place].summary().unwrap();
        assert_eq!(summary.runs, 2);
        summary.median
    };
    assert_eq!((value("4k", 0), value("4k", 1)), (0.0, 0.0));
    assert!(value("thp", 0) > 0.9 && value("gt-pde-1m", 0) > 0.9, "no faults");
    assert_eq!(value("thp", 1), 0.0);
    assert!(value("gt-pde-1m", 1) > 0.9, "B-blocks of 32KB are left in half of each slice");
    assert_eq!(value("twice", 1), 2.0 * value("gt-pde-1m", 1), "through a definition");
    let verdicts: Vec<Verdict> =
        outcome.experiment.claims.iter().map(|claim| outcome.judge(claim).verdict).collect();
    assert_eq!(verdicts, [Verdict::Reproduced, Verdict::Reproduced, Verdict::NotReproduced]);
    let lines = records(outcome);
    let every = lines.iter().find(|line| line["id"] == "T-3").unwrap();
    assert_eq!((&every["ours"], &every["ours_least"]), (&0.0.into(), &0.0.into()));
    assert!(every["ours_greatest"].as_f64().unwrap() > 0.9);
    assert_eq!((&every["paper"], &every["paper_high"]), (&0.5.into(), &1.0.into()));
    let claims = lines.iter().filter(|line| line["relation"].is_string());
    let relations: Vec<_> = claims.map(|claim| claim["relation"].as_str().unwrap()).collect();
    assert_eq!(relations, ["=", "≥", "range"]);
}

/// A lead is the difference of two curves: of a curve from its double it is the curve itself.
#[test]
fn leads_are_differences_of_curves() {
    let lead = "curve = \"gt-pde-1m\"\nlead_over = \"4k\"";
    let outcome = run(&[experiment(lead, "curve = \"twice\"\nlead_over = \"gt-pde-1m\"")]);
    let outcome = &outcome.unwrap()[0];
    let lines = records(outcome);
    let ours = lines.iter().find(|line| line["id"] == "T-2").unwrap()["ours"].as_f64().unwrap();
    let places = &outcome.curve("gt-pde-1m").unwrap().1.places;
    let least = places.iter().map(|at| at.summary().unwrap().median).reduce(f64::min).unwrap();
    assert!((ours - least).abs() < 1e-9 && least > 0.9, "{ours}, expected {least}");
}

/// A formula names a state of memory after `@`, and its figure comes from the run with that state.
#[test]
fn values_are_of_the_state_that_they_name() {
    let curves = r#"[[state]]
name = "whole"
faulty = "none"
[[state]]
name = "retired"
faulty = "uniform=2%"
[[curve]]
name = "whole"
value = "large_page_coverage(thp@whole)"
[[curve]]
name = "retired"
value = "large_page_coverage(thp@retired)"
[[curve]]
name = "{scheme}""#;
    let outcome = &run(&[experiment("[[curve]]\nname = \"{scheme}\"", curves)]).unwrap()[0];
    let value = |curve: &str, place: usize| {
        outcome.curve(curve).unwrap().1.places[place].summary().unwrap().median
    };
    for place in [0, 1] {
        assert!(value("whole", place) > 0.9 && value("retired", place) == 0.0);
    }
    assert!(value("thp", 0) > 0.9 && value("thp", 1) == 0.0);
}

/// Two places, two seeds, three schemes are twelve points.
#[test]
fn an_interrupted_run_goes_on_and_ends_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("points.jsonl");
    let experiments = [experiment("", "")];
    let plan = Plan::of(&experiments, "b").unwrap();
    assert_eq!(plan.point_count(), 12);
    let mut store = Store::open(&path, "b".into()).unwrap();
    plan.measure(&mut store, Shard::WHOLE, 2, &|_| {}).unwrap();
    let all = |store: &Store| records(&Outcome::of(experiments[0].clone(), &plan, store).unwrap());
    let whole = all(&store);
    drop(store);
    // Killed after five points and a half.
    let text = std::fs::read_to_string(&path).unwrap();
    let ends: Vec<usize> = text.match_indices('\n').map(|(place, _)| place + 1).collect();
    std::fs::write(&path, &text[..ends[4] + 40]).unwrap();
    let mut store = Store::open(&path, "b".into()).unwrap();
    assert_eq!(plan.missing(&store), 7);
    let message = Outcome::of(experiments[0].clone(), &plan, &store).unwrap_err().to_string();
    assert!(message.contains("was not measured"), "{message}");
    plan.measure(&mut store, Shard::WHOLE, 1, &|step| assert!(step.total == 7)).unwrap();
    assert_eq!(all(&store), whole);
    drop(store);
    let again = std::fs::read_to_string(&path).unwrap();
    assert_eq!(again.lines().count(), 12, "nothing is measured twice");
    assert_eq!(again[..ends[4]], text[..ends[4]], "what was there stays");
}

#[test]
fn parts_make_the_whole() {
    let experiments = [experiment("", "")];
    let plan = Plan::of(&experiments, "b").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut joined = Store::in_memory("b".into());
    let mut sum = 0;
    for index in 1..=3 {
        let path = folder.path().join(format!("{index}.jsonl"));
        let mut store = Store::open(&path, "b".into()).unwrap();
        plan.measure(&mut store, Shard { index, count: 3 }, 1, &|_| {}).unwrap();
        sum += plan.point_count() - plan.missing(&store);
        joined.add_from(&path).unwrap();
    }
    assert_eq!((sum, plan.missing(&joined)), (12, 0), "every point is in one part");
    let outcome = |store: &Store| Outcome::of(experiments[0].clone(), &plan, store).unwrap();
    let whole = run(&experiments).unwrap();
    assert_eq!(records(&outcome(&joined)), records(&whole[0]));
}

/// Jobs go to another process as text, and come back as measurements.
#[test]
fn jobs_can_be_measured_elsewhere() {
    let experiments = [experiment("", "")];
    let plan = Plan::of(&experiments, "tests").unwrap();
    let mut store = Store::in_memory("tests".into());
    let jobs = plan.missing_jobs(&store, Shard::WHOLE);
    assert_eq!(jobs.iter().map(Job::point_count).sum::<usize>(), plan.point_count());
    for job in jobs {
        let text = serde_json::to_string(&job).unwrap();
        let there: Job = serde_json::from_str(&text).unwrap();
        there.check("tests").unwrap();
        let problem = there.check("another build").unwrap_err().to_string();
        assert!(
            problem.contains("runs: random:size=8M, seed ") && problem.contains("another build")
        );
        let measured = serde_json::to_string(&there.measure(&mut |_| {}).unwrap()).unwrap();
        let measured: Vec<Measurement> = serde_json::from_str(&measured).unwrap();
        let too_few = job.keep(measured[1..].to_vec(), &mut store).unwrap_err().to_string();
        assert!(too_few.contains("2 measurements of 3 points"), "{too_few}");
        job.keep(measured, &mut store).unwrap();
    }
    assert_eq!(plan.missing(&store), 0);
    let outcome = Outcome::of(experiments[0].clone(), &plan, &store).unwrap();
    assert_eq!(records(&outcome), records(&run(&experiments).unwrap()[0]));
    let unknown =
        r#"{"experiment":"e","kind":"fnord","settings":{},"seed":1,"subjects":[],"cost":1.0}"#;
    let problem = serde_json::from_str::<Job>(unknown).unwrap_err().to_string();
    assert!(problem.contains("kind \"fnord\" is unknown"), "{problem}");
}

#[test]
fn mistakes_name_the_file_and_the_key() {
    for (from, to, expected) in [
        ("title = ", "titel = ", "line 3: unknown field `titel`; did you mean `title`?"),
        ("values = [0.0, 0.02]", "values = [0.0, 1.02]", "1.02 is no share"),
        ("seeds = 2", "seeds = 0", "seeds is 0, not 1 to 1000"),
        ("seeds = 2", "seeds = 2\nquick = { seeds = 0 }", "quick: seeds is 0, not 1 to 1000"),
        (
            "seeds = 2",
            "kind = \"simulated\"",
            "kind \"simulated\" is unknown; did you mean simulation?",
        ),
        (
            "machine = ",
            "maschine = ",
            "settings of simulation: there is no \"maschine\"; did you mean machine?",
        ),
        (
            "half * 4",
            "haff * 4",
            "\"haff\" is no definition; figures are figure(subject); did you mean half?",
        ),
        ("\"thp\"", "\"4k\"", "curve \"4k\" is there twice"),
        ("curve = \"thp\"", "curve = \"other\"", "claim \"T-1\": no curve \"other\"; there are 4k"),
        ("at = 0.02", "at = 1.5", "1.5 is no place of the axis"),
        ("half * 4", "half * (4", "expected ')'"),
        ("half * 4", "double", "\"double\" is no definition"),
        ("(gt-pde-1m) / 2", "(gt-pde-1m) / half", "definition \"half\" needs itself"),
        ("(gt-pde-1m) / 2", "(gt-pde-1m@full)", "there is no state \"full\""),
        ("uniform={x%}", "uniform={y}", "placeholder {y} has no value"),
        ("source = \"a test\"", "source = \"a\\ntest\"", "plain and in one line"),
    ] {
        assert!(RUNS.contains(from), "{from}");
        let message = Experiment::parse("e.toml", &RUNS.replacen(from, to, 1)).unwrap_err();
        let message = message.to_string();
        assert!(message.starts_with("experiment e.toml: "), "{message}");
        assert!(message.contains(expected) && !message.contains('\n'), "{message}");
    }
    let unknown = Experiment::load("gtsm/fig99").unwrap_err().to_string();
    assert!(unknown.contains("gtsm/fig99") && unknown.contains("did you mean gtsm/"), "{unknown}");
}

/// What only the kind can know is found before the first point is measured.
#[test]
fn mistakes_in_settings_and_subjects() {
    for (from, to, expected) in [
        ("\"thp\"", "\"huge\"", "no scheme \"huge\""),
        ("\"64M\"", "\"1M\"", "setting memory: 1M is less than the 4M that are needed"),
        ("\"gtsm-table4\"", "\"gtsm\"", "gtsm"),
        (
            "random:size=8M",
            "randomly",
            "is neither a workload nor a file; expected the path of a trace",
        ),
        ("\"gtsm-table4\"", "\"host\"", "set machine = \"my.toml\""),
        ("\"gtsm-table4\"", "\"GTSM-table4\"", "did you mean gtsm-table4?"),
        ("functional = true", "defrag = \"alwyas\"", "did you mean always?"),
        ("\"2k\"", "\"many\"", "setting instructions: expected a whole number"),
    ] {
        let experiment = Experiment::parse("e.toml", &RUNS.replace(from, to)).unwrap();
        let message = run(&[experiment]).unwrap_err().to_string();
        assert!(message.contains(expected) && !message.contains('\n'), "{message}");
    }
    let message = run(&[experiment("coverage({scheme})", "cover({scheme})")]).unwrap_err();
    let message = message.to_string();
    assert!(message.contains("no measurement has a figure \"large_page_cover\""), "{message}");
    // A run that is shorter than its warm-up is found when it is made.
    let message = run(&[experiment("warmup = \"1k\"", "warmup = \"3k\"")]).unwrap_err().to_string();
    assert!(message.contains("experiment runs: random:size=8M, seed"), "{message}");
}

/// Inputs have defaults, can be set, and are named where what they lead to is not there.
#[test]
fn inputs_are_set() {
    let text = RUNS.replace("random:size=8M", "{program}:size={size}")
        + "\n[inputs]\nprogram = \"random\"\nsize = \"8M\"\n";
    let experiment = || Experiment::parse("e.toml", &text).unwrap();
    let with = |name: &str, value: &str| experiment().with_inputs(&[(name.into(), value.into())]);
    let points = |experiment| Plan::of(&[experiment], "tests").unwrap().point_count();
    let default = points(experiment());
    assert_eq!(points(with("size", "16M").unwrap()), default);
    assert_ne!(with("size", "16M").unwrap(), experiment());
    let wrong = with("sise", "16M").unwrap_err().to_string();
    assert!(wrong.contains("no input \"sise\"; did you mean size?"), "{wrong}");
    let wrong = with("size", "16M\n").unwrap_err().to_string();
    assert!(wrong.contains("texts must be plain") && !wrong.contains('\n'), "{wrong}");
    let absent = Plan::of(&[with("program", "absent").unwrap()], "tests").err().unwrap();
    let absent = absent.to_string();
    let expected = "\"absent:size=8M\" is neither a workload nor a file; expected the path of a trace, or a \
                    name from `perforate list workloads`; --with NAME=VALUE sets the inputs program, size";
    assert!(absent.contains(expected) && !absent.contains('\n'), "{absent}");
    let none = Experiment::parse("e.toml", RUNS).unwrap();
    let none = none.with_inputs(&[("size".into(), "16M".into())]).unwrap_err().to_string();
    assert!(none.contains("it has no [inputs], so size cannot be set"), "{none}");
    let both = text.clone() + "[choices]\nsize = \"8M\"\n";
    let both = Experiment::parse("e.toml", &both).unwrap_err().to_string();
    assert!(both.contains("size is both an input and a choice"), "{both}");
}

/// A claim that only full runs can judge is not in a coarse run, nor are the points that it alone needs.
#[test]
fn coarse_runs_leave_out_claims_of_full_runs() {
    let text = RUNS.replace("lead_over = \"4k\"", "lead_over = \"4k\"\nfull_runs_only = true")
        + "[[chart]]\ntitle = \"t\"\nvalue_label = \"v\"\ncurves = [\"thp\", \"twice\"]\n";
    let full = Experiment::parse("e.toml", &text).unwrap();
    let quick = full.clone().with(&ExperimentOptions { quick: true, ..Default::default() });
    assert_eq!((full.claims.len(), quick.claims.len()), (3, 2));
    let names = |one: &Experiment| one.curves.iter().map(|curve| curve.name.clone()).collect();
    let (all, left): (Vec<String>, Vec<String>) = (names(&full), names(&quick));
    assert_eq!(all, ["4k", "thp", "gt-pde-1m", "twice"]);
    assert_eq!(left, ["thp", "twice"], "4k and gt-pde-1m are in no chart");
    assert!(full.notes.is_empty());
    assert!(quick.notes[0].starts_with("1 claim needs full runs, without --quick"));
    let points = |one| Plan::of(&[one], "tests").unwrap().point_count();
    assert!(points(quick.clone()) < points(full));
    let again = quick.clone().with(&ExperimentOptions { quick: true, ..Default::default() });
    assert_eq!(again, quick);
}
