//! Snapshots of real memory: tables and a map for the terminal, and an HTML page.
//!
//! Terminal output and page are made from the same [`Section`]s, which contain the tables.

mod host;
mod page;
mod process;
mod text;
mod verdict;

use perforate_records::{MemoryMap, Snapshot};

use crate::format::{bytes, percent};

pub use page::snapshot_html;
pub use text::snapshot_table;

/// A table with a heading, and an explanation of its figures.
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

    /// Adds a row to the table: a label, a number, its formatting function, and its share of the table's
    /// total.
    fn add(&mut self, label: &str, number: f64, write: fn(f64) -> String, share: Option<f64>) {
        let numbers = [Value::Number(Some(number), write), Value::Number(share, percent)];
        self.rows.push(std::iter::once(Value::text(label)).chain(numbers).collect());
    }
}

/// A cell of a table: a text or a number.
#[derive(Clone)]
enum Value {
    Text(String),
    /// Number in a table cell, `None` if unknown, and the function that formats it.
    Number(Option<f64>, fn(f64) -> String),
}

impl Value {
    fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    fn bytes(size: f64) -> Self {
        Self::Number(Some(size), bytes)
    }
}

/// Contents of the report on a snapshot, for terminal output and for the page.
struct Shown<'a> {
    title: String,
    /// Sentences about large pages in the snapshot.
    verdict: Vec<String>,
    sections: Vec<Section>,
    /// Map of physical memory; `None` for a process.
    memory_map: Option<&'a MemoryMap>,
    /// Notes on missing data and on assumptions.
    notes: Vec<String>,
    version: &'a str,
}

impl<'a> Shown<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        match snapshot {
            Snapshot::Host(record) => Self {
                title: host::title(record),
                verdict: verdict::of_host(record),
                sections: host::sections(record),
                memory_map: record.memory_map.as_ref(),
                notes: host::notes(record),
                version: &record.version,
            },
            Snapshot::Process(record) => Self {
                title: process::title(record),
                verdict: verdict::of_process(record),
                sections: process::sections(record),
                memory_map: None,
                notes: process::notes(record),
                version: &record.version,
            },
        }
    }
}

fn count(value: f64) -> String {
    crate::format::exact(&serde_json::Number::from(value.max(0.0) as u64))
}
