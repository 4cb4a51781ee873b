//! `perforate record` and `compare -- PROGRAM`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::place::{
    Outcome, Place, SIGINT, SIGTERM, SIGUSR1, assert_complaint, json, outcome, wait_for_handler,
};

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
    place.fails(&["record", "-o", "-", "--", "/bin/sh"], 2, "standard output");
    assert!(place.names().is_empty(), "{:?}", place.names());
}

#[test]
fn hardware_counters_or_the_reason_why_there_are_none() {
    let place = Place::new();
    place.fails(&["compare", "random", "--counters"], 2, "--counters: needs a program");
    let program = ["compare", "--json", "--functional", "--counters", "--", "/bin/echo", "hello"];
    let found = outcome(place.command(&program).env("TMPDIR", place.path("")));
    if lacks_emulator(&found) {
        return;
    }
    assert_eq!((found.code, found.err.as_str()), (Some(0), "hello\n"), "its output comes once");
    for result in json(&found.out) {
        let notes = result["notes"].as_array().unwrap();
        let notes = notes.iter().filter_map(|note| note.as_str());
        let of_counters: Vec<&str> =
            notes.filter(|note| note.starts_with("hardware counters ")).collect();
        assert_eq!(of_counters.len(), 1, "{result}");
        let is_counted = of_counters[0].contains("one native run");
        assert_eq!(is_counted, !result["config"]["hardware_counters"].is_null(), "{result}");
    }
}

/// Output of the recorded program is not mixed with the JSON lines, and the trace is deleted.
#[test]
fn a_program_recorded_and_compared() {
    let place = Place::new();
    let arguments = ["compare", "--json", "--functional", "--check", "--", "/bin/echo", "hello"];
    let found = outcome(place.command(&arguments).env("TMPDIR", place.path("")));
    if lacks_emulator(&found) {
        return;
    }
    assert_eq!(found.code, Some(0), "{}", found.err);
    assert_eq!(found.err, "hello\n");
    let results = json(&found.out);
    assert_eq!(results.len(), 4);
    assert!(results.iter().all(|result| result["counters"]["accesses_refused"] == 0));
    assert!(place.names().is_empty(), "{:?}", place.names());
}

/// True, and says so, where nothing can be recorded.
pub fn lacks_emulator(found: &Outcome) -> bool {
    let lacks = found.err.contains("apt-get install qemu-user");
    if lacks {
        eprintln!("not tested: there is no emulator to record with");
    }
    lacks
}

/// Notes of the first result.
fn notes(lines: &str) -> String {
    json(lines)[0]["notes"].as_array().unwrap().iter().map(|note| note.to_string() + "\n").collect()
}

/// Instructions are skipped while recording, and not again in the simulation.
#[test]
fn a_part_of_a_program_is_recorded_and_compared() {
    let place = Place::new();
    let part = ["compare", "--json", "--functional", "--skip", "50k", "--instructions", "20k"];
    let program = ["--", "/bin/echo", "hello"];
    let found = place.run(&[&part[..], &program].concat());
    if lacks_emulator(&found) {
        return;
    }
    assert_eq!(found.code, Some(0), "{}", found.err);
    let result = &json(&found.out)[0];
    assert_eq!(result["instructions"], 16_000, "all that was recorded, but for a fifth");
    let skipped = result["config"]["workload"]["instructions_skipped"].as_u64().unwrap();
    assert!((50_000..60_000).contains(&skipped), "{skipped}");
    let said = notes(&found.out);
    assert!(said.contains("the recording was cut off after 20.0k instructions, 5"), "{said}");

    let rest = ["compare", "--json", "--functional", "--skip", "50k"];
    let found = place.run(&[&rest[..], &program].concat());
    let said = notes(&found.out);
    assert!(said.contains(" % of the program, ") && !said.contains("cut off"), "{said}");
}

/// Ctrl-C while a program is recorded for a comparison ends the command: nothing is compared.
#[test]
fn an_interrupted_recording_is_not_compared() {
    let place = Place::new();
    place.write("endless.sh", "echo begun\nwhile :; do :; done\n");
    let arguments = ["compare", "--functional", "--", "/bin/sh", "endless.sh"];
    let mut command = place.command(&arguments);
    let command = command.env("TMPDIR", place.path("")).stdout(Stdio::piped());
    let running = command.stderr(Stdio::piped()).spawn().unwrap();
    wait_for_handler(&running, SIGINT);
    std::thread::sleep(Duration::from_secs(1));
    let process = running.id().to_string();
    Command::new("kill").args(["-INT", &process]).status().unwrap();
    let interrupted = Instant::now();
    let output = running.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("apt-get install qemu-user") {
        eprintln!("not tested: there is no emulator to record with");
        return;
    }
    assert!(interrupted.elapsed() < Duration::from_secs(20), "it went on");
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.ends_with("perforate record -o FILE -- PROG ARGS…\n"), "{said}");
    assert!(output.stdout.is_empty());
    assert_eq!(place.names(), ["endless.sh"]);
}

/// A request to end (SIGTERM), as a service manager sends it, ends a recording and keeps what there is.
#[test]
fn a_request_to_end_keeps_what_was_recorded() {
    let place = Place::new();
    let program = ["record", "-o", "x.trace", "--", "/bin/sleep", "60"];
    let mut command = place.command(&program);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_handler(&running, SIGTERM);
    std::thread::sleep(Duration::from_millis(500));
    Command::new("kill").args(["-TERM", &running.id().to_string()]).status().unwrap();
    let output = running.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("apt-get install qemu-user") {
        eprintln!("not tested: there is no emulator to record with");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(place.names(), ["x.trace"]);
    let about = in_one_line(&place.succeeds(&["trace", "info", "x.trace"]));
    assert!(about.contains("ended before its program, by its user"), "{about}");
}

/// A recording that ended before its program says so wherever it is used; a whole one does not.
#[test]
fn a_trace_that_was_cut_off_says_so() {
    const CUT_OFF: &str = "the recording was ended before its program";
    let place = Place::new();
    let program = ["--", "/bin/echo", "hello"];
    for (name, part) in [("cut.trace", &["--instructions", "20k"][..]), ("whole.trace", &[])] {
        let found = place.run(&[&["record", "-o", name], part, &program].concat());
        if lacks_emulator(&found) {
            return;
        }
        assert_eq!(found.code, Some(0), "{}", found.err);
        let said = [
            place.succeeds(&["trace", "info", name]),
            place.succeeds(&["run", name, "--functional"]),
        ];
        let is_cut = name == "cut.trace";
        let limit = ", by its limit of instructions: ";
        assert!(said.iter().all(|text| !is_cut || in_one_line(text).contains(limit)), "{said:?}");
        let result = &json(&place.succeeds(&["run", name, "--functional", "--json"]))[0];
        let stopped_by = result["config"]["workload"]["stopped_by"].as_str();
        assert_eq!(stopped_by, is_cut.then_some("instructions"), "{name}");
        assert!(said.iter().all(|text| text.contains(CUT_OFF) == is_cut), "{name}: {said:?}");
    }
    // What is made of it, too.
    place.succeeds(&["trace", "convert", "cut.trace", "-o", "again.trace"]);
    assert!(place.succeeds(&["trace", "info", "again.trace"]).contains(CUT_OFF));
}

/// Text without the line breaks that fit it to the terminal.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_program_that_fails_is_a_failure_and_its_recording_is_kept() {
    let place = Place::new();
    for (script, words) in [("exit 7", "exit code 7"), ("kill -SEGV $$", "killed by signal 11")] {
        let found = place.run(&["record", "-o", "x.trace", "--", "/bin/sh", "-c", script]);
        if lacks_emulator(&found) {
            return;
        }
        assert_eq!(found.code, Some(1), "{}", found.err);
        assert!(found.out.contains(words), "{}", found.out);
        let expected = format!("{words}; what was recorded of it is kept\n");
        assert!(found.err.ends_with(&expected), "{}", found.err);
        assert_eq!(place.names(), ["x.trace"]);
        let failed = |arguments: &[&str]| in_one_line(&place.succeeds(arguments)).contains(words);
        assert!(failed(&["trace", "info", "x.trace"]));
        assert!(failed(&["compare", "x.trace", "--scheme", "4k", "--functional", "--json"]));
    }
}

/// The emulator would take these variables for its own options.
#[test]
fn variables_with_the_emulators_names_are_the_programs() {
    let place = Place::new();
    let script = "test \"$QEMU_PLUGIN\" = file=none,a=b && test \"$QEMU_STRACE\" = 1";
    let arguments = ["record", "-o", "x.trace", "--", "/bin/sh", "-c", script];
    let mut command = place.command(&arguments);
    let found = outcome(command.env("QEMU_PLUGIN", "file=none,a=b").env("QEMU_STRACE", "1"));
    if !lacks_emulator(&found) {
        assert_eq!((found.code, found.err.as_str()), (Some(0), ""), "{}", found.out);
    }
}

#[test]
fn a_signal_begins_the_recording_of_a_service_and_another_ends_it() {
    let place = Place::new();
    let endless = ["/bin/sh", "-c", "while :; do sleep 0.1; done"];
    let arguments = [&["record", "-o", "x.trace", "--on-signal", "--"][..], &endless].concat();
    let mut command = place.command(&arguments);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = running.id().to_string();
    wait_for_handler(&running, SIGUSR1);
    for signal in ["-USR1", "-USR2"] {
        std::thread::sleep(Duration::from_millis(500));
        let _ = Command::new("kill").args([signal, &process]).status();
    }
    let output = running.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("apt-get install qemu-user") {
        eprintln!("not tested: there is no emulator to record with");
        return;
    }
    assert!(said.contains(&format!("kill -USR1 {process} begins the recording")), "{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
    let about = in_one_line(&place.succeeds(&["trace", "info", "x.trace"]));
    assert!(about.contains("ended before its program, by its user"), "{about}");
}

#[test]
fn ways_to_begin_and_end_that_do_not_go_together() {
    let place = Place::new();
    for (options, expected) in [
        (&["--on-signal", "--after", "1s"][..], "cannot be used with"),
        (&["--after", "1s", "--skip", "1k"], "cannot be used with"),
        (&["--for", "10"], "expected 30m, 2h or the like"),
        (&["--sample", "auto", "--instructions", "1M"], "leave --instructions out"),
        (&["--sample", "5"], "expected auto or N/M"),
    ] {
        let arguments = [&["record", "-o", "x"][..], options, &["--", "/bin/true"]].concat();
        let found = place.run(&arguments);
        assert_eq!(found.code, Some(2), "{}", found.err);
        assert!(found.err.contains(expected), "{options:?}: {}", found.err);
    }
}

/// Processes that are ended with the first one leave no processor time: there is no rate to print.
#[test]
fn a_rate_is_that_of_the_same_instructions() {
    let place = Place::new();
    let endless = "while :; do :; done & while :; do :; done";
    let found =
        place.run(&["record", "-o", "x", "--instructions", "3M", "--", "/bin/sh", "-c", endless]);
    if lacks_emulator(&found) {
        return;
    }
    assert_eq!(found.code, Some(0), "{}", found.err);
    assert!(found.out.contains("2 processes"), "{}", found.out);
    assert!(!found.out.contains("processor time"), "{}", found.out);
    let one = ["record", "-o", "y", "--instructions", "3M", "--", "/bin/sh", "-c"];
    let found = place.run(&[&one[..], &["while :; do :; done"]].concat());
    assert!(found.out.contains("s of processor time"), "{}", found.out);
}

/// A limit of the file's size that comes while the program runs is what a full disk is.
#[test]
fn a_recording_without_room_keeps_what_had_room() {
    let place = Place::new();
    // Its addresses are at random, so that the trace is large soon.
    let program = ["perl", "-e", "while (1) { $x{int rand 1e6}++ }"];
    let mut command = place.command(&[&["record", "-o", "x.trace", "--"][..], &program].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let partial = place.path("x.trace.partial");
    let started = Instant::now();
    let size = || std::fs::metadata(&partial).map_or(0, |facts| facts.len());
    // The first chunk, which may be seen half written, has less than 100 KB.
    while size() < 200_000 && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
        if !std::path::Path::new(&format!("/proc/{}/fd", child.id())).exists() {
            break;
        }
    }
    let (process, limit) = (child.id().to_string(), format!("--fsize={}", size() + 10_000));
    let limited = Command::new("prlimit").args(["--pid", &process, &limit]).status();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = Outcome { code: output.status.code(), out, err };
    if lacks_emulator(&found) {
        return;
    }
    assert!(limited.is_ok_and(|status| status.success()));
    assert_eq!(found.code, Some(0), "{}", found.err);
    assert!(
        found.out.contains("no room for more of the trace; the program was ended"),
        "{}",
        found.out
    );
    assert_eq!(place.names(), ["x.trace"]);
    let info = place.succeeds(&["trace", "info", "x.trace"]);
    assert!(info.contains("ended before its program") && !info.contains("incomplete"), "{info}");
    let recorded: u64 = found.out.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(recorded > 0 && info.contains(&format!("{recorded}")), "{recorded}: {info}");
    place.succeeds(&["run", "x.trace", "--scheme", "4k", "--functional", "--check"]);
}
