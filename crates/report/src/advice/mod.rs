//! Advice on large pages for one program: text for the terminal, and an HTML page.
//!
//! Terminal output and page have the same sentences.

mod measured;
mod page;
mod ranking;
mod sentence;
mod text;

use perforate_records::{AdviceArea, AdviceRecord, AdviceRun, AdviceSize};

pub use measured::{clock_name, measured_verdict};
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

/// Name of a run for readers. The recommended run is marked as such. If no pages are recommended, the run of the plan
/// is called “best larger”.
fn run_name(run: &AdviceRun, record: &AdviceRecord) -> String {
    let is_planned = record.planned_run() == Some(run);
    match (record.verdict.recommends(), run.name.as_str()) {
        (false, AdviceRecord::RECOMMENDED) => "best larger".to_owned(),
        (true, name) if is_planned && name != AdviceRecord::RECOMMENDED => {
            format!("{name} (recommended)")
        }
        (_, name) => name.to_owned(),
    }
}

/// Name of the planned pages for readers.
fn planned_pages(record: &AdviceRecord) -> &'static str {
    match record.verdict.recommends() {
        true => "the recommended pages",
        false => "the best larger pages",
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

/// Row of the table of page sizes: an area and the effect of one page size for the whole area. Only the first row
/// of an area shows its name.
struct SizedArea<'a> {
    area: &'a AdviceArea,
    size: &'a AdviceSize,
    is_first: bool,
}

impl SizedArea<'_> {
    fn name(&self, record: &AdviceRecord) -> String {
        if self.is_first { area_name(self.area, record) } else { String::new() }
    }

    /// Share of all page walks that are saved for each megabyte; `None` if the pages take less than one more.
    fn saved_per_mb(&self) -> Option<f64> {
        let more = self.size.additional_bytes as f64 / 1_048_576.0;
        (more >= 1.0).then(|| self.size.saved_share / more)
    }
}

/// The first areas with their page sizes; empty if no area has a choice of sizes.
fn sized_areas<'a>(record: &'a AdviceRecord, most: usize) -> Vec<SizedArea<'a>> {
    if record.areas.iter().all(|area| area.sizes.len() < 2) {
        return Vec::new();
    }
    let of_area = |area: &'a AdviceArea| {
        let sizes = (0..).zip(&area.sizes);
        sizes.map(move |(number, size)| SizedArea { area, size, is_first: number == 0 })
    };
    let shown = record.areas.iter().filter(|area| !area.sizes.is_empty());
    shown.take(most).flat_map(of_area).collect()
}

/// Formats a speed-up in thousandths, as in “1.057×”: differences of pages are often below 1 %.
fn thousandths(speed: f64) -> String {
    format!("{speed:.3}×")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sizes_of_memory() {
        for (name, kind, text) in [
            ("", "anonymous", "anon 7f00"),
            ("", "stack", "stack 7f00"),
            ("[heap]", "heap", "[heap]"),
            ("/usr/lib/a.so", "file", "a.so"),
        ] {
            assert_eq!(name_of(name, kind, "0x7f00"), text);
        }
        assert_eq!(
            [0.0, -2048.0, 2048.0].map(more_memory),
            ["no more memory", "2.00 KB less", "2.00 KB more"]
        );
        let area = AdviceArea::default();
        let per_mb = |additional_bytes| {
            let size = AdviceSize { saved_share: 0.5, additional_bytes, ..AdviceSize::default() };
            SizedArea { area: &area, size: &size, is_first: true }.saved_per_mb()
        };
        assert_eq!([(1 << 20) - 1, 1 << 20, 4 << 20].map(per_mb), [None, Some(0.5), Some(0.125)]);
    }
}
