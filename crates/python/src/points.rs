//! Points of a grid: their hashes, and the store of their results.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use perforate_commands::Failure;
use perforate_experiment::{Key, Store, build, hash_of_file};
use perforate_trace::{STANDARD_INPUT, split_format};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::errors::failed;
use crate::runs::{Compared, Prepared};
use crate::work::{guarded, work};

/// Hash of everything that the results of a comparison depend on: this build, the resolved run (machine,
/// memory, schemes), and the content of the trace.
#[pyfunction]
pub fn point(py: Python<'_>, compared: Compared) -> PyResult<String> {
    work(py, None, move |_| {
        let prepared = compared.prepare()?;
        let Prepared { run, seeds, .. } = &prepared;
        let content = run.workload.names().map(content).collect::<Result<Vec<_>, _>>()?;
        let all = json!([own_build()?, run.identity(), seeds, content]);
        Ok(Key::of_all(&all).to_string())
    })
}

/// Hash of this build. It is computed once, as reading the program's file takes long.
pub fn own_build() -> Result<String, Failure> {
    static BUILD: OnceLock<String> = OnceLock::new();
    if let Some(known) = BUILD.get() {
        return Ok(known.clone());
    }
    let found = build()?;
    Ok(BUILD.get_or_init(|| found).clone())
}

/// Hash of a trace's content; `None` for a synthetic workload, which its name describes.
fn content(workload: &str) -> Result<Option<String>, Failure> {
    if workload == STANDARD_INPUT {
        let problem = "a sweep needs a workload or a file, which can be read more than once";
        return Err(Failure::Usage(format!("workload: {problem}")));
    }
    let path = split_format(Path::new(workload)).1;
    if !path.exists() {
        return Ok(None);
    }
    hash(path).map(Some)
}

fn hash(path: &Path) -> Result<String, Failure> {
    if path.is_dir() { of_folder(path) } else { hash_of_file(path).map_err(Failure::Usage) }
}

fn of_folder(path: &Path) -> Result<String, Failure> {
    let failed = |error| Failure::Usage(format!("{}: {error}", path.display()));
    let mut entries = std::fs::read_dir(path)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>())
        .map_err(failed)?;
    entries.sort();
    let hashes = entries
        .iter()
        .map(|entry| Ok(json!([entry.file_name().map(|it| it.to_string_lossy()), hash(entry)?])));
    let hashes = hashes.collect::<Result<Vec<Value>, Failure>>()?;
    Ok(Key::of_all(&json!(hashes)).to_string())
}

/// Result lines of points by key, in a file of the same format as that of experiments, or in memory.
#[pyclass]
pub struct PointStore(Store<String>);

#[pymethods]
impl PointStore {
    #[new]
    fn new(py: Python<'_>, file: Option<PathBuf>) -> PyResult<Self> {
        guarded(py, || {
            let open = || {
                let build = own_build()?;
                Ok(match &file {
                    Some(file) => Store::open(file, build)?,
                    None => Store::in_memory(build),
                })
            };
            open().map(Self).map_err(|failure: Failure| failed(py, &failure))
        })
    }

    /// Result lines of a point, if it is stored.
    fn get(&self, key: String) -> Option<String> {
        self.0.get(&Key::from(key)).cloned()
    }

    /// Stores the result lines of a point.
    fn put(
        &mut self,
        py: Python<'_>,
        key: String,
        compared: Compared,
        lines: String,
    ) -> PyResult<()> {
        let kept = self.0.insert(Key::from(key), &compared, lines);
        kept.map_err(|error| failed(py, &error.into()))
    }
}
