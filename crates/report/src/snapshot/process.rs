//! The tables of a snapshot of a process.

use perforate_types::counted;
use serde::Deserialize;

use super::{Section, Value, count};
use crate::format::{bytes, percent};

/// A process's memory, as its record says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ProcessRecord {
    program: String,
    missing: Vec<String>,
    notes: Vec<String>,
    pub(super) areas: Vec<Area>,
    pub(super) totals: Area,
    contents: Option<Contents>,
    pub(super) version: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Area {
    start: String,
    permissions: String,
    name: String,
    pub(super) mapped_bytes: f64,
    pub(super) resident_bytes: f64,
    swapped_bytes: f64,
    /// Bytes by label, if frames are known.
    sizes: Option<std::collections::BTreeMap<String, f64>>,
    pub(super) large_bytes: f64,
    folio_bytes: Option<f64>,
    merged_bytes: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Contents {
    pages_read: f64,
    pages_unreadable: f64,
    zero_pages: f64,
    duplicate_pages: f64,
    distinct_duplicates: f64,
    savable_pages: f64,
    most_copies: f64,
    spec: String,
}

/// Areas shown; the rest is summed up.
const MOST_AREAS: usize = 24;

impl ProcessRecord {
    pub(super) fn title(&self) -> String {
        format!(
            "{}: {} mapped, {} resident in {}",
            self.program,
            bytes(self.totals.mapped_bytes),
            bytes(self.totals.resident_bytes),
            counted(self.areas.len(), "area")
        )
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.missing.iter().chain(&self.notes).cloned().collect()
    }

    pub(super) fn sections(&self) -> Vec<Section> {
        let sections = [Some(self.areas()), self.sizes(), self.contents()];
        sections.into_iter().flatten().collect()
    }

    fn areas(&self) -> Section {
        let lead = "The largest by residency. 2MB: mapped by entries of 2MB, as the kernel counts.";
        let head = ["area", "may", "size", "resident", "swapped", "2MB", "what"];
        let mut section = Section::new("Areas", lead, &head);
        let mut order: Vec<&Area> = self.areas.iter().collect();
        order.sort_by(|a, b| b.resident_bytes.total_cmp(&a.resident_bytes));
        let size = |value: f64| Value::Number(Some(value), bytes);
        let row = |area: &Area, start: &str, name: &str| {
            vec![
                Value::text(start),
                Value::text(&area.permissions),
                size(area.mapped_bytes),
                size(area.resident_bytes),
                size(area.swapped_bytes),
                size(area.large_bytes),
                Value::text(name),
            ]
        };
        for area in order.iter().take(MOST_AREAS) {
            section.rows.push(row(area, &area.start, &end_of(&area.name)));
        }
        if let Some(rest) = order.get(MOST_AREAS..).filter(|rest| !rest.is_empty()) {
            let sum = rest.iter().fold(Area::default(), |sum, area| Area {
                mapped_bytes: sum.mapped_bytes + area.mapped_bytes,
                resident_bytes: sum.resident_bytes + area.resident_bytes,
                swapped_bytes: sum.swapped_bytes + area.swapped_bytes,
                large_bytes: sum.large_bytes + area.large_bytes,
                ..sum
            });
            section.rows.push(row(&sum, &format!("{} more", rest.len()), ""));
        }
        section.rows.push(row(&self.totals, "all", ""));
        section
    }

    fn sizes(&self) -> Option<Section> {
        let sizes = self.totals.sizes.as_ref()?;
        let lead = "By runs of pages that lie in consecutive frames, aligned alike: the largest \
                    power of two that could be one entry (Linux: tools/mm/thpmaps).";
        let head = ["aligned run", "size", "share of resident"];
        let mut section = Section::new("Real page sizes", lead, &head);
        let mut labels: Vec<(&String, &f64)> = sizes.iter().collect();
        labels.sort_by_key(|(label, _)| order_of(label));
        for (label, &size) in labels {
            section.rows.push(vec![
                Value::text(label),
                Value::Number(Some(size), bytes),
                Value::Number(Some(size / self.totals.resident_bytes.max(1.0)), percent),
            ]);
        }
        for (label, found) in [
            ("  in large folios of any size", self.totals.folio_bytes),
            ("  mapped by 2MB entries or larger", Some(self.totals.large_bytes)),
            ("  merged with others (KSM)", self.totals.merged_bytes),
        ] {
            let Some(size) = found else { continue };
            section.rows.push(vec![
                Value::text(label),
                Value::Number(Some(size), bytes),
                Value::Number(Some(size / self.totals.resident_bytes.max(1.0)), percent),
            ]);
        }
        Some(section)
    }

    fn contents(&self) -> Option<Section> {
        let contents = self.contents.as_ref()?;
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
            section.rows.push(vec![
                Value::text(label),
                Value::Number(Some(pages), count),
                Value::Number(Some(pages / contents.pages_read.max(1.0)), percent),
            ]);
        }
        Some(section)
    }
}

/// Bytes that a label such as `64K` or `2M mapped` begins with.
fn order_of(label: &str) -> (u64, String) {
    let digits: String = label.chars().take_while(char::is_ascii_digit).collect();
    let shift = match label[digits.len()..].chars().next() {
        Some('K') => 10,
        Some('M') => 20,
        _ => 30,
    };
    (digits.parse::<u64>().unwrap_or(u64::MAX >> 31) << shift, label.to_owned())
}

/// A name, or the end of a long one.
fn end_of(name: &str) -> String {
    const MOST: usize = 36;
    match name.chars().count().checked_sub(MOST) {
        None | Some(0) => name.to_owned(),
        Some(more) => std::iter::once('…').chain(name.chars().skip(more + 1)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_beginning() {
        assert_eq!(end_of("/usr/bin/bash"), "/usr/bin/bash");
        let name: String = ('a'..='z').chain('0'..='9').collect();
        assert_eq!(end_of(&name), name);
        assert_eq!(end_of(&format!("/{name}")), format!("…{}", &name[1..]));
    }
}
