//! `perforate validate`: this machine measured, and what is predicted for it.

mod measure;
mod outcome;
mod plan;
mod predict;
mod program;
mod row;
mod spread;
mod text;
mod verdict;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use clap::Args;
use perforate_capture::native::{
    Headroom, Job, Prepared, Processor, bounded, clock_ghz, pin, serve,
};
use perforate_config::{Count, Size, Within, read};
use perforate_os::Ageing;
use perforate_sim::RunResult;

use crate::compare::json_lines;
use crate::failure::Failure;
use crate::output::{ResultFolder, print, write_text};
use measure::{Effort, measure};
use outcome::Outcome;
use predict::Prediction;
use row::RowOutcome;

/// Name of the hidden command that is a worker.
const WORKER: &str = "native-worker";
/// Instructions of a program that are recorded where no number is given.
const PROGRAM_INSTRUCTIONS: u64 = 20_000_000;

/// Measure this machine with and without large pages, and compare with what is predicted.
#[derive(Args)]
#[command(after_help = "Examples:
  perforate validate --quick                       built-in benchmarks, under a minute
  perforate validate --size 4G --repeat 8
  perforate validate --skip 500000000 -- xz -9k big.file
  perforate validate --machine my-cpu.toml --out validation

Measures pointer chases of several sizes, random reads, updates and sequential reads, each with 4KB
pages and with 2MB pages in turn, in processes of their own on one processor; records the same code,
simulates it, and prints both ratios side by side. Nothing is fitted to what is measured, and no
setting of the system is changed. In a virtual machine the host's pages are unknown, so that each
possibility is predicted.")]
pub struct ValidateArguments {
    /// Fewer repetitions and smaller memory: under a minute
    #[arg(long)]
    quick: bool,
    /// Memory of the largest benchmarks, a power of two [default: 1G; with --quick 256M]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    size: Option<Size>,
    /// Blocks of four runs, two with and two without large pages [default: 6; with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Processor to measure on [default: the last that may be used]
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Machine to predict with: a name from `perforate list machines` or a machine file
    /// [default: the one that describes this processor]
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,
    /// Age the simulated memory first, so that its 4KB frames lie scattered: PRESET[,free=F%] (see
    /// `perforate list ageing`) [default: frames follow each other as pages do]
    #[arg(long, value_name = "SPEC", value_parser = read::<Ageing>)]
    age: Option<Ageing>,
    /// Operations of each benchmark that are recorded and simulated
    /// [default: 2000000; with --quick 500000]
    #[arg(long, value_name = "N")]
    operations: Option<Within<1000, 1_000_000_000>>,
    /// Leave the built-in benchmarks out; needs a program
    #[arg(long, requires = "program")]
    program_only: bool,
    /// Instructions of the program to pass over before the recorded part
    #[arg(long, value_name = "N", default_value_t = Count(0), requires = "program")]
    skip: Count,
    /// Instructions of the program to record [default: 20 M]
    #[arg(long, value_name = "N", requires = "program")]
    instructions: Option<Count>,
    /// Folder for validation.jsonl (as --json) and results.jsonl (the simulated runs)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print a JSON line for each row and one for all, and nothing else
    #[arg(long)]
    json: bool,
    /// Program to time and record too; with large pages on, glibc's malloc is told to ask for them
    #[arg(last = true, value_name = "PROG ARGS…")]
    program: Vec<OsString>,
}

/// Arguments of the hidden command.
#[derive(Args)]
pub struct WorkerArguments {
    words: Vec<String>,
}

/// Does the job of a worker (see [`perforate_capture::native::Job`]).
pub fn worker(arguments: &WorkerArguments) -> Result<(), Failure> {
    let job = Job::parse(&arguments.words).map_err(Failure::Usage)?;
    let failed = |source| Failure::Machine { action: "running a benchmark", source };
    serve(&job, &mut io::stdin().lock(), &mut io::stdout().lock()).map_err(failed)
}

/// Measures, predicts and compares.
pub fn validate(arguments: &ValidateArguments) -> Result<(), Failure> {
    let folder = arguments.out.as_deref().map(ResultFolder::prepare).transpose()?;
    let processor = Processor::own();
    let (machine, remarks) = plan::machine(arguments.machine.as_deref(), &processor)?;
    let assumptions = plan::assumptions(&processor);
    let mut outcome = Outcome::new(&processor, &machine, &assumptions, remarks);
    let effort = arguments.effort();
    outcome.clock_ghz = own_clock(effort.processor)?;
    let operations = arguments.operations.map_or(arguments.pick(500_000, 2_000_000), Within::get);
    let age = arguments.age;
    let prediction = Prediction { machine: &machine, assumptions: &assumptions, age, operations };
    let mut results = Vec::new();
    if !arguments.program_only {
        let size_bytes = arguments.size(&mut outcome.notes)?;
        for row in plan::rows(&machine, size_bytes) {
            outcome.rows.push(validate_row(&row, &effort, &prediction, &mut results)?);
        }
    }
    if !arguments.program.is_empty() {
        outcome.rows.push(arguments.validate_program(&effort, &prediction, &mut results)?);
    }
    outcome.explain();
    if let Some(folder) = &folder {
        write_text(&folder.file("validation.jsonl"), &outcome.json_lines())?;
        write_text(&folder.file("results.jsonl"), &json_lines(&results))?;
    }
    print(&if arguments.json { outcome.json_lines() } else { outcome.text() })
}

fn validate_row(
    row: &plan::Row,
    effort: &Effort,
    prediction: &Prediction<'_>,
    results: &mut Vec<RunResult>,
) -> Result<RowOutcome, Failure> {
    let own = std::env::current_exe();
    let own = own.map_err(|source| Failure::Machine { action: "finding this program", source })?;
    let measured = measure(&own, &[WORKER], row, effort)?;
    let (predicted, runs, origin) = prediction.of_row(&own, &[WORKER], row)?;
    results.extend(runs);
    Ok(RowOutcome::of_benchmark(row, measured, predicted, origin))
}

/// The clock of the processor that is measured on. A thread of its own is pinned there, so that
/// the rest of this process may run anywhere.
fn own_clock(processor: usize) -> Result<Option<f64>, Failure> {
    let clock = std::thread::spawn(move || pin(processor).map(|()| clock_ghz()));
    let clock = clock.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    clock.map_err(|error| {
        Failure::Usage(format!("--cpu {processor}: {error}; expected a processor we may run on"))
    })
}

impl ValidateArguments {
    fn pick<T>(&self, quick: T, otherwise: T) -> T {
        if self.quick { quick } else { otherwise }
    }

    fn effort(&self) -> Effort {
        let blocks = self.repeat.unwrap_or(self.pick(3, 6));
        let rounds = blocks.min(self.pick(1, 2));
        Effort {
            rounds,
            blocks: blocks.div_ceil(rounds),
            run_nanoseconds: self.pick(60_000_000, 200_000_000),
            processor: self.cpu.unwrap_or_else(program::default_processor),
        }
    }

    /// Memory of one process; two of them are there at a time.
    fn size(&self, notes: &mut Vec<String>) -> Result<u64, Failure> {
        let wanted = self.size.map_or(self.pick(256 << 20, 1 << 30), Size::bytes);
        let power = 1 << wanted.max(1).ilog2();
        if power < Prepared::LEAST_BYTES {
            return Err(Failure::Usage(format!("--size: {wanted} bytes; expected at least 64K")));
        }
        if power != wanted {
            notes.push(format!("--size was rounded down to a power of two, {} MB", power >> 20));
        }
        let Some(headroom) = Headroom::now() else { return Ok(power) };
        match bounded(power.saturating_mul(2), headroom, 2 * Prepared::LEAST_BYTES) {
            Some(both) if both >= power.saturating_mul(2) => Ok(power),
            Some(both) => {
                let power = 1 << (both / 2).ilog2();
                notes.push(format!(
                    "half of the memory available is {} MB; benchmarks take {} MB at most",
                    headroom.bytes >> 20,
                    power >> 20
                ));
                Ok(power)
            }
            None => Err(Failure::Usage("--size: there is no memory left to measure in".into())),
        }
    }

    fn validate_program(
        &self,
        effort: &Effort,
        prediction: &Prediction<'_>,
        results: &mut Vec<RunResult>,
    ) -> Result<RowOutcome, Failure> {
        let blocks = effort.blocks * effort.rounds;
        let measured = program::measure(&self.program, blocks, effort.processor)?;
        let instructions = self.instructions.map_or(PROGRAM_INSTRUCTIONS, |count| count.0);
        let sample = program::Sample { skip: self.skip.0, instructions };
        let resident = measured.resident_bytes;
        let (predicted, runs) = program::predict(prediction, &self.program, sample, resident)?;
        results.extend(runs);
        let words: Vec<_> = self.program.iter().map(|word| word.to_string_lossy()).collect();
        Ok(RowOutcome::of_program(&words.join(" "), measured, predicted))
    }
}
