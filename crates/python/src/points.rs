//! Points of a grid: their hashes, and the store of their results.

use std::path::PathBuf;
use std::sync::OnceLock;

use perforate_cli::actions::Failure;
use perforate_experiment::{Key, Store, build, identity};
use pyo3::prelude::*;
use serde_json::json;

use crate::runs::{Compared, Prepared};
use crate::work::{guarded, work};

/// Hash of everything that the results of a comparison depend on: this build, the resolved run (machine,
/// memory, schemes), and the content of the trace.
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

/// Hash of this build of Perforate. It is computed once, because reading the program's file takes long.
pub fn own_build() -> Result<String, Failure> {
    static BUILD: OnceLock<String> = OnceLock::new();
    if let Some(known) = BUILD.get() {
        return Ok(known.clone());
    }
    let found = build()?;
    Ok(BUILD.get_or_init(|| found).clone())
}

/// Stored result lines of a grid's points (comparisons) by key, in a file of the same format as that of
/// experiments, or in memory.
#[pyclass]
pub struct PointStore(Store<String>);

#[pymethods]
impl PointStore {
    #[new]
    fn new(py: Python<'_>, file: Option<PathBuf>) -> PyResult<Self> {
        guarded(py, || {
            let build = own_build()?;
            Ok(Self(match &file {
                Some(file) => Store::open(file, build)?,
                None => Store::in_memory(build),
            }))
        })
    }

    /// Returns the result lines of a point of the grid; `None` if the point is not stored.
    fn get(&self, key: String) -> Option<String> {
        self.0.get(&Key(key)).cloned()
    }

    /// Stores the result lines of a point of the grid, with the comparison that it belongs to.
    fn put(
        &mut self,
        py: Python<'_>,
        key: String,
        compared: Compared,
        lines: String,
    ) -> PyResult<()> {
        guarded(py, || Ok(self.0.insert(Key(key), &compared, lines)?))
    }
}
