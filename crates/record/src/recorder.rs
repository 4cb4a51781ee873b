//! Control of a recording from start to end.

mod finish;

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use perforate_config::NewFile;
use perforate_trace::{TraceMetadata, TraceWriter, WriterOptions};
use perforate_types::ProgramEvent;

use crate::RecordError;
use crate::emulator::launch::{
    Guard, KilledChild, check_output, children_seconds, kill_all, spawn,
};
use crate::emulator::program::{find_emulator, find_program};
use crate::emulator::questions::{Answer, Answerer, parts};
use crate::emulator::reception::Reception;
use crate::emulator::shared::SharedMemory;
use crate::emulator::spool::{Spool, runs};
use crate::layout::{
    ENDLESS, FAILURE_DICTIONARY, FAILURE_THREADS, Phases, REGION_ADDRESSES, REGION_FUNCTION,
    REGION_MARKERS, REGION_NONE,
};
use crate::options::{Begin, Ending, Progress, RecordOptions, RecordSummary, Sampling, Selection};
use crate::region::Region;
use crate::replay::address_space::AddressSpace;
use crate::replay::output::{Limits, Output};
use crate::replay::relocation::Relocation;
use crate::replay::{Replay, Step};
use crate::thinning::RecordedWindows;

/// Plugin for the emulator, compiled by the build script.
const PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libperforate_plugin.so"));
/// Pause before the queue of the plugins' records is read again while it has nothing to replay.
const IDLE_PAUSE: Duration = Duration::from_micros(200);
/// Time between two progress reports.
const PROGRESS_PERIOD: Duration = Duration::from_millis(100);
/// Time without new records after which missing records are assumed to be lost with a killed process.
const LOSS_PERIOD: Duration = Duration::from_millis(500);

/// Runs a program, and all programs that it starts, in the emulator, and writes a trace. `progress` is
/// called about ten times a second.
///
/// # Errors
/// If the program or the emulator cannot be run, the program ends before recording starts, or the trace
/// cannot be written. No trace file is left then.
pub fn record(
    options: RecordOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<RecordSummary, RecordError> {
    let program = find_program(&options.program)?;
    let emulator = find_emulator(options.emulator.as_deref())?;
    let emulator = emulator.canonicalize().unwrap_or(emulator);
    let folder = check_output(&options.output)?;
    let mut session =
        Session::launch(options, emulator, folder, |options, emulator, reception| {
            spawn(options, emulator, &program, reception)
        })?;
    let ending = match session.run(progress) {
        Err(RecordError::Trace(error)) if error.is_without_room() => {
            session.end_programs();
            Ending::Full
        }
        ending => ending?,
    };
    if session.is_interrupted(ending) {
        return Err(RecordError::Interrupted);
    }
    session.finish(ending)
}

/// Writes the options that select instructions to the shared memory, for the plugins.
fn select(options: &RecordOptions, shared: &SharedMemory) {
    let selection = &options.selection;
    let phases = &shared.header().phases;
    let set = |place: &std::sync::atomic::AtomicU64, value| place.store(value, Ordering::Release);
    let begins_by_itself = selection.region.is_none() && matches!(options.begin, Begin::AtOnce);
    set(&phases.skip_first, if begins_by_itself { selection.skip } else { ENDLESS });
    let sampling = selection.sampling.filter(|_| selection.region.is_none());
    let (record, skip, kept) = match sampling {
        None => (ENDLESS, ENDLESS, 0),
        Some(Sampling::Periodic { window, period }) => (window, period.saturating_sub(window), 0),
        Some(Sampling::Adaptive { window, kept }) => (window.max(1), 0, kept.max(1)),
    };
    set(&phases.record, record);
    set(&phases.skip, skip);
    set(&phases.kept_windows, kept);
    let region = match selection.region {
        None => REGION_NONE,
        Some(Region::Markers) => REGION_MARKERS,
        Some(Region::Addresses { .. }) => REGION_ADDRESSES,
        Some(Region::Function(_)) => REGION_FUNCTION,
    };
    set(&phases.region, region);
}

fn adaptive(selection: &Selection) -> Option<RecordedWindows> {
    match selection.sampling.filter(|_| selection.region.is_none())? {
        Sampling::Adaptive { window, kept } => {
            Some(RecordedWindows::new(window.max(1), kept.max(1)))
        }
        Sampling::Periodic { .. } => None,
    }
}

struct Session {
    options: RecordOptions,
    emulator: PathBuf,
    // Dropped in this order: the child before the memory to which it writes.
    child: KilledChild,
    _guard: Guard,
    _reception: Reception,
    spool: Spool,
    shared: Arc<SharedMemory>,
    started: Instant,
    /// Moment at which recording began; `None` before, or if its duration is not limited.
    begun: Option<Instant>,
    /// Processor time of child processes that ended before this recording, in seconds.
    children_before: f64,
    /// True if no other process of the program still ran when the first process ended or was killed. Only
    /// then is the processor time complete: the kernel counts only children for which their parents waited.
    is_time_known: bool,
    /// Moment at which the last records of the plugins arrived.
    last_batch: Instant,
    replay: Replay<TraceWriter>,
    /// Number of instructions skipped before the first window; `None` until a window begins.
    first_skipped: Option<u64>,
    skipped: u64,
    windows: u64,
    /// Number of instructions that were recorded in windows that are not part of the final trace.
    dropped: u64,
    /// Windows that adaptive sampling has recorded; `None` without adaptive sampling.
    adaptive: Option<RecordedWindows>,
    records: u64,
    ended: Option<ExitStatus>,
    /// File of the final trace; `None` until recording has begun.
    new: Option<NewFile>,
    /// Unnamed trace file with all windows that adaptive sampling has recorded, from which the final trace is
    /// made.
    all_windows: Option<File>,
    /// Folder in which unnamed temporary files are made.
    folder: PathBuf,
}

impl Session {
    /// Starts a recording, and its program, with `spawn`.
    fn launch(
        options: RecordOptions,
        emulator: PathBuf,
        folder: PathBuf,
        spawn: impl FnOnce(&RecordOptions, &Path, &Reception) -> Result<Child, RecordError>,
    ) -> Result<Self, RecordError> {
        let shared = Arc::new(SharedMemory::new()?);
        select(&options, &shared);
        let reception = Reception::open(Arc::clone(&shared), PLUGIN)?;
        let region = options.selection.region.clone();
        // Before the spool, whose time is a part of that of the recording.
        let (started, children_before) = (Instant::now(), children_seconds());
        let answerer = Answerer { emulator: emulator.clone(), region };
        let spool = Spool::start(Arc::clone(&shared), answerer, &folder, options.spool_bytes)?;
        let guard = Guard::start(&shared, &emulator, reception.folder())?;
        let child = spawn(&options, &emulator, &reception)?;
        reception.admit(child.id());
        Ok(Self {
            emulator,
            spool,
            shared,
            child: KilledChild(child),
            _guard: guard,
            _reception: reception,
            started,
            begun: None,
            children_before,
            is_time_known: true,
            last_batch: started,
            replay: Replay::new(),
            first_skipped: None,
            skipped: 0,
            windows: 0,
            dropped: 0,
            adaptive: adaptive(&options.selection),
            records: 0,
            ended: None,
            new: None,
            all_windows: None,
            folder,
            options,
        })
    }

    /// Replays records until the recording ends. Returns the reason for its end.
    fn run(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<Ending, RecordError> {
        let mut reported = Instant::now();
        let mut killed = None;
        loop {
            if reported.elapsed() > PROGRESS_PERIOD {
                reported = Instant::now();
                progress(self.progress());
                self.begin_if_due();
                match killed {
                    Some(Ending::Stopped) if self.take_stop_request() => {
                        return Ok(Ending::Stopped);
                    }
                    Some(_) => {}
                    None => killed = self.limit_reached(),
                }
                if killed.is_some() {
                    self.end_programs();
                }
                if killed == Some(Ending::Stopped) && !self.options.is_kept_when_stopped {
                    return Ok(Ending::Stopped);
                }
            }
            match self.replay.advance(&*self.shared)? {
                Step::Starved => {
                    if !self.take_batch()?
                        && let Some(ending) = self.idle()?
                    {
                        progress(self.progress());
                        return Ok(killed.unwrap_or(ending));
                    }
                }
                Step::Image { ring, image } => self.load(ring, image)?,
                Step::Start { ring, skipped, phase } => self.start(ring, skipped, phase)?,
                Step::Full(ending) => {
                    progress(self.progress());
                    self.end_programs();
                    return Ok(ending);
                }
            }
        }
    }

    /// Begins recording if the time of [`Begin::After`] has come or the flag of [`Begin::WhenSet`] is set.
    fn begin_if_due(&self) {
        let is_due = match &self.options.begin {
            Begin::AtOnce => false,
            Begin::After(time) => self.started.elapsed() >= *time,
            Begin::WhenSet(flag) => flag.load(Ordering::Relaxed),
        };
        let Phases { number, executed, .. } = &self.shared.header().phases;
        if is_due && number.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // The plugins do the same when they end a phase.
            executed.store(0, Ordering::Relaxed);
        }
    }

    /// True if the caller set the stop flag since the last call; clears the flag. The first time, the
    /// programs are killed; the second time, the waiting records are dropped.
    fn take_stop_request(&self) -> bool {
        self.options.stop.swap(false, Ordering::Relaxed)
    }

    /// True if the recording was stopped and its trace is to be deleted. A program that received the same
    /// Ctrl-C may have ended before the recorder noticed.
    fn is_interrupted(&self, ending: Ending) -> bool {
        let is_stopped = ending == Ending::Stopped || self.take_stop_request();
        is_stopped && !self.options.is_kept_when_stopped
    }

    /// Returns the request or limit of the programs' run that is reached, or `None`. Some of the programs'
    /// records may still wait in the queue. Limits of the trace are those of the replay's output.
    fn limit_reached(&mut self) -> Option<Ending> {
        let recorded = self.shared.header().phases.recorded.load(Ordering::Relaxed);
        let is_time_over = self.is_time_over();
        let selection = &self.options.selection;
        // The plugins count entered blocks, and some blocks may not run to their end.
        let enough =
            |limit: u64| recorded > limit.saturating_add(limit / 64).saturating_add(1 << 20);
        if self.take_stop_request() {
            Some(Ending::Stopped)
        } else if is_time_over {
            Some(Ending::Time)
        } else {
            selection.instructions.filter(|&limit| enough(limit)).map(|_| Ending::Limit)
        }
    }

    /// True if the recording has reached its maximum duration, which counts from the moment at which the
    /// first program enters the recorded part.
    fn is_time_over(&mut self) -> bool {
        let Some(limit) = self.options.selection.duration else { return false };
        if self.shared.header().phases.number.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.begun.get_or_insert_with(Instant::now).elapsed() >= limit
    }

    /// Checks the processes while no records wait. Skips records that were lost with a killed process.
    /// Returns the reason if the recording has ended.
    fn idle(&mut self) -> Result<Option<Ending>, RecordError> {
        match self.shared.header().failure.load(Ordering::Acquire) {
            FAILURE_THREADS => return Err(RecordError::TooManyThreads),
            FAILURE_DICTIONARY => return Err(RecordError::TooMuchCode),
            _ => {}
        }
        if self.ended.is_none() {
            let failed = RecordError::system("waiting for the program");
            self.ended = self.child.0.try_wait().map_err(failed)?;
            if self.ended.is_some() {
                self.is_time_known &= !self.are_others_running();
            }
        }
        self.end_replaced()?;
        let is_silent = self.last_batch.elapsed() > LOSS_PERIOD;
        // Ctrl-C is also sent to the programs, which may end before the recorder notices.
        let is_stopping = self.options.stop.load(Ordering::Relaxed);
        if let Some(status) = self.ended
            && !self.is_ring_used()
            && (is_silent || !self.replay.images.is_any_alive())
        {
            if !self.replay.skip_lost_ticket() {
                return Ok(Some(if is_stopping { Ending::Stopped } else { ending(status) }));
            }
        } else if self.is_replaced() {
            return Ok(Some(Ending::Replaced));
        } else if is_silent {
            self.replay.skip_lost_ticket();
        }
        std::thread::sleep(IDLE_PAUSE);
        Ok(None)
    }

    /// True if recorded processes other than the first one are running.
    fn are_others_running(&self) -> bool {
        let first = self.child.0.id();
        let rings = (0..self.shared.rings()).filter(|&ring| !self.shared.is_ended(ring));
        let mut others =
            rings.filter_map(|ring| self.shared.user(ring)).filter(|process| *process != first);
        others.any(|process| runs(process, &self.emulator))
    }

    fn is_ring_used(&self) -> bool {
        (0..self.shared.rings()).any(|ring| self.shared.user(ring).is_some())
    }

    /// Marks processes as ended if they executed programs that the emulator cannot run.
    fn end_replaced(&mut self) -> Result<(), RecordError> {
        let gone = self.replay.images.numbered().filter(|(_, image)| {
            let is_over = image.is_in_exec && image.threads == 0 && !image.has_ended;
            is_over && !runs(image.process, &self.emulator)
        });
        let gone: Vec<u64> = gone.map(|(number, _)| number).collect();
        gone.into_iter().try_for_each(|image| self.replay.end_process(image))
    }

    /// True if the first process continues unrecorded and no other process runs: its last process image
    /// called execve, and no other image replaced it.
    fn is_replaced(&self) -> bool {
        let own = self.child.0.id();
        let images = &self.replay.images;
        self.ended.is_none()
            && images.iter().any(|image| image.has_started)
            && !self.is_ring_used()
            && !images.is_any_alive()
            && images
                .iter()
                .filter(|image| image.process == own)
                .last()
                .is_some_and(|last| last.is_in_exec)
    }

    /// Waits for the recorder's answer to a question of a ring's thread, which may be queued after the
    /// thread's records. `None` if the thread ended before the question was answered.
    fn answer(&mut self, ring: usize) -> Result<Option<Answer>, RecordError> {
        loop {
            let answer = self.replay.answer(ring);
            if answer.is_some() || self.replay.is_thread_over(ring) {
                return Ok(answer);
            }
            if !self.take_batch()? {
                std::thread::sleep(IDLE_PAUSE);
            }
        }
    }

    /// Passes the next records from the queue to the replay. Returns false if there are none at the moment.
    fn take_batch(&mut self) -> Result<bool, RecordError> {
        let Some(batch) = self.spool.next()? else { return Ok(false) };
        self.last_batch = Instant::now();
        self.records += batch.records.len() as u64;
        self.replay.add(batch);
        Ok(true)
    }

    /// Replaces the address space of process image `number` (the memory of a process between two execve
    /// calls) by the mappings of the program that was just loaded into it, which the thread of `ring`
    /// reported.
    fn load(&mut self, ring: usize, number: u64) -> Result<(), RecordError> {
        if let Some(Answer::Image { program, loaded }) = self.answer(ring)? {
            let image = self.replay.images.get(number)?;
            image.space = AddressSpace::default();
            for event in &loaded.events {
                image.space.apply(event);
            }
            image.relocation = Relocation::new(&loaded.layout);
            image.program = program;
        }
        Ok(())
    }

    /// Starts recording in the process image of a ring's thread, for the first time or after skipped
    /// instructions. `skipped` counts all instructions skipped so far. Parts of the run are numbered,
    /// recorded (odd) and skipped (even) in turn; `phase` is the part that starts.
    fn start(&mut self, ring: usize, skipped: u64, phase: u64) -> Result<(), RecordError> {
        if self.replay.output.is_none() {
            self.create(skipped)?;
        }
        let mut dropped = 0;
        if let (Some(windows), Some(output)) = (&mut self.adaptive, &mut self.replay.output)
            && windows.start(phase, output.instructions)
        {
            // Start a new chunk, so that windows that are dropped later are whole chunks.
            output.sink.flush()?;
            let now = self.shared.header().phases.number.load(Ordering::Relaxed);
            output.is_dropping = !windows.is_kept(phase, now);
            dropped = std::mem::take(&mut output.dropped);
        }
        let gap = skipped.saturating_sub(self.skipped) + dropped;
        if gap > 0 {
            self.skipped = self.skipped.max(skipped);
            self.dropped += dropped;
            self.windows += 1;
            if let Some(output) = &mut self.replay.output {
                output.common_event(ProgramEvent::Gap { instructions: gap })?;
            }
        }
        // A process that was killed meanwhile has no pages.
        let pages = match self.answer(ring)? {
            Some(Answer::Pages(pages)) => pages,
            _ => Vec::new(),
        };
        self.replay.start_image(ring, |range| parts(&pages, &range))
    }

    /// Creates the trace file, after `skipped` instructions of the program.
    fn create(&mut self, skipped: u64) -> Result<(), RecordError> {
        self.first_skipped = Some(skipped);
        (self.skipped, self.windows) = (skipped, 1);
        let selection = &self.options.selection;
        let limits = Limits {
            instructions: selection.instructions.unwrap_or(u64::MAX),
            bytes: selection.trace_bytes.unwrap_or(u64::MAX),
        };
        let options = WriterOptions {
            level: self.options.level,
            chunk_instructions: chunk_instructions(limits.bytes),
        };
        let failed = self.output_failed();
        let file = if self.adaptive.is_some() {
            let all = tempfile::tempfile_in(&self.folder).map_err(&failed)?;
            self.all_windows.insert(all).try_clone()
        } else {
            self.new.insert(NewFile::create(&self.options.output).map_err(&failed)?).file()
        };
        let (file, path) = (file.map_err(&failed)?, &self.options.output);
        let writer = TraceWriter::on(file, path, &self.metadata(), options)?;
        self.replay.output = Some(Output::new(writer, limits));
        Ok(())
    }

    fn metadata(&self) -> TraceMetadata {
        let program = self.options.program.iter();
        let selection = &self.options.selection;
        let mut notes = Vec::new();
        if let Some(region) = &selection.region {
            notes.push(format!("recorded: {region}"));
        } else if let Some(Sampling::Periodic { window, period }) = selection.sampling {
            notes.push(format!("recorded: windows of {window} instructions, one every {period}"));
        }
        TraceMetadata {
            program: program.map(|part| part.to_string_lossy().into_owned()).collect(),
            recorder: "qemu-user with the perforate plugin".into(),
            architecture: "x86_64".into(),
            created_by: concat!("perforate ", env!("CARGO_PKG_VERSION")).into(),
            instructions_skipped: self.first_skipped.unwrap_or(0),
            has_events: true,
            has_dependencies: true,
            has_branches: true,
            assumptions: vec![
                "Addresses are moved to where Linux would place them, by multiples of 2MB.".into(),
                "Anonymous mappings of whole 2MB begin at multiples of 2MB, as in Linux since 6.7."
                    .into(),
                "A repeated string instruction accesses memory in pieces of a cache line.".into(),
                "Threads take turns in the order in which the emulator ran them.".into(),
                "The kernel's own accesses are not recorded.".into(),
            ],
            notes,
            ..TraceMetadata::default()
        }
    }

    fn progress(&self) -> Progress {
        let output = self.replay.output.as_ref();
        Progress {
            instructions_skipped: self.shared.header().phases.skipped.load(Ordering::Relaxed),
            instructions: output.map_or(0, |output| output.instructions),
            bytes_waiting: self.spool.waiting_bytes(),
            is_running: self.is_ring_used(),
        }
    }

    /// Kills all programs that are still recorded.
    fn end_programs(&mut self) {
        self.is_time_known &= !self.are_others_running();
        kill_all(&self.shared, &self.emulator);
        self.child.end();
    }
}

impl Drop for Session {
    /// Kills all programs, so that none outlives the recording.
    fn drop(&mut self) {
        kill_all(&self.shared, &self.emulator);
    }
}

/// Number of instructions per chunk of a trace of at most `trace_bytes`. An instruction takes about a byte, and
/// the last chunk may exceed the size: by a 16th.
fn chunk_instructions(trace_bytes: u64) -> u32 {
    let usual = WriterOptions::default().chunk_instructions;
    u32::try_from(trace_bytes / 16).map_or(usual, |share| share.clamp(1, usual))
}

fn ending(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Signalled(signal.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests;
