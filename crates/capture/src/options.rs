//! What a caller says and gets.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use perforate_trace::WriterOptions;

use crate::region::Region;

/// Windows of a long run: `window` instructions are recorded, then as many passed over as make
/// `period` together. Threads keep to it within some ten thousand instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Instructions recorded at a time.
    pub window: u64,
    /// Instructions from the beginning of one window to the beginning of the next.
    pub period: u64,
}

/// Which instructions are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Instructions to pass over first, of all threads together. Recording starts at the next
    /// check, up to about a thousand instructions per thread later.
    pub skip: u64,
    /// Windows instead of everything.
    pub sampling: Option<Sampling>,
    /// Only a part of the program; `skip` and `sampling` have no effect then.
    pub region: Option<Region>,
    /// Instructions to record at most; the programs are killed (SIGKILL) when they are recorded.
    pub instructions: Option<u64>,
    /// Length of the trace file in bytes at which recording ends in the same way.
    pub trace_bytes: Option<u64>,
}

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The trace file; written as `FILE.partial` and renamed when it is whole.
    pub output: PathBuf,
    /// The program (searched in PATH if it has no slash) and its arguments.
    pub program: Vec<OsString>,
    /// Which instructions.
    pub selection: Selection,
    /// Bytes of records that may wait on disk, beside the trace, while the program runs faster
    /// than the trace is made. When they do, the program waits.
    pub spool_bytes: u64,
    /// How hard to compress, a zstd level: 3 keeps up with the program, 19 is for keeping.
    pub level: i32,
    /// Ends the recording when set: the programs are killed, and what they did is written to the
    /// trace. Set again, it ends the trace where it is.
    pub stop: Arc<AtomicBool>,
    /// The emulator; `qemu-x86_64` in PATH if none is given.
    pub emulator: Option<PathBuf>,
    /// What the program prints goes to standard error, for a caller that prints its own results.
    pub prints_to_stderr: bool,
}

impl RecordOptions {
    /// Records may take so much of the disk while they wait, where nothing else is said.
    pub const SPOOL_BYTES: u64 = 4 << 30;

    /// Records all of `program` to `output`.
    pub fn new(output: impl Into<PathBuf>, program: Vec<OsString>) -> Self {
        Self {
            output: output.into(),
            program,
            selection: Selection::default(),
            spool_bytes: Self::SPOOL_BYTES,
            level: WriterOptions::default().level,
            stop: Arc::default(),
            emulator: None,
            prints_to_stderr: false,
        }
    }
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Instructions passed over so far.
    pub instructions_skipped: u64,
    /// Instructions in the trace so far.
    pub instructions: u64,
    /// Bytes of the trace file so far.
    pub bytes_written: u64,
    /// Bytes of records that wait to be put into the trace.
    pub bytes_waiting: u64,
    /// Whether the programs still run.
    pub is_running: bool,
    /// Seconds since the program was started.
    pub seconds: f64,
}

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The program ended by itself with this exit code.
    Exited(i32),
    /// The program was killed by this signal.
    Signalled(i32),
    /// [`Selection::instructions`] were recorded; the programs were killed.
    Limit,
    /// The trace has [`Selection::trace_bytes`]; the programs were killed.
    Size,
    /// [`RecordOptions::stop`] was set; the programs were killed.
    Stopped,
    /// The program replaced itself by another that the emulator cannot run (execve), which ran on
    /// without being recorded.
    Replaced,
}

/// One process of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSummary {
    /// Its number in the trace.
    pub number: u16,
    /// The programs it ran, in order.
    pub programs: Vec<PathBuf>,
    /// Instructions recorded.
    pub instructions: u64,
    /// Distinct 4KB pages of data and code; those that a child shares with its parent count for
    /// both.
    pub pages_touched: u64,
}

/// What was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordSummary {
    /// Instructions recorded.
    pub instructions: u64,
    /// Instructions passed over before the first one recorded.
    pub instructions_skipped: u64,
    /// Instructions passed over between windows or regions.
    pub instructions_between: u64,
    /// Windows or regions; 1 where everything was recorded.
    pub windows: u64,
    /// Memory accesses recorded.
    pub accesses: u64,
    /// Distinct 4KB pages of data and code, of all processes.
    pub pages_touched: u64,
    /// Threads seen, the main threads included.
    pub threads: u16,
    /// The processes that executed something, by number.
    pub processes: Vec<ProcessSummary>,
    /// Length of the trace file in bytes.
    pub bytes: u64,
    /// Records that the emulator wrote.
    pub records: u64,
    /// Seconds from the program's start to the end of the last program.
    pub program_seconds: f64,
    /// Seconds of processor time of the programs in the emulator.
    pub processor_seconds: f64,
    /// Seconds of these that virtual CPUs waited for the recorder, all together.
    pub waited_seconds: f64,
    /// Seconds from the program's start to the whole trace.
    pub seconds: f64,
    /// Why it ended.
    pub ending: Ending,
}

impl RecordSummary {
    /// Bytes of the trace file per instruction.
    pub fn bytes_per_instruction(&self) -> f64 {
        self.bytes as f64 / self.instructions.max(1) as f64
    }
}
