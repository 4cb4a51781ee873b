//! Pages of a running program by area.

use std::ops::Range;

use perforate_record::process_memory::read_text;
use perforate_records::AreaPages;

use super::area::{AdvisedArea, AreaPart};
use super::preload::Report;
use crate::proc::{MappedArea, parse_areas};

/// Maximum number of processes whose memory is added up.
const MAX_PROCESSES: usize = 256;

/// Memory that is in no area with advice, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Heap,
    Anonymous,
    Stack,
    Shared,
    Files,
}

impl Rest {
    const ALL: [(Self, &str); 5] = [
        (Self::Heap, "heap, the rest"),
        (Self::Anonymous, "anonymous, the rest"),
        (Self::Stack, "stack"),
        (Self::Shared, "shared, the rest"),
        (Self::Files, "files"),
    ];

    fn of(area: &MappedArea) -> Self {
        let name = area.mapping.name.as_str();
        match name {
            "[heap]" => Self::Heap,
            _ if name.starts_with("[stack") => Self::Stack,
            _ if area.mapping.permissions.ends_with('s') && area.is_memory() => Self::Shared,
            _ if area.is_memory() => Self::Anonymous,
            _ => Self::Files,
        }
    }
}

/// Names of all areas of a sample: those with advice, then the rest by kind.
pub(super) fn names(advice: &[AdvisedArea]) -> Vec<(String, bool)> {
    let advised = advice.iter().map(|area| (area.to_string(), true));
    advised.chain(Rest::ALL.map(|(_, name)| (name.to_owned(), false))).collect()
}

/// Adds up the pages of a process and of its descendants, by area in the order of [`names`].
pub(super) fn pages(process: u32, advice: &[AdvisedArea], report: &Report) -> Vec<AreaPages> {
    let mut sums = vec![AreaPages::default(); advice.len() + Rest::ALL.len()];
    for (number, process) in descendants(process).into_iter().enumerate() {
        let text = read_text(format!("/proc/{process}/smaps")).unwrap_or_default();
        // Addresses are those of the first process.
        let none = Report::default();
        add(&text, advice, if number == 0 { report } else { &none }, &mut sums);
    }
    sums
}

/// A process and its descendants.
fn descendants(process: u32) -> Vec<u32> {
    let mut all = vec![process];
    let mut next = 0;
    while let Some(&process) = all.get(next).filter(|_| all.len() < MAX_PROCESSES) {
        next += 1;
        let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { continue };
        for thread in threads.flatten() {
            let children = read_text(thread.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
        }
    }
    all
}

/// Adds the mappings in the text of `smaps`.
fn add(text: &str, advice: &[AdvisedArea], report: &Report, sums: &mut [AreaPages]) {
    let ranges: Vec<Vec<Range<u64>>> = advice
        .iter()
        .enumerate()
        .map(|(number, area)| match report.addresses.get(number) {
            Some(Some(addresses)) => area.within(addresses),
            _ => Vec::new(),
        })
        .collect();
    for area in parse_areas(text).0 {
        let mut left =
            AreaPages { resident_bytes: area.resident_bytes, large_bytes: area.large_bytes };
        let mut take = |index: usize, bytes: u64| {
            let resident_bytes = left.resident_bytes.min(bytes);
            let large_bytes = left.large_bytes.min(bytes);
            sums[index].resident_bytes += resident_bytes;
            sums[index].large_bytes += large_bytes;
            left.resident_bytes -= resident_bytes;
            left.large_bytes -= large_bytes;
        };
        let mapping = &area.mapping.range;
        for (index, ranges) in ranges.iter().enumerate() {
            let overlap = |range: &Range<u64>| {
                range.end.min(mapping.end).saturating_sub(range.start.max(mapping.start))
            };
            // A mapping lies in an area or outside of it after advice; without, it may be in part.
            take(index, ranges.iter().map(overlap).sum());
        }
        let rest = Rest::of(&area);
        let kind = advice.iter().position(|advised| match &advised.part {
            AreaPart::Anonymous => rest == Rest::Anonymous,
            AreaPart::Named(name) => area.mapping.name == format!("[anon:{name}]"),
            AreaPart::Text(path) => area.mapping.name.ends_with(path.as_str()),
            // Other processes than the first have areas of their own.
            AreaPart::Heap if report.addresses.is_empty() => rest == Rest::Heap,
            _ => false,
        });
        let place = Rest::ALL.iter().position(|(own, _)| *own == rest).unwrap_or_default();
        take(kind.unwrap_or(advice.len() + place), u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
400000-401000 r-xp 0 00:00 9 /bin/x\nRss: 4 kB\n\
10000000-10400000 rw-p 0 00:00 0 [heap]\nRss: 4096 kB\nAnonHugePages: 2048 kB\n\
7f0000000000-7f0000400000 rw-p 0 00:00 0\nRss: 4096 kB\nAnonHugePages: 4096 kB\n\
7f1000000000-7f1000200000 rw-p 0 00:00 0\nRss: 2048 kB\nAnonHugePages: 0 kB\n\
7f2000000000-7f2000200000 rw-s 0 00:01 7 /dev/zero (deleted)\nRss: 2048 kB\nShmemPmdMapped: 2048 kB\n\
7ff000000000-7ff000021000 rw-p 0 00:00 0 [stack]\nRss: 8 kB\n";

    fn found(advice: &[&str], addresses: Vec<Option<Range<u64>>>) -> Vec<(String, u64, u64)> {
        let advice: Vec<AdvisedArea> = advice.iter().map(|text| text.parse().unwrap()).collect();
        let names = names(&advice);
        let mut sums = vec![AreaPages::default(); names.len()];
        add(TEXT, &advice, &Report { addresses, ..Report::default() }, &mut sums);
        let pages = sums.iter().map(|pages| (pages.resident_bytes >> 10, pages.large_bytes >> 10));
        let all = names.into_iter().zip(pages).map(|((name, _), pages)| (name, pages.0, pages.1));
        all.filter(|(_, resident, _)| *resident > 0).collect()
    }

    fn expected(rows: &[(&str, u64, u64)]) -> Vec<(String, u64, u64)> {
        rows.iter().map(|(name, resident, large)| ((*name).to_owned(), *resident, *large)).collect()
    }

    #[test]
    fn areas_with_addresses_come_first() {
        let heap = Some(0x1000_0000..0x1040_0000);
        let mapping = Some(0x7f00_0000_0000..0x7f00_0040_0000);
        let rows = found(&["heap", "mapping0:0-2M"], vec![heap, mapping]);
        let wanted = expected(&[
            ("heap", 4096, 2048),
            ("mapping0:0-2M", 2048, 2048),
            ("anonymous, the rest", 4096, 2048),
            ("stack", 8, 0),
            ("shared, the rest", 2048, 2048),
            ("files", 4, 0),
        ]);
        assert_eq!(rows, wanted);
    }

    #[test]
    fn areas_without_addresses_are_found_by_kind_and_name() {
        let rows = found(&["anonymous", "text=/x"], vec![None, None]);
        let wanted = expected(&[
            ("anonymous", 6144, 4096),
            ("text=/x", 4, 0),
            ("heap, the rest", 4096, 2048),
            ("stack", 8, 0),
            ("shared, the rest", 2048, 2048),
        ]);
        assert_eq!(rows, wanted);
    }
}
