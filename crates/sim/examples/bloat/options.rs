//! The command line of the case study.

use std::path::PathBuf;

use perforate_sim::Machine;

/// Most keys: state of the store and of six pages each must fit the host.
const MOST_KEYS: u64 = 16_000_000;
/// Longest value; each page of a value is one access of each read.
const LONGEST_VALUE_BYTES: u64 = 1 << 20;

/// What `--help` prints.
pub const HELP: &str = "\
Memory bloat of a key-value store (P §III.B): 4KB pages, THP, perforated pages with reservation

Usage: cargo run --release -p perforate-sim --example bloat [-- OPTIONS]

  --keys N           keys of the store; K and M are 1000 and 1,000,000 [500K; the paper: 4M]
  --value-bytes N    bytes of a value; K is 1024 here [16K]
  --padding yes|no   a page more for each object of 16KB or more, as jemalloc does unless built
                     otherwise, as for Redis since 2023 [yes]
  --live SHARE%      keys left after deleting at random, in the first table [100%]
  --reads N          random reads that are measured, after a tenth as many [1M]
  --seeds N          seeds, from 1 on; tables give least, median, most [5]
  --deletion-keys N  keys of the store in the table of deletions; 0: no such table [50K]
  --machine M        machine, by name or file [perforated-table2]
  --trace FILE       recorded program of the last table; none: no such table [traces/redis.trace]
  --help             this text";

/// What is to be done.
#[derive(Debug)]
pub struct Options {
    pub keys: u64,
    pub value_bytes: u64,
    /// Whether large extents are a page longer than their class.
    pub padding: bool,
    /// Share of keys that stay, 0–1.
    pub live: f64,
    pub reads: u64,
    pub seeds: u64,
    pub deletion_keys: u64,
    pub machine: String,
    pub trace: Option<PathBuf>,
}

/// What the command line asks for.
#[derive(Debug)]
pub enum Request {
    Help,
    Run(Options),
}

impl Default for Options {
    fn default() -> Self {
        let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/redis.trace");
        Self {
            keys: 500_000,
            value_bytes: 16 << 10,
            padding: true,
            live: 1.0,
            reads: 1_000_000,
            seeds: 5,
            deletion_keys: 50_000,
            machine: Machine::DEFAULT.into(),
            trace: Some(bundled.into()),
        }
    }
}

/// Reads the command line.
///
/// # Errors
/// One line with what is wrong and what would be right.
pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Request, String> {
    let mut options = Options::default();
    let mut arguments = arguments;
    while let Some(name) = arguments.next() {
        if name == "--help" || name == "-h" {
            return Ok(Request::Help);
        }
        let mut value = || arguments.next().ok_or(format!("{name} needs a value; see --help"));
        match name.as_str() {
            "--keys" => options.keys = number(&name, &value()?, 1_000, 1..=MOST_KEYS)?,
            "--value-bytes" => {
                options.value_bytes = number(&name, &value()?, 1_024, 1..=LONGEST_VALUE_BYTES)?;
            }
            "--padding" => {
                options.padding = match value()?.as_str() {
                    "yes" => true,
                    "no" => false,
                    other => return Err(format!("--padding is yes or no, not \"{other}\"")),
                };
            }
            "--live" => options.live = share(&name, &value()?)?,
            "--reads" => options.reads = number(&name, &value()?, 1_000, 1..=1_000_000_000)?,
            "--seeds" => options.seeds = number(&name, &value()?, 1_000, 1..=1_000)?,
            "--deletion-keys" => {
                options.deletion_keys = number(&name, &value()?, 1_000, 0..=MOST_KEYS)?;
            }
            "--machine" => options.machine = value()?,
            "--trace" => {
                options.trace = Some(value()?).filter(|path| path != "none").map(Into::into);
            }
            _ => return Err(format!("unknown option \"{name}\"; see --help")),
        }
    }
    Ok(Request::Run(options))
}

/// A whole number with K or M behind it.
fn number(
    name: &str,
    text: &str,
    thousand: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (&text[..at], thousand),
        Some((at, 'M' | 'm')) => (&text[..at], thousand * thousand),
        _ => (text, 1),
    };
    let value = digits.parse::<u64>().ok().and_then(|value| value.checked_mul(unit));
    value.filter(|value| range.contains(value)).ok_or_else(|| {
        format!("{name} is a number from {} to {}, not \"{text}\"", range.start(), range.end())
    })
}

/// A share in percent, more than nothing.
fn share(name: &str, text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    match percent {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err(format!("{name} is a share over 0% and up to 100%, not \"{text}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Request, String> {
        parse(text.split_whitespace().map(String::from))
    }

    #[test]
    fn options_are_read() {
        let Ok(Request::Run(options)) = read(
            "--keys 4M --value-bytes 2K --padding no --live 50% --reads 10 --seeds 7 --trace none",
        ) else {
            panic!("they are right");
        };
        assert_eq!((options.keys, options.value_bytes), (4_000_000, 2_048));
        assert_eq!((options.live, options.reads, options.seeds), (0.5, 10, 7));
        assert_eq!((options.padding, options.trace), (false, None));
        assert!(matches!(read("--keys 3 --help"), Ok(Request::Help)));
    }

    #[test]
    fn mistakes_say_in_one_line_what_would_be_right() {
        for (text, part) in [
            ("--keys 0", "--keys is a number from 1 to 16000000, not \"0\""),
            ("--keys -3", "not \"-3\""),
            ("--keys 99999999999999999999M", "--keys is"),
            ("--live 0%", "over 0%"),
            ("--padding 1", "yes or no, not \"1\""),
            ("--live nan", "over 0%"),
            ("--seeds", "--seeds needs a value"),
            ("--seeds many", "not \"many\""),
            ("--key 3", "unknown option \"--key\""),
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains(part) && !message.contains('\n'), "{message}");
        }
    }
}
