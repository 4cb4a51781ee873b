//! The command line.

use perforate_sim::parse_size;

/// Minutes of a run with the options as they are by default, on two idle processors.
pub const MINUTES: u32 = 6;

/// What `--help` prints.
pub const HELP: &str = "\
Claims of papers G and P about gap-tolerant superpages, the papers' figures beside ours.

Usage: cargo run --release -p perforate-sim --example gtsm_claims [-- OPTIONS]

  --only PART       workloads (G Table 5, Fig. 11 to 13, 16 to 18), sizes (G Fig. 15)
                    or faults (P Fig. 10)  [default: all]
  --size SIZE       data of the workloads at most, 64M to 16G; G's are larger for most, and GUPS
                    has G's 4G at any rate  [default: 2G]
  --largest SIZE    largest table of G Fig. 15, 64M to 64G  [default: 64G]
  --seeds N         runs of each, seeds 1 to N; 1 to 100  [default: 3]
  --instructions N  instructions of a run, a third of them to warm up  [default: 5000000]
  --help            this text

Results go to standard output, progress to standard error if that is a terminal.";

/// A part of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// G's nine workloads.
    Workloads,
    /// GUPS of growing size.
    Sizes,
    /// Perforated pages beside gap-tolerant superpages on faulty memory.
    Faults,
}

/// What is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// One part; none: all.
    pub only: Option<Part>,
    /// Data of the workloads at most, in bytes.
    pub size_bytes: u64,
    /// The largest table of GUPS, in bytes.
    pub largest_bytes: u64,
    /// Seeds 1 to this.
    pub seeds: u64,
    /// Instructions of a run, warm-up included.
    pub instructions: u64,
    /// Whether only help is wanted.
    pub help: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            only: None,
            size_bytes: 2 << 30,
            largest_bytes: 64 << 30,
            seeds: 3,
            instructions: 5_000_000,
            help: false,
        }
    }
}

impl Options {
    /// Reads the arguments after the program's name.
    ///
    /// # Errors
    /// One line that says what is wrong and what would be right.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (argument, None),
            };
            match name.as_str() {
                "--help" | "-h" => options.help = true,
                "--only" | "--size" | "--largest" | "--seeds" | "--instructions" => {
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
                    "workloads" => Part::Workloads,
                    "sizes" => Part::Sizes,
                    "faults" => Part::Faults,
                    _ => {
                        let parts = "workloads, sizes or faults";
                        return Err(format!("--only is {parts}, not {value:?}"));
                    }
                });
            }
            "--size" => self.size_bytes = size("--size", value, 16)?,
            "--largest" => self.largest_bytes = size("--largest", value, 64)?,
            "--seeds" => self.seeds = number(name, value, 1, 100)?,
            _ => self.instructions = number(name, value, 1000, 10_000_000_000)?,
        }
        Ok(())
    }

    /// Whether nothing was said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a part is to be run.
    pub fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

fn size(name: &'static str, text: &str, most_gigabytes: u64) -> Result<u64, String> {
    let bytes = parse_size(name, text).map_err(|error| error.to_string())?;
    if !(64 << 20..=most_gigabytes << 30).contains(&bytes) {
        return Err(format!("{name} is 64M to {most_gigabytes}G, not {text:?}"));
    }
    Ok(bytes)
}

fn number(name: &str, text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{name} is a number from {least} to {most}, not {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &str) -> Result<Options, String> {
        Options::parse(arguments.split_whitespace().map(String::from))
    }

    #[test]
    fn arguments_are_read() {
        let options = parse("--only sizes --largest=1G --seeds 2").unwrap();
        assert_eq!(
            (options.largest_bytes, options.seeds, options.size_bytes),
            (1 << 30, 2, 2 << 30)
        );
        assert!(options.wants(Part::Sizes) && !options.wants(Part::Faults));
        assert!(!options.is_default() && parse("").unwrap().is_default());
        assert!(parse("").unwrap().wants(Part::Faults));
    }

    #[test]
    fn bad_arguments_are_refused_with_what_would_be_right() {
        for (arguments, right) in [
            ("--only capacity", "workloads, sizes or faults"),
            ("--size 17G", "64M to 16G"),
            ("--largest 1M", "64M to 64G"),
            ("--seeds 0", "1 to 100"),
            ("--seeds", "needs a value"),
            ("--fast", "see --help"),
        ] {
            let problem = parse(arguments).unwrap_err();
            assert!(problem.contains(right), "{arguments}: {problem}");
        }
    }
}
