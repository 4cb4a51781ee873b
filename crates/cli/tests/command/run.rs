//! `perforate run`, help texts, and what happens when nobody reads the output.

use std::io::Read;
use std::process::Stdio;

use crate::place::{Place, json};

#[test]
fn all_counters_or_one_json_line() {
    let place = Place::new();
    let arguments = ["run", "random:size=64M", "--instructions", "20000", "--scheme", "4k"];
    let text = place.succeeds(&arguments);
    let line = place.succeeds(&[&arguments[..], &["--json"]].concat());
    let results = json(&line);
    assert_eq!(results.len(), 1);
    let counters = results[0]["counters"].as_object().unwrap();
    for (name, value) in counters.iter().filter(|(_, value)| value.is_u64()) {
        let row = [name.as_str(), &value.to_string()];
        let is_row = |line: &str| line.split_whitespace().eq(row);
        assert!(text.lines().any(is_row), "{row:?} is not in\n{text}");
    }
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for name in ["instructions", "cycles", "ipc"] {
        assert_eq!(names.iter().filter(|row| **row == name).count(), 1, "{name} in\n{text}");
    }
    assert!(place.names().is_empty());
}

#[test]
fn help_has_examples_and_no_arguments_say_what_the_program_is_for() {
    let place = Place::new();
    for command in ["compare", "run", "explain", "record"] {
        let help = place.succeeds(&[command, "--help"]);
        assert!(help.contains("Examples:\n") && help.contains(&format!("perforate {command} ")));
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
    let outcome = place.run::<&str>(&[]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.err.contains("What does address translation cost"), "{}", outcome.err);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::new();
    let convert = ["trace", "convert", "random", "--instructions", "40000", "-o", "long.trace"];
    place.succeeds(&convert);
    let head = ["trace", "head", "long.trace", "--instructions", "40000"];
    for arguments in [&head[..], &["list"], &["explain"]] {
        let mut command = place.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 1];
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut first).unwrap();
        drop(out);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_full_disk_behind_standard_output_is_one() {
    let place = Place::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = place.command(&["list"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stderr.starts_with(b"perforate: standard output: "));
}

#[test]
fn the_smallest_machine_runs_every_scheme() {
    let place = Place::new();
    let mut text = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../machines/perforated-table2.toml"
    ))
    .unwrap();
    // One entry in one way everywhere, and no walk caches.
    for geometry in [
        "entries = 64, ways = 4",
        "entries = 32, ways = 4",
        "entries = 4, ways = 4",
        "entries = 128, ways = 8",
        "entries = 8, ways = 8",
        "entries = 1536, ways = 12",
        "entries = 16, ways = 4",
    ] {
        assert!(text.contains(geometry), "{geometry}");
        text = text.replace(geometry, "entries = 1, ways = 1");
    }
    text = text.replace("level3_entries = 4 ", "level3_entries = 0 ");
    text = text.replace("level2_entries = 24", "level2_entries = 0");
    place.write("tiny.toml", &text);
    let lines = place.succeeds(&[
        "compare",
        "zipf:size=64M,writes=30%",
        "--machine",
        "tiny.toml",
        "--scheme",
        "all",
        "--check",
        "--json",
        "--instructions",
        "30000",
    ]);
    assert_eq!(json(&lines).len(), perforate_sim::scheme::all().count());
    let base = &json(&lines)[0]["counters"];
    assert_eq!(base["references_per_walk"], 4.0, "no walk caches: all four levels are read");
}
