//! Tables with one 64-bit entry per frame, such as `/proc/kpageflags`, read in order.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::HostError;

/// Reader of a table with one 64-bit entry per frame, such as `/proc/kpageflags`, in batches.
pub(crate) struct Entries {
    input: Box<dyn Read>,
    path: PathBuf,
    batch: usize,
    /// Number of bytes read so far, for error messages.
    position: usize,
    bytes: Vec<u8>,
}

impl Entries {
    /// Creates a reader of `batch` entries at a time, whose errors name `path`.
    pub(crate) fn new(input: Box<dyn Read>, path: &Path, batch: usize) -> Self {
        let bytes = Vec::with_capacity(8 * batch);
        Self { input, path: path.to_owned(), batch, position: 0, bytes }
    }

    /// Reads the table's next batch into `entries`: fewer entries at the end of the table, and none
    /// after it.
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
