//! `perforate record`: records programs into traces.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::actions::Failure;
use clap::Args;
use perforate_config::{ConfigError, Count, Size};
use perforate_host::Reporter;
use perforate_record::{
    Begin, Ending, Overhead, ProcessSummary, RecordError, RecordOptions, RecordSummary, Sampling,
    Selection, stop_on_interrupt,
};
use perforate_report::text::{Column, columns};
use perforate_sim::Progress;
use perforate_types::counted;
use serde_json::json;

use crate::output::{CommandOutput, per_instruction, print, text_columns};
use crate::progress::Bar;

/// Record a real program, and all that it starts, into a trace.
#[derive(Args)]
#[command(after_help = "Examples:
  perforate record -o ls.trace -- ls -lR /usr
  perforate record -o xz.trace --skip 100000000 --instructions 20000000 -- xz -9k big.file
  perforate record -o gcc.trace -- gcc -O2 -c file.c            (gcc, cc1 and as)
  perforate record -o long.trace --sample auto -- PROG ARGS…    (60 to 120 windows of all of it)
  perforate record -o long.trace --sample 10M/1G --max-size 2G -- PROG ARGS…
  perforate record -o part.trace --region compress_block -- PROG ARGS…
  perforate record -o s.trace --after 20s --for 10s -- redis-server --save ''
  perforate record -o s.trace --on-signal -- redis-server --save ''
      (from another terminal: kill -USR1 PID begins it, kill -USR2 PID or Ctrl-C ends it, with
      the PID that is printed)

A service is started here and driven from outside; it answers more slowly than natively.
--region markers records between PERFORATE_BEGIN and PERFORATE_END of the header that
`perforate record --print-header` prints.

Needs qemu-x86_64 7.2 or later with plugins: apt-get install qemu-user")]
pub struct RecordArguments {
    /// The trace file to write
    #[arg(short, long, value_name = "FILE", required_unless_present = "print_header")]
    output: Option<PathBuf>,
    #[command(flatten)]
    selection: SelectionArguments,
    /// Disk space for records that are not in the trace yet, as the program may be faster than the
    /// recorder
    #[arg(long, value_name = "SIZE", default_value = "4G")]
    spool: Size,
    /// Run the program twice more, natively and in the emulator alone, and print what recording
    /// costs
    #[arg(long)]
    overhead: bool,
    /// Compression level, 1 to 22: 3 keeps up with the program, 19 is for keeping
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=22))]
    level: i32,
    /// Print the C header with the markers of --region markers, and do nothing else
    #[arg(long)]
    print_header: bool,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "print_header", value_name = "PROG ARGS…")]
    program: Vec<OsString>,
}

/// The instructions to record.
#[derive(Args)]
struct SelectionArguments {
    /// Instructions to skip first
    #[arg(long, value_name = "N", default_value_t = Count::new(0))]
    skip: Count,
    /// Instructions to record; then the program is ended [default: until it ends or Ctrl-C]
    #[arg(long, value_name = "N")]
    instructions: Option<Count>,
    /// Record windows of N instructions, one every M, such as 10M/1G; or auto, which covers a program
    /// of any length
    ///
    /// With auto, the trace has all of a program of up to 60 M instructions, and 60 to 120 windows of
    /// 500,000 instructions at equal distances of a longer one
    #[arg(long, value_name = "N/M|auto")]
    sample: Option<String>,
    /// Record a part of the program: markers, a function's name, or addresses START..END
    #[arg(long, value_name = "REGION", conflicts_with_all = ["skip", "sample"])]
    region: Option<String>,
    /// End the recording when the trace has this size, at least 256K. The trace may be a few percent
    /// larger
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Size>,
    /// Begin recording after this time, such as 20s; until then the program runs faster
    #[arg(long, value_name = "TIME", value_parser = crate::sweep::time,
        conflicts_with_all = ["skip", "region"])]
    after: Option<Duration>,
    /// End the recording, and the program, after recording for this time
    #[arg(long = "for", alias = "duration", value_name = "TIME", value_parser = crate::sweep::time)]
    duration: Option<Duration>,
    /// Begin recording when this command gets SIGUSR1, and end it at SIGUSR2
    #[arg(long, conflicts_with_all = ["skip", "region", "after"])]
    on_signal: bool,
}

/// Value of `--sample` for sampling a program of unknown length.
const AUTO: &str = "auto";

impl SelectionArguments {
    /// Moment at which recording begins. With --on-signal, SIGUSR1 sets the flag `signal`.
    fn begin(&self, signal: &Arc<AtomicBool>) -> Begin {
        match (self.on_signal, self.after) {
            (true, _) => Begin::WhenSet(Arc::clone(signal)),
            (false, Some(time)) => Begin::After(time),
            (false, None) => Begin::AtOnce,
        }
    }

    fn read(&self) -> Result<Selection, Failure> {
        let region = |text: &String| {
            text.parse().map_err(|problem| Failure::Usage(format!("--region {text}: {problem}")))
        };
        if self.sample.as_deref() == Some(AUTO) && self.instructions.is_some() {
            let problem = "--sample auto covers the whole program: leave --instructions out";
            return Err(Failure::Usage(problem.into()));
        }
        let sampling = self.sample.as_deref().map(sampling).transpose();
        Ok(Selection {
            skip: self.skip.get(),
            sampling: sampling.map_err(|error| error.under("sample"))?,
            region: self.region.as_ref().map(region).transpose()?,
            instructions: self.instructions.map(Count::get),
            trace_bytes: self.max_size.map(largest_trace).transpose()?,
            duration: self.duration,
        })
    }
}

fn largest_trace(size: Size) -> Result<u64, Failure> {
    const LEAST: Size = Size(Selection::LEAST_TRACE_BYTES);
    if size < LEAST {
        return Err(Failure::Usage(format!("--max-size {size}: expected at least {LEAST}")));
    }
    Ok(size.bytes())
}

fn sampling(text: &str) -> Result<Sampling, ConfigError> {
    if text == AUTO {
        return Ok(Sampling::ADAPTIVE);
    }
    let (window, period) =
        text.split_once('/').ok_or_else(|| ConfigError::new("expected auto or N/M, as 10M/1G"))?;
    let [window, period] = [window, period].map(str::parse::<Count>);
    let (window, period) = (window?.get(), period?.get());
    if window == 0 || period <= window {
        let problem = "windows have at least one instruction, and less than their distance";
        return Err(ConfigError::new(problem));
    }
    Ok(Sampling::Periodic { window, period })
}

impl RecordArguments {
    fn options(&self, output: &Path) -> Result<RecordOptions, Failure> {
        if output == Path::new("-") {
            let problem = "a recording cannot go to standard output; expected the name of a file (./- is one named -)";
            return Err(Failure::Usage(problem.into()));
        }
        Ok(RecordOptions {
            selection: self.selection.read()?,
            spool_bytes: self.spool.bytes(),
            level: self.level,
            ..RecordOptions::new(output, self.program.clone())
        })
    }
}

/// Records the program, and prints a summary.
pub fn record(arguments: &RecordArguments) -> Result<(), Failure> {
    let Some(output) = arguments.output.as_ref().filter(|_| !arguments.print_header) else {
        return print(perforate_record::MARKER_HEADER);
    };
    let options = arguments.options(output)?;
    let stop = stop_on_interrupt()?;
    let begin = arguments.selection.begin(&begin_signal(arguments.selection.on_signal, &stop)?);
    let bar = Bar::beside_program("recording");
    let summary = record_with_bar(RecordOptions { stop, begin, ..options }, &bar)?;
    drop(bar);
    print(&text(output, &summary))?;
    if arguments.overhead {
        let costs = perforate_record::measure_overhead(&arguments.program)?;
        print(&overhead_text(&costs, &summary))?;
    }
    match summary.ending.is_failure() {
        true => Err(Failure::Program(summary.ending.to_string())),
        false => Ok(()),
    }
}

/// Makes a flag that SIGUSR1 sets if `on_signal` is true; SIGUSR2 then sets `stop`.
fn begin_signal(on_signal: bool, stop: &Arc<AtomicBool>) -> Result<Arc<AtomicBool>, Failure> {
    if !on_signal {
        return Ok(Arc::default());
    }
    let begin = perforate_record::set_on_signals(stop)?;
    let process = std::process::id();
    eprintln!("kill -USR1 {process} begins the recording, kill -USR2 {process} or Ctrl-C ends it");
    Ok(begin)
}

/// Records the program like [`record`], but prints nothing, and deletes a recording that is stopped.
pub fn record_quietly(
    arguments: &RecordArguments,
    reporter: &mut dyn Reporter,
    stop: &Arc<AtomicBool>,
) -> Result<CommandOutput, Failure> {
    let Some(output) = arguments.output.as_ref().filter(|_| !arguments.print_header) else {
        let text = perforate_record::MARKER_HEADER.to_owned();
        return Ok(CommandOutput { json: "{}".into(), text });
    };
    let (stop, is_kept_when_stopped) = (Arc::clone(stop), false);
    if arguments.selection.on_signal {
        return Err(Failure::Usage("--on-signal is for the command line".into()));
    }
    let begin = arguments.selection.begin(&Arc::default());
    let options = RecordOptions { stop, is_kept_when_stopped, begin, ..arguments.options(output)? };
    let summary = record_with_reporter(options, reporter)?;
    let mut text = text(output, &summary);
    if arguments.overhead {
        let costs = perforate_record::measure_overhead(&arguments.program)?;
        text += &overhead_text(&costs, &summary);
    }
    Ok(CommandOutput { json: json(output, &summary), text })
}

fn json(path: &Path, summary: &RecordSummary) -> String {
    let process = |process: &ProcessSummary| {
        json!({
            "number": process.number,
            "instructions": process.instructions,
            "pages_touched": process.pages_touched,
            "programs": process.programs,
        })
    };
    let record = json!({
        "path": path,
        "instructions": summary.instructions,
        "instructions_skipped": summary.instructions_skipped,
        "instructions_between": summary.instructions_between,
        "windows": summary.windows,
        "accesses": summary.accesses,
        "pages_touched": summary.pages_touched,
        "threads": summary.threads,
        "processes": summary.processes.iter().map(process).collect::<Vec<_>>(),
        "bytes": summary.bytes,
        "seconds": summary.seconds,
        "ending": summary.ending.to_string(),
        "stopped_by": summary.ending.stopped_by(),
        "accesses_unmapped": summary.accesses_unmapped,
        "mappings_misplaced": summary.mappings_misplaced,
        "programs_unrecorded": summary.programs_unrecorded,
    });
    record.to_string()
}

/// Records a program, and reports the number of recorded instructions.
pub fn record_with_reporter(
    options: RecordOptions,
    reporter: &mut dyn Reporter,
) -> Result<RecordSummary, RecordError> {
    reporter.stage("recording", "instructions");
    let total = options.selection.instructions;
    perforate_record::record(options, &mut |progress| {
        reporter.progress(Progress { done: progress.instructions, total });
    })
}

/// Records a program, and shows its stages: skipping, recording, writing the rest of the trace.
pub fn record_with_bar(options: RecordOptions, bar: &Bar) -> Result<RecordSummary, RecordError> {
    let Selection { skip, instructions, .. } = options.selection;
    let (waiting, skip) = match options.begin {
        Begin::AtOnce => ("skipping", Some(skip)),
        Begin::After(_) | Begin::WhenSet(_) => ("waiting to begin", None),
    };
    perforate_record::record(options, &mut |progress| {
        let recorded = Progress { done: progress.instructions, total: instructions };
        let skipped = Progress { done: progress.instructions_skipped, total: skip };
        let (stage, shown) = match (progress.is_running, progress.instructions) {
            (true, 0) if progress.instructions_skipped > 0 => (waiting, skipped),
            (true, _) => ("recording", recorded),
            (false, _) => ("the program has ended, writing its trace", recorded),
        };
        bar.share_terminal(progress.is_running);
        bar.stage(stage);
        bar.show(shown);
    })
}

fn text(path: &Path, summary: &RecordSummary) -> String {
    let mut text = format!(
        "{}: {}, {}, {}, {}\n",
        path.display(),
        counted(summary.instructions, "instruction"),
        counted(summary.accesses, "memory access"),
        counted(summary.threads, "thread"),
        counted(summary.processes.len(), "process"),
    );
    text += &format!(
        "touched: {} of 4KB ({} MB); skipped before: {}\n",
        counted(summary.pages_touched, "page"),
        summary.pages_touched * 4096 / (1 << 20),
        counted(summary.instructions_skipped, "instruction"),
    );
    if summary.instructions_between > 0 {
        let all = summary.instructions + summary.instructions_between;
        text += &format!(
            "{}; {} between them are not in the trace: multiply counts by {:.2}\n",
            counted(summary.windows, "window"),
            counted(summary.instructions_between, "instruction"),
            all as f64 / summary.instructions.max(1) as f64,
        );
    }
    if summary.processes.len() > 1 {
        text += &process_table(&summary.processes);
    }
    text += &format!(
        "size: {} bytes{}\n{}\n{}\n",
        summary.bytes,
        per_instruction(summary.bytes, summary.instructions, [", ", ""]),
        times(summary),
        summary.ending,
    );
    text + warnings(summary).as_str()
}

/// Warnings about accesses and programs that are missing in the recording; empty if none are.
fn warnings(summary: &RecordSummary) -> String {
    let mut text = String::new();
    if summary.accesses_unmapped > 0 {
        text += &format!(
            "warning: {} accesses went to memory without a recorded mapping; the simulated kernel refuses \
             them\n",
            summary.accesses_unmapped
        );
    }
    if summary.mappings_misplaced > 0 {
        text += &format!(
            "warning: {} of whole 2MB not at a multiple of 2MB, where Linux would place them; the simulated \
             program has fewer large pages than the real one\n",
            counted(summary.mappings_misplaced, "mapping"),
        );
    }
    if summary.programs_unrecorded > 0 {
        text += &format!(
            "warning: {} times a program was executed natively and not recorded: it is for another \
             machine, or cannot reach the recorder's files (after chroot, for example)\n",
            summary.programs_unrecorded
        );
    }
    text
}

/// Maximum number of processes in the table of the summary.
const TABLE_PROCESSES: usize = 20;

fn process_table(processes: &[ProcessSummary]) -> String {
    let mut largest: Vec<&ProcessSummary> = processes.iter().collect();
    largest.sort_by_key(|process| std::cmp::Reverse(process.instructions));
    largest.truncate(TABLE_PROCESSES);
    let name = |path: &PathBuf| {
        let name = path.file_name().unwrap_or(path.as_os_str());
        name.to_string_lossy().into_owned()
    };
    let programs = |process: &&ProcessSummary| {
        process.programs.iter().map(name).collect::<Vec<_>>().join(" → ")
    };
    let numbers = |heading: &str, number: fn(&ProcessSummary) -> u64| {
        Column::numbers(heading, largest.iter().map(|one| number(one).to_string()).collect())
    };
    let mut text = columns(
        &[
            numbers("process", |process| process.number.into()),
            numbers("instructions", |process| process.instructions),
            numbers("pages", |process| process.pages_touched),
            Column::texts("programs", largest.iter().map(programs).collect()),
        ],
        text_columns(),
    );
    if let Some(more) = processes.len().checked_sub(TABLE_PROCESSES).filter(|more| *more > 0) {
        text += &format!("{more:>7} more\n");
    }
    text
}

/// Formats durations and rates of the recording.
fn times(summary: &RecordSummary) -> String {
    let mut text = format!("time: the program ran {:.1} s", summary.program_seconds,);
    if summary.waited_seconds >= 0.05 {
        text += &format!(", waiting {:.1} s for the recorder", summary.waited_seconds);
    }
    if let Some(seconds) = summary.processor_seconds {
        text += &format!("; {seconds:.1} s of processor time");
        // Processor time is counted in ticks.
        if seconds >= 0.1 {
            let rate = summary.instructions_executed as f64 / seconds / 1e6;
            text += &format!(": {rate:.0} M instructions/s");
            // A killed program has written records that were not read.
            if matches!(summary.ending, Ending::Exited(_) | Ending::Signalled(_)) {
                text += &format!(", {:.0} M records/s", summary.records as f64 / seconds / 1e6);
            }
        }
    }
    format!("{text}\n      the trace was complete after {:.1} s", summary.seconds)
}

fn overhead_text(costs: &Overhead, summary: &RecordSummary) -> String {
    let (native, emulated) = (&costs.native, &costs.emulated);
    let (seconds, processor) = (summary.program_seconds, summary.processor_seconds);
    let rows = [
        ("natively", native.seconds, Some(native.processor_seconds)),
        ("emulator alone", emulated.seconds, Some(emulated.processor_seconds)),
        ("recorded", seconds, processor),
    ];
    let seconds = rows.iter().map(|row| format!("{:.2}", row.1)).collect();
    // The processor time of processes that were not waited for is unknown.
    let numbers = |heading: &str, write: &dyn Fn(f64) -> String| {
        let text = |processor: Option<f64>| processor.map_or("unknown".into(), write);
        Column::numbers(heading, rows.iter().map(|row| text(row.2)).collect())
    };
    let times = |processor: f64| processor / emulated.processor_seconds.max(1e-9);
    let mut text = columns(
        &[
            Column::texts("overhead", rows.iter().map(|row| row.0.to_owned()).collect()),
            Column::numbers("seconds", seconds),
            numbers("processor time", &|processor| format!("{processor:.2} s")),
            numbers("times emulator's", &|processor| format!("{:.2}×", times(processor))),
        ],
        text_columns(),
    );
    if summary.processes.len() > 1 {
        text += "(in the emulator alone, what the program starts runs natively)\n";
    }
    text + "(one run each; compressing and writing the trace is not in these times)\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(number: u16, instructions: u64) -> ProcessSummary {
        let programs = ["/bin/sh", "/usr/bin/make"].map(PathBuf::from).to_vec();
        ProcessSummary { number, programs, instructions, pages_touched: instructions / 10 }
    }

    #[test]
    fn the_largest_processes_are_listed_and_the_rest_is_counted() {
        let table = |count: usize| {
            let processes: Vec<_> = (1..=count as u16)
                .map(|number| process(number, 1000 * u64::from(number)))
                .collect();
            process_table(&processes)
        };
        let words = |text: &str, row: usize| {
            let line = text.lines().skip_while(|line| !line.contains("sh")).nth(row).unwrap();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let few = table(2);
        assert_eq!(
            (words(&few, 0), words(&few, 1)),
            ("2 2000 200 sh → make".into(), "1 1000 100 sh → make".into())
        );
        let all = table(TABLE_PROCESSES);
        assert!(!all.contains(" more") && all.matches("make").count() == TABLE_PROCESSES, "{all}");
        let most = table(TABLE_PROCESSES + 3);
        assert!(most.ends_with("      3 more\n"), "{most}");
        assert_eq!(most.matches("make").count(), TABLE_PROCESSES, "{most}");
        assert_eq!(words(&most, 0), "23 23000 2300 sh → make");
    }

    /// A recording of two processes in three windows.
    fn summary() -> RecordSummary {
        RecordSummary {
            instructions: 2_000_000,
            instructions_skipped: 700,
            instructions_between: 3_000_000,
            windows: 3,
            accesses: 800_000,
            accesses_unmapped: 0,
            mappings_misplaced: 0,
            programs_unrecorded: 0,
            pages_touched: 1024,
            threads: 5,
            processes: vec![process(1, 1_500_000), process(2, 500_000)],
            bytes: 500_000,
            records: 60_000_000,
            program_seconds: 2.5,
            processor_seconds: Some(2.0),
            instructions_executed: 90_000_000,
            waited_seconds: 0.25,
            seconds: 3.75,
            ending: Ending::Exited(0),
        }
    }

    fn told(summary: &RecordSummary) -> String {
        text(Path::new("x.trace"), summary)
    }

    #[test]
    fn a_recording_is_told_with_all_its_numbers() {
        let expected = "\
            x.trace: 2000000 instructions, 800000 memory accesses, 5 threads, 2 processes\n\
            touched: 1024 pages of 4KB (4 MB); skipped before: 700 instructions\n\
            3 windows; 3000000 instructions between them are not in the trace: multiply counts by 2.50\n";
        let text = told(&summary());
        assert!(text.starts_with(expected), "{text}");
        let expected = "\
            size: 500000 bytes, 0.250 per instruction\n\
            time: the program ran 2.5 s, waiting 0.2 s for the recorder; 2.0 s of processor time: \
            45 M instructions/s, 30 M records/s\n      the trace was complete after 3.8 s\n\
            the program ended with exit code 0\n";
        assert!(text.ends_with(expected), "{text}");
        let plain = RecordSummary {
            instructions_between: 0,
            processes: vec![process(1, 2_000_000)],
            waited_seconds: 0.01,
            processor_seconds: None,
            ending: Ending::Limit,
            ..summary()
        };
        let text = told(&plain);
        let head = "touched: 1024 pages of 4KB (4 MB); skipped before: 700 instructions\nsize: ";
        assert!(text.contains(head), "no windows, and no table of one process: {text}");
        assert!(text.contains("\ntime: the program ran 2.5 s\n"), "{text}");
        // Of a program that was ended, records were left unread; ticks are too coarse for short runs.
        let ended = RecordSummary { ending: Ending::Limit, ..summary() };
        assert!(told(&ended).contains(" of processor time: 45 M instructions/s\n"));
        let short = RecordSummary { processor_seconds: Some(0.05), ..summary() };
        assert!(!told(&short).contains("instructions/s"));
    }

    #[test]
    fn what_a_recording_lacks_is_warned_of() {
        assert!(warnings(&summary()).is_empty());
        let lacking = RecordSummary {
            accesses_unmapped: 7,
            mappings_misplaced: 1,
            programs_unrecorded: 9,
            ..summary()
        };
        let text = warnings(&lacking);
        let starts = [
            "warning: 7 accesses went to memory without a recorded mapping; ",
            "warning: 1 mapping of whole 2MB not at a multiple of 2MB, ",
            "warning: 9 times a program was executed natively and not recorded: ",
        ];
        assert_eq!(text.lines().count(), starts.len(), "{text}");
        for (line, start) in text.lines().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
        assert!(told(&lacking).ends_with(&text));
    }
}
