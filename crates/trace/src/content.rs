//! Source of a trace's bytes: a file or memory.

use std::io::{self, Cursor, Read, Seek};
use std::path::Path;

use perforate_config::open_file;

use crate::TraceError;
use crate::standard_input::{self, is_standard_input};

/// Source of bytes with random access, such as a file.
pub(crate) trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// Bytes of a trace, from a file or from memory, to be read from the beginning.
pub(crate) struct Content {
    pub(crate) bytes: Box<dyn ReadSeek>,
    /// Total length of the (perhaps compressed) bytes.
    pub(crate) length: u64,
}

impl Content {
    /// Opens a regular file, or standard input if the path is `-`.
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        if is_standard_input(path) {
            let opened = standard_input::open();
            let (bytes, length) = opened.map_err(|error| TraceError::io(path, "read", error))?;
            return Ok(Self { bytes: Box::new(bytes), length });
        }
        let file = open_file(path).map_err(|error| TraceError::io(path, "open", error))?;
        let facts = file.metadata().map_err(|error| TraceError::io(path, "read", error))?;
        Ok(Self { bytes: Box::new(file), length: facts.len() })
    }

    pub(crate) fn of_memory(bytes: Vec<u8>) -> Self {
        let length = bytes.len() as u64;
        Self { bytes: Box::new(Cursor::new(bytes)), length }
    }

    /// Reads the first bytes, at most `bytes`, without consuming them.
    pub(crate) fn peek(&mut self, bytes: u64) -> io::Result<Vec<u8>> {
        let mut start = Vec::new();
        (&mut self.bytes).take(bytes).read_to_end(&mut start)?;
        self.bytes.rewind()?;
        Ok(start)
    }
}
