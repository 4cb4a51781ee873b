//! The traces that come with the program, by name.

use std::env;
use std::path::{Path, PathBuf};

use perforate_config::Program;

/// The trace used where none is named.
pub const DEFAULT: &str = "hpcc";

/// Folders that may hold the bundled traces: named by the environment, below the current folder,
/// beside the program or above it (as in `target/release`), and where it was built.
fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        env::var_os("PERFORATE_TRACES").map(PathBuf::from).into_iter().collect();
    folders.push("traces".into());
    if let Ok(program) = Program::own() {
        folders.extend(program.file.ancestors().skip(1).map(|folder| folder.join("traces")));
    }
    folders.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces"));
    folders
}

/// All bundled traces: name and path, in order of name.
pub fn all() -> Vec<(String, PathBuf)> {
    let traces = folders().into_iter().find_map(|folder| {
        let mut traces: Vec<(String, PathBuf)> = std::fs::read_dir(folder)
            .ok()?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "trace"))
            .filter_map(|path| {
                let path = path.canonicalize().ok()?;
                Some((path.file_stem()?.to_str()?.to_owned(), path))
            })
            .collect();
        traces.sort();
        (!traces.is_empty()).then_some(traces)
    });
    traces.unwrap_or_default()
}

/// What the user named: a bundled trace by its name, or the name unchanged.
pub fn resolve(name: &str) -> String {
    let bundled = all().into_iter().find(|(known, _)| known == name);
    match bundled {
        Some((_, path)) if !Path::new(name).exists() => path.to_string_lossy().into_owned(),
        _ => name.to_owned(),
    }
}
