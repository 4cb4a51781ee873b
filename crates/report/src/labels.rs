//! Labels for names in the results, and the glossary of the report.

use std::collections::BTreeSet;

use perforate_records::{RunResult, Vocabulary};
use perforate_types::{self as counters, Counter, spaced};

use crate::chart::Series;
use crate::palette;

/// A component of a stacked chart: its name in the results, its label, and its colour in the palette.
pub(crate) type Part = (&'static str, &'static str, &'static str);

/// Classes of 2MB blocks in memory maps: name, label and colour; on a terminal, a letter and its meaning.
pub(crate) const BLOCK_CLASSES: [(Part, char, &str); 14] = [
    (("free", "free", "empty"), '.', "free"),
    (("partly_free", "partly free", "partly-free"), ':', "partly free, nothing stays"),
    (("movable", "4KB pages", "page-4k"), 'm', "4KB pages"),
    (("page_cache", "page cache", "page-cache"), 'c', "page cache"),
    (("reclaimable", "reclaimable", "reclaimable"), 's', "slab"),
    (("mixed", "mixed", "mixed"), 'x', "mixed"),
    (("unmovable", "unmovable", "unmovable"), '#', "unmovable"),
    (("retired", "retired", "retired"), '!', "retired"),
    (("absent", "no memory", "absent"), ' ', "no memory"),
    (("segment", "direct segment", "tlb"), 'S', "segment"),
    (("huge", "1GB page", "page-1g"), 'G', "hugetlbfs"),
    (("superpage", "superpage", "gt-pde-2m"), 'P', "superpage"),
    (("large", "2MB page", "page-2m"), 'L', "2MB page"),
    (("perforated", "perforated", "perforated"), 'p', "perforated"),
];

/// Returns the classes of 2MB blocks as the series of a chart.
pub(crate) fn block_classes() -> Vec<Series> {
    BLOCK_CLASSES.iter().map(|(class, ..)| part(class)).collect()
}

/// Components of a program's memory: touched memory, memory that is mapped but untouched, and memory that is
/// no longer mapped.
pub(crate) const MEMORY_PARTS: &[Part] = &[
    ("touched", "touched", "touched"),
    ("untouched", "mapped, not touched", "untouched"),
    ("gone", "touched, swapped out or unmapped", "mixed"),
];

/// Returns the series of a chart for a component of a stack.
pub(crate) fn part(&(key, label, colour): &Part) -> Series {
    Series { key: key.into(), label: label.into(), colour, ..Series::default() }
}

/// Returns the series for the registered components of the total `whole`. Their keys are the components'
/// names within the total.
pub(crate) fn parts(vocabulary: &Vocabulary, whole: &str) -> Vec<Series> {
    series_of(vocabulary, whole, |_, part| part.key.to_string())
}

/// Returns the series for the registered components of the total `whole`. Their keys are the counters' names.
pub(crate) fn counter_parts(vocabulary: &Vocabulary, whole: &str) -> Vec<Series> {
    series_of(vocabulary, whole, |counter, _| counter.id.to_string())
}

/// Returns the series for the components of the total `whole`: registered components that are above 0 in any
/// of these runs, then unregistered ones.
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

/// Returns the series in `known` whose keys are in `present` (keys found in the runs), and a new series with
/// a label and a colour for every other key in `present`.
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

/// Returns the terms of the report with their definitions, for the glossary at the end of the page.
pub(crate) fn glossary() -> impl Iterator<Item = (&'static str, &'static str)> {
    include_str!("glossary.txt").lines().filter_map(|line| line.split_once(": "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_of_blocks_has_a_colour_of_its_own() {
        let colours: std::collections::BTreeSet<_> =
            BLOCK_CLASSES.iter().map(|(class, ..)| class.2).collect();
        assert_eq!(colours.len(), BLOCK_CLASSES.len());
    }

    #[test]
    fn parts_that_no_run_has_are_not_in_the_legend() {
        let vocabulary = crate::ids::tests::vocabulary();
        let whole = crate::ids::STACK_CYCLES;
        let parts = ["one", "two", "three"].map(|part| format!("{whole}_{part}"));
        let run = |values: [u64; 3]| {
            let counters = parts.iter().zip(values).map(|(id, value)| format!("\"{id}\":{value}"));
            let counters = counters.collect::<Vec<_>>().join(",");
            let run = format!(r#"{{"scheme":"4k","workload":"w","counters":{{{counters}}}}}"#);
            perforate_records::read_results(&run).unwrap().remove(0)
        };
        let present = |runs: &[RunResult]| present_parts(&vocabulary, whole, runs.iter()).len();
        assert_eq!(present(&[run([0, 5, 0])]), 1);
        assert_eq!(present(&[run([0, 5, 0]), run([3, 5, 0])]), 2);
        assert_eq!(present(&[run([0, 0, 0])]), 0);
    }
}
