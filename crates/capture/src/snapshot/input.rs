//! Reading files of `/proc`: texts of bounded length, tables of 64-bit entries as a stream.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::CaptureError;

/// Longest text that is read: more than the largest machine has.
const MOST_TEXT_BYTES: u64 = 64 << 20;

/// An error about a file.
pub(super) fn wrong(path: &Path, problem: impl Into<String>) -> CaptureError {
    CaptureError::Snapshot { path: path.to_owned(), problem: problem.into() }
}

/// A text file; bytes that are no text become U+FFFD.
pub(super) fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    let read = File::open(path)?.take(MOST_TEXT_BYTES + 1).read_to_end(&mut bytes)?;
    if read as u64 > MOST_TEXT_BYTES {
        return Err(io::Error::other("longer than 64MB, which no such file is"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A table of 64-bit entries, one per frame.
pub(super) struct Entries<R> {
    input: R,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl<R: Read> Entries<R> {
    /// Reads up to `most` entries at a time.
    pub(super) fn new(input: R, path: &Path, most: usize) -> Self {
        Self { input, path: path.to_owned(), bytes: vec![0; 8 * most] }
    }

    /// The next entries; none at the end. `before`: how many came before.
    pub(super) fn next(&mut self, before: u64) -> Result<&[[u8; 8]], CaptureError> {
        let mut filled = 0;
        while filled < self.bytes.len() {
            match self.input.read(&mut self.bytes[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let problem = format!("byte {}: {error}", 8 * before + filled as u64);
                    return Err(wrong(&self.path, problem));
                }
            }
        }
        let (entries, rest) = self.bytes[..filled].as_chunks();
        if !rest.is_empty() {
            let bytes = 8 * before + filled as u64;
            let problem = format!("{bytes} bytes; expected 8 for each frame: the copy is cut off");
            return Err(wrong(&self.path, problem));
        }
        Ok(entries)
    }
}
