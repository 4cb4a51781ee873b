//! Snapshots of real memory: tables and a picture for the terminal, and one HTML page.
//!
//! Tables are made once, as sections, for both.

mod host;
mod page;
mod process;
mod text;
mod verdict;

use perforate_records::{MemoryMap, Snapshot};

pub use page::snapshot_html;
pub use text::snapshot_table;

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

fn title(snapshot: &Snapshot) -> String {
    match snapshot {
        Snapshot::Host(record) => host::title(record),
        Snapshot::Process(record) => process::title(record),
    }
}

/// What it says about large pages, a sentence each.
fn verdict(snapshot: &Snapshot) -> Vec<String> {
    match snapshot {
        Snapshot::Host(record) => verdict::of_host(record),
        Snapshot::Process(record) => verdict::of_process(record),
    }
}

fn sections(snapshot: &Snapshot) -> Vec<Section> {
    match snapshot {
        Snapshot::Host(record) => host::sections(record),
        Snapshot::Process(record) => process::sections(record),
    }
}

/// A picture of the memory; a process has none.
fn memory_map(snapshot: &Snapshot) -> Option<&MemoryMap> {
    match snapshot {
        Snapshot::Host(record) => record.memory_map.as_ref(),
        Snapshot::Process(_) => None,
    }
}

fn version(snapshot: &Snapshot) -> &str {
    match snapshot {
        Snapshot::Host(record) => &record.version,
        Snapshot::Process(record) => &record.version,
    }
}

/// What is missing or assumed, a line each.
fn notes(snapshot: &Snapshot) -> Vec<String> {
    match snapshot {
        Snapshot::Host(record) => host::notes(record),
        Snapshot::Process(record) => process::notes(record),
    }
}

fn count(value: f64) -> String {
    crate::format::exact(&serde_json::Number::from(value.max(0.0) as u64))
}
