//! Counters: their labels and places in reports and charts, and the values that are recorded.

use std::fmt::Write;

use perforate_kept as kept;
use perforate_mmu::{L2Contents, MmuCounters};
use perforate_types::{Counters, Purpose};

/// A chart shows a counter by the name of its part, a table by its label. Both must have the same
/// name.
#[test]
fn a_purpose_has_one_name_in_charts_and_tables() {
    let mut parts = 0;
    for counter in perforate_mmu::counters() {
        let Some(part) = &counter.part else { continue };
        if ["walk_references", "bitmap_references"].contains(&part.whole) {
            assert_eq!(counter.label, format!("{} references", part.label));
            parts += 1;
        }
    }
    assert_eq!(parts, 16);
}

/// Every counter with its label, unit, tables and chart, in the order of reports, as in a file.
#[test]
fn labels_tables_and_charts_of_counters_are_those_of_the_file() {
    let mut lines = String::new();
    for counter in perforate_mmu::counters() {
        let unit = counter.unit.name();
        let (id, label, group) = (counter.id, counter.label, counter.group);
        write!(lines, "{id}: {label}, {unit}, {group}, {:?}", counter.prominence).unwrap();
        if let Some(part) = counter.part {
            let (whole, key, label, colour) = (part.whole, part.key, part.label, part.colour);
            write!(lines, "; in {whole}: {key}, {label}, {colour}").unwrap();
        }
        writeln!(lines, "; {}", counter.meaning).unwrap();
    }
    kept::compare(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/kept-counters.txt"), &lines);
}

/// Counts that are all different, in an interval of 2,000 instructions. Reads have powers of two, so that
/// each sum shows what it contains.
#[test]
fn every_count_is_recorded_under_its_own_name() {
    let references: [u64; Purpose::COUNT] = std::array::from_fn(|purpose| 1 << purpose);
    let counters = MmuCounters {
        l1_accesses: 1001,
        l1_misses: 102,
        l1_instruction_accesses: 1003,
        l1_instruction_misses: 104,
        l2_accesses: 205,
        l2_misses: 64,
        l2_compulsory_misses: 16,
        l2_first_misses: 32,
        coalesced_fills: 307,
        coalesced_pages: 308,
        walks: 8,
        references,
        bitmap_filtered: 409,
        bitmap_hits: 410,
        bitmap_misses: 511,
        bitmap_updates: 412,
        holes_translated: 413,
        intermediate_hits: 414,
        generated: 415,
        beside_translations: 416,
        background_references: 417,
        segment_checks: 418,
        segment_checks_in_walks: 24,
        gap_tolerant_translations: 420,
        walk_cache_gap_tolerant_hits: 421,
        padding_references: 422,
    };
    let bits = |purposes: &[Purpose]| {
        purposes.iter().map(|&purpose| references[purpose as usize]).sum::<u64>()
    };
    let all = references.iter().sum::<u64>();
    let (first_of_host, bitmap) = (Purpose::HostPage as u64, references[Purpose::Bitmap as usize]);
    let guest = (1 << first_of_host) - 1 - bitmap;
    let host = all - bitmap - guest - references[Purpose::HostBitmap as usize];
    assert_eq!(counters.table_references(), guest + host);
    let mut out = Counters::default();
    counters.record(2000, &mut out);
    let ratio = |count: u64| count as f64 / 8.0;
    for (id, expected) in [
        ("l1_tlb_accesses", 1001.0),
        ("l1_tlb_misses", 102.0),
        ("l1_tlb_mpki", 51.0),
        ("l1_instruction_tlb_accesses", 1003.0),
        ("l1_instruction_tlb_misses", 104.0),
        ("l2_tlb_accesses", 205.0),
        ("l2_tlb_misses", 64.0),
        ("l2_tlb_mpki", 32.0),
        ("l2_tlb_compulsory_misses", 16.0),
        ("l2_tlb_compulsory_share", 0.25),
        ("l2_tlb_first_misses", 32.0),
        ("l2_tlb_coalesced_fills", 307.0),
        ("l2_tlb_coalesced_pages", 308.0),
        ("walks", 8.0),
        ("walks_per_kilo_instruction", 4.0),
        ("references_per_walk", ratio(guest + host)),
        ("memory_accesses_per_walk", ratio(all)),
        ("guest_references_per_walk", ratio(guest)),
        ("host_references_per_walk", ratio(host)),
        ("segment_checks", 418.0),
        ("segment_checks_per_walk", 3.0),
        ("bitmap_lookups", 921.0),
        ("bitmap_filtered", 409.0),
        ("bitmap_hits", 410.0),
        ("bitmap_misses", 511.0),
        ("bitmap_updates", 412.0),
        ("holes_translated", 413.0),
        ("intermediate_hits", 414.0),
        ("translations_generated", 415.0),
        ("gap_tolerant_translations", 420.0),
        ("walk_cache_gap_tolerant_hits", 421.0),
        ("padding_references", 422.0),
        ("walk_references_level5", bits(&[Purpose::Level5]) as f64),
        ("walk_references_level4", bits(&[Purpose::Level4]) as f64),
        ("walk_references_level3", bits(&[Purpose::Level3]) as f64),
        ("walk_references_level2", bits(&[Purpose::Level2]) as f64),
        ("walk_references_level1", bits(&[Purpose::Level1]) as f64),
        ("walk_references_shadow", bits(&[Purpose::Shadow]) as f64),
        ("walk_references_hole", bits(&[Purpose::Hole]) as f64),
        ("walk_references_host_level5", bits(&[Purpose::HostLevel5]) as f64),
        ("walk_references_host_level4", bits(&[Purpose::HostLevel4]) as f64),
        ("walk_references_host_level3", bits(&[Purpose::HostLevel3]) as f64),
        ("walk_references_host_level2", bits(&[Purpose::HostLevel2]) as f64),
        ("walk_references_host_level1", bits(&[Purpose::HostLevel1]) as f64),
        ("walk_references_host_shadow", bits(&[Purpose::HostShadow]) as f64),
        ("walk_references_host_hole", bits(&[Purpose::HostHole]) as f64),
        ("bitmap_references", bits(&[Purpose::Bitmap]) as f64),
        ("host_bitmap_references", bits(&[Purpose::HostBitmap]) as f64),
    ] {
        assert_eq!(out.get(id), Some(expected), "{id}");
    }
    assert_eq!(out.iter().count(), 48);
    // All counters are described, with those of the second-level TLB's contents.
    L2Contents::record(&[], &mut out);
    let mut described: Vec<_> = perforate_mmu::counters().into_iter().map(|it| it.id).collect();
    described.sort_unstable();
    assert!(out.iter().map(|(id, _)| id).eq(described.iter().map(|id| &**id)));
    assert_eq!(out.get("l2_tlb_entries_2m"), Some(0.0), "without samples");
}

#[test]
fn contents_are_added_and_averaged_by_kind() {
    let first = L2Contents {
        empty: 1,
        page_4k: 20,
        page_2m: 300,
        page_1g: 4000,
        perforated: 5,
        hole: 60,
        bitmap: 700,
        coalesced: 8000,
        intermediate: 9,
        nested: 11,
    };
    let mut sum = first;
    sum += L2Contents { empty: 2, nested: 1, ..first };
    let kinds = [
        ("empty", 3),
        ("page_4k", 40),
        ("page_2m", 600),
        ("page_1g", 8000),
        ("perforated", 10),
        ("hole", 120),
        ("bitmap", 1400),
        ("coalesced", 16_000),
        ("intermediate", 18),
        ("nested", 12),
    ];
    assert_eq!(sum.by_kind(), kinds);
    let mut out = Counters::default();
    L2Contents::record(&[sum, L2Contents::default()], &mut out);
    for (kind, entries) in kinds {
        let id = format!("l2_tlb_entries_{}", kind.strip_prefix("page_").unwrap_or(kind));
        assert_eq!(out.get(&id), Some(entries as f64 / 2.0), "{id}");
    }
}
