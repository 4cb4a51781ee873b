//! The bytes a trace is read from: a file, or memory.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::path::Path;

use crate::TraceError;

/// Bytes with random access.
pub(crate) trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// The bytes of a trace, from the beginning.
pub(crate) struct Content {
    pub(crate) bytes: Box<dyn ReadSeek>,
    /// Length in bytes; `None` for a pipe, in which nobody can go back.
    pub(crate) length: Option<u64>,
}

impl Content {
    /// Opens a file that is no folder.
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(|error| TraceError::io(path, "open", error))?;
        let facts = file.metadata().map_err(|error| TraceError::io(path, "read", error))?;
        let length = facts.is_file().then_some(facts.len());
        Ok(Self { bytes: Box::new(file), length })
    }

    pub(crate) fn of_memory(bytes: Vec<u8>) -> Self {
        let length = Some(bytes.len() as u64);
        Self { bytes: Box::new(Cursor::new(bytes)), length }
    }

    /// The first bytes, at most `bytes`. They stay to be read, unless this is a pipe.
    pub(crate) fn peek(&mut self, bytes: u64) -> io::Result<Vec<u8>> {
        let mut start = Vec::new();
        (&mut self.bytes).take(bytes).read_to_end(&mut start)?;
        if self.length.is_some() {
            self.bytes.rewind()?;
        }
        Ok(start)
    }
}
