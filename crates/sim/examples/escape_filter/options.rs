//! The command line.

/// What `--help` prints.
pub const HELP: &str = "\
What a few faulty pages in a direct segment cost (D §V, §IX.C, Fig. 13): random sets of 1 to 16 faulty
frames under the host's segment, against none, in Dual Direct and VMM Direct mode; and what smaller
and larger escape filters would make of 16.

Usage: cargo run --release -p perforate-sim --example escape_filter [-- OPTIONS]

  --sets N           random sets for each number of faulty frames, 2 to 1000  [default: 30]
  --instructions N   of each run; the first half warms up; 10000 to 100000000  [default: 3000000]
  --machine M        a machine's name or file (perforate list machines)
                     [default: sandy-bridge-table6]
  --check            compare every translation with the oracle
  --help             this text

Results go to standard output, progress to standard error if that is a terminal.";

/// What is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Random sets for each number of faulty frames.
    pub sets: usize,
    /// Instructions of each run, warm-up included.
    pub instructions: u64,
    /// Name or file of the machine.
    pub machine: String,
    /// Whether the oracle checks.
    pub check: bool,
    /// Whether only help is wanted.
    pub help: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sets: 30,
            instructions: 3_000_000,
            machine: "sandy-bridge-table6".into(),
            check: false,
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
            let (name, inline) = match argument.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_string())),
                _ => (argument.as_str(), None),
            };
            match (name, &inline) {
                ("--check", None) => options.check = true,
                ("--help" | "-h", None) => options.help = true,
                ("--sets" | "--instructions" | "--machine", _) => {
                    let value = inline.or_else(|| arguments.next());
                    let value = value.ok_or_else(|| format!("{name} needs a value; see --help"))?;
                    options.set(name, value)?;
                }
                ("--check" | "--help", Some(_)) => return Err(format!("{name} takes no value")),
                _ => return Err(format!("unknown argument {argument:?}; see --help")),
            }
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "--sets" => self.sets = read_number(name, &value, 2, 1000)? as usize,
            "--instructions" => {
                self.instructions = read_number(name, &value, 10_000, 100_000_000)?;
            }
            _ => self.machine = value,
        }
        Ok(())
    }
}

fn read_number(name: &str, text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{name} is a number from {least} to {most}, not {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(text.split_whitespace().map(String::from))
    }

    #[test]
    fn arguments() {
        let options = parse("--sets=5 --instructions 20000 --check").unwrap();
        assert_eq!((options.sets, options.instructions, options.check), (5, 20_000, true));
        for (text, problem) in [
            ("--sets 1", "--sets is a number from 2 to 1000, not \"1\""),
            ("--sets", "--sets needs a value"),
            ("--check=yes", "--check takes no value"),
            ("4", "unknown argument \"4\""),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
