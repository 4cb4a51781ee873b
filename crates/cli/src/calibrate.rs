//! `perforate calibrate`: measures this machine for a machine file.

mod text;

use std::path::{Path, PathBuf};

use crate::actions::{Failure, write_text};
use clap::Args;
use perforate_config::{Count, Size};
use perforate_host::Reporter;
use perforate_host::calibrate::{Calibration, Options};
use perforate_host::machine::kept_file;
use perforate_records::json_line;
use perforate_report::text::wrapped;

use crate::output::{CommandOutput, text_columns};

/// Measure this machine, and write a machine file to predict with.
#[derive(Args)]
#[command(after_help = "Examples:
  perforate calibrate                              about two minutes; writes calibrated.toml
  perforate calibrate --quick --out here.toml
  perforate validate --machine calibrated.toml
  perforate compare --machine calibrated.toml
  perforate compare --machine host                 the same, with the sizes that CPUID states

Follows pointers through more and more memory, in 4KB and in 2MB pages: latency and effective size
of each cache as they are now, neighbours included; memory idle and loaded; misses and walks at
once; entries of the TLBs; what walks take; whether a host backs this machine's 2MB pages with 4KB
ones.
Measures the kernel: page faults, clearing, copying, fork, mprotect, munmap, madvise.
Each value in the file has its measurement beside it, and its spread becomes what is plausible, so
that experiments can say what it does to a figure (--unstated). Values too noisy stay as they were.
The known machine with the nearest values is named, with every value that differs from it. No other
program is measured, and no setting of the system is changed.")]
pub struct CalibrateArguments {
    /// Less memory and fewer rounds
    #[arg(long)]
    quick: bool,
    /// Machine file to write
    #[arg(long, value_name = "FILE", default_value = "calibrated.toml")]
    out: PathBuf,
    /// Machine whose values are kept where nothing is measured: a name from `perforate list machines`
    /// or a machine file [default: one that describes this processor or the nearest of its
    /// maker]
    #[arg(long, value_name = "NAME|FILE")]
    base: Option<String>,
    /// Memory of the largest chases, once in 4KB and once in 2MB pages [default: 1G; with --quick
    /// 512M]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    size: Option<Size>,
    /// Rounds of measurement [default: 7; with --quick 3]
    #[arg(long, value_name = "N")]
    rounds: Option<Count<1, 1000>>,
    /// Accesses of each simulated chase that are timed, at least [default: 200000]
    #[arg(long, value_name = "N")]
    operations: Option<Count<1000, 1_000_000_000>>,
    /// Processor to measure on [default: the last that may be used]
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Print a JSON line for each quantity, each check and the nearest known machine, and nothing
    /// else
    #[arg(long)]
    pub json: bool,
}

/// Measures this machine and writes the machine file.
pub fn calibrate(
    arguments: &CalibrateArguments,
    reporter: &mut dyn Reporter,
) -> Result<CommandOutput, Failure> {
    let mut options = Options::new(arguments.quick);
    options.processor = arguments.cpu.unwrap_or(options.processor);
    options.bytes = arguments.size.map_or(options.bytes, Size::bytes);
    options.rounds = arguments.rounds.map_or(options.rounds, |rounds| rounds.get() as u32);
    options.accesses = arguments.operations.map_or(options.accesses, Count::get);
    options.base.clone_from(&arguments.base);
    if let Some(name) = arguments.out.file_stem() {
        options.name = name.to_string_lossy().replace(char::is_control, "");
    }
    let found = perforate_host::calibrate::calibrate(&options, reporter)?;
    write_text(&arguments.out, &found.file)?;
    let kept = wrapped("", &keep_for_host(&found), text_columns());
    let text = text::text(&found, &arguments.out) + kept.as_str();
    let quantities = found.quantities.iter().map(json_line);
    let checks = found.checks.iter().map(json_line);
    let json = quantities.chain(checks).chain(found.nearest.iter().map(json_line)).collect();
    Ok(CommandOutput { json, text })
}

/// Writes the measured machine to the file that `--machine host` reads. Returns a sentence about the file.
fn keep_for_host(found: &Calibration) -> String {
    if found.is_too_noisy() {
        return "too noisy to be kept for --machine host".into();
    }
    let Some(file) = kept_file() else {
        return "--machine host does not find it: there is neither XDG_CACHE_HOME nor HOME".into();
    };
    let folder = file.parent().unwrap_or(Path::new("/"));
    let made = std::fs::create_dir_all(folder).map_err(|error| error.to_string());
    let written =
        made.and_then(|()| write_text(&file, &found.file).map_err(|failure| failure.to_string()));
    match written {
        Ok(()) => format!("--machine host takes it from {}", file.display()),
        Err(problem) => format!("--machine host does not find it: {problem}"),
    }
}
