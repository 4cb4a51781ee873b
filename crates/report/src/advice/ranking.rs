//! Rankings of memory from evidence without a trace: the first sentence, and the table.

use maud::{Markup, html};
use perforate_records::{AdviceRecord, EvidenceKind, RankedMemory};

use super::name_of;
use crate::format::{MISSING, bytes, compact, counted, percent};
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

/// Least number of samples, of TLB misses where samples tell them, that rank memory: a share of 100 samples is off by
/// at most 10 percentage points (95 %).
const LEAST_SAMPLES: u64 = 100;
/// Least memory in use a round that larger pages help, in bytes: second-level TLBs hold its 512 pages of
/// 4KB.
const LEAST_USED: f64 = (2 << 20) as f64;

/// Returns the sentence on the area to look at first, or on the reason for naming none, with a space behind it.
pub(super) fn first(record: &AdviceRecord) -> String {
    let misses = sum(record, |area| area.misses);
    let samples = sum(record, |area| area.samples);
    let is_promising = |area: &&RankedMemory| {
        let is_missed = misses.is_none() || area.misses > Some(0);
        let is_used = area.mean_accessed_bytes().is_none_or(|used| used >= LEAST_USED);
        area.is_candidate && is_missed && is_used
    };
    let reason = match (too_few(misses, samples), record.ranking.iter().find(is_promising)) {
        (None, Some(area)) => {
            return format!(
                "Look at {} first: {}. ",
                area_name(area, record),
                share_of(area, misses, samples)
            );
        }
        (Some(reason), _) => reason,
        _ if record.ranking.is_empty() => "no memory was in use".into(),
        _ if !record.ranking.iter().any(|area| area.is_candidate) => {
            "no memory in use can have 2MB pages".into()
        }
        _ if misses.is_some() => "no memory that can have 2MB pages missed the TLB".into(),
        _ => format!(
            "no memory that can have 2MB pages has {} in use a round, and TLBs hold less than that",
            bytes(LEAST_USED)
        ),
    };
    format!("Nothing to look at: {reason}. ")
}

/// Share of the evidence that an area has, as a clause.
fn share_of(area: &RankedMemory, misses: Option<u64>, samples: Option<u64>) -> String {
    let share = |part: u64, whole: u64| percent(part as f64 / whole.max(1) as f64);
    match (area.misses.zip(misses), area.samples.zip(samples)) {
        (Some((misses, all)), _) => format!("{} of the sampled TLB misses", share(misses, all)),
        (None, Some((samples, all))) => format!("{} of the samples", share(samples, all)),
        (None, None) => {
            let used = used_share(area).map_or(MISSING.into(), percent);
            format!("{used} of its {} in use a round", bytes(area.bytes as f64))
        }
    }
}

/// Sum of a figure over all ranked memory; `None` if no memory has the figure.
fn sum(record: &AdviceRecord, of: fn(&RankedMemory) -> Option<u64>) -> Option<u64> {
    record.ranking.iter().filter_map(of).reduce(|sum, figure| sum + figure)
}

/// Reason for which samples rank nothing, as a clause; `None` if there are enough.
fn too_few(misses: Option<u64>, samples: Option<u64>) -> Option<String> {
    match (misses, samples) {
        (Some(0), Some(all)) => Some(format!("no miss of the TLB in {}", counted(all, "sample"))),
        (Some(misses), _) if misses < LEAST_SAMPLES => Some(format!(
            "{} missed the TLB, and a ranking needs {LEAST_SAMPLES}",
            counted(misses, "sample")
        )),
        (None, Some(all)) if all < LEAST_SAMPLES => {
            Some(format!("{}, and a ranking needs {LEAST_SAMPLES}", counted(all, "sample")))
        }
        _ => None,
    }
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
    let figures = columns_of(record);
    let headings = figures.iter().map(|column| column.0);
    let head = ["area"].into_iter().chain(headings).chain(["can have 2MB pages"]);
    let row = |area: &RankedMemory| {
        let figures = figures.iter().map(|(_, value, format)| Cell::value(value(area), *format));
        let can = Cell::text(if area.is_candidate { "yes" } else { "no" });
        let name = Cell::text(&area_name(area, record));
        [name].into_iter().chain(figures).chain([can]).collect()
    };
    let rows = record.ranking.iter().map(row).collect();
    let table = Grid { head: head.map(Heading::from).collect(), rows };
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
        let description = "what was seen".into();
        let evidence = AdviceEvidence { kind, description, ..AdviceEvidence::default() };
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
            record(EvidenceKind::Samples, vec![sampled("[heap]", 75), sampled("", 25)]);
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
        assert!(
            verdict(&small)
                .starts_with("Nothing to look at: no memory in use can have 2MB pages. A ranking")
        );
        let none = record(EvidenceKind::Samples, Vec::new());
        assert!(verdict(&none).starts_with("Nothing to look at: no memory was in use. A ranking"));
        assert!(text(&none, 80).is_empty() && page(&none).0.is_empty());
    }

    #[test]
    fn too_few_samples_name_no_memory() {
        let found = |samples: u64, misses: Option<u64>| {
            let area = RankedMemory { samples: Some(samples), misses, ..area("[heap]", true) };
            verdict(&record(EvidenceKind::Samples, vec![area]))
        };
        for (samples, misses, expected) in [
            (1, Some(0), "no miss of the TLB in 1 sample. "),
            (5000, Some(0), "no miss of the TLB in 5,000 samples. "),
            (5000, Some(1), "1 sample missed the TLB, and a ranking needs 100. "),
            (5000, Some(99), "99 samples missed the TLB, and a ranking needs 100. "),
            (99, None, "99 samples, and a ranking needs 100. "),
        ] {
            let sentence = found(samples, misses);
            assert!(sentence.starts_with(&format!("Nothing to look at: {expected}")), "{sentence}");
        }
        assert!(found(5000, Some(100)).starts_with("Look at [heap] first: 100.0 %"));
        assert!(found(100, None).starts_with("Look at [heap] first: 100.0 % of the samples"));
        let file =
            RankedMemory { misses: Some(500), samples: Some(500), ..area("/lib/a.so", false) };
        let heap = RankedMemory { misses: Some(0), samples: Some(90), ..area("[heap]", true) };
        let sentence = verdict(&record(EvidenceKind::Samples, vec![file, heap]));
        let expected = "Nothing to look at: no memory that can have 2MB pages missed the TLB. ";
        assert!(sentence.starts_with(expected), "{sentence}");
    }

    #[test]
    fn memory_that_is_hardly_used_is_not_named_first() {
        let used = |name, pages: u64| RankedMemory {
            accessed_bytes: vec![pages * 4096],
            ..area(name, true)
        };
        let found = |areas| verdict(&record(EvidenceKind::AccessedBits, areas));
        let sentence = found(vec![used("[heap]", 511)]);
        let expected = "Nothing to look at: no memory that can have 2MB pages has 2.00 MB in use";
        assert!(sentence.starts_with(expected), "{sentence}");
        let sentence = found(vec![used("small", 511), used("[heap]", 512)]);
        assert!(sentence.starts_with("Look at [heap] first: 3.1 %"), "{sentence}");
    }
}
