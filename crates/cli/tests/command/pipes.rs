//! Output that nobody reads: a command ends, and does not panic.

use std::io::pipe;
use std::process::{Command, Stdio};

use crate::place::Place;

/// Exit code of a program that panicked.
const PANICKED: i32 = 101;

/// Commands that print much or little, succeed or fail, by words of which the last are options.
const COMMANDS: &[&[&str]] = &[
    &[],
    &["--help"],
    &["--version"],
    &["no-such-command"],
    &["list"],
    &["compare", "random:size=4M", "--instructions", "20000", "--scheme", "4k,thp"],
    &["compare", "random:size=4M", "--instructions", "20000", "--json"],
    &["compare", "no-such-workload"],
    &["run", "random:size=4M", "--instructions", "20000"],
    &["run", "random:size=4M", "--memory", "64"],
    &["explain", "--instructions", "1000"],
    &["trace", "head", "redis", "--instructions", "2000"],
    &["trace", "info", "no-such-trace"],
    &["trace", "convert", "random:size=4M", "--instructions", "1000", "-o", "random.trace"],
    &["record", "--print-header"],
    &["record", "-o", "x.trace", "--", "no-such-program"],
    &["record", "-o", "x.trace", "--instructions", "10000", "--", "/bin/echo", "hello"],
    &["compare", "--functional", "--instructions", "10000", "--", "/bin/echo", "hello"],
    &["snapshot", "process", "1000000000"],
    &["model", "--results", "no-such-file"],
    &["experiment", "list"],
    &["experiment", "run", "no-such-experiment"],
    &["validate", "--skip", "5"],
    &["calibrate", "--size", "1K"],
];

/// Runs a command with output that is closed in this way, and says how it ended.
fn exit_code(mut command: Command, close: impl FnOnce(&mut Command)) -> Option<i32> {
    close(&mut command);
    command.status().expect("the program starts").code()
}

/// A pipe whose reader has gone.
fn broken() -> Stdio {
    pipe().expect("a pipe").1.into()
}

#[test]
fn a_reader_that_has_gone_is_no_panic() {
    let place = Place::new();
    for arguments in COMMANDS {
        for (what, out, err) in [
            ("standard output", broken(), Stdio::null()),
            ("standard error", Stdio::null(), broken()),
            ("both", broken(), broken()),
        ] {
            let code = exit_code(place.command(arguments), |command| {
                command.stdout(out).stderr(err);
            });
            assert!(code.is_some(), "{arguments:?}: {what}: ended by a signal");
            assert_ne!(code, Some(PANICKED), "{arguments:?}: {what}");
        }
    }
}

#[test]
fn closed_output_is_no_panic() {
    let place = Place::new();
    for arguments in COMMANDS {
        // A shell closes both before it starts the program.
        let program = place.command(arguments);
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "exec \"$0\" \"$@\" >&- 2>&-"]).arg(program.get_program());
        shell.args(program.get_args()).current_dir(place.path("")).stdin(Stdio::null());
        let code = exit_code(shell, |_| {});
        assert!(code.is_some(), "{arguments:?}: ended by a signal");
        assert_ne!(code, Some(PANICKED), "{arguments:?}");
    }
}
