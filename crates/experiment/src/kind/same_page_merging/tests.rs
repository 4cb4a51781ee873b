//! Tests with small heaps, in which every translation is compared with the oracle. Results are compared with
//! those expected from the contents.

use super::*;
use crate::kind::tests::{check, measure, settings};

/// Settings with two heaps of 64MB and few reads; translations are compared with the oracle.
fn small(more: &[(&str, &str)]) -> Settings {
    let mut all = settings(&[
        ("readers.heap", "64M"),
        ("memory", "512M"),
        ("readers.reads", "20k"),
        ("readers.warmup", "5k"),
        ("readers.slice", "1k"),
        ("check", "true"),
    ]);
    all.0.extend(settings(more).0);
    all
}

/// About half of the 32,768 pages are zero. They fill whole 2MB regions, and merging leaves one frame of
/// zeros.
#[test]
fn zero_pages_in_half_of_the_regions() {
    let settings = small(&[("contents", "zero=50%,regions=50%,run=512")]);
    for (subject, broken, perforated) in [("4k", 0.0, 0.0), ("thp", 1.0, 0.0)] {
        let figures = measure::<SamePageMerging>(&settings, subject, 3);
        let zero_pages = figures["pages_merged"];
        // Regions of zeros are chosen at random: 64 regions with probability ½ each.
        assert!((18.0 * 512.0..46.0 * 512.0).contains(&zero_pages), "{zero_pages}");
        assert_eq!(figures["memory_bytes"], f64::from(128 << 20));
        let saved = figures["free_bytes_after"] - figures["free_bytes_before"];
        let tables = figures["page_table_bytes_after"] - figures["page_table_bytes_before"];
        // All merged pages except the one that is left, less page tables for the large pages that were split.
        let frames = (saved + tables) / 4096.0;
        assert!((zero_pages - 2.0..=zero_pages).contains(&frames), "{frames} of {zero_pages}");
        assert_eq!(figures["large_pages_broken"] > 0.0, broken > 0.0, "{subject}");
        assert_eq!(figures["perforated_pages_after"] > 0.0, perforated > 0.0, "{subject}");
    }
}

/// Conventional large pages are split where perforated pages get holes; both save the same memory.
#[test]
fn perforated_pages_are_punched_where_others_break() {
    let settings = small(&[]);
    let (large, perforated) = (
        measure::<SamePageMerging>(&settings, "thp", 1),
        measure::<SamePageMerging>(&settings, "perforated", 1),
    );
    assert_eq!(large["pages_merged"], perforated["pages_merged"]);
    assert!(large["pages_merged"] > 0.0);
    let broken = large["large_pages_broken"];
    let share = broken / large["large_pages_before"];
    assert!((0.2..0.6).contains(&share), "40 % of the regions have equal pages: {share}");
    assert_eq!(perforated["large_pages_broken"], 0.0);
    let punched = perforated["perforated_pages_after"] - perforated["perforated_pages_before"];
    assert_eq!(punched, broken);
    for figures in [&large, &perforated] {
        for pattern in ["uniform", "skewed"] {
            let get = |figure: &str| figures[&format!("{pattern}_{figure}")];
            assert!(get("walks_after") > get("walks_before"), "{pattern}");
        }
        assert!(figures["merging_operating_system_cycles"] > 0.0);
    }
    let reads = |figures: &Measurement| figures["uniform_bitmap_reads_after"];
    assert_eq!((reads(&large), reads(&perforated)), (0.0, 37.0), "lines of the hole bitmap");
}

#[test]
fn the_same_alone_and_together() {
    let settings = small(&[("timing", "false")]);
    let subjects = ["thp".to_string(), "perforated".to_string()];
    let mut heard = Vec::new();
    let study = SamePageMerging::read(&settings).unwrap();
    let together = study.measure_all(&subjects, 2, &mut |part| heard.push(part)).unwrap();
    assert_eq!(together[0], measure::<SamePageMerging>(&settings, "thp", 2));
    assert_eq!(together[1], measure::<SamePageMerging>(&settings, "perforated", 2));
    assert_ne!(together[0], measure::<SamePageMerging>(&settings, "thp", 3));
    assert!(!together[0].contains_key("uniform_cycles_before"));
    assert!(heard.is_sorted() && heard.last() == Some(&1.0), "{heard:?}");
}

/// 16 % of 2,641,920 pages, with two pages of each content.
#[test]
fn the_pool_follows_from_the_takers() {
    let study = SamePageMerging::read(&Settings::default()).unwrap();
    assert_eq!(study.contents.distinct, 2 * 1290 * 512 * 16 / 100 / 2);
    assert_eq!(study.contents.run, 16);
    let zeros = perforate_config::read("zero=5%").unwrap();
    let none = contents(zeros, 512, 2).unwrap();
    assert_eq!((none.distinct, none.duplicate), (0, Share::NONE));
}

#[test]
fn settings_are_checked() {
    assert_eq!(check::<SamePageMerging>(&[], "perforated"), Ok(()));
    for (texts, subject, word) in [
        ([("readers.heap", "1M")], "thp", "heap"),
        ([("takers", "0")], "thp", "at least 1"),
        ([("contents", "zero=200%")], "thp", "contents"),
        ([("contents", "zero=2%,distinct=5")], "thp", "takers"),
        ([("timing", "some")], "thp", "timing"),
        ([("machine", "none")], "thp", "none"),
        ([("readers.slice", "0")], "thp", "slice"),
        ([("readers.reads", "5")], "2m", "2m"),
    ] {
        let problem = check::<SamePageMerging>(&texts, subject).unwrap_err();
        assert!(problem.contains(word) && !problem.contains('\n'), "{problem}");
    }
}
