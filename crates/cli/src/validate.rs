//! `perforate validate`: compares measurements of this machine with predictions.

mod mosaic_text;
mod mosaics;
mod text;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use crate::actions::{Failure, RESULTS, ResultFolder, json_lines, load_machine};
use clap::Args;
use perforate_config::{Count, Program, Size, read};
use perforate_host::Reporter;
use perforate_host::benchmark::{Job, WorkerCommand, serve};
use perforate_host::validate::{Effort, Options, ProgramSample, validate_mosaics};
use perforate_os::Ageing;
use perforate_sim::Machine;

use crate::options::SettingFlags;
use crate::output::CommandOutput;
use mosaics::MosaicArguments;

/// Name of the hidden command by which a worker process is started.
const WORKER: &str = "native-worker";

/// Measure this machine with and without large pages, and compare with what is predicted.
#[derive(Args)]
#[command(after_help = "Examples:
  perforate validate --quick                       built-in benchmarks, about a minute
  perforate validate --size 4G --repeat 8
  perforate validate --skip 500000000 -- xz -9k big.file
  perforate validate --machine my-cpu.toml --out validation
  perforate validate --layouts 6 -- xz -9k big.file
  perforate validate --layout half.csv --layout all.csv --program-only -- PROG ARGS…
  perforate validate --programs programs.txt --layouts 8 --program-only --out mosaics

Measures pointer chases of several sizes, random reads, updates and sequential reads, each with 4KB
pages and with 2MB pages in turn, in processes of their own on one processor; records the same code,
simulates it, and judges the effect of 2MB pages and absolute times, the answer first. Rows without
an effect are not counted. Hardware counters stand beside their predictions where there are some.
Nothing is fitted to what is measured, and no setting of the system is changed. With layouts, parts
of the memory have 2MB pages and parts have 4KB pages, all layouts take turns, and all ratios are to
4KB pages only. In a virtual machine the host's pages are unknown, so that each possibility is
predicted.")]
pub struct ValidateArguments {
    /// Fewer repetitions and smaller memory: about a minute
    #[arg(long)]
    quick: bool,
    /// Memory of the largest benchmarks, a power of two [default: 1G; with --quick 256M]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    size: Option<Size>,
    /// Blocks of four runs, two with and two without large pages [default: 6]
    #[arg(long, value_name = "N")]
    repeat: Option<Count<1, 1000>>,
    /// Processor to measure on [default: the last that may be used]
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Machine to predict with: a name from `perforate list machines`, a machine file, or host: this
    /// machine by CPUID and calibrate [default: the one that describes this processor, or the nearest
    /// of its maker]
    #[arg(long, value_name = "NAME|FILE|host")]
    machine: Option<String>,
    #[command(flatten)]
    settings: SettingFlags,
    /// Age the simulated memory first, so that its 4KB frames lie scattered: PRESET[,free=F%] (see
    /// `perforate list ageing`) [default: frames follow each other as pages do]
    #[arg(long, value_name = "SPEC", value_parser = read::<Ageing>)]
    age: Option<Ageing>,
    /// Operations of each benchmark that are recorded and simulated
    /// [default: 2000000; with --quick 500000]
    #[arg(long, value_name = "N")]
    operations: Option<Count<1000, 1_000_000_000>>,
    /// Leave the built-in benchmarks out; needs a program
    #[arg(long)]
    program_only: bool,
    /// Instructions of the program to skip before the recorded part
    #[arg(long, value_name = "N", default_value_t = Count::new(0))]
    skip: Count,
    /// Most instructions of the program to record, after which it is killed [default: 60 to 120 windows of
    /// all of it, as `compare -- PROG`]
    #[arg(long, value_name = "N")]
    instructions: Option<Count>,
    /// Folder for validation.jsonl (as --json) and results.jsonl (the simulated runs)
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print a JSON line for each row and one for all, and nothing else
    #[arg(long)]
    pub json: bool,
    /// Program to time and record too; for runs with large pages, glibc's malloc is set to request them
    #[arg(last = true, value_name = "PROG ARGS…")]
    program: Vec<OsString>,
    #[command(flatten)]
    mosaics: MosaicArguments,
}

/// Arguments of the hidden command.
#[derive(Args)]
pub struct WorkerArguments {
    /// The job as JSON.
    job: String,
}

/// Runs the job of a worker process (see [`Job`]).
pub fn worker(arguments: &WorkerArguments) -> Result<(), Failure> {
    let job: Job = arguments
        .job
        .parse()
        .map_err(|problem| Failure::Usage(format!("the job of a benchmark: {problem}")))?;
    let failed = |source| Failure::Machine { action: "running a benchmark", source };
    serve(&job, &mut io::stdin().lock(), &mut io::stdout().lock()).map_err(failed)
}

/// Measures this machine, predicts the measurements, and compares them.
pub fn validate(
    arguments: &ValidateArguments,
    reporter: &mut dyn Reporter,
) -> Result<CommandOutput, Failure> {
    let folder = arguments.out.as_deref().map(ResultFolder::named).transpose()?;
    let worker = worker_command()?;
    let options = arguments.options()?;
    let defaults = (arguments.skip.get(), arguments.instructions.map(Count::get));
    let (lines, text, results) = match arguments.mosaics.read(options.program.as_ref(), defaults)? {
        Some(mosaics) => {
            let (outcome, results) = validate_mosaics(&options, &mosaics, &worker, reporter)?;
            (outcome.json_lines(), mosaic_text::text(&outcome), results)
        }
        None => {
            let measured = perforate_host::validate::validate(&options, &worker, reporter);
            let (outcome, results) = measured?;
            (outcome.json_lines(), text::text(&outcome), results)
        }
    };
    if let Some(folder) = &folder {
        folder.write(&vec![
            ("validation.jsonl".to_owned(), lines.clone()),
            (RESULTS.to_owned(), json_lines(&results)),
        ])?;
    }
    Ok(CommandOutput { json: lines, text })
}

/// Command by which this program is started as a worker process.
fn worker_command() -> Result<WorkerCommand, Failure> {
    let failed = |source| Failure::Machine { action: "finding this program", source };
    let mut command = Program::own().map_err(failed)?.command.into_iter();
    let program = command.next().unwrap_or_default().into();
    Ok(WorkerCommand { program, arguments: command.chain([WORKER.into()]).collect() })
}

impl ValidateArguments {
    fn machine(&self) -> Result<Option<Machine>, Failure> {
        let settings = self.settings.settings();
        match &self.machine {
            Some(name) => load_machine(name, &settings).map(Some),
            None if settings.is_empty() => Ok(None),
            None => Err(Failure::Usage("--set: needs --machine, such as --machine host".into())),
        }
    }

    fn options(&self) -> Result<Options, Failure> {
        let has_program = !self.program.is_empty() || self.mosaics.programs.is_some();
        let needs_program = [
            (self.program_only, "--program-only"),
            (self.skip.get() > 0, "--skip"),
            (self.instructions.is_some(), "--instructions"),
        ];
        if let Some((_, flag)) = needs_program.iter().find(|(given, _)| *given && !has_program) {
            let problem = "needs a program; expected -- PROG ARGS… or --programs FILE";
            return Err(Failure::Usage(format!("{flag}: {problem}")));
        }
        let of_benchmarks =
            [(self.size.is_some(), "--size"), (self.operations.is_some(), "--operations")];
        let idle = of_benchmarks.iter().find(|(given, _)| *given && self.program_only);
        if let Some((_, flag)) = idle {
            let problem = "has no effect with --program-only, which leaves the benchmarks out";
            return Err(Failure::Usage(format!("{flag}: {problem}")));
        }
        let defaults = Options::new(self.quick);
        let size_bytes = self.size.map(Size::bytes).or(defaults.size_bytes);
        let program = (!self.program.is_empty()).then(|| ProgramSample {
            words: self.program.clone(),
            skip: self.skip.get(),
            instructions: self.instructions.map(Count::get),
        });
        Ok(Options {
            effort: Effort::new(self.quick, self.repeat.map(|repeat| repeat.get() as u32)),
            processor: self.cpu.unwrap_or(defaults.processor),
            size_bytes: size_bytes.filter(|_| !self.program_only),
            machine: self.machine()?,
            age: self.age,
            operations: self.operations.map_or(defaults.operations, Count::get),
            program,
        })
    }
}
