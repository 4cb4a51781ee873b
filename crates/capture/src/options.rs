//! What a caller says and gets.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use perforate_trace::WriterOptions;

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The trace file; written as `FILE.partial` and renamed when it is whole.
    pub output: PathBuf,
    /// The program (searched in PATH if it has no slash) and its arguments.
    pub program: Vec<OsString>,
    /// Instructions to pass over first, of all threads together. Recording starts at the next
    /// check, up to about a thousand instructions per thread later.
    pub skip: u64,
    /// Instructions to record at most; the program is killed (SIGKILL) when they are recorded.
    pub instructions: Option<u64>,
    /// How hard to compress, a zstd level: 3 keeps up with the program, 19 is for keeping.
    pub level: i32,
    /// Ends the recording when set: the program is killed and the trace is valid.
    pub stop: Arc<AtomicBool>,
    /// The emulator; `qemu-x86_64` in PATH if none is given.
    pub emulator: Option<PathBuf>,
    /// What the program prints goes to standard error, for a caller that prints its own results.
    pub prints_to_stderr: bool,
}

impl RecordOptions {
    /// Records all of `program` to `output`.
    pub fn new(output: impl Into<PathBuf>, program: Vec<OsString>) -> Self {
        Self {
            output: output.into(),
            program,
            skip: 0,
            instructions: None,
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
    /// Instructions recorded so far.
    pub instructions: u64,
    /// Bytes of the trace file so far.
    pub bytes_written: u64,
    /// Seconds since the program was started.
    pub seconds: f64,
    /// Million instructions per second since the last report, skipped or recorded.
    pub instructions_per_microsecond: f64,
}

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The program ended by itself with this exit code.
    Exited(i32),
    /// The program was killed by this signal.
    Signalled(i32),
    /// [`RecordOptions::instructions`] were recorded; the program was killed.
    Limit,
    /// [`RecordOptions::stop`] was set; the program was killed.
    Stopped,
    /// The program replaced itself by another (execve), which ran on without being recorded.
    Replaced,
}

/// What was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordSummary {
    /// Instructions recorded.
    pub instructions: u64,
    /// Instructions passed over before.
    pub instructions_skipped: u64,
    /// Memory accesses recorded.
    pub accesses: u64,
    /// Distinct 4KB pages of data and code.
    pub pages_touched: u64,
    /// Threads seen, the main thread included.
    pub threads: u16,
    /// Length of the trace file in bytes.
    pub bytes: u64,
    /// Seconds from the program's start to the end of the recording.
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
