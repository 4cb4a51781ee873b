//! Columns of numbers that NumPy uses without copying, through `__array_interface__`. This module needs
//! neither NumPy nor unsafe code.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Memory of dropped columns of numbers, which new columns reuse. Page faults on fresh memory would take half
/// as long as decoding.
#[derive(Default)]
pub struct Pool(Mutex<Vec<Numbers>>);

impl Pool {
    /// Maximum number of columns whose memory waits for reuse.
    const MAX: usize = 64;

    /// Takes memory from the pool, or allocates it: an empty vector of the type of `like`, with room for
    /// `room` numbers.
    pub fn take(&self, like: &Numbers, room: usize) -> Numbers {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_suitable = |numbers: &Numbers| numbers.is_like(like) && numbers.room() >= room;
        match kept.iter().position(is_suitable) {
            Some(place) => kept.swap_remove(place),
            None => like.fresh(room),
        }
    }

    fn put(&self, numbers: Numbers) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < Self::MAX {
            kept.push(numbers);
        }
    }
}

/// Vector of numbers of one type.
pub enum Numbers {
    /// Booleans, one byte each.
    Bool(Vec<u8>),
    /// Unsigned numbers of 8 bits.
    U8(Vec<u8>),
    /// Unsigned numbers of 16 bits.
    U16(Vec<u16>),
    /// Unsigned numbers of 64 bits.
    U64(Vec<u64>),
}

/// Evaluates an expression with the vector of a [`Numbers`], regardless of its type.
macro_rules! with_vector {
    ($numbers:expr, $vector:ident => $result:expr) => {
        match $numbers {
            Numbers::Bool($vector) | Numbers::U8($vector) => $result,
            Numbers::U16($vector) => $result,
            Numbers::U64($vector) => $result,
        }
    };
}

impl Numbers {
    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    fn room(&self) -> usize {
        with_vector!(self, numbers => numbers.capacity())
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

/// A column of a batch, with one or more numbers in each row.
#[pyclass(frozen)]
pub struct Column {
    numbers: Numbers,
    /// Address of the column's numbers. NumPy may write there; this module no longer reads the numbers.
    address: usize,
    /// Number of numbers in a row.
    width: usize,
    /// Pool that gets the column's memory when no array uses it any more.
    pool: Arc<Pool>,
}

impl Drop for Column {
    fn drop(&mut self) {
        let mut numbers = std::mem::replace(&mut self.numbers, Numbers::U8(Vec::new()));
        with_vector!(&mut numbers, vector => vector.clear());
        self.pool.put(numbers);
    }
}

impl Column {
    /// Makes a column with `width` numbers in each row.
    pub fn new(mut numbers: Numbers, width: usize, pool: Arc<Pool>) -> Self {
        let address = with_vector!(&mut numbers, vector => vector.as_mut_ptr().expose_provenance());
        Self { numbers, address, width, pool }
    }

    /// Name of the numbers' type in NumPy, and number of numbers in the column.
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
    /// Address, shape and type of the column, as NumPy reads them.
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
