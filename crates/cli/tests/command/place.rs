//! A temporary folder for each test, in which the program runs.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// An empty folder, and one for what the program keeps, removed with this value.
pub struct Place(tempfile::TempDir, tempfile::TempDir);

/// Exit code and output of the program.
pub struct Outcome {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Place {
    pub fn new() -> Self {
        let folder = || tempfile::tempdir().expect("a temporary folder");
        Self(folder(), folder())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Names of everything in the folder, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// The program with the folder as its current one.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perforate"));
        command.args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        command.env("XDG_CACHE_HOME", self.1.path());
        command
    }

    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Outcome {
        outcome(&mut self.command(arguments))
    }

    /// Runs it and expects success with nothing on standard error.
    pub fn succeeds<A: AsRef<OsStr>>(&self, arguments: &[A]) -> String {
        let outcome = self.run(arguments);
        assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""), "{}", outcome.out);
        outcome.out
    }

    /// Runs it and expects one line of complaint that contains `expected`, this exit code, and
    /// nothing else: no output, no new file.
    pub fn fails(&self, arguments: &[&str], code: i32, expected: &str) {
        let before = self.names();
        let outcome = self.run(arguments);
        assert_complaint(&outcome, code, expected, &format!("{arguments:?}"));
        assert_eq!(self.names(), before, "{arguments:?} left something behind");
    }
}

/// Runs a command. Lines about its progress, which come where it takes long, are left out.
pub fn outcome(command: &mut Command) -> Outcome {
    let output = command.output().expect("the program starts");
    let err = String::from_utf8_lossy(&output.stderr);
    let is_progress = |line: &str| line.starts_with("perforate: after ");
    Outcome {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: err.split_inclusive('\n').filter(|line| !is_progress(line)).collect(),
    }
}

/// One line that starts with the program's name, and nothing on standard output.
pub fn assert_complaint(outcome: &Outcome, code: i32, expected: &str, what: &str) {
    let Outcome { out, err, .. } = outcome;
    assert!(err.starts_with("perforate: ") && err.ends_with('\n'), "{what}: {err}");
    assert_eq!(err.lines().count(), 1, "{what}: {err}");
    assert!(err.contains(expected), "{what}: {err:?} lacks {expected:?}");
    assert_eq!((outcome.code, out.as_str()), (Some(code), ""), "{what}: {err}");
}

/// JSON lines, parsed.
pub fn json(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Signal of Ctrl-C.
pub const SIGINT: u32 = 2;
pub const SIGTERM: u32 = 15;
/// Signal that begins a recording with --on-signal.
pub const SIGUSR1: u32 = 10;

/// Waits until the program handles a signal itself.
pub fn wait_for_handler(child: &Child, signal: u32) {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(60) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        // A program that has ended, such as one without an emulator, handles none.
        let Some(caught) = caught else { return };
        let is_handled = u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << (signal - 1)) > 0;
        if is_handled || status.lines().any(|line| line.starts_with("State:\tZ")) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("signal {signal} is not handled");
}
