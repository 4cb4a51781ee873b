//! Standard output and result files.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use terminal_size::terminal_size_of;

use perforate_report::text::wrapped;

use crate::failure::Failure;

/// Columns of tables where standard output is no terminal.
pub const COLUMNS: usize = 100;

/// Columns of a wide table: as many as the terminal has, 40 to 240 of them, or [`COLUMNS`].
pub fn columns() -> usize {
    let terminal = terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    terminal.map_or(COLUMNS, |width| width.clamp(40, 240))
}

/// Prints to standard output; a closed pipe is not an error of ours.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes a whole file or nothing: `write` writes under another name, then it is renamed.
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
pub fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |source| Failure::Write { path: path.into(), source };
    write_whole(path, |partial| fs::write(partial, text).map_err(failed))
}

/// The command line as the user gave it, for running it again.
pub fn command() -> String {
    let quote = |word: String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:%+@".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    let words = std::env::args_os().skip(1).map(|word| quote(word.to_string_lossy().into_owned()));
    std::iter::once("perforate".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Notes below a table, wrapped at `columns` characters.
pub fn notes<S: AsRef<str>>(notes: &[S], columns: usize) -> String {
    notes.iter().map(|note| wrapped("note: ", note.as_ref(), columns)).collect()
}
