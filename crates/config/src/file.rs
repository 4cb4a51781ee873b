//! Input files. Only regular files are read: a pipe or a device may block or never end.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Opens a file for reading.
///
/// # Errors
/// Errors of [`File::open`], and files that are not regular files.
pub fn open_file(path: impl AsRef<Path>) -> io::Result<File> {
    // Opening a pipe without a writer would block.
    match irregular_kind(&fs::metadata(&path)?) {
        Some(found) => Err(io::Error::other(format!("this is {found}; expected a regular file"))),
        None => File::open(path),
    }
}

/// Reads a file as bytes.
///
/// # Errors
/// Errors of [`open_file`] and of reading.
pub fn read_file(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file as text.
///
/// # Errors
/// Errors of [`open_file`] and of reading, and text that is not UTF-8.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::new();
    open_file(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Kind of a file that is not a regular file, for messages; `None` for a regular file.
fn irregular_kind(facts: &fs::Metadata) -> Option<&'static str> {
    let kind = facts.file_type();
    if kind.is_file() {
        return None;
    }
    Some(if kind.is_dir() { "a directory" } else { special_kind(kind) })
}

#[cfg(unix)]
fn special_kind(kind: fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match kind {
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    }
}

#[cfg(not(unix))]
fn special_kind(_: fs::FileType) -> &'static str {
    "no file"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read() {
        let problem = |path: &str| read_text(path).unwrap_err().to_string();
        assert_eq!(problem("/"), "this is a directory; expected a regular file");
        assert_eq!(problem("/dev/zero"), "this is a device; expected a regular file");
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/src/file.rs");
        assert!(read_text(own).unwrap().starts_with("//! Input files"));
        assert_eq!(read_file(own).unwrap(), fs::read(own).unwrap());
    }
}
