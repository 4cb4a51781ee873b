//! Input files: regular ones only. A pipe or device may never end, or never begin.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Opens a file to be read.
///
/// # Errors
/// As [`File::open`], and if it is no regular file.
pub fn open_file(path: impl AsRef<Path>) -> io::Result<File> {
    // To open a pipe without a writer would wait for one.
    match what_else(&fs::metadata(&path)?) {
        Some(found) => Err(io::Error::other(format!("this is {found}; expected a regular file"))),
        None => File::open(path),
    }
}

/// The bytes of a file.
///
/// # Errors
/// As [`open_file`].
pub fn read_file(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a file.
///
/// # Errors
/// As [`open_file`], and if it is no UTF-8.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::new();
    open_file(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Kind of a file that is not a regular file, in words.
fn what_else(facts: &fs::Metadata) -> Option<&'static str> {
    let kind = facts.file_type();
    if kind.is_file() {
        return None;
    }
    Some(if kind.is_dir() { "a directory" } else { other(kind) })
}

#[cfg(unix)]
fn other(kind: fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match kind {
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    }
}

#[cfg(not(unix))]
fn other(_: fs::FileType) -> &'static str {
    "no file"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read() {
        let told = |path: &str| read_text(path).unwrap_err().to_string();
        assert_eq!(told("/"), "this is a directory; expected a regular file");
        assert_eq!(told("/dev/zero"), "this is a device; expected a regular file");
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/src/file.rs");
        assert!(read_text(own).unwrap().starts_with("//! Input files"));
        assert_eq!(read_file(own).unwrap(), fs::read(own).unwrap());
    }
}
