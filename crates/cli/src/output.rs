//! Standard output: its width, and tables and notes that fit it.

use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::OnceLock;

use perforate_commands::Failure;
use perforate_report::text::wrapped;
pub use perforate_report::text::{printable, quoted};
use terminal_size::terminal_size_of;

/// Columns of tables where standard output is no terminal.
pub const COLUMNS: usize = 100;

/// The words that this process was called with.
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Keeps the words that the command was called with, the program first.
pub fn called_with(words: &[OsString]) {
    let _ = WORDS.set(words.to_vec());
}

/// Columns of a wide table: as many as the terminal has, 40 to 240 of them, or [`COLUMNS`].
pub fn columns() -> usize {
    let terminal = terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    terminal.map_or(COLUMNS, |width| width.clamp(40, 240))
}

/// Prints to standard output, [made harmless](printable); a closed pipe is not an error of ours.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(printable(text).as_bytes())?;
    Ok(out.flush()?)
}

/// The command line as the user gave it, for running it again.
pub fn command() -> String {
    WORDS.get().map_or_else(|| command_of(&[]), |words| command_of(words))
}

/// A command line, the program first, for running it again.
pub fn command_of(words: &[OsString]) -> String {
    let words = words.iter().skip(1).map(quoted);
    std::iter::once("perforate".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Notes below a table, wrapped at `columns` characters.
pub fn notes<S: AsRef<str>>(notes: &[S], columns: usize) -> String {
    notes.iter().map(|note| wrapped("note: ", note.as_ref(), columns)).collect()
}
