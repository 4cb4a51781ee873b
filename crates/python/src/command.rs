//! The command line of Perforate, as part of the package.

use std::ffi::OsString;
use std::path::PathBuf;

use perforate_config::Program;
use pyo3::prelude::*;

use crate::work::guarded;

/// Runs the command line with these arguments, of which the first is the program. Returns the exit code.
#[pyfunction]
pub fn main(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<u8> {
    guarded(py, || Ok(py.detach(|| perforate_cli::main(arguments))))
}

/// Stores the path of this module's file, and the command that starts the command line in another process.
#[pyfunction]
pub fn set_program(file: PathBuf, command: Vec<OsString>) {
    Program { file, command }.set();
}
