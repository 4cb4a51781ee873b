//! Atomic output files, which are either complete or absent.

use std::path::Path;

use perforate_config::NewFile;

use super::Failure;

/// Writes a file completely or not at all. Devices and links are preserved (see [`NewFile`]).
///
/// # Errors
/// An error from `write`, or a file that cannot be written.
pub fn write_whole<T>(
    path: &Path,
    write: impl FnOnce(&mut NewFile) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let failed = |source| Failure::Write { path: path.into(), source };
    let mut file = NewFile::create(path).map_err(failed)?;
    let written = write(&mut file)?;
    file.finish().map_err(failed)?;
    Ok(written)
}

/// Writes a text to a file atomically, as [`write_whole`] does.
///
/// # Errors
/// The file cannot be written.
pub fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |source| Failure::Write { path: path.into(), source };
    perforate_config::write_text(path, text).map_err(failed)
}
