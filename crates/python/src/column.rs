//! Columns of numbers that NumPy takes without copying: by `__array_interface__`, so that this module
//! needs neither NumPy nor a line of unsafe code.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Memory of columns that nobody looks at any more. Fresh memory is given by the system page by page,
/// which takes as long as half of the decoding.
#[derive(Default)]
pub struct Pool(Mutex<Vec<Numbers>>);

impl Pool {
    /// Most columns that are kept.
    const MOST: usize = 64;

    /// An empty column with room for so many numbers, of the kind of `like`.
    pub fn take(&self, like: &Numbers, room: usize) -> Numbers {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_one = |numbers: &Numbers| numbers.is_like(like) && numbers.room() >= room;
        match kept.iter().position(is_one) {
            Some(place) => kept.swap_remove(place),
            None => like.fresh(room),
        }
    }

    fn put(&self, numbers: Numbers) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < Self::MOST {
            kept.push(numbers);
        }
    }
}

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

/// Does the same with the numbers of each width.
macro_rules! of_each_width {
    ($numbers:expr, $vector:ident => $does:expr) => {
        match $numbers {
            Numbers::Bool($vector) | Numbers::U8($vector) => $does,
            Numbers::U16($vector) => $does,
            Numbers::U64($vector) => $does,
        }
    };
}

impl Numbers {
    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    fn room(&self) -> usize {
        of_each_width!(self, numbers => numbers.capacity())
    }

    fn fresh(&self, room: usize) -> Self {
        match self {
            Self::Bool(_) => Self::Bool(Vec::with_capacity(room)),
            Self::U8(_) => Self::U8(Vec::with_capacity(room)),
            Self::U16(_) => Self::U16(Vec::with_capacity(room)),
            Self::U64(_) => Self::U64(Vec::with_capacity(room)),
        }
    }
}

/// A column: rows of one number, or of several.
#[pyclass(frozen)]
pub struct Column {
    numbers: Numbers,
    /// Where the numbers lie; NumPy may write there, and nobody reads them here any more.
    address: usize,
    /// Numbers in a row.
    width: usize,
    /// Where the memory goes once no array has it any more.
    pool: Arc<Pool>,
}

impl Drop for Column {
    fn drop(&mut self) {
        let mut numbers = std::mem::replace(&mut self.numbers, Numbers::U8(Vec::new()));
        of_each_width!(&mut numbers, vector => vector.clear());
        self.pool.put(numbers);
    }
}

impl Column {
    /// The column with these numbers, so many in a row.
    pub fn new(mut numbers: Numbers, width: usize, pool: Arc<Pool>) -> Self {
        let address =
            of_each_width!(&mut numbers, vector => vector.as_mut_ptr().expose_provenance());
        Self { numbers, address, width, pool }
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
