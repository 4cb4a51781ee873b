//! All fuzzing targets, one for each reader.

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

/// Memory limit in bytes for targets whose readers read small files.
const LITTLE: usize = 16 << 20;

/// All fuzzing targets, grouped by module.
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

/// Finds a fuzzing target by its name.
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

/// Converts a reader's result to an option. Asserts that an error message is one line, whatever the
/// input contains.
fn told<T, E: Display>(outcome: Result<T, E>) -> Option<T> {
    outcome.map_err(|error| assert_one_line(&error.to_string())).ok()
}

fn assert_one_line(text: &str) {
    assert!(!text.is_empty() && !text.contains('\n'), "an error of several lines: {text:?}");
}

/// Writes the bytes to a temporary file, and passes its path to `read`.
fn with_file(bytes: &[u8], read: impl FnOnce(&Path)) {
    let mut file = tempfile::Builder::new()
        .prefix("perforate-hostile-")
        .suffix(".toml")
        .tempfile()
        .expect("temporary files can be made");
    file.write_all(bytes).expect("temporary files can be written");
    read(file.path());
}

/// Passes each of the first 64 lines of the input to a parser. Seeds for grammars have one example
/// per line.
fn each_line(bytes: &[u8], mut parse: impl FnMut(&str)) {
    String::from_utf8_lossy(bytes).split('\n').take(64).for_each(&mut parse);
}
