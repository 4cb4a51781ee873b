//! Options, progress and summary of a recording.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use perforate_trace::{StoppedBy, WriterOptions};

use crate::region::Region;

/// Sampling of a long run: windows of instructions are recorded, the rest is skipped. Lengths count the
/// instructions of all threads together. At the start and end of a window, threads may lag some ten thousand
/// instructions behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// The first `window` of every `period` instructions are recorded.
    Periodic {
        /// Length of a window in instructions.
        window: u64,
        /// Distance between the starts of two windows in instructions.
        period: u64,
    },
    /// Windows that cover a program of unknown length. A program of up to `2 * kept` windows is
    /// recorded as a whole. For a longer program, the trace has at least `kept` and at most twice as
    /// many windows, at equal distances. Recording a program of 2^L times `2 * kept` windows takes the
    /// time and disk space of `(2 + L) * kept` windows.
    Adaptive {
        /// Length of a window in instructions.
        window: u64,
        /// Minimum number of windows that the trace has at the end.
        kept: u64,
    },
}

impl Sampling {
    /// Adaptive sampling with 60 to 120 windows of 500,000 instructions.
    pub const ADAPTIVE: Self = Self::Adaptive { window: 500_000, kept: 60 };
}

/// Moment at which a recording begins.
#[derive(Clone, Debug, Default)]
pub enum Begin {
    /// Recording begins at the program's start, or after [`Selection::skip`] instructions.
    #[default]
    AtOnce,
    /// Recording begins at this time after the program's start.
    After(Duration),
    /// Recording begins once the flag is set, for example by a signal's handler.
    WhenSet(Arc<AtomicBool>),
}

/// Selection of the instructions to record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Number of instructions to skip first, over all threads. Threads check their count at intervals, so
    /// recording starts up to about a thousand instructions per thread later.
    pub skip: u64,
    /// Sampling of the run; `None` to record everything.
    pub sampling: Option<Sampling>,
    /// Region of the program to record; `None` for the whole program. With a region, `skip` and `sampling`
    /// have no effect.
    pub region: Option<Region>,
    /// Maximum number of instructions to record, after which the programs are killed (SIGKILL).
    pub instructions: Option<u64>,
    /// Size of the trace file in bytes at which the programs are killed, and their waiting records dropped: at
    /// least [`Self::LEAST_TRACE_BYTES`]. The trace may exceed the size by about a 16th.
    pub trace_bytes: Option<u64>,
    /// Duration of the recording after which the programs are killed.
    pub duration: Option<Duration>,
}

impl Selection {
    /// Selects the whole program, sampled, limited by [`Self::DURATION`] and [`Self::TRACE_BYTES`].
    pub fn whole_program() -> Self {
        Self {
            sampling: Some(Sampling::ADAPTIVE),
            duration: Some(Self::DURATION),
            trace_bytes: Some(Self::TRACE_BYTES),
            ..Self::default()
        }
    }

    /// Maximum duration of a recording with [`Self::whole_program`].
    pub const DURATION: Duration = Duration::from_mins(10);
    /// Smallest limit of a trace's size in bytes: code and memory must be described before the first instruction.
    pub const LEAST_TRACE_BYTES: u64 = 256 << 10;
    /// Maximum size of the trace in bytes with [`Self::whole_program`]. A day of recording takes less.
    pub const TRACE_BYTES: u64 = 4 << 30;
}

/// Options with which a recording is made.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// Path of the trace; written as `FILE.partial` and renamed when complete.
    pub output: PathBuf,
    /// The program (searched in PATH if it has no slash) and its arguments.
    pub program: Vec<OsString>,
    /// Selection of the program's instructions to record.
    pub selection: Selection,
    /// Moment at which recording begins. Until then, the program runs unrecorded, several times faster.
    pub begin: Begin,
    /// Maximum size in bytes of the plugins' records that wait on disk, next to the trace, while the program
    /// runs faster than the trace is written. At the limit, the program waits.
    pub spool_bytes: u64,
    /// Compression level of zstd: 3 keeps up with the program; 19 is for archiving.
    pub level: i32,
    /// Flag that ends the recording: the programs are killed, and their waiting records are written to
    /// the trace. If the flag is set again, the waiting records are dropped.
    pub stop: Arc<AtomicBool>,
    /// True if the trace of a stopped recording remains. If false, [`Self::stop`] makes the recording fail at
    /// once with [`RecordError::Interrupted`](crate::RecordError::Interrupted).
    pub is_kept_when_stopped: bool,
    /// Path of the emulator; by default, `qemu-x86_64` in PATH.
    pub emulator: Option<PathBuf>,
    /// True to redirect the program's standard output to standard error.
    pub prints_to_stderr: bool,
    /// Environment variables of the program in addition to this process's. Values must not contain
    /// commas, which separate variables for the emulator.
    pub environment: Vec<(String, OsString)>,
}

impl RecordOptions {
    /// Default of [`Self::spool_bytes`], in bytes.
    pub const SPOOL_BYTES: u64 = 4 << 30;

    /// Makes options for recording all of `program` to the file `output`.
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

/// Progress of a recording so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Number of instructions of the programs that were skipped so far.
    pub instructions_skipped: u64,
    /// Number of instructions that were written to the trace so far.
    pub instructions: u64,
    /// Size in bytes of the records that wait to be written to the trace.
    pub bytes_waiting: u64,
    /// True while the recorded programs run.
    pub is_running: bool,
}

/// Reason for which a recording ended.
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
    /// [`Selection::duration`] elapsed; the programs were killed.
    Time,
    /// [`RecordOptions::stop`] was set; the programs were killed.
    Stopped,
    /// The disk became full; the programs were killed.
    Full,
    /// The program replaced itself (execve) by one that the emulator cannot run, which continued unrecorded.
    Replaced,
}

impl Ending {
    /// Limit or request that ended the recording before the program; `None` if the program ended by
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

    /// True if the program failed, or was replaced by a program that could not be recorded.
    pub fn is_failure(self) -> bool {
        self != Self::Exited(0) && self.stopped_by().is_none()
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exited(code) => return write!(f, "the program ended with exit code {code}"),
            Self::Signalled(signal) => {
                return write!(f, "the program was killed by signal {signal}");
            }
            Self::Limit => "the requested instructions were recorded; the program was ended",
            Self::Size => "the trace has reached its largest size; the program was ended",
            Self::Time => "the requested time is over; the program was ended",
            Self::Stopped => "stopped; the program was ended",
            Self::Full => {
                "no room for more of the trace; the program was ended, and the trace so far is kept"
            }
            Self::Replaced => "the program replaced itself by one that cannot be recorded (execve)",
        })
    }
}

/// Summary of one recorded process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSummary {
    /// Number that the process has in the trace.
    pub number: u16,
    /// Paths of the programs that the process executed, in order.
    pub programs: Vec<PathBuf>,
    /// Number of recorded instructions of the process.
    pub instructions: u64,
    /// Number of distinct 4KB pages of data and code that the process touched. Pages shared by parent and
    /// child count for both.
    pub pages_touched: u64,
}

/// Summary of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordSummary {
    /// Number of recorded instructions of all processes.
    pub instructions: u64,
    /// Number of instructions that were skipped before the first recorded one.
    pub instructions_skipped: u64,
    /// Number of instructions that were skipped between windows or regions.
    pub instructions_between: u64,
    /// Number of recorded windows or regions; 1 if everything was recorded.
    pub windows: u64,
    /// Number of recorded memory accesses.
    pub accesses: u64,
    /// Number of recorded accesses to memory whose mapping the recorder did not see.
    pub accesses_unmapped: u64,
    /// Number of anonymous mappings of whole 2MB that do not begin at a multiple of 2MB, where Linux would have
    /// placed them: the simulated program has fewer large pages than the real one.
    pub mappings_misplaced: u64,
    /// Number of executed programs that ran natively, unrecorded: they are not for x86-64 Linux, or could not
    /// reach the recorder's files.
    pub programs_unrecorded: u64,
    /// Number of distinct 4KB pages of data and code that were touched, summed over all processes.
    pub pages_touched: u64,
    /// Number of recorded threads, including main threads.
    pub threads: u16,
    /// Summaries of the processes that executed instructions, by number.
    pub processes: Vec<ProcessSummary>,
    /// Size of the trace file in bytes.
    pub bytes: u64,
    /// Number of 8-byte records that the plugin wrote.
    pub records: u64,
    /// Time from the program's start to the end of the last program, in seconds.
    pub program_seconds: f64,
    /// Processor time of the programs in the emulator, in seconds. `None` if unknown for some process,
    /// such as one that no process waited for.
    pub processor_seconds: Option<f64>,
    /// Number of instructions that the programs executed, recorded or not, including those that ran
    /// ahead when the recording was ended. The emulator counts them by blocks.
    pub instructions_executed: u64,
    /// Time that virtual CPUs waited for the recorder, in seconds, summed over all.
    pub waited_seconds: f64,
    /// Time from the program's start to the complete trace, in seconds.
    pub seconds: f64,
    /// Reason for which the recording ended.
    pub ending: Ending,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_whole_unless_options_say_otherwise() {
        let whole = Selection::whole_program();
        let Selection { skip, sampling, region, instructions, trace_bytes, duration } = whole;
        assert_eq!(sampling, Some(Sampling::Adaptive { window: 500_000, kept: 60 }));
        assert_eq!((skip, region, instructions), (0, None, None));
        assert_eq!((trace_bytes, duration), (Some(4 << 30), Some(Duration::from_secs(600))));
        let options = RecordOptions::new("a", vec!["b".into()]);
        assert_eq!(
            (options.output, options.program),
            (PathBuf::from("a"), vec![OsString::from("b")])
        );
        assert_eq!(
            (options.selection, options.spool_bytes, options.level),
            (Selection::default(), 4 << 30, 3)
        );
        assert!(matches!(options.begin, Begin::AtOnce) && options.is_kept_when_stopped);
        assert!(
            options.emulator.is_none()
                && !options.prints_to_stderr
                && options.environment.is_empty()
        );
    }

    /// What ended a recording: a limit, which is no failure, or the program itself.
    #[test]
    fn a_recording_fails_with_its_program_only() {
        for (ending, stopped_by, is_failure) in [
            (Ending::Exited(0), None, false),
            (Ending::Exited(1), None, true),
            (Ending::Signalled(11), None, true),
            (Ending::Replaced, None, true),
            (Ending::Limit, Some(StoppedBy::Instructions), false),
            (Ending::Size, Some(StoppedBy::Size), false),
            (Ending::Time, Some(StoppedBy::Time), false),
            (Ending::Stopped, Some(StoppedBy::User), false),
            (Ending::Full, Some(StoppedBy::Disk), false),
        ] {
            assert_eq!(
                (ending.stopped_by(), ending.is_failure()),
                (stopped_by, is_failure),
                "{ending:?}"
            );
        }
    }
}
