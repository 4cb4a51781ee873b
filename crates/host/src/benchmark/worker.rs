//! Benchmarks in worker processes. Settings that a worker makes end with the process, and memory with
//! and without large pages can be measured alternately.
//!
//! A worker is started with a [`Job`] as its last argument. It prepares its memory and prints a
//! [`WorkerState`]. Then it reads numbers of operations from standard input; for each, it runs that
//! many operations and prints a [`Measured`]. Every message is one line of JSON. A worker exits at the
//! end of its input.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::time::Instant;

use perforate_config::shorten;
use perforate_record::{MARKER_BEGIN, MARKER_END};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Benchmark, Paging, Prepared};
use crate::HostError;
use crate::counters::{Counting, Readings};
use crate::layout::Intervals;
use crate::machine::Headroom;
use crate::process_settings::{be_killed_first, pin, thread_time};

/// Number of 4KB pages that a TLB entry of AMD's processors maps if their frames are consecutive.
const GROUP_PAGES: usize = 4;

/// Parameters of a worker process, which runs one benchmark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Benchmark that the worker runs.
    pub benchmark: Benchmark,
    /// Size of the benchmark's memory in bytes, a power of two.
    pub bytes: u64,
    /// Page size of the benchmark's memory; ignored if `layout` is given.
    pub paging: Paging,
    /// Parts of the benchmark's memory that are in 2MB pages; the rest is in 4KB pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Intervals>,
    /// Processor to pin the worker to; `None` for no pinning.
    pub processor: Option<usize>,
    /// Number of operations to run between the markers of the part to record, when the worker itself is
    /// recorded in a trace. If absent, the worker waits for requests.
    pub recorded_operations: Option<u64>,
}

impl FromStr for Job {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let in_one_line =
            |error: serde_json::Error| shorten(&error.to_string().replace(char::is_control, " "));
        serde_json::from_str(text).map_err(in_one_line)
    }
}

/// Command line that starts a worker process, without the job.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// Path of the program that can run as a worker.
    pub program: PathBuf,
    /// Arguments of the program before the job.
    pub arguments: Vec<OsString>,
}

impl WorkerCommand {
    /// Command line that starts a worker with this job.
    pub fn words(&self, job: &Job) -> Vec<OsString> {
        let job = serde_json::to_string(job).expect("jobs are plain data");
        let words = std::iter::once(self.program.clone().into_os_string());
        words.chain(self.arguments.iter().cloned()).chain([job.into()]).collect()
    }
}

/// Page sizes and frames that a worker's memory has obtained.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerState {
    /// Share of the worker's memory that is in 2MB pages, 0–1.
    pub large_share: f64,
    /// Share of the aligned groups of four 4KB pages of the worker's memory that lie in an aligned
    /// group of four consecutive frames, 0–1. Absent without the privilege to read frame numbers.
    pub grouped_share: Option<f64>,
}

/// Measurements of one request to a worker: a run of a number of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Processor time of the worker's thread in nanoseconds.
    pub processor_nanoseconds: u64,
    /// Elapsed (wall-clock) time in nanoseconds.
    pub wall_nanoseconds: u64,
    /// Readings of hardware counters; empty if none could be opened.
    pub counters: Readings,
}

/// Runs a job in this process: the worker's side of the protocol.
///
/// # Errors
/// If the worker cannot be pinned, the memory is refused, or input or output fails.
pub fn serve(job: &Job, input: &mut dyn BufRead, output: &mut dyn Write) -> io::Result<()> {
    if let Some(processor) = job.processor {
        pin(processor)?;
    }
    let _ = be_killed_first(); // not necessary for the measurement
    if Headroom::now().is_some_and(|headroom| job.bytes > headroom.bytes) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let mut prepared = match &job.layout {
        Some(large) => Prepared::with_layout(job.benchmark, job.bytes, large)?,
        None => Prepared::new(job.benchmark, job.bytes, job.paging)?,
    };
    if let Some(operations) = job.recorded_operations {
        mark::<MARKER_BEGIN>();
        std::hint::black_box(prepared.run(operations));
        mark::<MARKER_END>();
        return Ok(());
    }
    let mut send = |line: String| writeln!(output, "{line}").and_then(|()| output.flush());
    send(serde_json::to_string(&state(&prepared)?)?)?;
    let mut counting = Counting::of_thread().ok();
    for line in input.lines() {
        let operations = line?.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
        let measured = measure(&mut prepared, operations, counting.as_mut());
        send(serde_json::to_string(&measured)?)?;
    }
    Ok(())
}

fn measure(
    prepared: &mut Prepared,
    operations: u64,
    mut counting: Option<&mut Counting>,
) -> Measured {
    let mut read = || counting.as_mut().map_or_else(Readings::default, |counting| counting.read());
    let counted_before = read();
    let (started, before) = (Instant::now(), thread_time());
    std::hint::black_box(prepared.run(operations));
    let processor_nanoseconds = (thread_time() - before).as_nanos() as u64;
    let wall_nanoseconds = started.elapsed().as_nanos() as u64;
    Measured { processor_nanoseconds, wall_nanoseconds, counters: read().since(counted_before) }
}

fn state(prepared: &Prepared) -> io::Result<WorkerState> {
    let large_share = prepared.memory().residency()?.large_share();
    let grouped_share = prepared.memory().frames().ok().map(|frames| grouped_share(&frames));
    Ok(WorkerState { large_share, grouped_share })
}

/// Share of the groups of four pages that lie in an aligned group of four consecutive frames, 0–1.
fn grouped_share(frames: &[Option<u64>]) -> f64 {
    let groups = frames.as_chunks::<GROUP_PAGES>().0;
    let is_consecutive = |group: &&[Option<u64>; GROUP_PAGES]| {
        let Some(first) = group[0].filter(|frame| frame % GROUP_PAGES as u64 == 0) else {
            return false;
        };
        (first..).zip(*group).all(|(expected, frame)| *frame == Some(expected))
    };
    groups.iter().filter(is_consecutive).count() as f64 / groups.len().max(1) as f64
}

/// Executes `nopl NUMBER(%rax,%rax,1)`, the marker of a recorded region.
#[inline(always)]
fn mark<const NUMBER: u32>() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction does nothing.
    unsafe {
        std::arch::asm!(".byte 0x0f, 0x1f, 0x84, 0x00", ".long {}", const NUMBER);
    }
}

/// Handle of a worker process. Dropping the handle kills the process.
pub struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Page sizes and frames that the worker's memory has obtained.
    pub state: WorkerState,
}

impl Worker {
    /// Starts a worker and waits until its memory is ready.
    ///
    /// # Errors
    /// If the process cannot be started or reports an error.
    pub fn start(command: &WorkerCommand, job: &Job) -> Result<Self, HostError> {
        let words = command.words(job);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(HostError::system("starting a benchmark"))?;
        let input = child.stdin.take().expect("standard input is piped");
        let output = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let state = WorkerState { large_share: 0.0, grouped_share: None };
        let mut worker = Self { child, input, output, state };
        worker.state = worker.receive()?;
        Ok(worker)
    }

    /// Lets the worker run and measure this number of operations.
    ///
    /// # Errors
    /// If the worker has ended.
    pub fn run(&mut self, operations: u64) -> Result<Measured, HostError> {
        let sent = writeln!(self.input, "{operations}").and_then(|()| self.input.flush());
        sent.map_err(HostError::system("running a benchmark"))?;
        self.receive()
    }

    fn receive<T: DeserializeOwned>(&mut self) -> Result<T, HostError> {
        let mut answer = String::new();
        let read = self.output.read_line(&mut answer);
        read.map_err(HostError::system("reading a benchmark's answer"))?;
        serde_json::from_str(&answer).map_err(|_| HostError::Benchmark { answer })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(benchmark: Benchmark, recorded_operations: Option<u64>) -> Job {
        Job {
            benchmark,
            bytes: 1 << 16,
            paging: Paging::Large,
            layout: None,
            processor: None,
            recorded_operations,
        }
    }

    #[test]
    fn jobs_are_the_last_word_of_a_command() {
        let arguments = vec!["worker".into()];
        let command = WorkerCommand { program: "/bin/true".into(), arguments };
        let job = Job { processor: Some(3), ..job(Benchmark::Updates, Some(9)) };
        let words = command.words(&job);
        assert_eq!(words[..2], ["/bin/true", "worker"]);
        assert_eq!(serde_json::from_str::<Job>(words[2].to_str().unwrap()).unwrap(), job);
    }

    #[test]
    fn a_worker_answers_line_by_line() {
        let mut output = Vec::new();
        serve(&job(Benchmark::Chase, None), &mut &b"100\n5\n"[..], &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let state: WorkerState = serde_json::from_str(lines[0]).unwrap();
        assert!((0.0..=1.0).contains(&state.large_share));
        let measured: Measured = serde_json::from_str(lines[1]).unwrap();
        assert!(measured.wall_nanoseconds > 0);
        assert!(serde_json::from_str::<Measured>(lines[2]).is_ok());
        let too_large = Job { bytes: 1 << 60, ..job(Benchmark::Random, Some(1)) };
        assert!(serve(&too_large, &mut &b""[..], &mut Vec::new()).is_err());
        let wrong = serve(&job(Benchmark::Chase, None), &mut &b"walk\n"[..], &mut Vec::new());
        assert!(wrong.is_err());
    }

    #[test]
    fn a_recorded_worker_reads_no_input() {
        let mut output = Vec::new();
        serve(&job(Benchmark::Random, Some(10)), &mut &b"1\n"[..], &mut output).unwrap();
        assert!(output.is_empty());
    }

    #[test]
    fn groups_need_consecutive_frames_at_an_aligned_place() {
        let share = |numbers: [u64; 8]| grouped_share(&numbers.map(Some));
        assert_eq!(share([8, 9, 10, 11, 0, 1, 2, 3]), 1.0);
        assert_eq!(share([8, 9, 10, 12, 0, 1, 2, 3]), 0.5);
        assert_eq!(share([9, 10, 11, 12, 3, 2, 1, 0]), 0.0, "not aligned; backwards");
        assert_eq!(grouped_share(&[Some(4), None, Some(6), Some(7)]), 0.0);
        assert_eq!(grouped_share(&[]), 0.0);
    }
}
