//! Tables with a 64-bit entry for each frame, read from start to end.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::HostError;

/// A table that is read in batches.
pub(crate) struct Entries {
    input: Box<dyn Read>,
    path: PathBuf,
    batch: usize,
    /// Bytes read so far.
    position: usize,
    bytes: Vec<u8>,
}

impl Entries {
    /// A table of which `batch` entries are read at a time. Errors name `path`.
    pub(crate) fn new(input: Box<dyn Read>, path: &Path, batch: usize) -> Self {
        let bytes = Vec::with_capacity(8 * batch);
        Self { input, path: path.to_owned(), batch, position: 0, bytes }
    }

    /// Reads the next batch into `entries`; fewer at the end of the table, and none behind it.
    pub(crate) fn read_batch(&mut self, entries: &mut Vec<u64>) -> Result<(), HostError> {
        self.bytes.clear();
        let read = (&mut self.input).take(8 * self.batch as u64).read_to_end(&mut self.bytes);
        self.position += self.bytes.len();
        let end = self.position;
        read.map_err(|error| HostError::file(&self.path, format!("byte {end}: {error}")))?;
        let (words, rest) = self.bytes.as_chunks::<8>();
        if !rest.is_empty() {
            let problem = format!("{end} bytes; expected 8 for each frame: the copy is cut off");
            return Err(HostError::file(&self.path, problem));
        }
        entries.clear();
        entries.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
        Ok(())
    }
}
