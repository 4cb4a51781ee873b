//! Ctrl-C: a command says how far it was, and leaves nothing half done.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::place::{Outcome, Place, SIGINT, assert_complaint, wait_for_handler};

const INTERRUPTED: i32 = 130;

/// Outcome of an endless command that is interrupted.
fn interrupted(place: &Place, arguments: &[&str]) -> Outcome {
    let mut command = place.command(arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_handler(&child, SIGINT);
    std::thread::sleep(Duration::from_millis(300));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let output = child.wait_with_output().unwrap();
    Outcome {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn a_comparison_says_how_far_it_was_and_leaves_no_folder() {
    let place = Place::new();
    let words = ["compare", "random:size=4M", "--scheme", "4k", "--instructions", "100G"];
    for out in [&[][..], &["--out", "mine"], &["-o", "mine"]] {
        let found = interrupted(&place, &[&words[..], out].concat());
        let expected = " instructions); nothing was written";
        assert_complaint(&found, INTERRUPTED, expected, "compare");
        assert!(found.err.starts_with("perforate: stopped (simulating, "), "{}", found.err);
        assert!(place.names().is_empty(), "{:?}", place.names());
    }
}

#[test]
fn an_experiment_says_what_it_kept_and_how_to_go_on() {
    let place = Place::new();
    let run = ["experiment", "run", "perforated/fig7"];
    for (options, expected) in [
        (&["--out", "mine"][..], " are in mine/points.jsonl; the same command measures the others"),
        (&["-o", "mine", "--fresh"], "; the same command without --fresh measures the others"),
        (&[], " are in results/points.jsonl; the same command measures the others"),
        (
            &["--shard", "1/2"],
            " are in results/perforated-fig7-part-1-of-2/points.jsonl; the same ",
        ),
        (&["--json"], "stopped; nothing was kept: --json keeps measurements only with --out"),
    ] {
        let found = interrupted(&place, &[&run[..], options].concat());
        assert_complaint(&found, INTERRUPTED, expected, "experiment run");
        assert!(found.err.starts_with("perforate: stopped; "), "{}", found.err);
    }
}

/// The analysis of a bundled trace takes many seconds without this.
#[test]
fn advice_stops_while_it_analyses() {
    let place = Place::new();
    let start = std::time::Instant::now();
    let found = interrupted(&place, &["advise", "hpcc", "--out", "mine"]);
    assert_complaint(&found, INTERRUPTED, "stopped (analysing); nothing was written", "advise");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(place.names().is_empty(), "{:?}", place.names());
}

#[test]
fn a_conversion_leaves_no_part_of_a_trace() {
    let place = Place::new();
    let words = ["trace", "convert", "random", "--instructions", "100G", "-o", "x.trace"];
    let found = interrupted(&place, &words);
    assert_complaint(&found, INTERRUPTED, "stopped (converting, ", "trace convert");
    assert!(place.names().is_empty(), "{:?}", place.names());
}
