//! Snapshots of real memory: tables and a picture for the terminal, and one HTML page.
//!
//! What is read is the JSON object that `perforate snapshot … --json` prints. Tables are made once,
//! as sections, for both.

mod host;
mod page;
mod process;
mod text;
mod verdict;

use serde::Deserialize;

use perforate_records::{MemoryMap, read_json};

use crate::ReportError;
pub use host::HostRecord;
pub use page::snapshot_html;
pub use process::ProcessRecord;
pub use text::snapshot_table;

/// A snapshot of a machine or of a process.
#[derive(Clone, Debug)]
pub enum Snapshot {
    /// A machine's memory.
    Host(Box<HostRecord>),
    /// A process's memory.
    Process(Box<ProcessRecord>),
}

/// Reads one snapshot as JSON.
///
/// # Errors
/// If it is none.
pub fn read_snapshot(text: &str) -> Result<Snapshot, ReportError> {
    #[derive(Deserialize)]
    struct Kind {
        snapshot: String,
    }
    let failed =
        |error: serde_json::Error| ReportError::Record { line: 1, cause: error.to_string() };
    let Kind { snapshot } = read_json(text).map_err(failed)?;
    match snapshot.as_str() {
        "host" => Ok(Snapshot::Host(Box::new(read_json(text).map_err(failed)?))),
        "process" => Ok(Snapshot::Process(Box::new(read_json(text).map_err(failed)?))),
        _ => Err(ReportError::Record { line: 1, cause: "not a snapshot".into() }),
    }
}

/// A table with a heading and what must be known to read it.
struct Section {
    title: String,
    lead: String,
    head: Vec<String>,
    rows: Vec<Vec<Value>>,
}

impl Section {
    fn new(title: impl Into<String>, lead: impl Into<String>, head: &[&str]) -> Self {
        let head = head.iter().map(|name| (*name).to_owned()).collect();
        Self { title: title.into(), lead: lead.into(), head, rows: Vec::new() }
    }
}

/// A cell of a table.
#[derive(Clone)]
enum Value {
    Text(String),
    /// A number and how it is written.
    Number(Option<f64>, fn(f64) -> String),
}

impl Value {
    fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }
}

impl Snapshot {
    fn title(&self) -> String {
        match self {
            Self::Host(record) => record.title(),
            Self::Process(record) => record.title(),
        }
    }

    /// What it says about large pages, a sentence each.
    fn verdict(&self) -> Vec<String> {
        match self {
            Self::Host(record) => record.verdict(),
            Self::Process(record) => record.verdict(),
        }
    }

    fn sections(&self) -> Vec<Section> {
        match self {
            Self::Host(record) => record.sections(),
            Self::Process(record) => record.sections(),
        }
    }

    /// A picture of the memory; a process has none.
    fn memory_map(&self) -> Option<&MemoryMap> {
        match self {
            Self::Host(record) => record.memory_map.as_ref(),
            Self::Process(_) => None,
        }
    }

    fn version(&self) -> &str {
        match self {
            Self::Host(record) => &record.version,
            Self::Process(record) => &record.version,
        }
    }

    /// What is missing or assumed, a line each.
    fn notes(&self) -> Vec<String> {
        match self {
            Self::Host(record) => record.notes(),
            Self::Process(record) => record.notes(),
        }
    }
}

fn count(value: f64) -> String {
    crate::format::exact(&serde_json::Number::from(value.max(0.0) as u64))
}
