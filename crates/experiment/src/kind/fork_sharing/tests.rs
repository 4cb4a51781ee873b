//! Tests with a small heap: exact properties hold exactly, and closed forms agree within sampling error.
//! Every translation is compared with the oracle.

use perforate_workloads::ForkCase;

use super::*;
use crate::kind::tests::{check, settings};

const REGIONS: u64 = 32;
const PAGES: u64 = REGIONS * REGION_PAGES;
/// Name of a scheme, and options of its policy for perforated pages.
type Contender = (&'static str, Option<&'static str>);
const BASE: Contender = ("4k", None);
const THP: Contender = ("thp", None);
const PERFORATED: Contender = ("perforated", None);
/// Scheme that demotes pages of which more than a quarter are holes, and does not perforate blocks with more
/// holes in the first place.
const DEMOTING: Contender = ("perforated", Some("max-hole-share=25%,demote-above=25%"));

fn run(case: &str, changes: u64, reads: u64, contender: Contender, seed: u64) -> Measurement {
    let (name, perforation) = contender;
    // Share of the heap, from which the workload computes the number of changed pages.
    let written = format!("{}%", changes as f64 * 100.0 / PAGES as f64);
    let reads = reads.to_string();
    let mut texts = vec![
        ("fork.heap", "64M"),
        ("fork.case", case),
        ("fork.written", &*written),
        ("fork.reads", &*reads),
        ("check", "true"),
    ];
    texts.extend(perforation.map(|options| ("perforation", options)));
    let setup = ForkSharing::read(&settings(&texts)).unwrap();
    assert_eq!((setup.fork.regions(), setup.fork.changes()), (REGIONS, changes));
    run::run(&setup, scheme(name).unwrap(), seed)
        .unwrap_or_else(|error| panic!("{name}, {case}, {changes} changes, seed {seed}: {error}"))
}

fn small(case: &str, changes: u64, contender: Contender) -> Measurement {
    run(case, changes, 2000, contender, 1)
}

/// A fork sets one entry for each large page, or 512 for the 4KB pages, in both page tables.
#[test]
fn fork_costs_an_entry_a_page() {
    let figures = |contender| small("a", 1, contender);
    for (contender, entries) in [(BASE, PAGES), (THP, REGIONS), (PERFORATED, REGIONS)] {
        let figures = figures(contender);
        assert_eq!(figures["fork_entries_added_and_protected"], (2 * entries) as f64);
        let changed = (figures["fork_frames_copied"], figures["fork_large_pages_split"]);
        assert_eq!(changed, (0.0, 0.0));
    }
    // A root, a level-3 and a level-2 node, each with a shadow node if the scheme has shadow nodes.
    let nodes = |contender| figures(contender)["fork_table_frames_cleared"];
    assert_eq!(nodes(BASE), (3 + REGIONS) as f64);
    assert_eq!((nodes(THP), nodes(PERFORATED)), (3.0, 4.0));
}

#[test]
fn a_write_copies_its_page_and_only_thp_splits() {
    let all = (2 * REGIONS) as f64;
    for case in ["a", "b"] {
        for changes in [1, 20, 500, 4000] {
            let [base, thp, perforated] =
                [BASE, THP, PERFORATED].map(|contender| small(case, changes, contender));
            let changed = base["pages_changed"];
            for figures in [&base, &thp, &perforated] {
                assert_eq!(figures["pages_changed"], changed);
                assert_eq!(figures["changes_frames_copied"], changed, "{case} {changes}");
                assert_eq!(figures["changes_shootdown_batches"], changed);
            }
            let regions = thp["regions_changed"];
            assert_eq!(thp["changes_large_pages_split"], regions);
            assert_eq!(thp["shared_large_pages"], all - regions);
            assert_eq!(thp["shared_base_pages"], regions * REGION_PAGES as f64);
            assert_eq!(perforated["changes_large_pages_split"], 0.0);
            assert_eq!(perforated["changes_subpages_punched"], changed);
            assert_eq!(perforated["shared_holes"], changed);
            assert_eq!(perforated["shared_perforated_pages"], regions);
            assert_eq!(perforated["shared_large_pages"], all - regions);
            assert_eq!(perforated["shared_base_pages"], 0.0);
            // In addition to the heap, only copies and page tables are allocated.
            for figures in [base, thp, perforated] {
                let tables = figures["shared_page_table_bytes"];
                assert_eq!(figures["shared_beyond_heap_bytes"], tables + changed * 4096.0);
                // The server's copies replace the originals, which were freed with the child.
                let alone = figures["alone_beyond_heap_bytes"];
                assert_eq!(alone, figures["alone_page_table_bytes"]);
            }
        }
    }
}

#[test]
fn khugepaged_copies_regions_or_patches_pages() {
    let [base, thp, perforated] =
        [BASE, THP, PERFORATED].map(|contender| small("a", 500, contender));
    assert_eq!(base["khugepaged_os_cycles"], 0.0);
    let migrated = thp["regions_changed"] * REGION_PAGES as f64;
    assert_eq!(thp["khugepaged_frames_migrated"], migrated);
    assert_eq!(thp["khugepaged_frames_copied"] + thp["khugepaged_subpages_patched"], 0.0);
    let changed = perforated["pages_changed"];
    assert_eq!(perforated["khugepaged_subpages_patched"], changed);
    assert_eq!(perforated["khugepaged_frames_copied"], changed);
    assert_eq!(perforated["khugepaged_frames_migrated"], 0.0);
    for figures in [thp, perforated] {
        assert_eq!(figures["mended_large_pages"], REGIONS as f64);
        assert_eq!(figures["mended_perforated_pages"] + figures["mended_base_pages"], 0.0);
        assert_eq!(figures["mended_parent_walks_per_1000_reads"], 0.0);
    }
}

/// The child's copies are freed when it exits: the parent has its large pages, as before.
#[test]
fn the_childs_writes_leave_the_parent_whole() {
    for contender in [THP, PERFORATED, DEMOTING] {
        let figures = small("b", 500, contender);
        assert_eq!(figures["alone_large_pages"], REGIONS as f64);
        assert_eq!(figures["alone_perforated_pages"] + figures["alone_base_pages"], 0.0);
        assert_eq!(figures["shared_parent_l2_misses_per_1000_reads"], 0.0);
    }
}

/// P Fig. 1: the same memory in two address spaces, with different permissions for part of it.
#[test]
fn permissions_of_a_part_copy_nothing() {
    for changes in [1, 500] {
        let [thp, perforated] = [THP, PERFORATED].map(|contender| small("c", changes, contender));
        for figures in [&thp, &perforated] {
            assert_eq!(figures["changes_frames_copied"], 0.0);
            let tables = figures["shared_page_table_bytes"];
            assert_eq!(figures["shared_beyond_heap_bytes"], tables);
            assert_eq!(figures["alone_large_pages"], REGIONS as f64);
        }
        assert_eq!(thp["changes_large_pages_split"], thp["regions_changed"]);
        assert_eq!(perforated["changes_large_pages_split"], 0.0);
        assert_eq!(perforated["shared_holes"], perforated["pages_changed"]);
        assert_eq!(perforated["shared_perforated_pages"], perforated["regions_changed"]);
    }
}

/// After 6554 writes, 33 % of the pages are changed: every large page has more than a quarter of holes.
#[test]
fn pages_that_are_too_holey_are_given_up() {
    let changes = PAGES * 4 / 10;
    let expected = expected::regions_above(REGIONS, changes, REGION_PAGES / 4);
    let figures = small("a", changes, DEMOTING);
    let given_up = figures["changes_large_pages_split"];
    assert!((given_up - expected).abs() <= 1.0, "{given_up} of {expected}");
    assert_eq!(figures["changes_frames_copied"], figures["pages_changed"]);
    assert!(figures["changes_subpages_punched"] < figures["pages_changed"]);
    assert_eq!(figures["mended_large_pages"], REGIONS as f64);
    // If no page has a quarter of holes, the limit has no effect.
    let [limited, unlimited] =
        [DEMOTING, PERFORATED].map(|contender| small("a", PAGES / 10, contender));
    for (name, value) in limited.iter().filter(|(name, _)| name.starts_with("changes_")) {
        assert_eq!(unlimited[name], *value, "{name}");
    }
}

/// Means over 20 seeds agree with closed forms. The standard deviation of the number of places hit is below
/// its square root; the mean may deviate by one and a half of its standard deviation.
#[test]
fn places_hit_agree_with_the_closed_forms() {
    const SEEDS: u64 = 20;
    for changes in [20, 50, 500] {
        let figures: Vec<Measurement> =
            (1..=SEEDS).map(|seed| run("a", changes, 1, THP, seed)).collect();
        let mean =
            |name: &str| figures.iter().map(|figures| figures[name]).sum::<f64>() / SEEDS as f64;
        for (got, places) in
            [(mean("changes_frames_copied"), PAGES), (mean("changes_large_pages_split"), REGIONS)]
        {
            let expected = places_hit(places as f64, changes as f64);
            let tolerance = 1.5 * (expected / SEEDS as f64).sqrt();
            assert!((got - expected).abs() < tolerance, "{changes}: {got}, not {expected}");
        }
    }
}

#[test]
fn walks_agree_with_the_closed_form() {
    const READS: u64 = 40_000;
    let entries = Machine::load(Machine::DEFAULT).unwrap().tlb.l2.entries as u64;
    for (contender, changes) in [(BASE, 1), (THP, 1), (THP, 20), (THP, 500)] {
        let figures = run("a", changes, READS, contender, 3);
        let split = match contender {
            BASE => REGIONS as f64,
            _ => figures["regions_changed"],
        };
        let expected = expected::walks_per_1000(REGIONS, split, entries);
        let got = figures["alone_parent_walks_per_1000_reads"];
        // Three standard deviations of a share, plus the 64 pages of 4KB in the first-level TLB.
        let share = expected / 1000.0;
        let sampling = 3000.0 * (share * (1.0 - share) / READS as f64).sqrt();
        let first_level = 64_000.0 / PAGES as f64;
        assert!((got - expected).abs() < sampling + first_level, "{changes}: {got}, {expected}");
    }
}

#[test]
fn closed_forms_by_hand() {
    // Each of 512 pages is hit with probability 1/2048: none with (2047/2048)^512 = 0.77875, one page with
    // 512/2047 times that.
    assert!((expected::regions_above(4, 1, 0) - 4.0 * (1.0 - 0.77875)).abs() < 1e-4);
    assert!((expected::regions_above(4, 1, 1) - 4.0 * (1.0 - 0.77875 * 1.250_12)).abs() < 1e-4);
    assert!(expected::regions_above(4, 1_000_000, 128) > 3.99);
    // Half of 4 regions are split: 1024 pages, of which 100 less two 2MB pages stay in the TLB.
    let walks = expected::walks_per_1000(4, 2.0, 100);
    assert!((walks - 1000.0 * 0.5 * (1.0 - 98.0 / 1024.0)).abs() < 1e-9);
    assert_eq!(expected::walks_per_1000(4, 2.0, 2000), 0.0);
    assert_eq!(expected::walks_per_1000(4, 0.0, 100), 0.0);
}

#[test]
fn figures_have_names_and_do_not_depend_on_company() {
    let texts =
        [("fork.heap", "16M"), ("fork.written", "1%"), ("fork.reads", "1000"), ("fork.case", "b")];
    let study = ForkSharing::read(&settings(&texts)).unwrap();
    let both = ["thp".to_string(), "perforated".to_string()];
    let measure = |subjects: &[String]| study.measure_all(subjects, 2, &mut |_| ()).unwrap();
    let together = measure(&both);
    assert_eq!(together[1], measure(&both[1..])[0]);
    let [thp, perforated] = &together[..] else { panic!("one for each subject") };
    assert!(thp.keys().eq(perforated.keys()));
    // In 8 regions of 512 pages, 1 % are 41 writes.
    assert!((thp["pages_changed_expected"] - 40.8).abs() < 0.01, "{thp:?}");
    assert_eq!(thp["changes_frames_copied"], thp["pages_changed"]);
    assert_eq!(thp["changes_large_pages_split"], thp["regions_changed"]);
    assert_eq!(perforated["changes_subpages_punched"], thp["pages_changed"]);
    assert_eq!(perforated["changes_large_pages_split"], 0.0);
    // 2MB pages of parent and child, with 8 regions each, less those of the child that were split.
    assert_eq!(thp["shared_large_pages"], 16.0 - thp["regions_changed"]);
}

#[test]
fn settings_are_read() {
    let read = |texts: &[(&str, &str)]| ForkSharing::read(&settings(texts)).unwrap().fork;
    let texts = [("fork.heap", "64M"), ("fork.written", "2.5%"), ("fork.case", "c")];
    let fork = read(&texts);
    assert_eq!((fork.regions(), fork.changes()), (32, 410));
    assert_eq!(fork.case, ForkCase::ChildProtects);
    assert_eq!(read(&[("fork.heap", "2M"), ("fork.written", "0.01%")]).changes(), 1);
    for (key, text, word) in [
        ("fork.heap", "1M", "heap: is 2M to 64G"),
        ("fork.heap", "128G", "2M to 64G"),
        ("fork.written", "101%", "to 100%"),
        ("fork.written", "5", "expected a share"),
        ("fork.writen", "5%", "did you mean written?"),
        ("fork.case", "d", "expected a, b or c"),
        ("fork.reads", "0", "at least 1"),
        ("fork.reads", "x", "whole number"),
        ("check", "perhaps", "check"),
        ("perforation", "nonsense", "nonsense"),
        ("machine", "abacus", "abacus"),
    ] {
        let problem = check::<ForkSharing>(&[(key, text)], "thp").unwrap_err();
        assert!(problem.contains(word) && !problem.contains('\n'), "{key}={text}: {problem}");
    }
    assert!(check::<ForkSharing>(&[], "2m").unwrap_err().contains("2m"));
}
