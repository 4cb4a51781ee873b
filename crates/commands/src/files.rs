//! Files that are whole or not there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;

/// Writes a whole file or nothing: `write` writes under another name, then it is renamed.
///
/// # Errors
/// What `write` says, or the file cannot be written.
pub fn write_whole<T>(
    path: &Path,
    write: impl FnOnce(&Path) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let failed = |source| Failure::Write { path: path.into(), source };
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let outcome =
        write(&partial).and_then(|written| match fs::rename(&partial, path).map_err(failed) {
            Ok(()) => Ok(written),
            Err(failure) => Err(failure),
        });
    if outcome.is_err() {
        let _ = fs::remove_file(&partial); // the first error is the one to tell
    }
    outcome
}

/// As [`write_whole`], of a text.
///
/// # Errors
/// The file cannot be written.
pub fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |source| Failure::Write { path: path.into(), source };
    write_whole(path, |partial| fs::write(partial, text).map_err(failed))
}
