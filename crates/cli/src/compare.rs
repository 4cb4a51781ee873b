//! `perforate compare`: compares schemes on one workload and memory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::actions::{Failure, REPORT, RESULTS, ResultFolder, RunRequest, json_lines, title};
use clap::Args;
use perforate_config::{Count, Section};
use perforate_report::{ReportOptions, Rows};
use perforate_sim::{
    Composition, Observer, PlacementOptions, Progress, ResolvedRun, RunResult, SimError,
};

use crate::figures;
use crate::merged_notes::merged_notes;
use crate::native_counters::NativeCounters;
use crate::options::{RunFlags, own_memory_bar};
use crate::output::{columns, command, notes, print, result_folder, text_columns};
use crate::program_recording::ProgramRecording;
use crate::progress::Bar;
use crate::vary::{Variant, Vary, note_without_effect, variants};

/// Compare schemes on one workload and one memory.
#[derive(Args)]
#[command(after_help = "Examples:
  perforate compare                                   a bundled trace of a real program
  perforate compare random --memory 4G --fragmentation portion=50%,holes=25%,clustered
  perforate compare my.trace --scheme all --functional --check
  perforate compare random:size=1G,others=7 --machine ice-lake-sp --seeds 5
  perforate compare random --guest 4k,thp,perforated --host 4k,thp,perforated
  perforate compare redis --scheme 4k,4k+4k,4k+thp,thp+thp,perforated+perforated
  perforate compare redis --machine host --memory-from host          this machine and its memory
  perforate compare redis --set tlb.l2.entries=3072 --scheme 4k,thp
  perforate compare redis --vary tlb.l2.entries=768,1536,3072        a chart over the values
  perforate compare redis --vary tlb.l2.entries=768,3072 --vary memory=4G,16G    a grid
  perforate compare redis --vary 'fragmentation=portion=50%,holes=25%,clustered;none'
  perforate compare my.trace --vary layout=half.csv,all.csv          page sizes of parts of memory
  perforate compare redis --policy mine.rhai                         a policy as a script
  perforate compare -- ls -lR /usr                    record a program, then compare
  perforate compare --counters -- ls -lR /usr         and count it natively")]
pub struct CompareArguments {
    /// Trace file, bundled trace or workload [default: hpcc, a bundled trace]
    ///
    /// `perforate list workloads` has them; FORMAT:FILE is a foreign trace whose content does not
    /// identify its format (docs/foreign-traces.md), - a trace on standard input
    #[arg(value_name = "TRACE|WORKLOAD", help_heading = Section::Program.title())]
    workload: Option<String>,
    /// Program to record and compare: all of it, sampled
    ///
    /// 60 to 120 windows of 500,000 instructions, or everything of a program of up to 60 M instructions;
    /// recording ends after 10 minutes or 4 GB. --skip and --instructions choose one part instead
    #[arg(last = true, value_name = "PROG ARGS…", help_heading = Section::Program.title())]
    program: Vec<OsString>,
    /// Run the program once natively, too, with hardware counters beside the prediction
    ///
    /// Cycles, instructions, misses of the data TLBs, cycles of walks; where this machine has no counters
    /// a note says why, and the program is not run
    #[arg(long, help_heading = Section::Program.title(), hide_short_help = true)]
    counters: bool,
    /// Compare once for each of these values of an option or key
    ///
    /// Of an option, such as defrag, or of a key of the machine (see --set): one table and one report
    /// of all; with semicolons between values that have commas. Given twice, each value of the first key
    /// with each of the second. At most 1,024 runs
    #[arg(
        long,
        value_name = "KEY=A,B,…",
        value_parser = str::parse::<Vary>,
        help_heading = Section::Program.title()
    )]
    vary: Vec<Vary>,
    /// Schemes to compare, or all [default: 4k,thp,perforated,ideal]
    ///
    /// With --layout the default is 4k,layout,thp,ideal. Separated by commas; GUEST+HOST is a scheme in a
    /// virtual machine over one of its host. There is no default with --guest or --host.
    /// With --machine host in a virtual machine the default is 4k+4k,thp+4k,4k+thp,thp+thp. free is always
    /// added (free+HOST where all are pairs): the saving of free translation is the difference from it
    #[arg(long, value_name = "A,B,…", help_heading = Section::Schemes.title())]
    scheme: Option<String>,
    /// Schemes of the guest, each over each of --host [default: 4k,thp,perforated]
    ///
    /// In a virtual machine; the default is that where --host is given
    #[arg(long, value_name = "A,B,…", help_heading = Section::Virtual.title())]
    guest: Option<String>,
    /// Schemes of its host [default: 4k,thp,perforated]
    ///
    /// The default is that where --guest is given
    #[arg(long, value_name = "A,B,…", help_heading = Section::Virtual.title())]
    host: Option<String>,
    #[command(flatten)]
    simulation: RunFlags<true>,
    /// Repeat with this many seeds, and show medians
    ///
    /// The report shows the spread too
    #[arg(
        long,
        value_name = "N",
        default_value_t = Count::new(1),
        help_heading = Section::Length.title()
    )]
    seeds: Count<1, 1000>,
    /// Folder for results.jsonl and report.html [default: a new one in results]
    ///
    /// results/latest leads to the new one
    #[arg(short, long, value_name = "DIR", help_heading = Section::Output.title())]
    out: Option<PathBuf>,
    /// Write the report's figures as SVG and CSV, too
    ///
    /// Into a folder figures beside the report
    #[arg(
        long,
        help_heading = Section::Output.title(),
        hide_short_help = true,
        value_parser = figures::flag
    )]
    figures: bool,
    /// Print all figures, not only those that matter most
    #[arg(id = "all-figures", long = "all", help_heading = Section::Output.title())]
    all: bool,
    /// Print the results as JSON lines and nothing else; files only with --out
    #[arg(long, help_heading = Section::Output.title())]
    json: bool,
}

/// Runs the comparison, writes the results and prints the table.
pub fn compare(arguments: &CompareArguments) -> Result<(), Failure> {
    // All checks come before long work.
    if arguments.counters && arguments.program.is_empty() {
        let problem = "--counters: needs a program; expected -- PROG ARGS…";
        return Err(Failure::Usage(problem.into()));
    }
    let request = arguments.simulation.request()?;
    let (compared, left_out) = schemes(arguments, &request)?;
    let runs_each = compared.len() as u64 * arguments.seeds.get();
    let placement = request.spec.placement.clone();
    let variants = variants(&arguments.vary, request, runs_each)?;
    let workload = arguments.workload.as_deref();
    let resolve = |Variant { request, .. }: &Variant| {
        request.resolve(workload, compared.clone(), &own_memory_bar())
    };
    let runs = variants.iter().map(resolve).collect::<Result<Vec<ResolvedRun>, _>>()?;
    let folder = result_folder(arguments.out.as_deref(), arguments.json, &folder_name(arguments))?;
    let bar = match arguments.program.as_slice() {
        [] => Bar::instructions("simulating"),
        _ => Bar::beside_program("recording"),
    };
    let recording = record_program(arguments, &placement, &bar)?;
    let stop = match &recording {
        Some(recording) => recording.stop(),
        None => perforate_record::stop_or_end_on_interrupt()?,
    };
    let counters = arguments.counters.then(|| {
        bar.stage("counting");
        NativeCounters::measure(&arguments.program)
    });
    let counters = counters.transpose()?;
    let mut results = Vec::new();
    let all = variants.len() as u64 * arguments.seeds.get();
    for (variant, mut run) in variants.iter().zip(runs) {
        if let Some(recording) = &recording {
            run.workload.name = recording.path().to_string_lossy().into_owned();
            run.workload.skip = 0; // skipped while recording
        }
        let first_seed = run.seed;
        for repetition in 0..arguments.seeds.get() {
            let done = (results.len() / compared.len().max(1)) as u64;
            let place = if all > 1 { format!("{} of {all}: ", done + 1) } else { String::new() };
            bar.stage(&format!("{place}{}", stage(arguments, variant, repetition)));
            run.seed = first_seed.wrapping_add(repetition);
            let mut found = simulate(&run, &bar, &stop)?;
            if let Some(recording) = &recording {
                found.iter_mut().for_each(|result| recording.annotate(result));
            }
            if let Some(counters) = &counters {
                counters.annotate(&mut found);
            }
            variant.mark(&mut found);
            results.extend(found);
        }
    }
    note_without_effect(&arguments.vary, &mut results);
    drop(bar);
    let lines = json_lines(&results);
    if arguments.json {
        print(&lines)?;
    }
    folder.map_or(Ok(()), |folder| write_files(&folder, &results, lines, arguments, &left_out))
}

/// Chooses the name of a new folder for results, from the command and the workload.
fn folder_name(arguments: &CompareArguments) -> String {
    let program = arguments.program.first().map(Path::new);
    let program = program.and_then(Path::file_name).map(|name| name.to_string_lossy());
    let workload = arguments.workload.as_deref().unwrap_or_default();
    let workload = Path::new(workload).file_name().map(|name| name.to_string_lossy());
    let subject = program.or(workload).unwrap_or_default();
    format!("compare-{}", subject.trim_end_matches(".trace"))
}

/// Schemes to compare, and notes on pairs of guest and host that cannot be combined.
fn schemes(
    arguments: &CompareArguments,
    request: &RunRequest,
) -> Result<(Vec<Composition>, Vec<String>), SimError> {
    let CompareArguments { scheme, guest, host, .. } = arguments;
    let is_varied = |option: &str| arguments.vary.iter().any(|vary| vary.is_for(option));
    let default = request.default_schemes(&is_varied);
    let (compared, left_out) =
        crate::actions::schemes(scheme.as_deref(), guest.as_deref(), host.as_deref(), default)?;
    let is_functional = request.spec.measuring.functional;
    Ok((crate::actions::with_free(compared, is_functional), left_out))
}

/// Records the program after `--`; `None` if the command names no program.
fn record_program(
    arguments: &CompareArguments,
    placement: &PlacementOptions,
    bar: &Bar,
) -> Result<Option<ProgramRecording>, Failure> {
    if arguments.program.is_empty() {
        return Ok(None);
    }
    if let Some(workload) = &arguments.workload {
        return Err(Failure::Usage(format!(
            "compare takes {workload} or a program after --, not both"
        )));
    }
    ProgramRecording::with_bar(&arguments.program, placement, bar).map(Some)
}

/// Text of the progress bar while one of the comparisons runs.
fn stage(arguments: &CompareArguments, variant: &Variant, repetition: u64) -> String {
    let stage = match arguments.seeds.get() {
        1 => "simulating".to_owned(),
        seeds => format!("simulating seed {} of {seeds}", repetition + 1),
    };
    variant.name().map_or(stage.clone(), |name| format!("{name}, {stage}"))
}

fn simulate(run: &ResolvedRun, bar: &Bar, stop: &AtomicBool) -> Result<Vec<RunResult>, Failure> {
    perforate_sim::run(run, &mut BarAndStop { bar, stop }).map_err(|error| match error {
        SimError::Stopped => Failure::Stopped(bar.status()),
        error => error.into(),
    })
}

/// Observer that shows a run's progress and cancels the run at Ctrl-C.
struct BarAndStop<'a> {
    bar: &'a Bar,
    stop: &'a AtomicBool,
}

impl Observer for BarAndStop<'_> {
    fn on_progress(&mut self, progress: Progress) {
        self.bar.show(progress);
    }

    fn is_cancelled(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Writes results and report, and prints the table unless the results were printed as JSON.
fn write_files(
    folder: &ResultFolder,
    results: &[RunResult],
    lines: String,
    arguments: &CompareArguments,
    left_out: &[String],
) -> Result<(), Failure> {
    let options = ReportOptions {
        title: title(results),
        command: command(),
        results: lines.clone(),
        vocabulary: perforate_sim::vocabulary(),
    };
    let drawn = arguments.figures.then(|| perforate_report::figures(results, &options));
    let drawn = drawn.transpose()?;
    let page = perforate_report::html(results, &options);
    let mut files = vec![(RESULTS.to_owned(), lines), (REPORT.to_owned(), page)];
    files.extend(drawn.iter().flat_map(|drawn| figures::files(drawn)));
    let written = folder.write(&files)?;
    if arguments.json {
        return Ok(());
    }
    let rows = if arguments.all { Rows::All } else { Rows::Main };
    let width = columns();
    let table = perforate_report::varied_table(results, &options.vocabulary, width)
        .unwrap_or_else(|| perforate_report::table(results, &options.vocabulary, width, rows));
    let mut shown = merged_notes(results, (!arguments.all).then_some("--all prints them"));
    // The table has the values of varied keys.
    shown.retain(|note| !arguments.vary.iter().any(|vary| vary.is_stated_by(note)));
    shown.extend_from_slice(left_out);
    print(&format!(
        "{table}\n{}results: {written}\nreport:  {} (open it in a browser)\n{}",
        notes(&shown, text_columns()),
        written.file(REPORT).display(),
        figures::summary(&written, drawn.as_deref()),
    ))
}
