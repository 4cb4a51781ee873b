//! The command line inside the package.

use std::ffi::OsString;
use std::path::PathBuf;

use perforate_config::Program;
use pyo3::prelude::*;

use crate::work::guarded;

/// Carries out a command as the program does, the words' first being the program, and returns its exit
/// code.
#[pyfunction]
pub fn main(py: Python<'_>, words: Vec<OsString>) -> PyResult<u8> {
    guarded(py, || Ok(py.detach(|| perforate_cli::main(words))))
}

/// Says which file this module is, and which words start the command line from another process.
#[pyfunction]
pub fn set_program(file: PathBuf, words: Vec<OsString>) {
    Program { file, words }.set();
}
