//! Names in results and what they are called in the report.

use std::collections::BTreeSet;

use crate::chart::Series;
use crate::palette;

/// A named part of a stack: name in the results, label, colour.
pub(crate) type Part = (&'static str, &'static str, &'static str);

/// Kinds of second-level TLB entries, bottom of the stack first.
pub(crate) const ENTRY_KINDS: &[Part] = &[
    ("perforated", "perforated", "perforated"),
    ("page_1g", "1GB page", "page-1g"),
    ("page_2m", "2MB page", "page-2m"),
    ("page_4k", "4KB page", "page-4k"),
    ("coalesced", "run of 4KB pages", "coalesced"),
    ("hole", "hole (4KB)", "hole"),
    ("bitmap", "hole bitmap", "bitmap"),
    ("nested", "guest-physical", "nested-tlb"),
    ("empty", "empty", "empty"),
];

/// Page-table levels a walk reads (`walk_references_…`).
pub(crate) const WALK_LEVELS: &[Part] = &[
    ("level4", "level 4", "level4"),
    ("level3", "level 3", "level3"),
    ("level2", "level 2", "level2"),
    ("level1", "level 1", "level1"),
    ("shadow", "shadow", "shadow"),
    ("hole", "hole", "hole"),
    ("host_level4", "host level 4", "host-level4"),
    ("host_level3", "host level 3", "host-level3"),
    ("host_level2", "host level 2", "host-level2"),
    ("host_level1", "host level 1", "host-level1"),
    ("host_shadow", "host shadow", "host-shadow"),
    ("host_hole", "host hole", "host-hole"),
];

/// Lines of hole bitmaps that walkers read.
pub(crate) const BITMAP_REFERENCES: &[Part] = &[
    ("bitmap_references", "bitmap", "bitmap"),
    ("host_bitmap_references", "host bitmap", "host-bitmap"),
];

/// Where translation cycles go (`translation_cycles_…`).
pub(crate) const CYCLE_PARTS: &[Part] = &[
    ("l2_tlb", "L2 TLB", "tlb"),
    ("walk_cache", "walk cache", "walk-cache"),
    ("walk_level4", "level 4", "level4"),
    ("walk_level3", "level 3", "level3"),
    ("walk_level2", "level 2", "level2"),
    ("walk_level1", "level 1", "level1"),
    ("bitmap_lookup", "bitmap look-up", "bitmap-lookup"),
    ("bitmap_read", "bitmap read", "bitmap"),
    ("shadow", "shadow", "shadow"),
    ("hole", "hole", "hole"),
    ("segment_check", "segment check", "segment"),
    ("selection", "B-block selection", "selection"),
    ("nested_tlb", "nested TLB", "nested-tlb"),
    ("host_walk_level4", "host level 4", "host-level4"),
    ("host_walk_level3", "host level 3", "host-level3"),
    ("host_walk_level2", "host level 2", "host-level2"),
    ("host_walk_level1", "host level 1", "host-level1"),
    ("host_bitmap_read", "host bitmap read", "host-bitmap"),
    ("host_shadow", "host shadow", "host-shadow"),
    ("host_hole", "host hole", "host-hole"),
    ("walker_queue", "waiting for a walker", "queue"),
    ("fill_wait", "waiting for a fill", "wait"),
];

/// What the operating system's work is (`operating_system_cycles_…`).
pub(crate) const WORK_PARTS: &[Part] = &[
    ("faults", "faults", "level1"),
    ("zeroing", "clearing", "level2"),
    ("copying", "copying", "level3"),
    ("mapping", "page tables", "level4"),
    ("shootdowns", "shootdowns", "hole"),
    ("scanning", "scanning", "queue"),
    ("migration", "migration", "wait"),
    ("swapping", "swapping", "bitmap"),
    ("context_switches", "context switches", "tlb"),
    ("vm_exits", "exits of the VM", "host-level1"),
    ("host", "the host's kernel", "host-level2"),
];

/// Classes of 2MB blocks in memory maps.
pub(crate) const BLOCK_CLASSES: &[Part] = &[
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

/// Memory that a program has touched, and what is mapped or missing beyond it.
pub(crate) const MEMORY_PARTS: &[Part] = &[
    ("touched", "touched", "touched"),
    ("untouched", "mapped, not touched", "untouched"),
    ("gone", "touched, swapped out or unmapped", "mixed"),
];

/// Memory that translation takes, by counter.
pub(crate) const TABLE_PARTS: &[Part] = &[
    ("page_table_bytes", "page tables", "level1"),
    ("hole_bitmap_bytes", "hole bitmap", "bitmap"),
];

/// A part as a series of a chart.
pub(crate) fn part(&(key, label, colour): &Part) -> Series {
    Series { key: key.into(), label: label.into(), colour, ..Series::default() }
}

/// The parts in their order, then every other name in `present`, each with a label and a colour.
pub(crate) fn with_unknown(parts: &[Part], present: &BTreeSet<String>) -> Vec<Series> {
    let known = parts.iter().filter(|part| present.contains(part.0)).map(part);
    let unknown = present
        .iter()
        .filter(|name| !parts.iter().any(|part| part.0 == name.as_str()))
        .enumerate()
        .map(|(index, name)| Series {
            key: name.clone(),
            label: name.replace('_', " "),
            colour: palette::extra(index),
            ..Series::default()
        });
    known.chain(unknown).collect()
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
