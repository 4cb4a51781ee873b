//! Options of `perforate validate` for mosaics (layouts that mix 4KB and 2MB pages in one program), and the
//! file that lists the programs to measure.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::actions::Failure;
use clap::Args;
use perforate_config::Count;
use perforate_host::layout::{LayoutChoice, LayoutFile, Shape};
use perforate_host::validate::{Mosaics, ProgramSample};

/// Number of layouts of page sizes by default.
const LAYOUTS: u64 = 6;

/// Layouts and programs.
#[derive(Args)]
#[command(next_help_heading = "Mosaics")]
pub struct MosaicArguments {
    /// A layout of 4KB and 2MB pages, a file of Mosalloc's with the lines
    /// type,pageSize,startOffset,endOffset; may be given several times
    #[arg(long, value_name = "FILE")]
    layout: Vec<PathBuf>,
    /// Number of layouts without a file: all 2MB, first and last half, every second page, random
    /// halves, … [default: 6 with --programs and no --layout]
    #[arg(long, value_name = "N")]
    layouts: Option<Count<1, 1000>>,
    /// Write each layout that is measured, of pools of this size, as a file of Mosalloc's into this folder
    #[arg(long, value_name = "DIR")]
    write_layouts: Option<PathBuf>,
    /// File with programs to time and record with all layouts, one a line:
    /// [skip=N] [instructions=N] -- PROG ARGS…, or the program and its arguments alone
    #[arg(long, value_name = "FILE")]
    pub programs: Option<PathBuf>,
}

impl MosaicArguments {
    /// Reads layouts and programs; `None` if no option of mosaics is given. `sample` is the program of the
    /// command line. `defaults` has the instructions to skip and, if there is a limit, to record.
    pub fn read(
        &self,
        sample: Option<&ProgramSample>,
        defaults: (u64, Option<u64>),
    ) -> Result<Option<Mosaics>, Failure> {
        if self.layout.is_empty() && self.layouts.is_none() && self.programs.is_none() {
            return match &self.write_layouts {
                Some(_) => Err(Failure::Usage(
                    "--write-layouts: there are none; expected --layouts, --layout or --programs too"
                        .into(),
                )),
                None => Ok(None),
            };
        }
        let files = self.layout.iter().map(|path| Ok(LayoutChoice::File(LayoutFile::read(path)?)));
        let mut layouts = files.collect::<Result<Vec<_>, Failure>>()?;
        let count = self.layouts.map(Count::get).or(layouts.is_empty().then_some(LAYOUTS));
        let shapes = Shape::list(count.unwrap_or(0) as usize);
        layouts.extend(shapes.into_iter().map(LayoutChoice::Shape));
        let mut programs: Vec<_> = sample.cloned().into_iter().collect();
        if let Some(path) = &self.programs {
            programs.extend(read_programs(path, defaults)?);
        }
        Ok(Some(Mosaics { layouts, programs, written_to: self.write_layouts.clone() }))
    }
}

/// Reads the file with programs to measure.
fn read_programs(path: &Path, defaults: (u64, Option<u64>)) -> Result<Vec<ProgramSample>, Failure> {
    let wrong =
        |problem: String| Failure::Usage(format!("--programs {}: {problem}", path.display()));
    let text = perforate_config::read_text(path).map_err(|error| wrong(error.to_string()))?;
    let mut programs = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let sample = read_program(line, defaults);
        let sample = sample.map_err(|problem| wrong(format!("line {}: {problem}", number + 1)))?;
        programs.extend(sample);
    }
    if programs.is_empty() {
        return Err(wrong("no program in it; expected one a line".into()));
    }
    Ok(programs)
}

/// Parses a line of the file with programs; `None` if the line is empty or a comment.
fn read_program(line: &str, defaults: (u64, Option<u64>)) -> Result<Option<ProgramSample>, String> {
    let mut words = split(line)?;
    let (mut skip, mut instructions) = defaults;
    let options = words.iter().position(|word| word == "--");
    for option in words.drain(..options.map_or(0, |place| place + 1)).filter(|word| word != "--") {
        let (key, value) = option.split_once('=').unwrap_or((&option, ""));
        let count = || {
            value.parse().map(|count: Count| count.get()).map_err(|error| format!("{key}: {error}"))
        };
        match key {
            "skip" => skip = count()?,
            "instructions" => instructions = Some(count()?),
            _ => return Err(format!("\"{option}\"; expected skip=N or instructions=N before --")),
        }
    }
    if words.is_empty() {
        let problem = "no program after --".to_owned();
        return if options.is_some() { Err(problem) } else { Ok(None) };
    }
    let words = words.into_iter().map(OsString::from).collect();
    Ok(Some(ProgramSample { words, skip, instructions }))
}

/// Splits a line into words like a shell: blanks separate words, quotes and backslashes protect them, and
/// `#` begins a comment. Nothing is expanded.
fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '#' if word.is_none() => break,
            blank if blank.is_whitespace() => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        None => return Err(format!("a quote {character} without its end")),
                        Some(end) if end == character => break,
                        Some('\\') if character == '"' => word.extend(characters.next()),
                        Some(inside) => word.push(inside),
                    }
                }
            }
            '\\' => match characters.next() {
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err("a backslash at the end".into()),
            },
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let words = |line| split(line).unwrap();
        assert_eq!(words("xz  -9k 'a file' # comment"), ["xz", "-9k", "a file"]);
        assert_eq!(
            words(r#"sh -c "echo \"a\" 'b'" c\ d '' e#f"#),
            ["sh", "-c", "echo \"a\" 'b'", "c d", "", "e#f"]
        );
        assert!(words("  # nothing").is_empty());
        assert!(split("a 'b").unwrap_err().contains("without its end"));
        assert!(split("a\\").unwrap_err().contains("backslash"));
    }

    #[test]
    fn lines_of_programs() {
        let read = |line| read_program(line, (0, Some(1000)));
        let sample = read("skip=5M -- prog -- x").unwrap().unwrap();
        assert_eq!((sample.skip, sample.instructions), (5_000_000, Some(1000)));
        assert_eq!(sample.words, ["prog", "--", "x"]);
        assert_eq!(read("prog x").unwrap().unwrap().words, ["prog", "x"]);
        assert!(read("").unwrap().is_none() && read("# a").unwrap().is_none());
        for (line, expected) in [
            ("skip=x -- prog", "skip: "),
            ("prog -- x", "\"prog\"; expected skip=N or instructions=N before --"),
            ("skip=1 --", "no program after --"),
        ] {
            assert!(read(line).unwrap_err().contains(expected), "{line}");
        }
    }
}
