//! The command line.

use perforate_sim::parse_size;

/// What `--help` prints.
pub const HELP: &str = "\
Two virtual machines on one host that merges pages of equal content (P §III.A, D §IX.E): what is
saved, what becomes of the host's large pages, and what that costs the first machine's program in
TLB misses, with the guests' memory in 4KB pages, large pages, perforated pages or direct segments.

Usage: cargo run --release -p perforate-sim --example vm_page_sharing [-- OPTIONS]

  --heap SIZE    memory that the program of each machine uses, whole 2MB pages from 64M to 64G
                 [default: 2580M, as in P §III.A]
  --seeds N      runs of each, seeds 1 to N; 1 to 1000  [default: 1]
  --reads N      reads counted, 1000 to 1000000000; as many before them warm the TLBs up
                 [default: 1000000]
  --machine M    a machine's name or file (perforate list machines) [default: perforated-table2]
  --check        compare every translation with the oracle
  --help         this text

Results go to standard output.";

const REGION_BYTES: u64 = 2 << 20;

/// What is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// 2MB regions that each machine's program uses.
    pub regions: u64,
    /// Seeds 1 to this.
    pub seeds: u64,
    /// Reads counted.
    pub reads: u64,
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
            regions: 1290,
            seeds: 1,
            reads: 1_000_000,
            machine: perforate_sim::Machine::DEFAULT.into(),
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
                ("--heap" | "--seeds" | "--reads" | "--machine", _) => {
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
            "--heap" => self.regions = read_heap(&value)?,
            "--seeds" => self.seeds = read_number(name, &value, 1, 1000)?,
            "--reads" => self.reads = read_number(name, &value, 1000, 1_000_000_000)?,
            _ => self.machine = value,
        }
        Ok(())
    }
}

fn read_heap(text: &str) -> Result<u64, String> {
    let bytes = parse_size("--heap", text).map_err(|error| error.to_string())?;
    if !(64 << 20..=64 << 30).contains(&bytes) || !bytes.is_multiple_of(REGION_BYTES) {
        return Err(format!("--heap is 64M to 64G in steps of 2M, not {text:?}"));
    }
    Ok(bytes / REGION_BYTES)
}

fn read_number(name: &str, text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{name} is a number from {least} to {most}, not {text:?}"))
}
