//! Benchmarks in processes of their own, so that what a benchmark asks of the kernel ends with it,
//! and memory with and without large pages can be measured in turn.
//!
//! A worker is this program again, started with the arguments of a [`Job`]. It prepares its memory,
//! says so (`ready …`), and then does what it reads from standard input, a line each: `run N`.
//! It ends when its input does.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use super::benchmark::{Benchmark, Paging, Prepared};
use super::counters::TlbMisses;
use super::limit::Headroom;
use super::settings::{first_to_be_killed, pin, thread_nanoseconds};
use crate::CaptureError;

/// Pages of 4KB that AMD's processors hold in one TLB entry where frames follow each other.
const GROUP_PAGES: usize = 4;

/// What a worker is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The benchmark.
    pub benchmark: Benchmark,
    /// Its memory, a power of two.
    pub bytes: u64,
    /// In which pages.
    pub paging: Paging,
    /// Processor to stay on.
    pub processor: Option<usize>,
    /// Operations to do at once and by itself between markers of the region of interest, for a
    /// recording; otherwise it waits to be told.
    pub recorded_operations: Option<u64>,
}

impl Job {
    /// The job as words of a command line.
    pub fn arguments(&self) -> Vec<String> {
        let number =
            |value: Option<u64>| value.map_or_else(|| "-".into(), |value| value.to_string());
        let paging = match self.paging {
            Paging::Small => "4k",
            Paging::Large => "thp",
        };
        vec![
            self.benchmark.name().into(),
            self.bytes.to_string(),
            paging.into(),
            number(self.processor.map(|processor| processor as u64)),
            number(self.recorded_operations),
        ]
    }

    /// Reads what [`Self::arguments`] makes.
    ///
    /// # Errors
    /// What is expected instead.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let expected = "expected BENCHMARK BYTES 4k|thp PROCESSOR|- OPERATIONS|-";
        let [benchmark, bytes, paging, processor, operations] = words else {
            return Err(expected.into());
        };
        let number = |word: &String| match word.as_str() {
            "-" => Ok(None),
            digits => digits.parse::<u64>().map(Some).map_err(|_| expected.to_owned()),
        };
        Ok(Self {
            benchmark: benchmark.parse()?,
            bytes: number(bytes)?.ok_or(expected)?,
            paging: match paging.as_str() {
                "4k" => Paging::Small,
                "thp" => Paging::Large,
                _ => return Err(expected.into()),
            },
            processor: number(processor)?.and_then(|number| usize::try_from(number).ok()),
            recorded_operations: number(operations)?,
        })
    }
}

/// How a worker's memory came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkerState {
    /// Share of it in 2MB pages, 0–1.
    pub large_share: f64,
    /// Share of its aligned groups of four 4KB pages that lie in consecutive frames, an aligned
    /// group too, 0–1; absent for those who may not know frames.
    pub grouped_share: Option<f64>,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Processor time of the worker's thread, in nanoseconds: without the time that other programs
    /// had the processor.
    pub processor_nanoseconds: u64,
    /// Time that passed, in nanoseconds.
    pub wall_nanoseconds: u64,
    /// Misses of loads in the data TLB, where there are counters.
    pub tlb_misses: Option<u64>,
}

/// Does a job in this process: the worker's side.
///
/// # Errors
/// If memory, processor or input and output fail.
pub fn serve(job: &Job, input: &mut dyn BufRead, output: &mut dyn Write) -> io::Result<()> {
    if let Some(processor) = job.processor {
        pin(processor)?;
    }
    let _ = first_to_be_killed(); // a courtesy
    if Headroom::now().is_some_and(|headroom| job.bytes > headroom.bytes) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let mut prepared = Prepared::new(job.benchmark, job.bytes, job.paging)?;
    if let Some(operations) = job.recorded_operations {
        mark_begin();
        std::hint::black_box(prepared.run(operations));
        mark_end();
        return Ok(());
    }
    let state = state(&prepared)?;
    writeln!(output, "ready {} {}", state.large_share, optional(state.grouped_share))?;
    output.flush()?;
    let mut misses = TlbMisses::start().ok();
    for line in input.lines() {
        let line = line?;
        let operations = line.strip_prefix("run ").and_then(|number| number.parse().ok());
        let operations = operations.ok_or(io::ErrorKind::InvalidInput)?;
        let measured = measure(&mut prepared, operations, misses.as_mut());
        writeln!(
            output,
            "done {} {} {}",
            measured.processor_nanoseconds,
            measured.wall_nanoseconds,
            optional(measured.tlb_misses)
        )?;
        output.flush()?;
    }
    Ok(())
}

fn measure(prepared: &mut Prepared, operations: u64, misses: Option<&mut TlbMisses>) -> Measured {
    let mut misses = misses;
    let mut count = || misses.as_mut().and_then(|counter| counter.read().ok());
    let misses_before = count();
    let (started, before) = (Instant::now(), thread_nanoseconds());
    std::hint::black_box(prepared.run(operations));
    let processor_nanoseconds = thread_nanoseconds() - before;
    let wall_nanoseconds = started.elapsed().as_nanos() as u64;
    let tlb_misses = count().zip(misses_before).map(|(now, before)| now.saturating_sub(before));
    Measured { processor_nanoseconds, wall_nanoseconds, tlb_misses }
}

fn state(prepared: &Prepared) -> io::Result<WorkerState> {
    let large_share = prepared.area().residency()?.large_share();
    let grouped_share = prepared.area().frames().ok().map(|frames| grouped(&frames));
    Ok(WorkerState { large_share, grouped_share })
}

/// Share of the groups of pages that lie in an aligned group of consecutive frames.
fn grouped(frames: &[Option<u64>]) -> f64 {
    let groups = frames.as_chunks::<GROUP_PAGES>().0;
    let lies_together = |group: &&[Option<u64>; GROUP_PAGES]| {
        let Some(first) = group[0].filter(|frame| frame % GROUP_PAGES as u64 == 0) else {
            return false;
        };
        (first..).zip(*group).all(|(expected, frame)| *frame == Some(expected))
    };
    groups.iter().filter(lies_together).count() as f64 / groups.len().max(1) as f64
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// The no-operation that begins a recording's region of interest: nopl 0x50460001(%rax,%rax,1).
#[inline(always)]
fn mark_begin() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction does nothing.
    unsafe {
        std::arch::asm!(".byte 0x0f,0x1f,0x84,0x00,0x01,0x00,0x46,0x50");
    }
}

/// The one that ends it: nopl 0x50460002(%rax,%rax,1).
#[inline(always)]
fn mark_end() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction does nothing.
    unsafe {
        std::arch::asm!(".byte 0x0f,0x1f,0x84,0x00,0x02,0x00,0x46,0x50");
    }
}

/// A worker, seen from the process that started it. It ends with this value.
pub struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// How its memory came out.
    pub state: WorkerState,
}

impl Worker {
    /// Starts `program` with these arguments and those of the job, and waits until its memory is
    /// ready.
    ///
    /// # Errors
    /// If it cannot be started or says that it cannot do the job.
    pub fn start(program: &Path, first: &[&str], job: &Job) -> Result<Self, CaptureError> {
        let failed = |error| CaptureError::system("starting a benchmark", error);
        let mut child = Command::new(program)
            .args(first)
            .args(job.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let broken = || failed(io::ErrorKind::BrokenPipe.into());
        let input = Some(child.stdin.take().ok_or_else(broken)?);
        let output = BufReader::new(child.stdout.take().ok_or_else(broken)?);
        let state = WorkerState { large_share: 0.0, grouped_share: None };
        let mut worker = Self { child, input, output, state };
        let line = worker.line()?;
        worker.state = parse_ready(&line).ok_or(CaptureError::Benchmark { answer: line })?;
        Ok(worker)
    }

    /// Has so many operations done.
    ///
    /// # Errors
    /// If the worker has ended.
    pub fn run(&mut self, operations: u64) -> Result<Measured, CaptureError> {
        let failed = |error| CaptureError::system("running a benchmark", error);
        let input = self.input.as_mut().ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        writeln!(input, "run {operations}").and_then(|()| input.flush()).map_err(failed)?;
        let line = self.line()?;
        parse_done(&line).ok_or(CaptureError::Benchmark { answer: line })
    }

    fn line(&mut self) -> Result<String, CaptureError> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        read.map_err(|error| CaptureError::system("hearing from a benchmark", error))?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.input.take()); // its cue
        let _ = self.child.kill(); // in case it is in the middle of something
        let _ = self.child.wait();
    }
}

pub(crate) fn parse_ready(line: &str) -> Option<WorkerState> {
    let mut words = line.strip_prefix("ready ")?.split(' ');
    let large_share = words.next()?.parse().ok()?;
    Some(WorkerState { large_share, grouped_share: words.next()?.parse().ok() })
}

pub(crate) fn parse_done(line: &str) -> Option<Measured> {
    let mut words = line.strip_prefix("done ")?.split(' ');
    Some(Measured {
        processor_nanoseconds: words.next()?.parse().ok()?,
        wall_nanoseconds: words.next()?.parse().ok()?,
        tlb_misses: words.next()?.parse().ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(benchmark: Benchmark, recorded_operations: Option<u64>) -> Job {
        Job {
            benchmark,
            bytes: 1 << 16,
            paging: Paging::Large,
            processor: None,
            recorded_operations,
        }
    }

    #[test]
    fn jobs_as_words_and_back() {
        let all = Job { processor: Some(3), ..job(Benchmark::Updates, Some(9)) };
        assert_eq!(Job::parse(&all.arguments()), Ok(all));
        let few = Job { paging: Paging::Small, ..job(Benchmark::Chase, None) };
        assert_eq!(Job::parse(&few.arguments()), Ok(few));
        for wrong in
            ["", "chase", "chase - 4k - -", "chase 1 2k - -", "x 1 4k - -", "chase 1 4k z -"]
        {
            let words: Vec<String> = wrong.split(' ').map(str::to_owned).collect();
            assert!(Job::parse(&words).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_worker_answers_line_by_line() {
        let mut output = Vec::new();
        serve(&job(Benchmark::Chase, None), &mut &b"run 100\nrun 5\n"[..], &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let state = parse_ready(lines[0]).unwrap();
        assert!((0.0..=1.0).contains(&state.large_share));
        assert!(parse_done(lines[1]).unwrap().wall_nanoseconds > 0);
        assert!(parse_done(lines[2]).is_some());
        let too_large = Job { bytes: 1 << 60, ..job(Benchmark::Random, Some(1)) };
        assert!(serve(&too_large, &mut &b""[..], &mut Vec::new()).is_err());
        let wrong = serve(&job(Benchmark::Chase, None), &mut &b"walk\n"[..], &mut Vec::new());
        assert!(wrong.is_err());
    }

    #[test]
    fn a_recorded_worker_waits_for_nothing() {
        let mut output = Vec::new();
        serve(&job(Benchmark::Random, Some(10)), &mut &b"run 1\n"[..], &mut output).unwrap();
        assert!(output.is_empty());
    }

    #[test]
    fn groups_need_consecutive_frames_at_an_aligned_place() {
        let frames = |numbers: [u64; 8]| numbers.map(Some).to_vec();
        assert_eq!(grouped(&frames([8, 9, 10, 11, 0, 1, 2, 3])), 1.0);
        assert_eq!(grouped(&frames([8, 9, 10, 12, 0, 1, 2, 3])), 0.5);
        assert_eq!(grouped(&frames([9, 10, 11, 12, 3, 2, 1, 0])), 0.0, "not aligned; backwards");
        assert_eq!(grouped(&[Some(4), None, Some(6), Some(7)]), 0.0);
        assert_eq!(grouped(&[]), 0.0);
    }
}
