//! Traces as batches of columns, decoded ahead by several threads.
//!
//! A Perforate trace is decoded in segments of about a million instructions, which begin with chunks of the
//! file. With n threads, each takes every n-th segment. Foreign traces are decoded by one thread.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use perforate_cli::actions::Failure;
use perforate_config::{Count, read, suggestion};
use perforate_sim::open_trace;
use perforate_trace::{Source, TraceError, TraceReader};
use perforate_types::Chunk;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use serde_json::json;

use crate::column::Pool;
use crate::errors::failed;
use crate::trace_rows::{Batch, FIELDS, Field, Rows};
use crate::work::{guarded, lost_thread, no_thread, wait, work};

/// Approximate number of instructions in a segment, the part of a trace that a thread decodes at a time.
const SEGMENT: u64 = 1 << 20;
/// Number of batches of rows that a thread decodes before they are requested.
const AHEAD: usize = 2;
/// Time between two checks for signals while a batch is awaited.
const CHECK_PERIOD: Duration = Duration::from_millis(50);

/// Message of a decoding thread to the iterator.
enum Message {
    Rows(Batch),
    /// End of a segment; the next thread decodes the next segment.
    SegmentEnd,
    /// End of the last segment, and of the trace.
    End,
    Failed(TraceError),
}

/// Iterator over the batches of a trace, for Python.
#[pyclass]
pub struct TraceBatches {
    threads: Vec<Mutex<Receiver<Message>>>,
    /// Index of the thread that decodes the next batch.
    turn: usize,
    is_over: bool,
}

/// Range of instructions of a trace, by number.
#[derive(Clone, Copy)]
struct Part {
    from: u64,
    to: u64,
}

/// Description of the work that the decoding threads share.
#[derive(Clone)]
struct Plan {
    path: String,
    fields: Vec<&'static Field>,
    rows: usize,
    /// Segments of the trace in order; `None` if the trace can only be read from its beginning.
    segments: Option<Vec<Part>>,
    part: Part,
    pool: Arc<Pool>,
}

#[pymethods]
impl TraceBatches {
    /// Starts threads that decode the trace. A batch has about `rows` rows.
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
        guarded(py, || {
            let count = |key: &'static str, text: &str| -> Result<u64, Failure> {
                let count: Count = read(text).map_err(|error| error.under(key))?;
                Ok(count.get())
            };
            let from = count("skip", skip)?;
            let length = instructions.map(|text| count("instructions", &text)).transpose()?;
            let to = length.map_or(u64::MAX, |length| from.saturating_add(length));
            let fields = columns.iter().map(|name| field(name)).collect::<Result<Vec<_>, _>>()?;
            let part = Part { from, to };
            py.detach(|| {
                // Errors of the file are raised here, and not at the first batch.
                let (path, _) = open_trace(path)?;
                let segments = TraceReader::open(&path).ok().map(|reader| segments(&reader, part));
                let (rows, pool) = (rows.max(1), Arc::default());
                let plan = Plan { path, fields, rows, segments, part, pool };
                Self::begin(&plan, threads.max(1)).map_err(no_thread)
            })
        })
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    /// Waits for the next batch. Returns its number of rows and its columns.
    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<(usize, Bound<'py, PyTuple>)> {
        while !self.is_over {
            match self.receive(py)? {
                Message::Rows(batch) => {
                    let rows = batch.rows;
                    let columns = batch.columns().map(|column| Py::new(py, column));
                    let columns = columns.collect::<PyResult<Vec<_>>>()?;
                    return Ok((rows, PyTuple::new(py, columns)?));
                }
                Message::SegmentEnd => self.turn = (self.turn + 1) % self.threads.len(),
                Message::End => self.is_over = true,
                Message::Failed(error) => {
                    self.is_over = true;
                    return Err(failed(py, &error.into()));
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
                // The receiver may be gone.
                let _ = sender.send(outcome.map_or_else(Message::Failed, |()| Message::End));
            })?;
            Ok(Mutex::new(receiver))
        };
        let threads = (0..count).map(begin).collect::<std::io::Result<_>>()?;
        Ok(Self { threads, turn: 0, is_over: false })
    }

    fn receive(&self, py: Python<'_>) -> PyResult<Message> {
        let receiver = &self.threads[self.turn];
        loop {
            match py.detach(|| wait(receiver, CHECK_PERIOD)) {
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => return Err(lost_thread(py)),
            }
        }
    }
}

/// Finds the field that describes the column `name`.
fn field(name: &str) -> Result<&'static Field, Failure> {
    FIELDS.iter().find(|field| field.name == name).ok_or_else(|| {
        let names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
        let suggestion = suggestion(name, &names);
        Failure::Usage(format!("columns: there is no {name:?}; {suggestion}"))
    })
}

/// Divides a range of a trace into segments: whole chunks of the file, cut to the range.
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
        sender: &SyncSender<Message>,
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
            if !is_wanted || sender.send(Message::SegmentEnd).is_err() {
                return Ok(());
            }
        }
        self.find_damage(source.as_mut(), index, count)
    }

    /// Decodes the rows of a segment and sends them. Returns false if the receiver does not exist any more.
    fn segment(
        &self,
        source: &mut dyn Source,
        rows: &mut Rows,
        (position, segment): (&mut u64, Part),
        sender: &SyncSender<Message>,
    ) -> Result<bool, TraceError> {
        *position += source.skip(segment.from - *position)?;
        let mut chunk = Chunk::default();
        while *position < segment.to && source.next_chunk(&mut chunk)? {
            let rest = usize::try_from(segment.to - *position).unwrap_or(usize::MAX);
            let count = chunk.instructions.len().min(rest);
            rows.add(&chunk, count, *position, self.rows);
            *position += chunk.instructions.len() as u64;
            if rows.len() >= self.rows && sender.send(Message::Rows(rows.take())).is_err() {
                return Ok(false);
            }
        }
        let is_wanted = rows.len() == 0 || sender.send(Message::Rows(rows.take())).is_ok();
        Ok(is_wanted)
    }

    /// Reads the rest of the file, on the thread of the last segment, so that damage there is found.
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

/// Reads the metadata of a trace, as JSON.
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

/// Reads the events of a trace (requests to the operating system) as JSON, each with the number of the
/// instruction after it.
#[pyfunction]
pub fn trace_events(py: Python<'_>, path: String) -> PyResult<String> {
    work(py, None, move |state| {
        let (_, mut source) = open_trace(&path)?;
        let (mut chunk, mut position, mut all) = (Chunk::default(), 0, Vec::new());
        while source.next_chunk(&mut chunk)? {
            for (before, event) in &chunk.events {
                let mut event = json!(event);
                event["instruction"] = json!(position + u64::from(*before));
                all.push(event);
            }
            position += chunk.instructions.len() as u64;
            if state.stop.load(std::sync::atomic::Ordering::Relaxed) {
                break;
            }
        }
        Ok(serde_json::to_string(&all).expect("events are plain data"))
    })
}
