//! Standard output: its width, and tables and notes that fit it.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;

use crate::actions::{Failure, ResultFolder};
use perforate_report::text::{hanging, wrapped};
pub use perforate_report::text::{printable, quoted};
use terminal_size::terminal_size_of;

/// Width of tables in characters if standard output is not a terminal, and the largest width of sentences.
pub const COLUMNS: usize = 100;

/// Command line of this process, program first.
static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Stores the command line of this process, program first, for [`command`].
pub fn set_command(arguments: &[OsString]) {
    let _ = ARGUMENTS.set(arguments.to_vec());
}

/// Output of a command that has not been printed yet.
pub struct CommandOutput {
    /// JSON output: one object, or one on each line.
    pub json: String,
    /// Text output: tables and notes.
    pub text: String,
}

impl CommandOutput {
    /// Prints the JSON output if `json` is true, otherwise the text output.
    pub fn print(&self, json: bool) -> Result<(), Failure> {
        print(if json { &self.json } else { &self.text })
    }
}

/// Narrowest terminal in which the help stands in a column beside the options; in a narrower one, it begins
/// beside each option and goes on below.
const LEAST_FOR_COLUMN: usize = 80;

/// Width of a wide table in characters: the width of the terminal, within 40 to 240 columns, or [`COLUMNS`].
pub fn columns() -> usize {
    // Tests have the same width in every terminal.
    if cfg!(test) {
        return COLUMNS;
    }
    let terminal = terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    terminal.map_or(COLUMNS, |width| width.clamp(40, 240))
}

/// Width of sentences and narrow tables in characters: that of the terminal, from 40 to [`COLUMNS`].
pub fn text_columns() -> usize {
    columns().min(COLUMNS)
}

/// Writes a name in a column of this width and its description, which goes on below its own beginning. The
/// name and the first words share a line, so that a search for the name finds what it is.
pub fn described(indent: &str, name: &str, name_columns: usize, text: &str) -> String {
    described_in(text_columns(), indent, name, name_columns, text)
}

fn described_in(width: usize, indent: &str, name: &str, name_columns: usize, text: &str) -> String {
    let name_columns = if width < LEAST_FOR_COLUMN { 1 } else { name_columns };
    let lead = format!("{indent}{name:<name_columns$} ");
    let margin =
        indent.chars().count() + if width < LEAST_FOR_COLUMN { 4 } else { name_columns + 1 };
    hanging(&lead, text, margin, width)
}

/// Prints a text to standard output, with control characters [escaped](printable).
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(printable(text).as_bytes())?;
    Ok(out.flush()?)
}

/// The command line as the user gave it, for running it again.
pub fn command() -> String {
    command_of(ARGUMENTS.get().map_or(&[], Vec::as_slice))
}

/// Command line with these arguments, of which the first is the program, quoted for a shell.
pub fn command_of(arguments: &[OsString]) -> String {
    let arguments = arguments.iter().skip(1).map(quoted);
    std::iter::once("perforate".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Folder for results: `out`, or by default a new one named after `name`; `None` if only JSON is printed.
pub fn result_folder(
    out: Option<&Path>,
    json: bool,
    name: &str,
) -> Result<Option<ResultFolder>, Failure> {
    match (out, json) {
        (None, true) => Ok(None),
        (out, _) => ResultFolder::of(out, name).map(Some),
    }
}

/// Formats the size of a trace relative to its length between two texts: `, 0.034 per instruction`. Empty for a
/// trace without instructions.
pub fn per_instruction(bytes: u64, instructions: u64, [before, after]: [&str; 2]) -> String {
    match instructions {
        0 => String::new(),
        _ => format!("{before}{:.3} per instruction{after}", bytes as f64 / instructions as f64),
    }
}

/// Formats notes below a table, wrapped at `columns` characters.
pub fn notes<S: AsRef<str>>(notes: &[S], columns: usize) -> String {
    notes.iter().map(|note| wrapped("note: ", note.as_ref(), columns)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_without_instructions_has_no_size_per_instruction() {
        assert_eq!(per_instruction(30, 20, ["(", ")"]), "(1.500 per instruction)");
        assert_eq!(per_instruction(530, 0, ["(", ")"]), "");
    }

    #[test]
    fn descriptions_stand_in_a_column_or_go_on_below() {
        let text = |width| described_in(width, "  ", "seed=N", 8, &"word ".repeat(20));
        let wide = text(100);
        assert!(
            wide.starts_with("  seed=N   word word") && wide.contains("\n           word"),
            "{wide}"
        );
        let narrow = text(40);
        let first = "  seed=N word word word word word word\n      word word";
        assert!(narrow.starts_with(first), "{narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
        let long = described_in(100, "  ", "a-name-of-more", 8, "than its column");
        assert_eq!(long, "  a-name-of-more than its column\n");
    }
}
