//! Python exceptions for failures. The classes are defined in Python (`perforate/_errors.py`).

use perforate_cli::actions::Failure;
use perforate_sim::SimError;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Makes the Python exception for a failure.
pub fn failed(py: Python<'_>, failure: &Failure) -> PyErr {
    let class = match failure {
        Failure::Interrupted => return PyKeyboardInterrupt::new_err(()),
        _ if failure.exit_code() == 2 => "UsageError",
        Failure::Internal(_) => "InternalError",
        Failure::Trace(_) | Failure::Simulation(SimError::Trace(_)) => "TraceError",
        _ => "RunError",
    };
    let text = perforate_config::shorten(&failure.keyword_text());
    let exception = || -> PyResult<PyErr> {
        let class = py.import("perforate._errors")?.getattr(class)?.cast_into::<PyType>()?;
        Ok(PyErr::from_type(class, text))
    };
    exception().unwrap_or_else(|error| error)
}
