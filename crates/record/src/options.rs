//! Options of a recording, its progress and its summary.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use perforate_trace::{StoppedBy, WriterOptions};

use crate::region::Region;

/// Samples of a long run. Instructions of all threads count together, and threads keep to it within
/// some ten thousand instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Of every `period` instructions the first `window` are recorded.
    Periodic {
        /// Instructions recorded at a time.
        window: u64,
        /// Instructions from the beginning of one window to the beginning of the next.
        period: u64,
    },
    /// Windows that cover a program of unknown length. A program of up to `2 * kept` windows is
    /// recorded whole; of a longer one, at least `kept` and at most twice as many windows at equal
    /// distances are in the trace. Recording a program of 2^L times `2 * kept` windows takes the time and
    /// the disk space of `(2 + L) * kept` windows.
    Adaptive {
        /// Instructions of a window.
        window: u64,
        /// Number of windows, at least.
        kept: u64,
    },
}

impl Sampling {
    /// Adaptive sampling with 60 to 120 windows of 500,000 instructions.
    pub const ADAPTIVE: Self = Self::Adaptive { window: 500_000, kept: 60 };
}

/// The moment at which recording begins.
#[derive(Clone, Debug, Default)]
pub enum Begin {
    /// With the program, or after [`Selection::skip`] instructions.
    #[default]
    AtOnce,
    /// After some time.
    After(Duration),
    /// Once the flag is set, for example by a signal.
    WhenSet(Arc<AtomicBool>),
}

/// The instructions to record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Instructions to skip first, of all threads together. Recording starts at the next check, up to
    /// about a thousand instructions per thread later.
    pub skip: u64,
    /// Record samples instead of everything.
    pub sampling: Option<Sampling>,
    /// Record only a part of the program; `skip` and `sampling` have no effect then.
    pub region: Option<Region>,
    /// Most instructions to record; then the programs are killed (SIGKILL).
    pub instructions: Option<u64>,
    /// Size of the trace file at which the recording ends in the same way.
    pub trace_bytes: Option<u64>,
    /// Time from the beginning of recording at which it ends in the same way.
    pub duration: Option<Duration>,
}

impl Selection {
    /// The whole program, sampled, bounded by [`Self::DURATION`] and [`Self::TRACE_BYTES`].
    pub fn whole_program() -> Self {
        Self {
            sampling: Some(Sampling::ADAPTIVE),
            duration: Some(Self::DURATION),
            trace_bytes: Some(Self::TRACE_BYTES),
            ..Self::default()
        }
    }

    /// Limit of the time of [`Self::whole_program`].
    pub const DURATION: Duration = Duration::from_mins(10);
    /// Limit of the size of its trace while it is recorded. A day of recording takes less.
    pub const TRACE_BYTES: u64 = 4 << 30;
}

/// Options of a recording.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The trace file; written as `FILE.partial` and renamed when it is complete.
    pub output: PathBuf,
    /// The program (searched in PATH if it has no slash) and its arguments.
    pub program: Vec<OsString>,
    /// The instructions to record.
    pub selection: Selection,
    /// When recording begins. Until then the program runs unrecorded, several times faster.
    pub begin: Begin,
    /// Size limit of the records that wait on disk, beside the trace, while the program runs faster
    /// than the trace is written. At the limit the program waits.
    pub spool_bytes: u64,
    /// Compression level of zstd: 3 keeps up with the program, 19 is for archiving.
    pub level: i32,
    /// Ends the recording when set: the programs are killed, and their waiting records are written to
    /// the trace. Set again, it drops the records that still wait.
    pub stop: Arc<AtomicBool>,
    /// Whether a recording that was stopped is kept. If not, [`Self::stop`] makes it fail at once
    /// with [`RecordError::Interrupted`](crate::RecordError::Interrupted).
    pub is_kept_when_stopped: bool,
    /// The emulator; `qemu-x86_64` in PATH if none is given.
    pub emulator: Option<PathBuf>,
    /// Redirects the program's standard output to standard error.
    pub prints_to_stderr: bool,
    /// Variables of the program's environment besides those of this process. Values must not contain
    /// commas, by which the emulator separates them.
    pub environment: Vec<(String, OsString)>,
}

impl RecordOptions {
    /// Default of [`Self::spool_bytes`].
    pub const SPOOL_BYTES: u64 = 4 << 30;

    /// Records all of `program` to `output`.
    pub fn new(output: impl Into<PathBuf>, program: Vec<OsString>) -> Self {
        Self {
            output: output.into(),
            program,
            selection: Selection::default(),
            begin: Begin::AtOnce,
            spool_bytes: Self::SPOOL_BYTES,
            level: WriterOptions::default().level,
            stop: Arc::default(),
            is_kept_when_stopped: true,
            emulator: None,
            prints_to_stderr: false,
            environment: Vec::new(),
        }
    }
}

/// Progress of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Instructions skipped so far.
    pub instructions_skipped: u64,
    /// Instructions in the trace so far.
    pub instructions: u64,
    /// Size of the records that wait to be written to the trace.
    pub bytes_waiting: u64,
    /// True while the programs run.
    pub is_running: bool,
}

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The program exited with this code.
    Exited(i32),
    /// The program was killed by this signal.
    Signalled(i32),
    /// [`Selection::instructions`] was reached; the programs were killed.
    Limit,
    /// [`Selection::trace_bytes`] was reached; the programs were killed.
    Size,
    /// [`Selection::duration`] was over; the programs were killed.
    Time,
    /// [`RecordOptions::stop`] was set; the programs were killed.
    Stopped,
    /// There was no more room for the trace; the programs were killed.
    Full,
    /// The program executed another one that the emulator cannot run, which ran on unrecorded.
    Replaced,
}

impl Ending {
    /// The limit or request that ended the recording before the program; none if the program ended by
    /// itself.
    pub fn stopped_by(self) -> Option<StoppedBy> {
        match self {
            Self::Exited(_) | Self::Signalled(_) | Self::Replaced => None,
            Self::Limit => Some(StoppedBy::Instructions),
            Self::Size => Some(StoppedBy::Size),
            Self::Time => Some(StoppedBy::Time),
            Self::Full => Some(StoppedBy::Disk),
            Self::Stopped => Some(StoppedBy::User),
        }
    }
}

/// One process of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSummary {
    /// Its number in the trace.
    pub number: u16,
    /// The programs that it executed, in order.
    pub programs: Vec<PathBuf>,
    /// Instructions recorded.
    pub instructions: u64,
    /// Distinct 4KB pages of data and code; pages shared by parent and child count for both.
    pub pages_touched: u64,
}

/// Summary of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordSummary {
    /// Instructions recorded.
    pub instructions: u64,
    /// Instructions skipped before the first recorded one.
    pub instructions_skipped: u64,
    /// Instructions skipped between windows or regions.
    pub instructions_between: u64,
    /// Windows or regions; 1 where everything was recorded.
    pub windows: u64,
    /// Memory accesses recorded.
    pub accesses: u64,
    /// Accesses among them to memory that the recorder did not see being mapped.
    pub accesses_unmapped: u64,
    /// Programs that were executed and ran natively, unrecorded: they are for another machine, or the
    /// recorder's files were out of their reach.
    pub programs_unrecorded: u64,
    /// Distinct 4KB pages of data and code, of all processes.
    pub pages_touched: u64,
    /// Threads seen, the main threads included.
    pub threads: u16,
    /// The processes that executed instructions, by number.
    pub processes: Vec<ProcessSummary>,
    /// Size of the trace file.
    pub bytes: u64,
    /// Records that the emulator wrote.
    pub records: u64,
    /// Seconds from the program's start to the end of the last program.
    pub program_seconds: f64,
    /// Processor time of the programs in the emulator, in seconds; none where that of some is not
    /// known, as that of processes which nobody waited for.
    pub processor_seconds: Option<f64>,
    /// Instructions that the programs executed, recorded or not, also those that ran ahead of the
    /// recording when it was ended; the emulator counts them by blocks.
    pub instructions_executed: u64,
    /// Seconds that virtual CPUs waited for the recorder, summed over all.
    pub waited_seconds: f64,
    /// Seconds from the program's start to the complete trace.
    pub seconds: f64,
    /// Why it ended.
    pub ending: Ending,
}

impl RecordSummary {
    /// True if the program failed, or was replaced by one that could not be recorded.
    pub fn is_failure(&self) -> bool {
        !matches!(self.ending, Ending::Exited(0)) && self.ending.stopped_by().is_none()
    }

    /// Bytes of the trace file per instruction.
    pub fn bytes_per_instruction(&self) -> f64 {
        self.bytes as f64 / self.instructions.max(1) as f64
    }
}
