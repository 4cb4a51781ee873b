//! Advice on large pages for one program: text for the terminal, and an HTML page.
//!
//! Terminal output and page have the same sentences.

mod measured;
mod page;
mod ranking;
mod sentence;
mod text;

use perforate_records::{AdviceArea, AdviceRecord};

pub use page::advice_html;
pub use text::advice_text;

use crate::format::bytes;

/// Name of an area for readers: that of its file or its own, otherwise its kind and address; with its process
/// if there are several.
fn area_name(area: &AdviceArea, record: &AdviceRecord) -> String {
    let name = name_of(&area.name, &area.kind, &area.start);
    let is_one = record.areas.iter().all(|other| other.process == area.process);
    if is_one { name } else { format!("{} {name}", area.process) }
}

/// Name of memory for readers: that of its file or its own, otherwise its kind and address.
fn name_of(name: &str, kind: &str, start: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or_default();
    let address = start.trim_start_matches("0x");
    match (file, kind) {
        ("", "anonymous") => format!("anon {address}"),
        ("", kind) => format!("{kind} {address}"),
        (file, _) => file.to_owned(),
    }
}

/// Additional memory, as in “38 MB more”.
pub fn more_memory(additional_bytes: f64) -> String {
    match additional_bytes {
        0.0 => "no more memory".to_owned(),
        size if size < 0.0 => format!("{} less", bytes(-size)),
        size => format!("{} more", bytes(size)),
    }
}

/// Formats a speed-up in thousandths, as in “1.057×”: differences of pages are often below 1 %.
fn thousandths(speed: f64) -> String {
    format!("{speed:.3}×")
}
