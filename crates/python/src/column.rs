//! Columns of numbers that NumPy takes without copying: by `__array_interface__`, so that this module
//! needs neither NumPy nor a line of unsafe code.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Numbers of one width.
pub enum Numbers {
    /// Truth values, one byte each.
    Bool(Vec<u8>),
    /// Bytes.
    U8(Vec<u8>),
    /// 16-bit numbers.
    U16(Vec<u16>),
    /// 64-bit numbers.
    U64(Vec<u64>),
}

/// A column: rows of one number, or of several.
#[pyclass(frozen)]
pub struct Column {
    numbers: Numbers,
    /// Where the numbers lie; NumPy may write there, and nobody reads them here any more.
    address: usize,
    /// Numbers in a row.
    width: usize,
}

impl Column {
    /// The column with these numbers, so many in a row.
    pub fn new(mut numbers: Numbers, width: usize) -> Self {
        let address = match &mut numbers {
            Numbers::Bool(bytes) | Numbers::U8(bytes) => bytes.as_mut_ptr().expose_provenance(),
            Numbers::U16(numbers) => numbers.as_mut_ptr().expose_provenance(),
            Numbers::U64(numbers) => numbers.as_mut_ptr().expose_provenance(),
        };
        Self { numbers, address, width }
    }

    /// How NumPy calls the type, and how many numbers there are.
    fn form(&self) -> (&'static str, usize) {
        match &self.numbers {
            Numbers::Bool(bytes) => ("|b1", bytes.len()),
            Numbers::U8(bytes) => ("|u1", bytes.len()),
            Numbers::U16(numbers) => ("<u2", numbers.len()),
            Numbers::U64(numbers) => ("<u8", numbers.len()),
        }
    }
}

#[pymethods]
impl Column {
    /// What NumPy must know of it.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (form, length) = self.form();
        let shape = match self.width {
            1 => PyTuple::new(py, [length])?,
            width => PyTuple::new(py, [length / width, width])?,
        };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", shape)?;
        interface.set_item("typestr", form)?;
        interface.set_item("data", (self.address, false))?;
        Ok(interface)
    }
}
