//! A small heap: what must hold exactly does, and closed forms agree within sampling error. Every
//! translation is compared with the oracle.

use super::*;

const REGIONS: u64 = 32;
const PAGES: u64 = REGIONS * REGION_PAGES;
/// Schemes, and options of the policy for perforated pages.
type Contender = (&'static str, Option<&'static str>);
const BASE: Contender = ("4k", None);
const THP: Contender = ("thp", None);
const PERFORATED: Contender = ("perforated", None);
/// Gives a page up that has more than a quarter of holes; such blocks are not perforated in the
/// first place either.
const DEMOTING: Contender = ("perforated", Some("max-hole-share=25%,demote-above=25%"));

fn run(case: Case, changes: u64, reads: u64, contender: Contender, seed: u64) -> Figures {
    let machine = Machine::load(Machine::DEFAULT).unwrap();
    let (name, perforation) = contender;
    let perforation = perforation.map(|text| text.parse().unwrap());
    let setup = Setup {
        machine: &machine,
        case,
        regions: REGIONS,
        changes,
        reads,
        perforation: perforation.as_ref(),
        check: true,
    };
    study::run(&setup, Scheme::find(name).unwrap(), seed)
        .unwrap_or_else(|error| panic!("{name}, {case:?}, {changes} changes, seed {seed}: {error}"))
}

fn small(case: Case, changes: u64, contender: Contender) -> Figures {
    run(case, changes, 2000, contender, 1)
}

/// Large pages take one entry each to fork, 4KB pages 512, in each of the two tables.
#[test]
fn fork_costs_an_entry_a_page() {
    let work = |contender| small(Case::ParentWrites, 1, contender).fork.work;
    for (contender, entries) in [(BASE, PAGES), (THP, REGIONS), (PERFORATED, REGIONS)] {
        let work = work(contender);
        assert_eq!((work.pages_mapped, work.pages_protected), (entries, entries));
        assert_eq!((work.frames_copied, work.large_pages_split), (0, 0));
    }
    // A root, a level-3 and a level-2 node, with its shadow where there is one.
    assert_eq!(work(BASE).frames_zeroed_tables, 3 + REGIONS);
    assert_eq!(work(THP).frames_zeroed_tables, 3);
    assert_eq!(work(PERFORATED).frames_zeroed_tables, 4);
}

#[test]
fn a_write_copies_its_page_and_only_thp_splits() {
    for case in [Case::ParentWrites, Case::ChildWrites] {
        for changes in [1, 20, 500, 4000] {
            let [base, thp, perforated] =
                [BASE, THP, PERFORATED].map(|contender| small(case, changes, contender));
            for figures in [&base, &thp, &perforated] {
                let work = figures.changes.work;
                assert_eq!(work.frames_copied, figures.pages_changed, "{case:?} {changes}");
                assert_eq!(work.faults_copy_on_write, figures.pages_changed);
                assert_eq!(work.shootdown_batches, figures.pages_changed);
                assert_eq!(figures.pages_changed, base.pages_changed);
            }
            let regions = thp.regions_changed;
            assert_eq!(thp.changes.work.large_pages_split, regions);
            assert_eq!(thp.shared.large_pages, 2 * REGIONS - regions);
            assert_eq!(thp.shared.base_pages, regions * REGION_PAGES);
            assert_eq!(perforated.changes.work.large_pages_split, 0);
            assert_eq!(perforated.changes.work.subpages_punched, perforated.pages_changed);
            assert_eq!(perforated.shared.holes, perforated.pages_changed);
            assert_eq!(perforated.shared.perforated_pages, regions);
            assert_eq!(perforated.shared.large_pages, 2 * REGIONS - regions);
            assert_eq!(perforated.shared.base_pages, 0);
            // Beyond the heap there are copies and tables, and nothing else.
            for figures in [base, thp, perforated] {
                let shared = figures.shared;
                let copies_bytes = figures.pages_changed * 4096;
                assert_eq!(shared.beyond_heap_bytes, shared.table_bytes + copies_bytes);
                // The writer's copies took the place of what went with the child.
                assert_eq!(figures.alone.beyond_heap_bytes, figures.alone.table_bytes);
            }
        }
    }
}

#[test]
fn khugepaged_copies_regions_or_patches_pages() {
    let changes = 500;
    let [base, thp, perforated] =
        [BASE, THP, PERFORATED].map(|contender| small(Case::ParentWrites, changes, contender));
    assert_eq!(base.khugepaged.work, Default::default());
    let work = thp.khugepaged.work;
    assert_eq!(work.frames_migrated, thp.regions_changed * REGION_PAGES);
    assert_eq!((work.frames_copied, work.subpages_patched), (0, 0));
    let work = perforated.khugepaged.work;
    assert_eq!(work.subpages_patched, perforated.pages_changed);
    assert_eq!((work.frames_copied, work.frames_migrated), (perforated.pages_changed, 0));
    for figures in [thp, perforated] {
        assert_eq!(figures.mended.large_pages, REGIONS);
        assert_eq!(figures.mended.perforated_pages + figures.mended.base_pages, 0);
        assert_eq!(figures.parent_mended.walks_per_1000, 0.0);
    }
}

/// What the child wrote goes with it: the parent has its large pages, as before.
#[test]
fn the_childs_writes_leave_the_parent_whole() {
    for contender in [THP, PERFORATED, DEMOTING] {
        let figures = small(Case::ChildWrites, 500, contender);
        assert_eq!(figures.alone.large_pages, REGIONS);
        assert_eq!(figures.alone.perforated_pages + figures.alone.base_pages, 0);
        assert_eq!(figures.parent.misses_per_1000, 0.0);
    }
}

/// P Fig. 1: the same memory in two address spaces, with other permissions in one of them.
#[test]
fn permissions_of_a_part_copy_nothing() {
    for changes in [1, 500] {
        let [thp, perforated] =
            [THP, PERFORATED].map(|contender| small(Case::ChildProtects, changes, contender));
        for figures in [&thp, &perforated] {
            assert_eq!(figures.changes.work.frames_copied, 0);
            let shared = figures.shared;
            assert_eq!(shared.beyond_heap_bytes, shared.table_bytes);
            assert_eq!(figures.alone.large_pages, REGIONS);
        }
        assert_eq!(thp.changes.work.large_pages_split, thp.regions_changed);
        assert_eq!(perforated.changes.work.large_pages_split, 0);
        assert_eq!(perforated.shared.holes, perforated.pages_changed);
        assert_eq!(perforated.shared.perforated_pages, perforated.regions_changed);
    }
}

/// 6554 writes leave 33 % of the pages changed: every large page has more than a quarter of holes.
#[test]
fn pages_that_are_too_holey_are_given_up() {
    let changes = PAGES * 4 / 10;
    let expected = expected::regions_above(REGIONS, changes, REGION_PAGES / 4);
    let figures = small(Case::ParentWrites, changes, DEMOTING);
    let given_up = figures.changes.work.large_pages_split as f64;
    assert!((given_up - expected).abs() <= 1.0, "{given_up} of {expected}");
    assert_eq!(figures.changes.work.frames_copied, figures.pages_changed);
    assert!(figures.changes.work.subpages_punched < figures.pages_changed);
    assert_eq!(figures.mended.large_pages, REGIONS);
    // Where a quarter is not reached, it is as if there were no limit.
    let [limited, unlimited] =
        [DEMOTING, PERFORATED].map(|contender| small(Case::ParentWrites, PAGES / 10, contender));
    assert_eq!(limited.changes, unlimited.changes);
}

/// Means over seeds against closed forms. The spread of places hit is below the square root of
/// their number; the mean of 20 is allowed one and a half of its standard deviation at most.
#[test]
fn places_hit_agree_with_the_closed_forms() {
    const SEEDS: u64 = 20;
    for changes in [20, 50, 500] {
        let figures: Vec<Figures> =
            (1..=SEEDS).map(|seed| run(Case::ParentWrites, changes, 1, THP, seed)).collect();
        let mean = |figure: fn(&Figures) -> u64| {
            figures.iter().map(|figures| figure(figures) as f64).sum::<f64>() / SEEDS as f64
        };
        for (got, places) in [
            (mean(|figures| figures.changes.work.frames_copied), PAGES),
            (mean(|figures| figures.changes.work.large_pages_split), REGIONS),
        ] {
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
        let figures = run(Case::ParentWrites, changes, READS, contender, 3);
        let split = match contender {
            BASE => REGIONS,
            _ => figures.regions_changed,
        };
        let expected = expected::walks_per_1000(REGIONS, split as f64, entries);
        let got = figures.parent_alone.walks_per_1000;
        // Three standard deviations of a share, and the first level's 64 pages of 4KB besides.
        let share = expected / 1000.0;
        let sampling = 3000.0 * (share * (1.0 - share) / READS as f64).sqrt();
        let first_level = 64_000.0 / PAGES as f64;
        assert!((got - expected).abs() < sampling + first_level, "{changes}: {got}, {expected}");
    }
}

#[test]
fn closed_forms_by_hand() {
    // Each of 512 pages is hit with 1/2048: none with (2047/2048)^512 = 0.77875, one page with
    // 512/2047 times that.
    assert!((expected::regions_above(4, 1, 0) - 4.0 * (1.0 - 0.77875)).abs() < 1e-4);
    assert!((expected::regions_above(4, 1, 1) - 4.0 * (1.0 - 0.77875 * 1.250_12)).abs() < 1e-4);
    assert!(expected::regions_above(4, 1_000_000, 128) > 3.99);
    // Half of 4 regions split: 1024 pages, of which 100 less two 2MB pages stay in the TLB.
    let walks = expected::walks_per_1000(4, 2.0, 100);
    assert!((walks - 1000.0 * 0.5 * (1.0 - 98.0 / 1024.0)).abs() < 1e-9);
    assert_eq!(expected::walks_per_1000(4, 2.0, 2000), 0.0);
    assert_eq!(expected::walks_per_1000(4, 0.0, 100), 0.0);
}

fn settings(texts: &[(&str, &str)]) -> Settings {
    Settings(texts.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect())
}

#[test]
fn figures_have_names_and_do_not_depend_on_company() {
    let texts = [("heap", "16M"), ("written", "1%"), ("reads", "1000"), ("case", "b")];
    let settings = settings(&texts);
    let both = ["thp".to_string(), "perforated".to_string()];
    let measure =
        |subjects: &[String]| ForkSharing.measure(&settings, subjects, 2, &mut |_| ()).unwrap();
    let together = measure(&both);
    assert_eq!(together[1], measure(&both[1..])[0]);
    let [thp, perforated] = &together[..] else { panic!("one for each subject") };
    assert!(thp.keys().eq(perforated.keys()));
    // 8 regions of 512 pages: 1 % are 41 writes.
    assert!((thp["pages_changed_expected"] - 40.8).abs() < 0.01, "{thp:?}");
    assert_eq!(thp["changes_frames_copied"], thp["pages_changed"]);
    assert_eq!(thp["changes_large_pages_split"], thp["regions_changed"]);
    assert_eq!(perforated["changes_subpages_punched"], thp["pages_changed"]);
    assert_eq!(perforated["changes_large_pages_split"], 0.0);
    // 2MB pages of parent and child, at 8 regions each, less those of the child that were split.
    assert_eq!(thp["shared_large_pages"], 16.0 - thp["regions_changed"]);
}

#[test]
fn settings_are_read() {
    let read = |texts: &[(&str, &str)]| Choice::read(&settings(texts));
    let choice = read(&[("heap", "64M"), ("written", "2.5%"), ("case", "c")]).unwrap();
    assert_eq!((choice.regions, choice.changes()), (32, 410));
    assert_eq!(choice.case, Case::ChildProtects);
    assert_eq!(read(&[("heap", "2M"), ("written", "0.01%")]).unwrap().changes(), 1);
    for (key, text, word) in [
        ("heap", "3M", "steps of 2M"),
        ("heap", "128G", "2M to 64G"),
        ("written", "0%", "more than 0%"),
        ("written", "101%", "to 100%"),
        ("written", "NaN%", "written"),
        ("written", "5", "expected a share"),
        ("case", "d", "expected a, b or c"),
        ("reads", "0", "at least 1"),
        ("reads", "x", "whole number"),
        ("check", "perhaps", "check"),
        ("perforation", "nonsense", "nonsense"),
        ("machine", "abacus", "abacus"),
    ] {
        let problem = ForkSharing.check(&settings(&[(key, text)]), "thp").unwrap_err();
        assert!(problem.contains(word) && !problem.contains('\n'), "{key}={text}: {problem}");
    }
    assert!(ForkSharing.check(&Settings::default(), "2m").unwrap_err().contains("2m"));
}
