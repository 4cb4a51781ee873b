//! `perforate record`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use perforate_capture::{Ending, RecordOptions, RecordSummary, stop_on_interrupt};

use crate::failure::Failure;
use crate::output::{Bar, print};

/// Instructions recorded for `compare -- PROG` where no number is given.
const TEMPORARY_INSTRUCTIONS: u64 = 50_000_000;

/// Exit code after Ctrl-C, as shells have it.
const INTERRUPTED: i32 = 130;

/// Record a real program into a trace.
#[derive(Args)]
#[command(after_help = "Examples:
  perforate record -o ls.trace -- ls -lR /usr
  perforate record -o xz.trace --skip 100000000 --instructions 20000000 -- xz -9k big.file
  perforate record -o redis.trace -- redis-server --save ''     (Ctrl-C ends the recording)

Needs qemu-x86_64 7.2 or later with plugins: apt-get install qemu-user")]
pub struct RecordArguments {
    /// The trace file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Instructions to pass over first
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,
    /// Instructions to record; then the program is ended [default: until it ends or Ctrl-C]
    #[arg(long, value_name = "N")]
    instructions: Option<u64>,
    /// Compression level, 1 to 22: 3 keeps up with the program, 19 is for keeping
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=22))]
    level: i32,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROG ARGS…")]
    program: Vec<OsString>,
}

/// Records the program.
pub fn record(arguments: &RecordArguments) -> Result<(), Failure> {
    let options = RecordOptions {
        skip: arguments.skip,
        instructions: arguments.instructions,
        level: arguments.level,
        ..RecordOptions::new(&arguments.output, arguments.program.clone())
    };
    let summary = record_with_bar(RecordOptions { stop: stop_on_interrupt()?, ..options })?;
    print(&text(&arguments.output, &summary))
}

fn record_with_bar(options: RecordOptions) -> Result<RecordSummary, Failure> {
    let bar = Bar::instructions("recording");
    let total = options.instructions;
    let summary = perforate_capture::record(options, &mut |progress| {
        if progress.instructions == 0 && progress.instructions_skipped > 0 {
            bar.message(&format!("skipping, {} M done", progress.instructions_skipped / 1_000_000));
        } else {
            bar.message("recording");
            bar.show(perforate_sim::Progress { done: progress.instructions, total });
        }
    })?;
    Ok(summary)
}

fn text(path: &Path, summary: &RecordSummary) -> String {
    let ending = match summary.ending {
        Ending::Exited(code) => format!("the program ended with exit code {code}"),
        Ending::Signalled(signal) => format!("the program was killed by signal {signal}"),
        Ending::Limit => "all instructions asked for; the program was ended".into(),
        Ending::Stopped => "stopped; the program was ended".into(),
        Ending::Replaced => "the program replaced itself by another (execve), not recorded".into(),
    };
    let rate = (summary.instructions + summary.instructions_skipped) as f64
        / summary.seconds.max(1e-9)
        / 1e6;
    format!(
        "{}: {} instructions, {} memory accesses, {} threads\n\
         touched: {} pages of 4KB ({} MB); skipped before: {} instructions\n\
         size: {} bytes, {:.3} per instruction; {:.1} s, {rate:.1} M instructions/s\n\
         {ending}\n",
        path.display(),
        summary.instructions,
        summary.accesses,
        summary.threads,
        summary.pages_touched,
        summary.pages_touched * 4096 / (1 << 20),
        summary.instructions_skipped,
        summary.bytes,
        summary.bytes_per_instruction(),
        summary.seconds,
    )
}

/// A trace that is deleted with this value.
pub struct TemporaryTrace {
    folder: Option<tempfile::TempDir>,
    path: PathBuf,
    stop: Arc<AtomicBool>,
}

impl TemporaryTrace {
    /// A place for a trace of this file name; from now on Ctrl-C and SIGTERM are taken over.
    pub fn new(file_name: impl AsRef<Path>) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new()
            .prefix("perforate-")
            .tempdir()
            .map_err(|source| Failure::Write { path: std::env::temp_dir(), source })?;
        let path = folder.path().join(file_name);
        Ok(Self { folder: Some(folder), path, stop: stop_on_interrupt()? })
    }

    /// The flag that Ctrl-C and SIGTERM set, for a recorder.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Where the trace lies; the file is named after the program.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the program if Ctrl-C or SIGTERM came meanwhile: the recorder took those signals
    /// over, so what runs after it has to ask.
    pub fn end_if_interrupted(&mut self) {
        if self.stop.load(Ordering::Relaxed) {
            drop(self.folder.take());
            std::process::exit(INTERRUPTED);
        }
    }
}

/// Records a program for one comparison.
pub fn record_temporarily(
    program: &[OsString],
    instructions: Option<u64>,
) -> Result<TemporaryTrace, Failure> {
    let name = program.first().and_then(|path| Path::new(path).file_name());
    let mut file_name = name.unwrap_or("program".as_ref()).to_owned();
    file_name.push(".trace");
    let trace = TemporaryTrace::new(file_name)?;
    let options = RecordOptions {
        instructions: Some(instructions.unwrap_or(TEMPORARY_INSTRUCTIONS)),
        prints_to_stderr: true,
        stop: trace.stop(),
        ..RecordOptions::new(trace.path(), program.to_vec())
    };
    record_with_bar(options)?;
    // The first Ctrl-C ended the recording; what was recorded is compared. The next one ends us.
    trace.stop.store(false, Ordering::Relaxed);
    Ok(trace)
}
