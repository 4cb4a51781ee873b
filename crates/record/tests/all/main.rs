//! Recordings of real programs. Tests are skipped, with a printed reason, only if qemu-x86_64 or a C
//! compiler is missing.

mod end_to_end;
mod lackey;

use std::path::Path;
use std::process::Command;

use perforate_trace::open;
use perforate_types::Chunk;

/// True if a program cannot be started; prints how to install it.
fn is_missing(program: &str, package: &str) -> bool {
    let missing = Command::new(program).arg("--version").output().is_err();
    if missing {
        println!("skipped: {program} is not installed (apt-get install {package})");
    }
    missing
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
