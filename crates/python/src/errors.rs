//! Exceptions for failures. The classes are defined in Python (`perforate/_errors.py`).

use perforate_commands::Failure;
use perforate_config::ConfigError;
use perforate_records::RecordsError;
use perforate_sim::SimError;
use perforate_trace::TraceError;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Exception of a class of the package.
pub fn exception(py: Python<'_>, class: &str, text: String) -> PyErr {
    let text = perforate_config::shorten(&text);
    let found = || -> PyResult<PyErr> {
        let class = py.import("perforate._errors")?.getattr(class)?.cast_into::<PyType>()?;
        Ok(PyErr::from_type(class, text.clone()))
    };
    found().unwrap_or_else(|error| error)
}

/// `UsageError`.
pub fn wrong_use(py: Python<'_>, text: String) -> PyErr {
    exception(py, "UsageError", text)
}

/// Exception for a failure.
pub fn failed(py: Python<'_>, failure: &Failure) -> PyErr {
    let text = failure.keyword_text();
    match failure {
        Failure::Interrupted => PyKeyboardInterrupt::new_err(()),
        _ if failure.exit_code() == 2 => wrong_use(py, text),
        Failure::Internal(_) => exception(py, "InternalError", text),
        Failure::Trace(_) | Failure::Simulation(SimError::Trace(_)) => {
            exception(py, "TraceError", text)
        }
        _ => exception(py, "RunError", text),
    }
}

/// Exception for a wrong option.
pub fn wrong_option(py: Python<'_>, error: ConfigError) -> PyErr {
    failed(py, &error.into())
}

/// Exception for a trace that cannot be read or written.
pub fn wrong_trace(py: Python<'_>, error: TraceError) -> PyErr {
    failed(py, &error.into())
}

/// Exception for results that cannot be read.
pub fn wrong_results(py: Python<'_>, error: RecordsError) -> PyErr {
    failed(py, &error.into())
}
