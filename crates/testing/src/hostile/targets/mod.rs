//! The targets: one for each reader.

mod machine;
mod options;
mod reports;
mod scripts;
mod sequences;
mod settings;
mod snapshots;
mod traces;

use std::fmt::Display;
use std::io::Write;
use std::path::Path;

use crate::hostile::Target;
use crate::hostile::target::Seeds;

/// What a reader of small files may need for one of them, in bytes.
const LITTLE: usize = 16 << 20;

/// All targets.
pub const TARGETS: &[&[Target]] = &[
    traces::TARGETS,
    machine::TARGETS,
    snapshots::TARGETS,
    settings::TARGETS,
    scripts::TARGETS,
    options::TARGETS,
    reports::TARGETS,
    sequences::TARGETS,
];

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().copied().flatten().find(|target| target.name == name)
}

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run, seeds: Seeds::None, memory_bytes: LITTLE }
}

impl Target {
    const fn with_seeds(self, seeds: Seeds) -> Self {
        Self { seeds, ..self }
    }

    const fn with_memory(self, memory_bytes: usize) -> Self {
        Self { memory_bytes, ..self }
    }
}

/// Looks at what a reader says of a file. Errors are one line, whatever the file contains.
fn told<T, E: Display>(outcome: Result<T, E>) -> Option<T> {
    outcome.map_err(|error| assert_one_line(&error.to_string())).ok()
}

fn assert_one_line(text: &str) {
    assert!(!text.is_empty() && !text.contains('\n'), "an error of several lines: {text:?}");
}

/// Hands a file with these bytes to a reader of files.
fn with_file(bytes: &[u8], read: impl FnOnce(&Path)) {
    let mut file = tempfile::Builder::new()
        .prefix("perforate-hostile-")
        .suffix(".toml")
        .tempfile()
        .expect("temporary files can be made");
    file.write_all(bytes).expect("temporary files can be written");
    read(file.path());
}

/// Hands each line to a parser: seeds of grammars have one example a line.
fn each_line(bytes: &[u8], mut parse: impl FnMut(&str)) {
    String::from_utf8_lossy(bytes).split('\n').take(64).for_each(&mut parse);
}
