//! The command line.

use perforate_sim::parse_size;

use crate::study::Case;

/// What `--help` prints.
pub const HELP: &str = "\
What becomes of large pages when a server with a big heap forks and somebody changes sub-pages
(P Fig. 1, §III, §VI), under 4KB pages, conventional large pages and perforated pages.

Usage: cargo run --release -p perforate-sim --example sharing [-- OPTIONS]

  --heap SIZE      heap of the server, whole 2MB pages from 2M to 64G  [default: 1G]
  --written LIST   changes as shares of the heap's 4KB pages, each to any page of it
                   [default: 0.1%,1%,10%,40%]
  --case LIST      a: the parent writes, b: the child writes, c: the memory is mapped shared
                   and the child makes sub-pages read-only  [default: a,b,c]
  --seeds N        runs of each, seeds 1 to N; 1 to 1000  [default: 5]
  --reads N        reads counted of each process, 1 to 1000000000; half as many come before
                   them to warm the TLBs up  [default: 100000]
  --machine M      a machine's name or file (perforate list machines)
                   [default: perforated-table2]
  --check          compare every translation with the oracle
  --help           this text

Results go to standard output, progress to standard error if that is a terminal.
Example: cargo run --release -p perforate-sim --example sharing -- --heap 256M --written 5%";

const REGION_BYTES: u64 = 2 << 20;
const MOST_HEAP_BYTES: u64 = 64 << 30;

/// What is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// 2MB regions of the heap.
    pub regions: u64,
    /// Changes as shares of the heap's pages, in percent.
    pub written_percent: Vec<f64>,
    /// Who changes what.
    pub cases: Vec<Case>,
    /// Seeds 1 to this.
    pub seeds: u64,
    /// Reads counted of each process.
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
            regions: 512,
            written_percent: vec![0.1, 1.0, 10.0, 40.0],
            cases: vec![Case::ParentWrites, Case::ChildWrites, Case::ChildProtects],
            seeds: 5,
            reads: 100_000,
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
                ("--heap" | "--written" | "--case" | "--seeds" | "--reads" | "--machine", _) => {
                    let value = inline.or_else(|| arguments.next());
                    let value = value.ok_or_else(|| format!("{name} needs a value; see --help"))?;
                    options.set(name, &value)?;
                }
                ("--check" | "--help", Some(_)) => return Err(format!("{name} takes no value")),
                _ => return Err(format!("unknown argument {argument:?}; see --help")),
            }
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "--heap" => self.regions = read_heap(value)?,
            "--written" => self.written_percent = list(value, read_percent)?,
            "--case" => self.cases = list(value, read_case)?,
            "--seeds" => self.seeds = read_number(name, value, 1000)?,
            "--reads" => self.reads = read_number(name, value, 1_000_000_000)?,
            _ => self.machine = value.into(),
        }
        Ok(())
    }
}

fn list<T>(text: &str, read: fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').map(|item| read(item.trim())).collect()
}

fn read_heap(text: &str) -> Result<u64, String> {
    let bytes = parse_size("--heap", text).map_err(|error| error.to_string())?;
    if !(REGION_BYTES..=MOST_HEAP_BYTES).contains(&bytes) || !bytes.is_multiple_of(REGION_BYTES) {
        return Err(format!("--heap is 2M to 64G in steps of 2M, not {text:?}"));
    }
    Ok(bytes / REGION_BYTES)
}

fn read_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    number.filter(|percent| *percent > 0.0 && *percent <= 100.0).ok_or_else(|| {
        format!("--written is a list of shares over 0% up to 100%, as 0.1%,1%; not {text:?}")
    })
}

fn read_case(text: &str) -> Result<Case, String> {
    match text {
        "a" => Ok(Case::ParentWrites),
        "b" => Ok(Case::ChildWrites),
        "c" => Ok(Case::ChildProtects),
        _ => Err(format!("--case is a list of a, b and c, not {text:?}")),
    }
}

fn read_number(name: &str, text: &str, most: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("{name} is a number from 1 to {most}, not {text:?}"))
}
