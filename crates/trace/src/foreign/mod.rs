//! Opening traces of any format.

use std::path::Path;

use crate::{Source, TraceError, TraceReader};

/// Opens a trace of any format that can be read; the content decides, not the name.
///
/// # Errors
/// If the file cannot be read or is of no such format.
pub fn open(path: impl AsRef<Path>) -> Result<Box<dyn Source>, TraceError> {
    Ok(Box::new(TraceReader::open(path)?))
}
