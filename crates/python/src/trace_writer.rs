//! Writer of traces from columns.

use std::path::PathBuf;

use perforate_cli::actions::Failure;
use perforate_config::{ConfigError, NewFile};
use perforate_trace::{TraceMetadata, WriterOptions};
use perforate_types::{
    AccessKind, Branch, Instruction, MemoryAccess, Operation, ProgramEvent, VirtualAddress,
};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use serde::Deserialize;
use serde_json::json;

use crate::work::guarded;

/// Writer of a trace, for Python. The file gets its name when the trace is finished.
#[pyclass]
pub struct TraceWriter {
    path: PathBuf,
    /// File and writer; `None` once the trace is finished.
    writer: Option<(NewFile, perforate_trace::TraceWriter)>,
    /// Events that are not written yet, the last first.
    events: Vec<EventBefore>,
    /// Number of the next instruction to write.
    next: u64,
}

/// An event, and the number of the instruction after it.
#[derive(Deserialize)]
struct EventBefore {
    instruction: u64,
    #[serde(flatten)]
    event: ProgramEvent,
}

/// Columns of rows to write, each as little-endian bytes.
#[derive(FromPyObject)]
struct Columns {
    /// Number of each row's instruction; empty if each row is an instruction.
    instruction: PyBackedBytes,
    ip: PyBackedBytes,
    address: PyBackedBytes,
    size: PyBackedBytes,
    kind: PyBackedBytes,
    length: PyBackedBytes,
    branch: PyBackedBytes,
    taken: PyBackedBytes,
    operation: PyBackedBytes,
    sources: PyBackedBytes,
    data_sources: PyBackedBytes,
    destinations: PyBackedBytes,
}

#[pymethods]
impl TraceWriter {
    /// Begins a trace with this metadata and these events, both as JSON.
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        metadata: &str,
        events: &str,
        level: i32,
    ) -> PyResult<Self> {
        guarded(py, || {
            let wrong = |name: &'static str| {
                move |error: serde_json::Error| Failure::Usage(format!("{name}: {error}"))
            };
            let mut events: Vec<EventBefore> =
                serde_json::from_str(events).map_err(wrong("events"))?;
            events.sort_by_key(|placed| placed.instruction);
            events.reverse();
            let metadata: TraceMetadata =
                serde_json::from_str(metadata).map_err(wrong("metadata"))?;
            let metadata = TraceMetadata { has_events: !events.is_empty(), ..metadata };
            if !(1..=22).contains(&level) {
                let error = ConfigError::new(format!("is 1 to 22, not {level}"));
                return Err(error.under("level").into());
            }
            let options = WriterOptions { level, ..WriterOptions::default() };
            let failed = |source| Failure::Write { path: path.clone(), source };
            let new = NewFile::create(&path).map_err(failed)?;
            let file = new.file().map_err(failed)?;
            let writer = perforate_trace::TraceWriter::on(file, &path, &metadata, options)?;
            Ok(Self { path, writer: Some((new, writer)), events, next: 0 })
        })
    }

    /// Writes the instructions and accesses of rows.
    fn push(&mut self, py: Python<'_>, columns: Columns) -> PyResult<()> {
        guarded(py, || {
            columns.check().map_err(Failure::Usage)?;
            py.detach(|| self.add(&columns))
        })
    }

    /// Ends the trace. Returns its path, and its numbers of instructions, accesses, events and bytes, as
    /// JSON.
    fn finish(&mut self, py: Python<'_>) -> PyResult<String> {
        guarded(py, || {
            let (new, mut writer) = self.writer.take().ok_or_else(finished)?;
            while let Some(placed) = self.events.pop() {
                writer.event(placed.event)?;
            }
            let summary = writer.finish()?;
            new.finish().map_err(|source| Failure::Write { path: self.path.clone(), source })?;
            let record = json!({
                "path": self.path,
                "instructions": summary.instructions,
                "accesses": summary.accesses,
                "events": summary.events,
                "bytes": summary.bytes,
            });
            Ok(record.to_string())
        })
    }

    /// Deletes the unfinished trace file.
    fn discard(&mut self) {
        self.writer = None;
    }
}

fn finished() -> Failure {
    Failure::Usage("the trace is finished".into())
}

impl TraceWriter {
    fn add(&mut self, columns: &Columns) -> Result<(), Failure> {
        let rows = columns.rows();
        let mut row = 0;
        let mut accesses = Vec::new();
        while row < rows {
            let of = row..columns.end_of_instruction(row);
            accesses.clear();
            for row in of.clone() {
                accesses.extend(columns.access(row).map_err(|problem| self.wrong_row(problem))?);
            }
            let instruction =
                columns.instruction(row).map_err(|problem| self.wrong_row(problem))?;
            self.add_one(&instruction, &accesses)?;
            row = of.end;
        }
        Ok(())
    }

    fn add_one(
        &mut self,
        instruction: &Instruction,
        accesses: &[MemoryAccess],
    ) -> Result<(), Failure> {
        let (_, writer) = self.writer.as_mut().ok_or_else(finished)?;
        while self.events.last().is_some_and(|placed| placed.instruction <= self.next) {
            if let Some(placed) = self.events.pop() {
                writer.event(placed.event)?;
            }
        }
        writer.push(instruction, accesses)?;
        self.next += 1;
        Ok(())
    }

    /// Makes the error that the current instruction has a problem.
    fn wrong_row(&self, problem: String) -> Failure {
        Failure::Usage(format!("instruction {}: {problem}", self.next))
    }
}

impl Columns {
    fn rows(&self) -> usize {
        self.ip.len() / 8
    }

    /// Checks that all columns have the same number of rows; some may be empty.
    fn check(&self) -> Result<(), String> {
        let rows = self.rows();
        let columns = [
            ("instruction", &self.instruction, 8, true),
            ("ip", &self.ip, 8, false),
            ("address", &self.address, 8, false),
            ("size", &self.size, 2, false),
            ("kind", &self.kind, 1, false),
            ("length", &self.length, 1, true),
            ("branch", &self.branch, 1, true),
            ("taken", &self.taken, 1, true),
            ("operation", &self.operation, 1, true),
            ("sources", &self.sources, 4, true),
            ("data_sources", &self.data_sources, 1, true),
            ("destinations", &self.destinations, 2, true),
        ];
        let is_wrong = |(_, bytes, width, may_lack): &&(&str, &PyBackedBytes, usize, bool)| {
            bytes.len() != rows * width && !(*may_lack && bytes.is_empty())
        };
        columns.iter().find(is_wrong).map_or(Ok(()), |(name, bytes, width, _)| {
            Err(format!("{name}: {} rows; expected {rows}, as ip has", bytes.len() / width))
        })
    }

    /// Finds the first row after those of the instruction that begins at `row`.
    fn end_of_instruction(&self, row: usize) -> usize {
        if self.instruction.is_empty() {
            return row + 1;
        }
        let number = word(&self.instruction, row);
        (row + 1..self.rows())
            .find(|&other| word(&self.instruction, other) != number)
            .unwrap_or(self.rows())
    }

    /// Decodes the access of a row; `None` if the row has none.
    fn access(&self, row: usize) -> Result<Option<MemoryAccess>, String> {
        let kind = match self.kind[row] {
            0 => return Ok(None),
            1 => AccessKind::Read,
            2 => AccessKind::Write,
            other => return Err(format!("kind {other}; expected 0 (none), 1 (read) or 2 (write)")),
        };
        let size = u16::from_le_bytes([self.size[2 * row], self.size[2 * row + 1]]);
        Ok(Some(MemoryAccess {
            address: VirtualAddress::new(word(&self.address, row)),
            size,
            kind,
        }))
    }

    /// Decodes the instruction of a row, without its accesses.
    fn instruction(&self, row: usize) -> Result<Instruction, String> {
        let byte = |column: &[u8]| column.get(row).copied().unwrap_or(0);
        let (branch, operation) = (byte(&self.branch), byte(&self.operation));
        let branch = Branch::ALL
            .get(usize::from(branch))
            .ok_or_else(|| format!("branch {branch}; expected 0 to {}", Branch::ALL.len() - 1))?;
        let operation = Operation::ALL.get(usize::from(operation)).ok_or_else(|| {
            format!("operation {operation}; expected 0 to {}", Operation::ALL.len() - 1)
        })?;
        Ok(Instruction {
            ip: VirtualAddress::new(word(&self.ip, row)),
            sources: registers(&self.sources, row),
            data_sources: byte(&self.data_sources),
            destinations: registers(&self.destinations, row),
            accesses: 0,
            length: byte(&self.length),
            branch: *branch,
            taken: byte(&self.taken) != 0,
            operation: *operation,
        })
    }
}

fn word(column: &[u8], row: usize) -> u64 {
    column[8 * row..8 * row + 8].try_into().map_or(0, u64::from_le_bytes)
}

fn registers<const N: usize>(column: &[u8], row: usize) -> [u8; N] {
    column.get(N * row..N * row + N).and_then(|found| found.try_into().ok()).unwrap_or([0; N])
}
