//! Points of grids: what makes one, as a hash, and where its results are kept.

use std::path::PathBuf;
use std::sync::OnceLock;

use perforate_commands::Failure;
use perforate_experiment::{Key, Store, build, identity};
use pyo3::prelude::*;
use serde_json::json;

use crate::errors::failed;
use crate::runs::{Compared, Prepared};
use crate::work::{guarded, work};

/// A hash of all that the results of a comparison depend on: this program, the machine, the memory and
/// the schemes as they are understood, whatever words were used, and the content of the trace.
#[pyfunction]
pub fn point(py: Python<'_>, compared: Compared) -> PyResult<String> {
    work(py, None, move |_| {
        let prepared = compared.prepare()?;
        let Prepared { run, seeds, .. } = &prepared;
        let identity = identity(run).map_err(Failure::Usage)?;
        // Results have the names of traces, too.
        let names: Vec<&str> = run.workload.names().collect();
        Ok(Key::of(&own_build()?, &json!([identity, names, seeds])).0)
    })
}

/// Reading this program's file takes longer than all the rest.
pub fn own_build() -> Result<String, Failure> {
    static BUILD: OnceLock<String> = OnceLock::new();
    if let Some(known) = BUILD.get() {
        return Ok(known.clone());
    }
    let found = build()?;
    Ok(BUILD.get_or_init(|| found).clone())
}

/// The lines of points by key: in a file, which experiments keep theirs in as well, or in memory only.
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

    /// The lines of this point, if they are known.
    fn get(&self, key: String) -> Option<String> {
        self.0.get(&Key(key)).cloned()
    }

    /// Keeps the lines of a point, at once.
    fn put(&mut self, py: Python<'_>, key: String, asked: Compared, lines: String) -> PyResult<()> {
        let kept = self.0.insert(Key(key), &asked, lines);
        kept.map_err(|error| failed(py, &error.into()))
    }
}
