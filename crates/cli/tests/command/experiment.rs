//! `perforate experiment`.

use crate::place::{Place, json};

const FILE: &str = r#"
name = "mine"
title = "Whole blocks"
source = "our own"
kind = "contiguity"

[settings]
retired = "{x}"
samples = 4000

[axis]
label = "retired frames"
from = 0.0
to = 0.5
step = 0.25

[parameters]
block = ["8K", "2M"]

[[curve]]
name = "{block}"
value = "share({block})"
drawn = "drawn_share({block})"
drawn_half_width_95 = "drawn_half_width_95({block})"
draws = "draws({block})"

[[claim]]
id = "half"
statement = "Pairs of frames that are whole where half of the frames are retired"
source = "by hand"
kind = "closed-form"
curve = "8K"
at = 0.5
value = 0.25
tolerance = 0.0

[[claim]]
id = "wrong"
statement = "The same, but less"
source = "by hand"
kind = "threshold"
curve = "8K"
at = 0.5
at_most = 0.2
"#;

/// The file that docs/experiments.md shows is one, coarse as its `[quick]` has it.
#[test]
fn the_documented_example_can_be_run() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/experiments.md");
    let document = std::fs::read_to_string(document).unwrap();
    let example = document.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let example = example.unwrap();
    assert!(example.contains("\nmachine.walker.walkers = 2 "), "{example}");
    let place = Place::new();
    place.write("mine.toml", example);
    let lines = json(&place.succeeds(&["experiment", "run", "mine.toml", "--quick", "--json"]));
    assert!(lines.iter().any(|line| line["record"] == "claim" && line["ours"].is_number()));
}

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
    assert!(text.contains("6 reproduced, 2 same direction, 0 not reproduced"), "{text}");
    assert_eq!(place.names(), ["out"]);
    let lines = json(&place.read("out/results.jsonl"));
    assert!(lines.iter().any(|line| line["experiment"] == "gtsm/fig7" && line["x"] == 0.6));
    assert!(place.read("out/report.html").contains("gtsm/fig7"));
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
    assert_eq!((&point["value"], &point["agrees"]), (&0.25.into(), &true.into()));
    let drawn = point["drawn"].as_f64().unwrap();
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

/// Three places, two blocks: six points. A line that a crash cut off is measured again.
#[test]
fn interrupted_runs_go_on() {
    let place = Place::new();
    place.write("mine.toml", FILE);
    let run = ["experiment", "run", "mine.toml"];
    let first = place.succeeds(&run);
    assert!(first.contains("6, of which 0 were measured before"), "{first}");
    let (points, results) =
        (place.read("results/points.jsonl"), place.read("results/latest/results.jsonl"));
    let two: usize = points.lines().take(2).map(|line| line.len() + 1).sum();
    place.write("results/points.jsonl", &points[..two + 40]);
    let second = place.succeeds(&run);
    assert!(second.contains("6, of which 2 were measured before"), "{second}");
    assert_eq!(place.read("results/latest/results.jsonl"), results);
    assert_eq!(place.read("results/points.jsonl").lines().count(), 6);
    assert!(place.succeeds(&run).contains("6, of which 6 were measured before"));
    let fresh = place.succeeds(&[&run[..], &["--fresh"]].concat());
    assert!(fresh.contains("6, of which 0 were measured before"), "{fresh}");
}

#[test]
fn parts_are_joined() {
    let place = Place::new();
    place.write("mine.toml", FILE);
    let run = ["experiment", "run", "mine.toml"];
    let whole = place.succeeds(&[&run[..], &["--json"]].concat());
    let part = |shard: &str, out: &str| {
        place.succeeds(&[&run[..], &["--shard", shard, "--out", out]].concat())
    };
    assert!(part("1/2", "one").contains("part 1 of 2: "));
    place.fails(
        &["experiment", "merge", "one", "--json"],
        1,
        "of 6 points missing; the parts that are there",
    );
    part("2/2", "two");
    assert_eq!(place.succeeds(&["experiment", "merge", "one", "two", "--json"]), whole);
    let text = place.succeeds(&["experiment", "merge", "one", "two", "--out", "all"]);
    assert!(text.contains("points:  6, of 2 parts"), "{text}");
    assert_eq!(place.read("all/results.jsonl"), whole);
    place.succeeds(&[&run[..], &["--shard", "2/2", "--seed", "7", "--out", "other"]].concat());
    place.fails(&["experiment", "merge", "one", "other"], 1, "are parts of different runs");
    place.fails(&["experiment", "merge", "none"], 1, "none/part.json: ");
    for shard in ["1/2", "2/2"] {
        place.succeeds(&[&run[..], &["--shard", shard]].concat());
    }
    let parts = ["results/mine.toml-part-1-of-2", "results/mine.toml-part-2-of-2"];
    for part in parts {
        let files = std::fs::read_dir(place.path(part)).unwrap().count();
        assert_eq!(files, 2, "points.jsonl and part.json");
    }
    place.succeeds(&[&["experiment", "merge"], &parts[..], &["-o", "joined"]].concat());
    let outcome = place.run(&[&run[..], &["--shard", "3/2"]].concat());
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.err.contains("is no part; expected 1/8"), "{}", outcome.err);
}

/// The bound is not met at the default, and is with half of the value. Both readings need the same points.
#[test]
fn joint_readings_are_printed_shown_and_joined() {
    let place = Place::new();
    let open = "[choices]\nfactor = 1\n[[plausible]]\nname = \"the factor\"\nreason = \"r\"\n\
                values = [{ factor = \"0.5\" }]\n[axis]";
    let file = FILE
        .replace("[axis]", open)
        .replace("share({block})\"\ndrawn =", "share({block}) * {factor}\"\ndrawn =");
    place.write("mine.toml", file);
    let run = ["experiment", "run", "mine.toml", "--unstated", "joint"];
    let text = place.succeeds(&run);
    for line in [
        "One reading for all claims, others",
        "  hold at the default                            0",
        "  hold in some reading, each alone               1",
        "  hold together in the best reading              1",
        "    - the factor: factor = 0.5",
        "result and never a default",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let page = place.read("results/latest/report.html");
    assert!(page.contains("One reading for all claims") && page.contains("factor = 0.5"));
    let whole = place.read("results/latest/results.jsonl");
    let lines = json(&whole);
    let joint = lines.last().unwrap();
    assert_eq!((&joint["record"], &joint["paper"]), (&"joint".into(), &"".into()));
    assert_eq!(joint["claims"][0]["holds_in"], serde_json::json!([false, true]));
    for (shard, out) in [("1/2", "one"), ("2/2", "two")] {
        place.succeeds(&[&run[..], &["--shard", shard, "--out", out]].concat());
    }
    assert_eq!(place.succeeds(&["experiment", "merge", "one", "two", "--json"]), whole);
    place.succeeds(&["experiment", "run", "mine.toml", "--shard", "2/2", "--out", "plain"]);
    place.fails(&["experiment", "merge", "one", "plain"], 1, "are parts of different runs");
    let wrong = ["experiment", "run", "mine.toml", "--unstated", "joint:x"];
    assert!(place.run(&wrong).err.contains("joint:N"));
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
    fails("\"2M\"", "\"9K\"", "\"9K\": a block is a power of two");
    fails("\"2M\"", "\"many\"", "expected a size such as 64M or 4G");
    fails("[\"8K\", \"2M\"]", "[]", "there is no [[curve]]");
    fails("curve = \"8K\"", "curve = \"4M\"", "claim \"half\": no curve \"4M\"; there are 8K, 2M");
    fails("at_most = 0.2", "", "claim \"wrong\": expected one of value, at_most, at_least");
    fails("samples = 4000", "samples = -4", "setting samples: expected a whole number");
    fails("title = ", "title = [", "experiment bad.toml: line 4: missing comma");
}

#[test]
fn wrong_use() {
    let place = Place::new();
    place.fails(
        &["experiment", "run", "gtsm/fig99"],
        2,
        "no experiment \"gtsm/fig99\"; did you mean gtsm/fig",
    );
    place.fails(&["experiment", "run", "perforatd"], 2, "did you mean perforated?");
    place.fails(&["experiment", "run", "x"], 2, "groups are perforated, gtsm, ");
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

#[test]
fn groups_are_listed_and_run_as_a_whole() {
    let place = Place::new();
    let list = place.succeeds(&["experiment", "list", "ranges"]);
    let names = list.lines().filter(|line| line.starts_with("  ranges/")).count();
    assert!(names > 0 && !list.contains("gtsm/"), "{list}");
    place.fails(
        &["experiment", "list", "rangers"],
        2,
        "no group \"rangers\"; did you mean ranges?",
    );
    place.fails(&["experiment", "list", "xyz"], 2, "there are perforated, gtsm");
    place.fails(&["experiment", "run", "ranges", "ranges/overhead"], 2, "is named twice");
}

/// Files that need traces of the reader's say what is missing; with traces they run.
#[test]
fn traces_of_the_reader_are_inputs() {
    let place = Place::new();
    for (year, missing) in [(2006, "429.mcf-184B"), (2017, "620.omnetpp_s-874B")] {
        let file =
            format!("{}/../../experiments/perforated/spec{year}.toml", env!("CARGO_MANIFEST_DIR"));
        let run = ["experiment", "run", &file, "--quick"];
        let outcome = place.run(&[&run[..], &["--with", "traces=spec"]].concat());
        assert_eq!((outcome.code, outcome.err.lines().count()), (Some(1), 1), "{}", outcome.err);
        let expected = format!("setting workload: \"spec/{missing}.champsimtrace.xz\" is neither");
        assert!(outcome.err.contains(&expected), "{}", outcome.err);
        assert!(outcome.err.contains("--with NAME=VALUE sets the inputs "), "{}", outcome.err);
        place.fails(&[&run[..], &["--with", "trace=spec"]].concat(), 1, "did you mean traces?");
        place.fails(&[&run[..], &["--with", "traces"]].concat(), 2, "expected NAME=VALUE");
    }
    let convert = ["trace", "convert", "random:size=64M", "--instructions", "30k"];
    place.succeeds(&[&convert[..], &["-o", "429.mcf.champsimtrace"]].concat());
    place.write(
        "mine.toml",
        "name = \"mine/spec\"\ntitle = \"t\"\nsource = \"a test\"\n\
         [inputs]\ntraces = \"none\"\nmcf = \"429.mcf.champsimtrace\"\n\
         [settings]\nworkload = \"{traces}/{file}\"\nmemory = \"256M\"\nfunctional = true\n\
         [axis]\nlabel = \"program\"\nplace = [{ name = \"mcf\", file = \"{mcf}\" }]\n\
         [[curve]]\nname = \"walks\"\nvalue = \"walks(4k)\"\nshow = \"number\"\n",
    );
    let run = ["experiment", "run", "mine.toml", "--with", "traces=.", "--json"];
    let lines = json(&place.succeeds(&run));
    let point = lines.iter().find(|line| line["place"] == "mcf").unwrap();
    assert!(point["value"].as_f64().unwrap() > 1000.0, "{point}");
    assert_eq!(lines[0]["config"]["inputs"]["traces"], ".");
    place.fails(&["experiment", "run", "gtsm/fig3", "--with", "a=b"], 1, "it has no [inputs]");
    let script = place.run(&["sweep", "mine.toml", "--with", "traces=.", "--slurm-script"]);
    assert!(script.code == Some(2) && script.err.contains("--with"), "{}", script.err);
}
