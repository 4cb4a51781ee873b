//! `perforate record` and `compare -- PROGRAM` where they cannot work.

use crate::place::{Place, assert_complaint, json, outcome};

#[test]
fn both_a_workload_and_a_program() {
    let place = Place::new();
    place.fails(&["compare", "random", "--", "true"], 2, "not both");
}

#[test]
fn a_missing_emulator_says_how_to_install_it() {
    let place = Place::new();
    for arguments in [&["compare", "--", "/bin/sh"][..], &["record", "-o", "x", "--", "/bin/sh"]] {
        let found = outcome(place.command(arguments).env("PATH", ""));
        assert_complaint(&found, 1, "apt-get install qemu-user", &format!("{arguments:?}"));
        assert!(place.names().is_empty(), "{:?}", place.names());
    }
}

#[test]
fn a_program_that_is_not_there() {
    let place = Place::new();
    for program in ["no-such-program", "./no/such/program"] {
        for arguments in [&["compare", "--", program][..], &["record", "-o", "x", "--", program]] {
            let found = place.run(arguments);
            // Without an emulator that is the first thing to say.
            let expected = if found.err.contains("qemu") { "qemu-user" } else { program };
            assert_complaint(&found, 1, expected, &format!("{arguments:?}"));
            assert!(place.names().is_empty(), "{:?}", place.names());
        }
    }
}

#[test]
fn a_trace_that_cannot_be_written() {
    let place = Place::new();
    let found = place.run(&["record", "-o", "no/such/x.trace", "--", "/bin/sh"]);
    assert_complaint(&found, 1, "", "record into a missing folder");
}

/// What the recorded program prints does not get among the JSON lines, and its trace is gone
/// afterwards.
#[test]
fn a_program_recorded_and_compared() {
    let place = Place::new();
    let arguments = ["compare", "--json", "--functional", "--check", "--", "/bin/echo", "hello"];
    let found = outcome(place.command(&arguments).env("TMPDIR", place.path("")));
    if found.err.contains("apt-get install qemu-user") {
        eprintln!("not tested: there is no emulator to record with");
        return;
    }
    assert_eq!(found.code, Some(0), "{}", found.err);
    assert_eq!(found.err, "hello\n");
    let results = json(&found.out);
    assert_eq!(results.len(), 4);
    assert!(results.iter().all(|result| result["counters"]["accesses_refused"] == 0));
    assert!(place.names().is_empty(), "{:?}", place.names());
}
