//! Tables in the report on a process's snapshot.

use perforate_records::{ProcessArea, ProcessRecord, ProcessTotals};
use perforate_types::counted;

use super::{Section, Value, count};
use crate::format::bytes;
use crate::text::end_of;

/// Maximum number of memory mappings that are listed; further mappings are added up.
const MOST_AREAS: usize = 24;
/// Maximum number of characters of a mapping's name.
const MOST_NAME: usize = 36;

pub(super) fn title(record: &ProcessRecord) -> String {
    format!(
        "{}: {} mapped, {} resident in {}",
        record.program,
        bytes(record.totals.mapped_bytes as f64),
        bytes(record.totals.resident_bytes as f64),
        counted(record.areas.len(), "area")
    )
}

pub(super) fn notes(record: &ProcessRecord) -> Vec<String> {
    record.missing.iter().chain(&record.notes).cloned().collect()
}

pub(super) fn sections(record: &ProcessRecord) -> Vec<Section> {
    let sections = [Some(areas(record)), sizes(record), contents(record)];
    sections.into_iter().flatten().collect()
}

fn areas(record: &ProcessRecord) -> Section {
    let lead = "The largest by residency. 2MB: mapped by entries of 2MB, as the kernel counts.";
    let head = ["area", "may", "size", "resident", "swapped", "2MB", "what"];
    let mut section = Section::new("Areas", lead, &head);
    let mut order: Vec<&ProcessArea> = record.areas.iter().collect();
    order.sort_by_key(|area| std::cmp::Reverse(area.totals.resident_bytes));
    let size = |bytes: u64| Value::bytes(bytes as f64);
    let row = |totals: &ProcessTotals, start: &str, permissions: &str, name: &str| {
        vec![
            Value::text(start),
            Value::text(permissions),
            size(totals.mapped_bytes),
            size(totals.resident_bytes),
            size(totals.swapped_bytes),
            size(totals.large_bytes),
            Value::text(name),
        ]
    };
    for area in order.iter().take(MOST_AREAS) {
        let name = end_of(&area.name, MOST_NAME);
        section.rows.push(row(&area.totals, &area.start, &area.permissions, &name));
    }
    if let Some(rest) = order.get(MOST_AREAS..).filter(|rest| !rest.is_empty()) {
        let sum = |size: fn(&ProcessTotals) -> u64| {
            rest.iter().map(|area| size(&area.totals)).fold(0, u64::saturating_add)
        };
        let sum = ProcessTotals {
            mapped_bytes: sum(|totals| totals.mapped_bytes),
            resident_bytes: sum(|totals| totals.resident_bytes),
            swapped_bytes: sum(|totals| totals.swapped_bytes),
            large_bytes: sum(|totals| totals.large_bytes),
            ..ProcessTotals::default()
        };
        section.rows.push(row(&sum, &format!("{} more", rest.len()), "", ""));
    }
    section.rows.push(row(&record.totals, "all", "", ""));
    section
}

fn sizes(record: &ProcessRecord) -> Option<Section> {
    let sizes = record.totals.sizes.as_ref()?;
    let resident_bytes = (record.totals.resident_bytes as f64).max(1.0);
    let lead = "By runs of pages that lie in consecutive frames, aligned alike: the largest \
                power of two that could be one entry (Linux: tools/mm/thpmaps).";
    let head = ["aligned run", "size", "share of resident"];
    let mut section = Section::new("Real page sizes", lead, &head);
    let mut add = |label: &str, size: u64| {
        section.add(label, size as f64, bytes, Some(size as f64 / resident_bytes))
    };
    let mut labels: Vec<(&String, &u64)> = sizes.iter().collect();
    labels.sort_by_key(|(label, _)| order_of(label));
    labels.into_iter().for_each(|(label, &size)| add(label, size));
    for (label, found) in [
        ("  in large folios of any size", record.totals.folio_bytes),
        ("  mapped by 2MB entries or larger", Some(record.totals.large_bytes)),
        ("  merged with others (KSM)", record.totals.merged_bytes),
    ] {
        if let Some(size) = found {
            add(label, size);
        }
    }
    Some(section)
}

fn contents(record: &ProcessRecord) -> Option<Section> {
    let contents = record.contents.as_ref()?;
    let lead = format!(
        "Of resident anonymous pages. As an option of this program: --contents {}",
        contents.spec
    );
    let mut section = Section::new("Contents", lead, &["pages", "number", "share of read"]);
    let rows = [
        ("read", contents.pages_read),
        ("could not be read", contents.pages_unreadable),
        ("of zeros", contents.zero_pages),
        ("with the content of another", contents.duplicate_pages),
        ("  distinct contents among these", contents.distinct_duplicates),
        ("  copies of the most frequent one", contents.most_copies),
        ("that merging would save (KSM)", contents.savable_pages),
    ];
    for (label, pages) in rows {
        let share = pages as f64 / contents.pages_read.max(1) as f64;
        section.add(label, pages as f64, count, Some(share));
    }
    Some(section)
}

/// Returns the sort key of a label that begins with a page size, such as `64K` or `2M mapped`: the size in
/// bytes, then the label.
fn order_of(label: &str) -> (u64, String) {
    let digits: String = label.chars().take_while(char::is_ascii_digit).collect();
    let shift = match label[digits.len()..].chars().next() {
        Some('K') => 10,
        Some('M') => 20,
        _ => 30,
    };
    (digits.parse::<u64>().unwrap_or(u64::MAX >> 31) << shift, label.to_owned())
}
