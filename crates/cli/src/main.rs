//! The `perforate` command: what does address translation cost this program, on this memory,
//! under this scheme, and what would another scheme cost?

mod compare;
mod experiment;
mod explain;
mod failure;
mod list;
mod live;
mod model;
mod options;
mod output;
mod record;
mod run;
mod snapshot;
mod trace;
mod validate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

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
    Compare(compare::CompareArguments),
    /// Run one scheme and print all its counters
    Run(run::RunArguments),
    /// Show one translation step by step
    Explain(explain::ExplainArguments),
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
    /// Measure this machine with and without large pages, and compare with what is predicted
    Validate(validate::ValidateArguments),
    /// A process of a benchmark that is measured or recorded
    #[command(hide = true)]
    NativeWorker(validate::WorkerArguments),
    /// List schemes, workloads, machines or experiments
    List(list::ListArguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.command {
        Command::Compare(arguments) => compare::compare(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Explain(arguments) => explain::explain(arguments),
        Command::Record(arguments) => record::record(arguments),
        Command::Snapshot(arguments) => snapshot::snapshot(arguments),
        Command::Trace(arguments) => trace::trace(arguments),
        Command::Model(arguments) => model::model(arguments),
        Command::Experiment(arguments) => experiment::experiment(arguments),
        Command::Validate(arguments) => validate::validate(arguments),
        Command::NativeWorker(arguments) => validate::worker(arguments),
        Command::List(arguments) => list::list(arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::ClosedPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            // It may quote a file: what that contains does not reach the terminal's controls.
            let line = failure.to_string().replace(char::is_control, " ");
            eprintln!("perforate: {line}");
            ExitCode::from(failure.exit_code())
        }
    }
}
