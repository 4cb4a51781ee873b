//! Bundled traces: traces that come with Perforate, addressed by name.

use std::env;
use std::path::{Path, PathBuf};

use perforate_config::Program;

/// Name of the trace bundled with Perforate that is used if the user names no workload.
pub const DEFAULT: &str = "hpcc";

/// Folders to search for bundled traces, in order: `PERFORATE_TRACES`, `traces` in the current folder,
/// `traces` in each folder above the executable, and `traces` of the source tree.
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

/// Names and paths of all bundled traces, sorted by name. Empty if no folder with traces is found.
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

/// Resolves a trace named by the user: the path of a bundled trace with this name, or `name` itself. An
/// existing file takes precedence.
pub fn resolve(name: &str) -> String {
    let bundled = all().into_iter().find(|(known, _)| known == name);
    match bundled {
        Some((_, path)) if !Path::new(name).exists() => path.to_string_lossy().into_owned(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundled_traces_are_sorted_and_resolved_by_name() {
        let all = all();
        assert!(all.len() > 5 && all.is_sorted(), "{all:?}");
        for (name, path) in &all {
            assert_eq!(Path::new(&resolve(name)), path);
        }
        assert!(all.iter().any(|(name, _)| name == DEFAULT));
        for other in ["no-such-trace", "Cargo.toml", ""] {
            assert_eq!(resolve(other), other);
        }
    }
}
