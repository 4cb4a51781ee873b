//! One recording from the command line to the finished file.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use perforate_trace::{TraceMetadata, TraceWriter, WriterOptions};
use perforate_types::{ProcessId, ProgramEvent, ThreadId};

use crate::CaptureError;
use crate::launch::{Killed, Partial, check_output, spawn};
use crate::layout::{DICTIONARY_BYTES, FAILURE_DICTIONARY, FAILURE_THREADS, RINGS};
use crate::options::{Ending, Progress, RecordOptions, RecordSummary};
use crate::output::Output;
use crate::process::{self, PageMap};
use crate::program::{find_emulator, find_program};
use crate::replay::{Replay, Step};
use crate::shared::{MemoryFile, SharedMemory};

/// The plugin, compiled when this crate was.
const PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libperforate_plugin.so"));
/// Sleep when there is nothing to replay.
const IDLE_PAUSE: Duration = Duration::from_micros(200);
/// Time between progress reports.
const PROGRESS_PERIOD: Duration = Duration::from_millis(100);
/// Records of one thread that wait in the recorder before its ring is left to fill.
const WAITING_RECORDS: usize = 1 << 20;

/// A flag that is set at the first Ctrl-C (SIGINT) or SIGTERM, for [`RecordOptions::stop`].
///
/// # Errors
/// If the operating system refuses the signal handler.
pub fn stop_on_interrupt() -> Result<Arc<AtomicBool>, CaptureError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| CaptureError::system("handling signals", error))?;
    }
    Ok(stop)
}

/// Runs a program in the emulator and writes a trace of it. `progress` is called about ten times
/// a second.
///
/// # Errors
/// If the program or the emulator cannot be run, the program ends before recording starts, or
/// the trace cannot be written. Then no trace file is left.
pub fn record(
    options: RecordOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<RecordSummary, CaptureError> {
    let name = options.program.first().ok_or(CaptureError::NoProgram)?;
    let program = find_program(name)?;
    let emulator = find_emulator(options.emulator.as_deref())?;
    check_output(&options.output)?;
    let shared = SharedMemory::new()?;
    let plugin = MemoryFile::with_content(c"perforate-plugin", PLUGIN)?;
    let started = Instant::now();
    let child = spawn(&options, &emulator, &program, &plugin, &shared)?;
    let mut session = Session {
        emulator,
        program,
        shared,
        child: Killed(child),
        started,
        replay: Replay::new(),
        skipped: 0,
        ended: None,
        partial: Partial::new(&options.output),
        options,
    };
    let ending = session.run(progress)?;
    session.finish(ending)
}

struct Session {
    options: RecordOptions,
    emulator: PathBuf,
    program: PathBuf,
    // Order matters: the child goes before the memory it writes to.
    child: Killed,
    shared: SharedMemory,
    started: Instant,
    replay: Replay<TraceWriter>,
    skipped: u64,
    ended: Option<ExitStatus>,
    partial: Partial,
}

impl Session {
    /// Replays until the recording ends.
    fn run(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Ending, CaptureError> {
        let mut last = Progress::default();
        loop {
            if self.started.elapsed().as_secs_f64() - last.seconds > PROGRESS_PERIOD.as_secs_f64() {
                last = self.progress(&last);
                progress(last);
            }
            let drained = self.drain();
            match self.replay.advance(self.shared.dictionary())? {
                Step::Starved if drained => {}
                Step::Starved => {
                    if let Some(ending) = self.idle()? {
                        progress(self.progress(&last));
                        return Ok(ending);
                    }
                }
                Step::Snapshot => self.take_snapshot()?,
                Step::Start(skipped) => self.start(skipped)?,
                Step::Full => {
                    progress(self.progress(&last));
                    return Ok(Ending::Limit);
                }
            }
            if self.options.stop.load(Ordering::Relaxed) {
                return Ok(Ending::Stopped);
            }
        }
    }

    fn drain(&mut self) -> bool {
        let rings = self.shared.header().rings.load(Ordering::Acquire) as usize;
        let mut drained = false;
        for ring in 0..rings.min(RINGS) {
            let waiting = self.replay.waiting(ring);
            if waiting.len() < WAITING_RECORDS {
                drained |= self.shared.drain(ring, waiting) > 0;
            }
        }
        drained
    }

    /// Called when all records are replayed: has the program failed, ended, or replaced itself?
    fn idle(&mut self) -> Result<Option<Ending>, CaptureError> {
        match self.shared.header().failure.load(Ordering::Acquire) {
            FAILURE_THREADS => return Err(CaptureError::TooManyThreads { limit: RINGS }),
            FAILURE_DICTIONARY => {
                return Err(CaptureError::TooMuchCode { limit_bytes: DICTIONARY_BYTES });
            }
            _ => {}
        }
        if let Some(status) = self.ended {
            // Drained once more after the end, so nothing is missing. An execve that never came
            // back succeeded, and what ended since is the replacement.
            let replaced = self.replay.is_in_exec();
            return Ok(Some(if replaced { Ending::Replaced } else { ending(status) }));
        }
        let failed = |error| CaptureError::system("waiting for the program", error);
        self.ended = self.child.0.try_wait().map_err(failed)?;
        if self.ended.is_none() {
            if self.replay.is_in_exec() && self.is_replaced() {
                return Ok(Some(Ending::Replaced));
            }
            std::thread::sleep(IDLE_PAUSE);
        }
        Ok(None)
    }

    fn is_replaced(&self) -> bool {
        let running = fs::read_link(format!("/proc/{}/exe", self.child.0.id()));
        let emulator = fs::canonicalize(&self.emulator);
        running.is_ok_and(|running| emulator.is_ok_and(|emulator| running != emulator))
    }

    fn take_snapshot(&mut self) -> Result<(), CaptureError> {
        let snapshot = process::snapshot(self.child.0.id(), &self.emulator, &self.program)
            .map_err(|error| CaptureError::system("reading the program's mappings", error))?;
        for event in &snapshot.events {
            self.replay.space.apply(event);
        }
        self.replay.relocation = crate::relocation::Relocation::new(&snapshot.layout);
        self.shared.header().answers.store(1, Ordering::Release);
        Ok(())
    }

    /// Begins the trace with the memory there is.
    fn start(&mut self, skipped: u64) -> Result<(), CaptureError> {
        self.skipped = skipped;
        let options = WriterOptions { level: self.options.level, ..WriterOptions::default() };
        let writer = TraceWriter::create_with(&self.partial.path, &self.metadata(), options)?;
        self.partial.is_created = true;
        let limit = self.options.instructions.unwrap_or(u64::MAX);
        let mut output = Output::new(writer, limit);
        let pages = PageMap::open(self.child.0.id())
            .map_err(|error| CaptureError::system("reading the program's pages", error))?;
        for event in self.replay.space.events(|range| pages.present(range)) {
            for event in self.replay.relocation.relocate_event(&event) {
                output.event(ThreadId(0), event)?;
            }
        }
        self.replay.output = Some(output);
        self.shared.header().answers.store(2, Ordering::Release);
        Ok(())
    }

    fn metadata(&self) -> TraceMetadata {
        let program = self.options.program.iter();
        TraceMetadata {
            program: program.map(|part| part.to_string_lossy().into_owned()).collect(),
            recorder: "qemu-user with the perforate plugin".into(),
            architecture: "x86_64".into(),
            created_by: concat!("perforate ", env!("CARGO_PKG_VERSION")).into(),
            instructions_skipped: self.skipped,
            has_events: true,
            has_dependencies: true,
            has_branches: true,
            assumptions: vec![
                "Addresses are moved to where Linux would place them, by multiples of 2MB.".into(),
                "A repeated string instruction accesses memory in pieces of a cache line.".into(),
                "Threads take turns in the order in which the emulator ran them.".into(),
                "The kernel's own accesses are not recorded.".into(),
            ],
            ..TraceMetadata::default()
        }
    }

    fn progress(&self, last: &Progress) -> Progress {
        let output = self.replay.output.as_ref();
        let skipped = self.shared.header().skipped.load(Ordering::Relaxed);
        let mut now = Progress {
            instructions_skipped: if output.is_some() { self.skipped } else { skipped },
            instructions: output.map_or(0, |output| output.instructions),
            bytes_written: output.map_or(0, |output| output.sink.summary().bytes),
            seconds: self.started.elapsed().as_secs_f64(),
            instructions_per_microsecond: 0.0,
        };
        let done = now.instructions + now.instructions_skipped;
        let before = last.instructions + last.instructions_skipped;
        let microseconds = (now.seconds - last.seconds).max(1e-6) * 1e6;
        now.instructions_per_microsecond = done.saturating_sub(before) as f64 / microseconds;
        now
    }

    /// Writes the end of the trace and gives it its name.
    fn finish(mut self, ending: Ending) -> Result<RecordSummary, CaptureError> {
        let Some(mut output) = self.replay.output.take() else {
            return Err(self.nothing_recorded(ending));
        };
        match ending {
            Ending::Exited(_) | Ending::Signalled(_) => {
                output.event(ThreadId(0), ProgramEvent::Exit { process: ProcessId(0) })?;
            }
            Ending::Replaced => output.event(ThreadId(0), ProgramEvent::Exec)?,
            Ending::Limit | Ending::Stopped => {}
        }
        let (accesses, pages_touched) = (output.accesses, output.pages_touched());
        let written = output.sink.finish()?;
        let seconds = self.started.elapsed().as_secs_f64();
        fs::rename(&self.partial.path, &self.options.output).map_err(|error| {
            CaptureError::Output {
                path: self.options.output.clone(),
                problem: format!("renaming the finished trace: {error}"),
            }
        })?;
        self.partial.is_created = false;
        if ending == Ending::Replaced {
            self.wait_for_replacement();
        }
        Ok(RecordSummary {
            instructions: written.instructions,
            instructions_skipped: self.skipped,
            accesses,
            pages_touched,
            threads: self.replay.thread_count(),
            bytes: written.bytes,
            seconds,
            ending,
        })
    }

    /// Lets a program that replaced the recorded one run to its end, or until told to stop.
    fn wait_for_replacement(&mut self) {
        while matches!(self.child.0.try_wait(), Ok(None)) {
            if self.options.stop.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(PROGRESS_PERIOD);
        }
    }

    fn nothing_recorded(&self, ending: Ending) -> CaptureError {
        let status = match ending {
            Ending::Exited(code) => format!("exit code {code}"),
            Ending::Signalled(signal) => format!("signal {signal}"),
            Ending::Replaced => "replaced by another program".into(),
            Ending::Limit | Ending::Stopped => return CaptureError::StoppedEarly,
        };
        if self.shared.header().answers.load(Ordering::Acquire) == 0 {
            return CaptureError::EmulatorFailed { path: self.emulator.clone(), status };
        }
        let executed = self.shared.header().skipped.load(Ordering::Relaxed);
        CaptureError::EndedWhileSkipping { status, executed, skip: self.options.skip }
    }
}

fn ending(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Signalled(signal.unwrap_or(0)),
    }
}
