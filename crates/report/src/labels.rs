//! Labels of names that occur in results, and the glossary.

use std::collections::BTreeSet;

use perforate_records::{RunResult, Vocabulary};
use perforate_types::{self as counters, Counter, spaced};

use crate::chart::Series;
use crate::palette;

/// A named part of a stack: name in the results, label, colour.
pub(crate) type Part = (&'static str, &'static str, &'static str);

/// Classes of 2MB blocks in memory maps.
const BLOCK_CLASSES: &[Part] = &[
    ("free", "free", "empty"),
    ("partly_free", "partly free", "partly-free"),
    ("movable", "4KB pages", "page-4k"),
    ("page_cache", "page cache", "page-cache"),
    ("reclaimable", "reclaimable", "reclaimable"),
    ("mixed", "mixed", "mixed"),
    ("unmovable", "unmovable", "unmovable"),
    ("retired", "retired", "retired"),
    ("absent", "no memory", "absent"),
    ("segment", "direct segment", "tlb"),
    ("huge", "1GB page", "page-1g"),
    ("superpage", "superpage", "gt-pde-2m"),
    ("large", "2MB page", "page-2m"),
    ("perforated", "perforated", "perforated"),
];

/// The classes of 2MB blocks as series of a chart.
pub(crate) fn block_classes() -> Vec<Series> {
    BLOCK_CLASSES.iter().map(part).collect()
}

/// Memory that a program has touched, and what is mapped or missing beyond it.
pub(crate) const MEMORY_PARTS: &[Part] = &[
    ("touched", "touched", "touched"),
    ("untouched", "mapped, not touched", "untouched"),
    ("gone", "touched, swapped out or unmapped", "mixed"),
];

/// A part as a series of a chart.
pub(crate) fn part(&(key, label, colour): &Part) -> Series {
    Series { key: key.into(), label: label.into(), colour, ..Series::default() }
}

/// The registered parts of a whole as series of a chart, by their names among the parts.
pub(crate) fn parts(vocabulary: &Vocabulary, whole: &str) -> Vec<Series> {
    series_of(vocabulary, whole, |_, part| part.key.to_string())
}

/// The registered parts of a whole as series of a chart, keyed by counter name.
pub(crate) fn counter_parts(vocabulary: &Vocabulary, whole: &str) -> Vec<Series> {
    series_of(vocabulary, whole, |counter, _| counter.id.to_string())
}

/// Series of a whole: registered parts that are above 0 in any of these runs, then unregistered ones.
pub(crate) fn present_parts<'a>(
    vocabulary: &Vocabulary,
    whole: &str,
    runs: impl Iterator<Item = &'a RunResult>,
) -> Vec<Series> {
    let mut present = BTreeSet::new();
    for run in runs {
        let parts = vocabulary.parts_in(whole, &run.counters);
        let above_0 = parts.filter(|name| run.counter(name).is_some_and(|value| value > 0.0));
        present.extend(above_0.map(str::to_owned));
    }
    let mut series = with_unknown(counter_parts(vocabulary, whole), &present);
    for one in series.iter_mut().filter(|one| vocabulary.counter(&one.key).is_none()) {
        one.label = spaced(&one.key[whole.len() + 1..]);
    }
    series
}

fn series_of(
    vocabulary: &Vocabulary,
    whole: &str,
    key: impl Fn(&Counter, &counters::Part) -> String,
) -> Vec<Series> {
    let series = |(counter, part): (&Counter, &counters::Part)| Series {
        key: key(counter, part),
        label: part.label.to_string(),
        colour: palette::known(&part.colour),
        ..Series::default()
    };
    vocabulary.parts(whole).map(series).collect()
}

/// The known series that are present, then every other name in `present`, each with a label and a
/// colour.
pub(crate) fn with_unknown(known: Vec<Series>, present: &BTreeSet<String>) -> Vec<Series> {
    let is_known = |name: &String| known.iter().any(|one| one.key == *name);
    let unknown: Vec<&String> = present.iter().filter(|name| !is_known(name)).collect();
    let unknown = unknown.into_iter().enumerate().map(|(index, name)| Series {
        key: name.clone(),
        label: spaced(name),
        colour: palette::extra(index),
        ..Series::default()
    });
    let unknown: Vec<Series> = unknown.collect();
    known.into_iter().filter(|one| present.contains(&one.key)).chain(unknown).collect()
}

/// The report's words, shown at its end.
pub(crate) const GLOSSARY: &[(&str, &str)] = &[
    (
        "Base page, large page",
        "4KB and 2MB of virtual memory mapped as one piece. KB, MB and GB are powers of 1024.",
    ),
    (
        "TLB",
        "Translation look-aside buffer: caches translations. L1 is small and fast; L2 is asked when L1 misses. MPKI: misses per 1,000 instructions.",
    ),
    (
        "Page walk",
        "Reading the page table, level 4 down to level 1, when both TLBs miss. A large page needs no level 1.",
    ),
    ("Walk cache", "Keeps upper-level entries so that a walk can start further down."),
    ("Perforated page", "A 2MB mapping whose holes are mapped elsewhere, or nowhere."),
    (
        "Hole",
        "A 4KB part of a perforated page that is not at its place: allocated (in another frame) or unallocated (a touch faults).",
    ),
    (
        "Hole bitmap, filter",
        "One bit per 4KB part: hole or not. The filter has one bit per 256KB: no bit, no hole, no look-up.",
    ),
    (
        "Shadow entry",
        "Second level-2 entry of a perforated page. It leads to the level-1 entries of its holes.",
    ),
    (
        "Movable, unmovable",
        "What compaction can move elsewhere to empty a 2MB block (programs' 4KB pages), and what stays (page tables, the kernel's own data, frames of others). Mixed blocks hold both.",
    ),
    (
        "Unusable index, fragmentation index",
        "As in Linux, here for 2MB: the share of free memory that lies in smaller pieces; and, only where no 2MB can be had, whether that is for lack of memory (towards 0) or because it lies in pieces (towards 1).",
    ),
    (
        "Conventional (thp)",
        "Large pages where a whole 2MB block of memory is free, base pages elsewhere.",
    ),
    (
        "Guest, host, pair",
        "A virtual machine and what it runs on. A pair guest+host names the scheme of each; a walk of the guest's tables asks the host's where they lie.",
    ),
    (
        "Direct segment, check",
        "One range of addresses translated by adding an offset. A check compares an address with its bounds and escape filter.",
    ),
    ("Ideal", "The same run on unfragmented memory: every large page can be had."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_of_blocks_has_a_colour_of_its_own() {
        let colours: std::collections::BTreeSet<_> =
            BLOCK_CLASSES.iter().map(|class| class.2).collect();
        assert_eq!(colours.len(), BLOCK_CLASSES.len());
    }
}
