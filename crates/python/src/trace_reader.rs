//! Traces as batches of columns, decoded by several threads ahead of whoever asks.
//!
//! A trace of ours is decoded in segments of about a million instructions that begin where chunks of the
//! file begin, one thread taking every second, third, … of them. Other traces have one thread.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use perforate_config::Count;
use perforate_sim::open_trace;
use perforate_trace::{Source, TraceError, TraceReader};
use perforate_types::Chunk;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use serde_json::json;

use crate::column::Pool;
use crate::errors::{exception, failed, wrong_option, wrong_trace, wrong_use};
use crate::trace_rows::{Batch, Field, Rows};
use crate::work::{guarded, wait, work};

/// Instructions in a segment, about.
const SEGMENT: u64 = 1 << 20;
/// Batches that a thread decodes ahead.
const AHEAD: usize = 2;
/// Time between two looks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// What a thread sends.
enum Sent {
    Rows(Batch),
    /// A segment has ended; that of the next thread follows.
    SegmentEnd,
    /// The trace has ended.
    End,
    Failed(TraceError),
}

/// Batches of a trace, one after the other.
#[pyclass]
pub struct TraceBatches {
    threads: Vec<Mutex<Receiver<Sent>>>,
    /// The thread whose segment is delivered.
    turn: usize,
    is_over: bool,
}

/// A part of the trace in instructions.
#[derive(Clone, Copy)]
struct Part {
    from: u64,
    to: u64,
}

/// What all threads do.
#[derive(Clone)]
struct Plan {
    path: String,
    fields: Vec<Field>,
    rows: usize,
    /// All segments; none if the trace has to be read from its beginning.
    segments: Option<Vec<Part>>,
    part: Part,
    pool: Arc<Pool>,
}

#[pymethods]
impl TraceBatches {
    /// Begins to decode. `rows` is how many a batch has, about.
    #[new]
    fn new(
        py: Python<'_>,
        path: &str,
        columns: Vec<String>,
        rows: usize,
        skip: &str,
        instructions: Option<String>,
        threads: usize,
    ) -> PyResult<Self> {
        let count = |key: &'static str, text: &str| -> PyResult<u64> {
            let count: Result<Count, _> = perforate_config::read(text);
            let count = count.map_err(|error| wrong_option(py, error.under(key)))?;
            Ok(count.get())
        };
        let from = count("skip", skip)?;
        let length = instructions.map(|text| count("instructions", &text)).transpose()?;
        let to = length.map_or(u64::MAX, |length| from.saturating_add(length));
        let field = |name: &String| {
            Field::named(name).ok_or_else(|| {
                let names = Field::ALL.map(|(name, _)| name);
                let near = perforate_config::suggestion(name, &names);
                wrong_use(py, format!("columns: there is no {name:?}; {near}"))
            })
        };
        let fields = columns.iter().map(field).collect::<PyResult<Vec<_>>>()?;
        let part = Part { from, to };
        guarded(py, || {
            // What is wrong with the file is said here.
            let opened = py.detach(|| open_trace(path).map(|(path, _)| path));
            let path = opened.map_err(|error| failed(py, &error.into()))?;
            let segments =
                py.detach(|| TraceReader::open(&path).ok().map(|it| segments(&it, part)));
            let plan =
                Plan { path, fields, rows: rows.max(1), segments, part, pool: Arc::default() };
            Self::begin(&plan, threads.max(1))
                .map_err(|error| exception(py, "RunError", format!("starting a thread: {error}")))
        })
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    /// The next batch: its rows, and its columns.
    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<(usize, Bound<'py, PyTuple>)> {
        while !self.is_over {
            match self.receive(py)? {
                Sent::Rows(batch) => {
                    let rows = batch.rows;
                    let columns = batch.columns().map(|column| Py::new(py, column));
                    let columns = columns.collect::<PyResult<Vec<_>>>()?;
                    return Ok((rows, PyTuple::new(py, columns)?));
                }
                Sent::SegmentEnd => self.turn = (self.turn + 1) % self.threads.len(),
                Sent::End => self.is_over = true,
                Sent::Failed(error) => {
                    self.is_over = true;
                    return Err(wrong_trace(py, error));
                }
            }
        }
        Err(PyStopIteration::new_err(()))
    }
}

impl TraceBatches {
    fn begin(plan: &Plan, threads: usize) -> std::io::Result<Self> {
        let count = plan.segments.as_ref().map_or(1, |all| threads.min(all.len()).max(1));
        let begin = |index: usize| {
            let (sender, receiver) = sync_channel(AHEAD);
            let plan = plan.clone();
            thread::Builder::new().name("perforate".into()).spawn(move || {
                let outcome = plan.decode((index, count), &sender);
                // Whoever asked may have gone.
                let _ = sender.send(outcome.map_or_else(Sent::Failed, |()| Sent::End));
            })?;
            Ok(Mutex::new(receiver))
        };
        let threads = (0..count).map(begin).collect::<std::io::Result<_>>()?;
        Ok(Self { threads, turn: 0, is_over: false })
    }

    fn receive(&self, py: Python<'_>) -> PyResult<Sent> {
        let receiver = &self.threads[self.turn];
        loop {
            match py.detach(|| wait(receiver, LOOK)) {
                Ok(sent) => return Ok(sent),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    let text = "a thread that decodes a trace ended without a word";
                    return Err(exception(py, "InternalError", text.into()));
                }
            }
        }
    }
}

/// The segments of a part of a trace: runs of whole chunks of the file.
fn segments(reader: &TraceReader, part: Part) -> Vec<Part> {
    let (mut segments, mut from, mut to) = (Vec::new(), 0, 0);
    let add = |from: u64, to: u64, segments: &mut Vec<Part>| {
        let cut = Part { from: from.max(part.from), to: to.min(part.to) };
        if cut.from < cut.to {
            segments.push(cut);
        }
    };
    for instructions in reader.chunk_lengths() {
        to += u64::from(instructions);
        if to - from >= SEGMENT {
            add(from, to, &mut segments);
            from = to;
        }
    }
    add(from, to, &mut segments);
    segments
}

impl Plan {
    /// Decodes every `count`-th segment from number `index` on.
    fn decode(
        &self,
        (index, count): (usize, usize),
        sender: &SyncSender<Sent>,
    ) -> Result<(), TraceError> {
        let mut source = perforate_trace::open(&self.path)?;
        let mut rows = Rows::new(&self.fields, Arc::clone(&self.pool));
        let mut position = 0;
        let own = match &self.segments {
            Some(all) => all.iter().skip(index).step_by(count).copied().collect(),
            None => vec![self.part],
        };
        for segment in own {
            let is_wanted =
                self.segment(source.as_mut(), &mut rows, (&mut position, segment), sender)?;
            if !is_wanted || sender.send(Sent::SegmentEnd).is_err() {
                return Ok(());
            }
        }
        self.find_damage(source.as_mut(), index, count)
    }

    /// Sends the rows of a segment; false if nobody wants them any more.
    fn segment(
        &self,
        source: &mut dyn Source,
        rows: &mut Rows,
        (position, segment): (&mut u64, Part),
        sender: &SyncSender<Sent>,
    ) -> Result<bool, TraceError> {
        *position += source.skip(segment.from - *position)?;
        let mut chunk = Chunk::default();
        while *position < segment.to && source.next_chunk(&mut chunk)? {
            let wanted = usize::try_from(segment.to - *position).unwrap_or(usize::MAX);
            let count = chunk.instructions.len().min(wanted);
            rows.add(&chunk, count, *position, self.rows);
            *position += chunk.instructions.len() as u64;
            if rows.len() >= self.rows && sender.send(Sent::Rows(rows.take())).is_err() {
                return Ok(false);
            }
        }
        let is_wanted = rows.len() == 0 || sender.send(Sent::Rows(rows.take())).is_ok();
        Ok(is_wanted)
    }

    /// The thread of the last segment reads what is behind it, so that damage there is found.
    fn find_damage(
        &self,
        source: &mut dyn Source,
        index: usize,
        count: usize,
    ) -> Result<(), TraceError> {
        let Some(all) = &self.segments else { return Ok(()) };
        let is_last = all.is_empty() || (all.len() - 1) % count == index;
        if is_last && self.part.to == u64::MAX {
            while source.next_chunk(&mut Chunk::default())? {}
        }
        Ok(())
    }
}

/// What a trace says of itself, as JSON.
#[pyfunction]
pub fn trace_metadata(py: Python<'_>, path: String) -> PyResult<String> {
    work(py, None, move |_| {
        let (path, source) = open_trace(&path)?;
        let truncated = source.truncated().map(ToString::to_string);
        let mut all = json!(source.metadata());
        all["path"] = json!(path);
        all["truncated"] = json!(truncated);
        if let Ok(reader) = TraceReader::open(&path) {
            let own = reader.trace_metadata();
            all["program"] = json!(own.program);
            all["recorder"] = json!(own.recorder);
            all["architecture"] = json!(own.architecture);
            all["created_by"] = json!(own.created_by);
            all["notes"] = json!(own.notes);
            all["bytes"] = json!(reader.bytes());
        }
        Ok(all.to_string())
    })
}

/// What the program of a trace asked of the operating system, as JSON: objects with the number of the
/// instruction that each comes before.
#[pyfunction]
pub fn trace_events(py: Python<'_>, path: String) -> PyResult<String> {
    work(py, None, move |talk| {
        let (_, mut source) = open_trace(&path)?;
        let (mut chunk, mut position, mut all) = (Chunk::default(), 0, Vec::new());
        while source.next_chunk(&mut chunk)? {
            for (before, event) in &chunk.events {
                let mut event = json!(event);
                event["instruction"] = json!(position + u64::from(*before));
                all.push(event);
            }
            position += chunk.instructions.len() as u64;
            if talk.stop.load(std::sync::atomic::Ordering::Relaxed) {
                break;
            }
        }
        Ok(serde_json::to_string(&all).expect("events are plain data"))
    })
}
