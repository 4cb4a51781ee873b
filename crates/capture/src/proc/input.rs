//! Texts of bounded length, and what is said of a file that is wrong.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::CaptureError;

/// Longest text that is read: more than the largest machine has.
const MOST_TEXT_BYTES: u64 = 64 << 20;

/// An error about a file.
pub(crate) fn wrong(path: &Path, problem: impl Into<String>) -> CaptureError {
    CaptureError::Snapshot { path: path.to_owned(), problem: problem.into() }
}

/// A text file; bytes that are no text become U+FFFD.
pub(crate) fn text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut bytes = Vec::new();
    let read = File::open(path)?.take(MOST_TEXT_BYTES + 1).read_to_end(&mut bytes)?;
    if read as u64 > MOST_TEXT_BYTES {
        return Err(io::Error::other("longer than 64MB, which no such file is"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Release of the kernel (`sys/kernel/osrelease`), from a folder that is `/proc` or a copy of parts
/// of it; nothing if it cannot be read.
pub fn kernel_release(folder: &Path) -> String {
    let release = text(folder.join("sys/kernel/osrelease")).unwrap_or_default();
    let word = release.split_whitespace().next().unwrap_or_default();
    word.chars().filter(char::is_ascii_graphic).take(64).collect()
}
