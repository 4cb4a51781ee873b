//! Identity of measurements: hashes by which stored results are found again.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use perforate_sim::ResolvedRun;
use perforate_trace::{STANDARD_INPUT, split_format};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use xxhash_rust::xxh3::Xxh3;

use crate::error::ExperimentError;

/// Hash of everything that the result of a measurement depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(pub String);

impl Key {
    /// Returns the key of a measurement with this build of the program. `identity` contains
    /// everything else that the measurement depends on.
    pub fn of(build: &str, identity: &Value) -> Self {
        Self(hash(json!([build, identity]).to_string().as_bytes()).expect("memory can be read"))
    }
}

/// Returns everything that the results of a run depend on, except the build of the program:
/// [`ResolvedRun::identity`] with hashes of trace files. The folder of a trace is excluded, because it
/// differs between computers that share results.
///
/// # Errors
/// A trace that cannot be read, or standard input, which cannot be read twice.
pub fn identity(run: &ResolvedRun) -> Result<Value, String> {
    let mut run = run.clone();
    let workload = &mut run.workload;
    for name in std::iter::once(&mut workload.name).chain(&mut workload.beside) {
        if name == STANDARD_INPUT {
            let problem = "a sweep needs a workload or a file, which can be read more than once";
            return Err(format!("workload: {problem}"));
        }
        let (_, path) = split_format(Path::new(name));
        if path.exists() {
            let hash = if path.is_dir() { hash_of_folder(path) } else { hash_of_file(path) }?;
            let format = name.strip_suffix(&*path.to_string_lossy()).unwrap_or_default();
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            *name = format!("{format}{file} {hash}");
        }
    }
    Ok(run.identity())
}

/// Returns a hash of the program's executable file, because different code may measure different
/// results.
///
/// # Errors
/// An unreadable file.
pub fn build() -> Result<String, ExperimentError> {
    let failed = |source| ExperimentError::File { path: "this program's own file".into(), source };
    let path = perforate_config::Program::own().map_err(failed)?.file;
    std::fs::File::open(path).and_then(hash).map_err(failed)
}

/// Path, length and modification time of a file; the key of its cached hash.
type Facts = (PathBuf, u64, SystemTime);

/// Cache of hashes of files, because a sweep has thousands of points on few traces.
static HASHES: Mutex<BTreeMap<Facts, String>> = Mutex::new(BTreeMap::new());

/// Returns the hash of a file's contents, so that a trace that was recorded again is a different input.
///
/// # Errors
/// An unreadable file.
pub(crate) fn hash_of_file(path: &Path) -> Result<String, String> {
    let facts = std::fs::metadata(path).and_then(|it| Ok((path.into(), it.len(), it.modified()?)));
    let hashes = || HASHES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = facts.as_ref().ok().and_then(|facts| hashes().get(facts).cloned()) {
        return Ok(known);
    }
    let hash = perforate_config::open_file(path).and_then(hash);
    let hash = hash.map_err(|error| format!("{}: {error}", path.display()))?;
    if let Ok(facts) = facts {
        hashes().insert(facts, hash.clone());
    }
    Ok(hash)
}

/// Returns a hash of the names and contents of all files in a folder.
fn hash_of_folder(path: &Path) -> Result<String, String> {
    let entries = std::fs::read_dir(path)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>());
    let mut entries = entries.map_err(|error| format!("{}: {error}", path.display()))?;
    entries.sort();
    let mut contents = Vec::new();
    for entry in entries {
        let hash = if entry.is_dir() { hash_of_folder(&entry) } else { hash_of_file(&entry) }?;
        contents.push(json!([entry.file_name().map(|name| name.to_string_lossy()), hash]));
    }
    Ok(hash(json!(contents).to_string().as_bytes()).expect("memory can be read"))
}

fn hash(mut content: impl Read) -> std::io::Result<String> {
    let mut hash = Xxh3::new();
    std::io::copy(&mut content, &mut hash)?;
    Ok(format!("{:032x}", hash.digest128()))
}

#[cfg(test)]
mod tests {
    use perforate_sim::{Composition, Workload};

    use super::*;

    fn key(workload: &str, schemes: &str, seed: u64) -> Key {
        let schemes = Composition::list(schemes).unwrap();
        let run = ResolvedRun { seed, ..ResolvedRun::new(Workload::named(workload), schemes) };
        Key::of("build", &identity(&run).unwrap())
    }

    #[test]
    fn runs_differ_by_everything_that_results_depend_on() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("a.trace");
        let of_trace = |text: &str| {
            std::fs::write(&trace, text).unwrap();
            key(trace.to_str().unwrap(), "4k", 1)
        };
        let run = ResolvedRun::new(Workload::named("random"), Vec::new());
        let keys = [
            key("random", "4k", 1),
            key("random", "thp", 1),
            key("random", "4k", 2),
            key("random:size=1G", "4k", 1),
            of_trace("one"),
            of_trace("two!"),
            Key::of("build", &identity(&run).unwrap()),
            Key::of("another build", &identity(&run).unwrap()),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{index}");
        }
        assert_eq!(key("random", "4k", 1), keys[0]);
        // The same trace in another folder has the same identity.
        std::fs::create_dir(folder.path().join("b")).unwrap();
        let moved = folder.path().join("b/a.trace");
        std::fs::write(&moved, "two!").unwrap();
        assert_eq!(key(moved.to_str().unwrap(), "4k", 1), keys[5]);
    }

    #[test]
    fn folders_count_by_names_and_contents() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
            hash_of_folder(folder.path()).unwrap()
        };
        let hashes = [of("a", "x"), of("a", "xyz"), of("b", "x")];
        assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2]);
        assert_eq!(of("b", "x"), hashes[2]);
    }

    #[test]
    fn standard_input_cannot_be_read_again() {
        let run = ResolvedRun::new(Workload::named(STANDARD_INPUT), Vec::new());
        assert!(identity(&run).unwrap_err().contains("more than once"));
    }
}
