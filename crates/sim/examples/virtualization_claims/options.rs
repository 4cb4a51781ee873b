//! The command line.

use perforate_sim::parse_size;

/// What `--help` prints.
pub const HELP: &str = "\
Claims of papers D and P about virtualized translation, the paper's figures beside ours.

Usage: cargo run --release -p perforate-sim --example virtualization_claims [-- OPTIONS]

  --only PART       walks, overheads or perforated  [default: all]
  --size SIZE       data of the synthetic workloads of the overheads, 256M to 128G
                    [default: 8G; D has 60 to 75GB]
  --seeds N         runs of each, seeds 1 to N; 1 to 100  [default: 3]
  --instructions N  instructions of a run, a third of them to warm up  [default: 2000000]
  --help            this text

Results go to standard output, progress to standard error if that is a terminal.";

/// A part of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// References and checks of a walk.
    Walks,
    /// Overheads as in D Fig. 11, and D's claims.
    Overheads,
    /// Perforated pages (P Fig. 11).
    Perforated,
}

/// What is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// One part; none: all.
    only: Option<Part>,
    /// Data of the synthetic workloads, in bytes.
    pub size_bytes: u64,
    /// Seeds 1 to this.
    pub seeds: u64,
    /// Instructions of a run, warm-up included.
    pub instructions: u64,
    /// Whether only help is wanted.
    pub help: bool,
}

impl Options {
    /// Reads the arguments after the program's name.
    ///
    /// # Errors
    /// One line that says what is wrong and what would be right.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            only: None,
            size_bytes: 8 << 30,
            seeds: 3,
            instructions: 2_000_000,
            help: false,
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (argument, None),
            };
            match name.as_str() {
                "--help" | "-h" => options.help = true,
                "--only" | "--size" | "--seeds" | "--instructions" => {
                    let value = value.or_else(|| arguments.next());
                    let value = value.ok_or_else(|| format!("{name} needs a value; see --help"))?;
                    options.set(&name, &value)?;
                }
                _ => return Err(format!("unknown argument {name:?}; see --help")),
            }
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "--only" => {
                self.only = Some(match value {
                    "walks" => Part::Walks,
                    "overheads" => Part::Overheads,
                    "perforated" => Part::Perforated,
                    _ => {
                        let parts = "walks, overheads or perforated";
                        return Err(format!("--only is {parts}, not {value:?}"));
                    }
                });
            }
            "--size" => {
                let bytes = parse_size("--size", value).map_err(|error| error.to_string())?;
                if !(256 << 20..=128 << 30).contains(&bytes) {
                    return Err(format!("--size is 256M to 128G, not {value:?}"));
                }
                self.size_bytes = bytes;
            }
            "--seeds" => self.seeds = number(name, value, 1, 100)?,
            _ => self.instructions = number(name, value, 1000, 10_000_000_000)?,
        }
        Ok(())
    }

    /// Whether a part is to be run.
    pub fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

fn number(name: &str, text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{name} is a number from {least} to {most}, not {text:?}"))
}
