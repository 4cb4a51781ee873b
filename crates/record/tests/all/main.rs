//! Tests that record real programs. Tests are skipped, with a printed reason, only if qemu-x86_64 or a
//! C compiler is missing.

mod c_program;
mod end_to_end;
mod lackey;
mod names;
mod ordinary_programs;
mod parts_of_programs;
mod placement;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use perforate_record::{RecordError, RecordOptions, RecordSummary, record};
use perforate_trace::open;
use perforate_types::Chunk;

/// True if a program cannot be started. Prints how to install it.
fn is_missing(program: &str, package: &str) -> bool {
    let missing = Command::new(program).arg("--version").output().is_err();
    if missing {
        println!("skipped: {program} is not installed (apt-get install {package})");
    }
    missing
}

fn emulator_is_missing() -> bool {
    is_missing("qemu-x86_64", "qemu-user")
}

/// True, with a printed reason, if the test may not change users or make namespaces.
fn is_not_root() -> bool {
    let is_root =
        std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
    if !is_root {
        println!("skipped: only root may do this");
    }
    !is_root
}

fn options(output: &Path, program: &[&str]) -> RecordOptions {
    RecordOptions::new(output, program.iter().map(OsString::from).collect())
}

fn record_quietly(options: RecordOptions) -> Result<RecordSummary, RecordError> {
    record(options, &mut |_| {})
}

/// The whole trace in one chunk.
fn read(path: &Path) -> Chunk {
    let mut source = open(path.to_str().unwrap()).unwrap();
    let (mut all, mut chunk) = (Chunk::default(), Chunk::default());
    while source.next_chunk(&mut chunk).unwrap() {
        let before = all.instructions.len() as u32;
        all.instructions.append(&mut chunk.instructions);
        all.accesses.append(&mut chunk.accesses);
        all.events.extend(chunk.events.drain(..).map(|(at, event)| (at + before, event)));
    }
    assert!(source.truncated().is_none());
    all
}
