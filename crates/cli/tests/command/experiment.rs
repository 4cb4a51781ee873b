//! `perforate experiment`.

use crate::place::{Place, json};

const FILE: &str = r#"
name = "mine"
title = "Whole blocks"
source = "our own"

[subject]
kind = "capacity-contiguity"
blocks = ["8K", "2M"]

[axis]
label = "retired frames"
from = 0.0
to = 0.5
step = 0.25

[sampling]
samples = 4000
seed = 1

[[claim]]
id = "half"
statement = "Pairs of frames that are whole where half of the frames are retired"
source = "by hand"
kind = "exact"
curve = "8K"
at = 0.5
value = 0.25
tolerance = 0.0

[[claim]]
id = "wrong"
statement = "The same, but less"
source = "by hand"
kind = "trend"
curve = "8K"
at = 0.5
at_most = 0.2
"#;

#[test]
fn every_experiment_is_listed_and_can_be_run() {
    let place = Place::new();
    let list = place.succeeds(&["experiment", "list"]);
    assert_eq!(list, place.succeeds(&["list", "experiments"]));
    for name in ["gtsm/fig3", "gtsm/fig7", "gtsm/fig14", "gtsm/usable-memory"] {
        assert!(list.contains(name), "{list}");
    }
    let run = ["experiment", "run", "gtsm/fig3", "gtsm/fig7", "--samples", "20k", "--out", "out"];
    let text = place.succeeds(&run);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("All experiments: 6 reproduced, 2 same direction, 0 not reproduced"));
    assert_eq!(place.names(), ["out"]);
    let lines = json(&place.read("out/results.jsonl"));
    assert!(lines.iter().any(|line| line["experiment"] == "gtsm/fig7" && line["x"] == 0.6));
    assert!(place.read("out/report.html").contains("id=\"gtsm-fig7-chart\""));
}

/// (1 − ½)² = ¼ of the pairs are whole.
#[test]
fn a_file_of_ones_own() {
    let place = Place::new();
    place.write("mine.toml", FILE);
    let run = ["experiment", "run", "mine.toml", "--json"];
    let text = place.succeeds(&run);
    assert_eq!(place.names(), ["mine.toml"], "files only with --out");
    let lines = json(&text);
    let point = lines.iter().find(|line| line["curve"] == "8K" && line["x"] == 0.5).unwrap();
    assert_eq!((&point["closed_form"], &point["agrees"]), (&0.25.into(), &true.into()));
    let drawn = point["sampled"].as_f64().unwrap();
    assert!((drawn - 0.25).abs() < 0.05 && drawn != 0.25, "{drawn}");
    let verdicts: Vec<&str> = lines.iter().filter_map(|line| line["verdict"].as_str()).collect();
    assert_eq!(verdicts, ["reproduced", "not_reproduced"]);
    // The same seed gives the same bytes, another one does not.
    assert_eq!(place.succeeds(&run), text);
    assert_ne!(place.succeeds(&[&run[..], &["--seed", "2"]].concat()), text);
    let table = place.succeeds(&["experiment", "run", "mine.toml"]);
    assert!(table.contains("1 reproduced, 0 same direction, 1 not reproduced"), "{table}");
    assert_eq!(place.names(), ["mine.toml", "results"]);
}

#[test]
fn bad_files() {
    let place = Place::new();
    let fails = |from: &str, to: &str, expected: &str| {
        assert!(FILE.contains(from), "{from}");
        place.write("bad.toml", FILE.replacen(from, to, 1));
        place.fails(&["experiment", "run", "bad.toml"], 1, expected);
    };
    fails("source = ", "sauce = ", "experiment bad.toml: line 4: unknown field `sauce`");
    fails("[axis]", "[axes]", "unknown field `axes`");
    fails("step = 0.25", "step = -1.0", "experiment bad.toml: axis.step is -1");
    fails("from = 0.0", "from = 0.7", "axis.from is 0.7, beyond axis.to");
    fails("\"8K\"", "\"9K\"", "subject.blocks has \"9K\": a block is a power of two");
    fails("\"8K\"", "\"many\"", "subject.blocks \"many\": unknown unit");
    fails("[\"8K\", \"2M\"]", "[]", "subject: there is nothing to measure");
    fails("curve = \"8K\"", "curve = \"4M\"", "claim \"half\": no curve \"4M\"; there are 8K, 2M");
    fails("at_most = 0.2", "", "claim \"wrong\": expected one of value, at_most, at_least");
    fails("samples = 4000", "samples = -4", "experiment bad.toml: line 17: invalid value");
    fails("title = ", "title = [", "experiment bad.toml: line 4: missing comma");
}

#[test]
fn wrong_use() {
    let place = Place::new();
    place.fails(&["experiment", "run", "gtsm/fig99"], 2, "no experiment \"gtsm/fig99\"; there are");
    place.fails(&["experiment", "run", "none.toml"], 1, "none.toml: ");
    let twice = ["experiment", "run", "gtsm/fig3", "gtsm/fig3", "--quick"];
    place.fails(&twice, 2, "experiment \"gtsm/fig3\" is named twice");
    place.write("file", "");
    place.fails(&["experiment", "all", "--quick", "--out", "file"], 2, "--out file: a file of");
    for samples in ["0", "many", "2T", "-5"] {
        let samples = format!("--samples={samples}");
        let outcome = place.run(&["experiment", "run", "gtsm/fig3", &samples]);
        assert_eq!(outcome.code, Some(2), "{samples}");
        assert!(outcome.err.contains("--samples"), "{}", outcome.err);
    }
}
