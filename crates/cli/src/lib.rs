//! The `perforate` command: what does address translation cost this program, on this memory,
//! under this scheme, and what would another scheme cost?
//!
//! [`main`] is the whole command; [`python`] has functions that return data instead of printing it;
//! [`actions`] does the work for both.

pub mod actions;
mod advise;
mod bench;
mod calibrate;
mod compare;
mod curves;
mod experiment;
mod explain;
mod figures;
mod list;
mod machine_text;
mod machines;
mod merged_notes;
mod model;
mod native_counters;
mod options;
mod output;
mod program_recording;
mod progress;
pub mod python;
mod record;
mod reference;
mod run;
mod sections;
mod shell;
mod snapshot;
mod sweep;
mod trace;
mod validate;
mod vary;
mod verify;

#[cfg(test)]
mod argument_tests;

use std::borrow::Cow;
use std::error::Error;
use std::ffi::OsString;
use std::num::{ParseFloatError, ParseIntError};

use crate::actions::Failure;
use clap::error::{ContextKind, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use progress::StageBars;
use sections::InSections;

#[derive(Parser)]
#[command(name = "perforate", version, max_term_width = 100, arg_required_else_help = true)]
/// What does address translation cost this program, on this memory, under this scheme, and what
/// would another scheme cost?
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compare schemes on one workload and one memory: table, results.jsonl, report.html
    Compare(InSections<compare::CompareArguments>),
    /// Run one scheme and print all its counters
    Run(InSections<run::RunArguments>),
    /// Advise on large pages for a program: gain, cost, what to do
    Advise(InSections<advise::AdviseArguments>),
    /// Show one translation step by step
    Explain(InSections<explain::ExplainArguments>),
    /// TLB misses against entries, for each page size
    Curves(InSections<curves::CurvesArguments>),
    /// Record a real program into a trace
    Record(record::RecordArguments),
    /// Show the memory of a machine or a process: page sizes, fragmentation, a picture
    Snapshot(snapshot::SnapshotArguments),
    /// Look into and convert traces
    Trace(trace::TraceArguments),
    /// Predict direct segments from measured counters or results (linear models)
    Model(model::ModelArguments),
    /// Tables and figures of the papers, with the papers' numbers beside ours
    Experiment(experiment::ExperimentArguments),
    /// Measure all points of experiments, on this computer or on a cluster
    Sweep(sweep::SweepArguments),
    /// Measure this machine, and write a machine file to predict with
    Calibrate(calibrate::CalibrateArguments),
    /// Measure this machine with and without large pages, and compare with what is predicted
    Validate(validate::ValidateArguments),
    /// Measure how fast this computer simulates, and how far sampled timing is from full timing
    Bench(InSections<bench::BenchArguments>),
    /// Measure a program as it is and with large pages in parts of its memory
    #[command(hide = true)]
    Verify(verify::VerifyArguments),
    /// A process of a benchmark that is measured or recorded
    #[command(hide = true)]
    NativeWorker(validate::WorkerArguments),
    /// List machines, or show one with the sources of its values
    Machines(machines::MachinesArguments),
    /// List schemes, workloads, machines, counters or experiments
    List(list::ListArguments),
    /// Print completions for a shell
    Completions(shell::CompletionsArguments),
    /// Write manual pages
    Man(shell::ManArguments),
}

/// Parser of the command line. A negative number is the value of the option before it, whose error says what the
/// option expects, rather than an unknown flag.
fn parser() -> clap::Command {
    fn with_negative_numbers(command: clap::Command) -> clap::Command {
        let allowing = |argument: clap::Arg| {
            let takes_values = argument.get_action().takes_values();
            argument.allow_negative_numbers(takes_values)
        };
        command.mut_args(allowing).mut_subcommands(with_negative_numbers)
    }
    with_negative_numbers(Arguments::command())
}

/// Maximum length in bytes of a usage error that is printed in clap's own form.
const MAX_USAGE_ERROR: usize = 2_000;

/// Runs the command with these arguments, of which the first is the program. Returns the exit code.
pub fn main(arguments: Vec<OsString>) -> u8 {
    output::set_command(&arguments);
    // Without a handler, a file larger than `ulimit -f` would end the program without an error.
    let _ = perforate_record::fail_at_file_size_limit();
    if let Err(failure) = check_program(&arguments) {
        print_error(&failure.to_string());
        return failure.exit_code();
    }
    let parsed = parser().try_get_matches_from(arguments);
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return print_usage_error(&error),
    };
    let outcome = match &arguments.command {
        Command::Compare(InSections(arguments)) => compare::compare(arguments),
        Command::Run(InSections(arguments)) => run::run(arguments),
        Command::Advise(InSections(arguments)) => print_advice(arguments),
        Command::Explain(InSections(arguments)) => explain::explain(arguments),
        Command::Curves(InSections(arguments)) => {
            curves::curves(arguments, &mut StageBars::default())
                .and_then(|output| output.print(arguments.json))
        }
        Command::Record(arguments) => record::record(arguments),
        Command::Snapshot(arguments) => snapshot::snapshot(arguments),
        Command::Trace(arguments) => trace::trace(arguments),
        Command::Model(arguments) => model::model(arguments),
        Command::Experiment(arguments) => experiment::experiment(arguments),
        Command::Sweep(arguments) => sweep::sweep(arguments),
        Command::Calibrate(arguments) => calibrate::calibrate(arguments, &mut StageBars::default())
            .and_then(|output| output.print(arguments.json)),
        Command::Validate(arguments) => validate::validate(arguments, &mut StageBars::default())
            .and_then(|output| output.print(arguments.json)),
        Command::Verify(arguments) => measure(arguments),
        Command::Bench(InSections(arguments)) => bench::bench(arguments),
        Command::NativeWorker(arguments) => validate::worker(arguments),
        Command::Machines(arguments) => machines::machines(arguments),
        Command::List(arguments) => list::list(arguments),
        Command::Completions(arguments) => shell::completions(arguments),
        Command::Man(arguments) => shell::man(arguments),
    };
    match outcome {
        Ok(()) => 0,
        Err(Failure::ClosedPipe) => 0,
        Err(failure) => {
            print_error(&failure.to_string());
            failure.exit_code()
        }
    }
}

/// Advises, prints the advice, and returns the failure that `--fail-if-worth` demands.
fn print_advice(arguments: &advise::AdviseArguments) -> Result<(), Failure> {
    let stop = perforate_record::stop_or_end_on_interrupt()?;
    let (output, judged) = advise::advise(arguments, &mut StageBars::default(), &stop)?;
    output.print(arguments.json)?;
    judged
}

/// Measures a program with and without advice, and prints what was found.
fn measure(arguments: &verify::VerifyArguments) -> Result<(), Failure> {
    let stop = perforate_record::stop_or_end_on_interrupt()?;
    verify::run(arguments, &mut StageBars::default(), &stop)?.print(arguments.json)
}

/// Refuses an empty command after `--`, which an unset shell variable may cause. clap would treat it like a
/// missing command, so that `compare` would run its default workload.
fn check_program(arguments: &[OsString]) -> Result<(), Failure> {
    let mut rest = arguments.iter().skip_while(|argument| *argument != "--").skip(1);
    let is_empty = match rest.next() {
        None => arguments.last().is_some_and(|last| last == "--"),
        Some(program) => program.is_empty(),
    };
    if is_empty {
        let problem = "nothing after --; expected a program and its arguments, such as -- ls -l";
        return Err(Failure::Usage(problem.into()));
    }
    Ok(())
}

/// Prints an error of the argument parser, and returns the exit code. An invalid value is reported in one
/// line, like errors found later.
fn print_usage_error(error: &clap::Error) -> u8 {
    match wrong_value(error) {
        Some(problem) => print_error(&problem),
        // The error quotes arguments, however long.
        None if error.use_stderr() && error.to_string().len() > MAX_USAGE_ERROR => {
            print_error(&usage_error(error).to_string());
        }
        // Without clap's colours if an argument has control characters.
        None => match output::printable(&error.to_string()) {
            Cow::Borrowed(_) => drop(error.print()),
            Cow::Owned(text) => {
                progress::print_message(text.trim_start_matches("error: ").trim_end())
            }
        },
    }
    u8::try_from(error.exit_code()).unwrap_or(1)
}

/// Describes the error if it is an invalid value of an option; `None` for other errors.
fn wrong_value(error: &clap::Error) -> Option<String> {
    let option = error.get(ContextKind::InvalidArg)?.to_string();
    let problem = error.source().filter(|_| error.kind() == ErrorKind::ValueValidation)?;
    let value =
        || error.get(ContextKind::InvalidValue).map_or_else(String::new, |it| it.to_string());
    // The standard library's errors do not say what would be right.
    let problem = if problem.is::<ParseIntError>() {
        format!("expected a whole number, such as 8, not {:?}", value())
    } else if problem.is::<ParseFloatError>() {
        format!("expected a number, such as 2.5, not {:?}", value())
    } else {
        in_range(&problem.to_string())
    };
    Some(format!("{}: {problem}", option.split(' ').next().unwrap_or_default()))
}

/// Rewrites clap's message `99 is not in 1..=22` in words.
fn in_range(problem: &str) -> String {
    let words = || {
        let (value, range) = problem.split_once(" is not in ")?;
        let (least, most) = range.split_once("..=")?;
        Some(format!("expected {least} to {most}, not {value}"))
    };
    words().unwrap_or_else(|| problem.to_owned())
}

/// Makes a failure of one line from an error of the argument parser.
fn usage_error(error: &clap::Error) -> Failure {
    let first_paragraph = || {
        let text = error.to_string();
        let problem = text.split("\n\nUsage:").next().unwrap_or_default();
        let words: Vec<&str> = problem.split_whitespace().collect();
        words.join(" ").trim_start_matches("error: ").to_owned()
    };
    Failure::Usage(wrong_value(error).unwrap_or_else(first_paragraph))
}

/// Prints an error as one line. Long quotations in it are shortened.
fn print_error(problem: &str) {
    progress::print_message(&perforate_config::shorten(&problem.replace(['\n', '\r', '\t'], " ")));
}
