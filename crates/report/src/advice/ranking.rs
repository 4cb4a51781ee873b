//! Rankings of memory from evidence without a trace: the first sentence, and the table.

use maud::{Markup, html};
use perforate_records::{AdviceRecord, EvidenceKind, RankedMemory};

use super::name_of;
use crate::format::{MISSING, bytes, compact, percent};
use crate::html::{Cell, Grid, Heading};
use crate::text::{Column, columns, cut, wrapped};

/// Largest number of areas in the table.
const MOST_AREAS: usize = 12;
/// Width in characters of an area's name.
const NAME: usize = 24;

/// Figure of a ranking: heading, value and format.
type FigureColumn = (&'static str, fn(&RankedMemory) -> Option<f64>, fn(f64) -> String);

const OF_SAMPLES: [FigureColumn; 4] = [
    ("size", |area| Some(area.bytes as f64), bytes),
    ("TLB misses", |area| area.misses.map(|misses| misses as f64), compact),
    ("samples", |area| area.samples.map(|samples| samples as f64), compact),
    ("cycles", |area| area.latency_cycles, compact),
];

const OF_ACCESSED_BITS: [FigureColumn; 4] = [
    ("size", |area| Some(area.bytes as f64), bytes),
    ("resident", |area| area.resident_bytes.map(|bytes| bytes as f64), bytes),
    ("large now", |area| area.large_bytes.map(|bytes| bytes as f64), bytes),
    ("used a round", used_share, percent),
];

/// Share of the memory's addresses that was accessed in a round, 0–1.
fn used_share(area: &RankedMemory) -> Option<f64> {
    area.mean_accessed_bytes().map(|used| used / area.bytes.max(1) as f64)
}

fn columns_of(record: &AdviceRecord) -> &'static [FigureColumn; 4] {
    match record.evidence.kind {
        EvidenceKind::AccessedBits => &OF_ACCESSED_BITS,
        EvidenceKind::Trace | EvidenceKind::Samples => &OF_SAMPLES,
    }
}

fn lead(record: &AdviceRecord) -> &'static str {
    match record.evidence.kind {
        EvidenceKind::AccessedBits => {
            "Memory that can have 2MB pages, that with the largest share in use first; then the rest:"
        }
        EvidenceKind::Trace | EvidenceKind::Samples => {
            "Memory by sampled TLB misses, or by samples if none says whether it missed:"
        }
    }
}

/// Returns the sentence on the area to look at first, with a space behind it; empty without an area that can
/// have 2MB pages.
pub(super) fn first(record: &AdviceRecord) -> String {
    let Some(area) = record.ranking.iter().find(|area| area.is_candidate) else {
        return match record.ranking.is_empty() {
            true => String::new(),
            false => "No memory in use can have 2MB pages. ".into(),
        };
    };
    let name = area_name(area, record);
    let all =
        |of: fn(&RankedMemory) -> Option<u64>| record.ranking.iter().filter_map(of).sum::<u64>();
    let share = |part: u64, whole: u64| percent(part as f64 / whole.max(1) as f64);
    let reason = match (area.misses, area.samples, used_share(area)) {
        (Some(misses), ..) => {
            format!("{} of the sampled TLB misses", share(misses, all(|area| area.misses)))
        }
        (None, Some(samples), _) => {
            format!("{} of the samples", share(samples, all(|area| area.samples)))
        }
        (None, None, Some(used)) => {
            format!("{} of its {} in use a round", percent(used), bytes(area.bytes as f64))
        }
        (None, None, None) => return String::new(),
    };
    format!("Look at {name} first: {reason}. ")
}

/// Returns the table for the terminal; empty without ranked memory.
pub(super) fn text(record: &AdviceRecord, width: usize) -> String {
    let shown = &record.ranking[..record.ranking.len().min(MOST_AREAS)];
    if shown.is_empty() {
        return String::new();
    }
    let names = shown.iter().map(|area| cut(&area_name(area, record), NAME)).collect();
    let figures = columns_of(record).iter().map(|(heading, value, format)| {
        let cells = shown.iter().map(|area| value(area).map_or(MISSING.into(), format));
        Column::numbers(heading, cells.collect())
    });
    let can = |area: &RankedMemory| if area.is_candidate { "" } else { "no 2MB pages" };
    let remarks = Column::texts("", shown.iter().map(|area| can(area).to_owned()).collect());
    let all: Vec<Column> =
        [Column::texts("area", names)].into_iter().chain(figures).chain([remarks]).collect();
    let left = record.ranking.len() - shown.len();
    let left = if left > 0 { format!("and {left} more\n") } else { String::new() };
    format!("\n{}{}{left}", wrapped("", lead(record), width), columns(&all, width))
}

/// Returns the table for a page; empty without ranked memory.
pub(super) fn page(record: &AdviceRecord) -> Markup {
    if record.ranking.is_empty() {
        return html! {};
    }
    let [first, second, third, fourth] = columns_of(record);
    let heading = |column: &FigureColumn| Heading::from(column.0);
    let cell =
        |(_, value, format): &FigureColumn, area: &RankedMemory| Cell::value(value(area), *format);
    let table = Grid::of(
        &record.ranking,
        [
            ("area".into(), &|area: &&RankedMemory| Cell::text(&area_name(area, record))),
            (heading(first), &|area| cell(first, area)),
            (heading(second), &|area| cell(second, area)),
            (heading(third), &|area| cell(third, area)),
            (heading(fourth), &|area| cell(fourth, area)),
            ("can have 2MB pages".into(), &|area| {
                Cell::text(if area.is_candidate { "yes" } else { "no" })
            }),
        ],
    );
    html! {
        p.lead { (lead(record)) }
        (table.scrolling("Memory by rank", "main"))
    }
}

fn area_name(area: &RankedMemory, record: &AdviceRecord) -> String {
    let is_one = record.ranking.iter().all(|other| other.process == area.process);
    let name = name_of(&area.name, &area.kind, &area.start);
    if is_one { name } else { format!("{} {name}", area.process) }
}

#[cfg(test)]
mod tests {
    use perforate_records::{AdviceEvidence, AdviceVerdict};

    use super::*;
    use crate::advice::sentence::{evidence, verdict};

    fn record(kind: EvidenceKind, ranking: Vec<RankedMemory>) -> AdviceRecord {
        let evidence = AdviceEvidence { kind, description: "what was seen".into() };
        AdviceRecord {
            verdict: AdviceVerdict::Ranking,
            evidence,
            ranking,
            ..AdviceRecord::default()
        }
    }

    fn area(name: &str, is_candidate: bool) -> RankedMemory {
        let (kind, start) = ("anonymous".into(), "0x7f00".into());
        RankedMemory {
            name: name.into(),
            kind,
            start,
            bytes: 64 << 20,
            is_candidate,
            ..RankedMemory::default()
        }
    }

    #[test]
    fn samples_rank_by_misses_and_accessed_bits_by_use() {
        let sampled = |name, misses| RankedMemory {
            samples: Some(100),
            misses: Some(misses),
            ..area(name, true)
        };
        let of_samples =
            record(EvidenceKind::Samples, vec![sampled("[heap]", 30), sampled("", 10)]);
        assert!(
            verdict(&of_samples)
                .starts_with("Look at [heap] first: 75.0 % of the sampled TLB misses. ")
        );
        assert!(evidence(&of_samples).ends_with("other pages save."));
        let table = text(&of_samples, 80);
        assert!(table.contains("anon 7f00") && table.contains("TLB misses"), "{table}");
        let used = RankedMemory {
            accessed_bytes: vec![16 << 20, 48 << 20],
            resident_bytes: Some(64 << 20),
            ..area("[heap]", true)
        };
        let file = RankedMemory { accessed_bytes: vec![4096], ..area("/lib/a.so", false) };
        let of_bits = record(EvidenceKind::AccessedBits, vec![file, used]);
        let sentence = verdict(&of_bits);
        assert!(
            sentence.starts_with("Look at [heap] first: 50.0 % of its 64.0 MB in use a round. ")
        );
        let table = text(&of_bits, 80);
        assert!(table.contains("50.0 %") && table.contains("no 2MB pages"), "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
        assert!(page(&of_bits).0.contains("a.so"));
    }

    #[test]
    fn memory_that_cannot_be_large_is_not_named_first() {
        let small = record(EvidenceKind::AccessedBits, vec![area("/lib/a.so", false)]);
        assert!(verdict(&small).starts_with("No memory in use can have 2MB pages. A ranking"));
        let none = record(EvidenceKind::Samples, Vec::new());
        assert_eq!(verdict(&none), "A ranking of memory, no speed-up: this evidence has no time.");
        assert!(text(&none, 80).is_empty() && page(&none).0.is_empty());
    }
}
