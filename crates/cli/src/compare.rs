//! `perforate compare`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use perforate_config::Count;
use perforate_report::ReportOptions;
use perforate_sim::{Comparison, Composition, RunResult, SimError, scheme};

use crate::failure::Failure;
use crate::options::SimulationArguments;
use crate::output::{Bar, COLUMNS, RESULT_FOLDER, ResultFolder, command, notes, print, write_text};
use crate::record;

/// Compare schemes on one workload and one memory.
#[derive(Args)]
#[command(after_help = "Examples:
  perforate compare                                   a bundled trace of a real program
  perforate compare random --memory 4G --fragmentation portion=50%,holes=25%,clustered
  perforate compare random:size=1G --memory 768M --swap 2G --instructions 2000000
  perforate compare my.trace --scheme all --functional --check
  perforate compare random:size=1G,others=7 --machine ice-lake-sp --seeds 5
  perforate compare random --guest 4k,thp,perforated --host 4k,thp,perforated
  perforate compare redis --scheme 4k,4k+4k,4k+thp,thp+thp,perforated+perforated
  perforate compare -- ls -lR /usr                    record a program, then compare")]
pub struct CompareArguments {
    /// Trace file, bundled trace or workload (see `perforate list workloads`); FORMAT:FILE for a
    /// foreign trace whose content leaves its format open (docs/foreign-traces.md), - for a trace on
    /// standard input
    #[arg(value_name = "TRACE|WORKLOAD")]
    workload: Option<String>,
    /// Schemes to compare, separated by commas, or all; GUEST+HOST is a scheme in a virtual machine
    /// over one of its host [default: 4k,thp,perforated,ideal; none with --guest or --host]
    #[arg(long, value_name = "A,B,…")]
    scheme: Option<String>,
    /// Schemes of the guest in a virtual machine, each over each of --host
    /// [default with --host: 4k,thp,perforated]
    #[arg(long, value_name = "A,B,…", help_heading = "Virtualization")]
    guest: Option<String>,
    /// Schemes of the host [default with --guest: 4k,thp,perforated]
    #[arg(long, value_name = "A,B,…", help_heading = "Virtualization")]
    host: Option<String>,
    /// Repeat with this many seeds: the table shows medians, the report the spread too
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Folder for results.jsonl and report.html [default: results]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the results as JSON lines and nothing else; files only with --out
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    simulation: SimulationArguments,
    /// Program to record and compare
    #[arg(last = true, value_name = "PROG ARGS…")]
    program: Vec<OsString>,
}

/// Runs the comparison and shows it.
pub fn compare(arguments: &CompareArguments) -> Result<(), Failure> {
    // Everything that can be wrong is looked at before long work begins.
    let simulation = &arguments.simulation;
    let (compared, left_out) = schemes(arguments)?;
    let seed = simulation.comparison(None, compared)?.seed;
    let folder = match (&arguments.out, arguments.json) {
        (None, true) => None,
        (out, _) => {
            Some(ResultFolder::prepare(out.as_deref().unwrap_or(Path::new(RESULT_FOLDER)))?)
        }
    };
    let mut recording = recorded(arguments)?;
    let workload = match &recording {
        Some(recording) => Some(recording.path().to_string_lossy().into_owned()),
        None => arguments.workload.clone(),
    };
    let mut results = Vec::new();
    for seed in (0..arguments.seeds).map(|index| seed.wrapping_add(index)) {
        let recording = recording.as_mut();
        results.extend(compare_once(arguments, workload.as_deref(), recording, seed)?);
    }
    let lines = json_lines(&results);
    if arguments.json {
        print(&lines)?;
    }
    folder.map_or(Ok(()), |folder| write_files(&folder, &lines, arguments, &left_out))
}

/// Schemes where one side of the pairs is not named.
const SIDE: &str = "4k,thp,perforated";

/// What is compared, and remarks on pairs that are left out.
fn schemes(arguments: &CompareArguments) -> Result<(Vec<Composition>, Vec<String>), SimError> {
    let CompareArguments { scheme, guest, host, .. } = arguments;
    if guest.is_none() && host.is_none() {
        let named = scheme.as_deref().unwrap_or(scheme::DEFAULT);
        return Ok((Composition::list(named)?, Vec::new()));
    }
    let native = scheme.as_deref().map_or(Ok(Vec::new()), Composition::list)?;
    let (guest, host) = (guest.as_deref().unwrap_or(SIDE), host.as_deref().unwrap_or(SIDE));
    let (pairs, left_out) = Composition::pairs(guest, host)?;
    let mut compared = native;
    for pair in pairs {
        if !compared.iter().any(|known| known.name() == pair.name()) {
            compared.push(pair);
        }
    }
    Ok((compared, left_out))
}

/// Records the program named after `--`, if any.
fn recorded(arguments: &CompareArguments) -> Result<Option<record::TemporaryTrace>, Failure> {
    if arguments.program.is_empty() {
        return Ok(None);
    }
    if let Some(workload) = &arguments.workload {
        return Err(Failure::Usage(format!(
            "compare takes {workload} or a program after --, not both"
        )));
    }
    let instructions = arguments.simulation.placement.read()?.instructions;
    record::record_temporarily(&arguments.program, instructions.map(Count::get)).map(Some)
}

fn compare_once(
    arguments: &CompareArguments,
    workload: Option<&str>,
    mut recording: Option<&mut record::TemporaryTrace>,
    seed: u64,
) -> Result<Vec<RunResult>, Failure> {
    let (schemes, _) = schemes(arguments)?;
    let comparison = arguments.simulation.comparison(workload, schemes)?;
    let comparison = Comparison { seed, ..comparison };
    let text = if arguments.seeds > 1 { format!("seed {seed}") } else { "simulating".into() };
    let bar = Bar::instructions(&text);
    let measuring = arguments.simulation.measuring()?;
    Ok(perforate_sim::compare_with(&comparison, &measuring, &mut |progress| {
        bar.show(progress);
        if let Some(recording) = &mut recording {
            recording.end_if_interrupted();
        }
    })?)
}

/// One line per result.
pub fn json_lines(results: &[RunResult]) -> String {
    results
        .iter()
        .map(|result| serde_json::to_string(result).expect("results are plain data") + "\n")
        .collect()
}

/// Writes results and report, and prints the table unless the lines were printed already.
fn write_files(
    folder: &ResultFolder,
    lines: &str,
    arguments: &CompareArguments,
    left_out: &[String],
) -> Result<(), Failure> {
    let results = perforate_report::read_results(lines)?;
    let vocabulary = perforate_sim::vocabulary();
    let options = ReportOptions { title: title(&results), command: command(), vocabulary };
    let (file, report) = (folder.file("results.jsonl"), folder.file("report.html"));
    write_text(&file, lines)?;
    write_text(&report, &perforate_report::html(&results, &options))?;
    if arguments.json {
        return Ok(());
    }
    let table = perforate_report::table(&results, &options.vocabulary, COLUMNS);
    let mut remarks: Vec<String> = Vec::new();
    for note in results.iter().flat_map(|result| &result.notes) {
        if !remarks.contains(note) {
            remarks.push(note.clone());
        }
    }
    remarks.extend_from_slice(left_out);
    print(&format!(
        "{table}\n{}results: {}\nreport:  {} (open it in a browser)\n",
        notes(&remarks, COLUMNS),
        file.display(),
        report.display()
    ))
}

fn title(results: &[RunResult]) -> String {
    match results.first() {
        Some(first) => format!("{} on {}", first.workload, first.machine),
        None => "No results".into(),
    }
}
