//! The case study `examples/sharing` on a small heap: what must hold exactly does, and closed
//! forms agree within sampling error. Every translation is compared with the oracle.

#[path = "../examples/case_study/mod.rs"]
mod case_study;
#[path = "../examples/sharing/expected.rs"]
mod expected;
#[path = "../examples/sharing/options.rs"]
mod options;
#[path = "../examples/sharing/study.rs"]
mod study;
#[path = "../examples/sharing/table.rs"]
mod table;

use options::Options;
use perforate_sim::Machine;
use study::{CONTENDERS, Case, Figures, REGION_PAGES, Setup};

const REGIONS: u64 = 32;
const PAGES: u64 = REGIONS * REGION_PAGES;
const MB: u64 = 1 << 20;
/// Where the contenders stand in [`CONTENDERS`].
const BASE: usize = 0;
const THP: usize = 1;
const PERFORATED: usize = 2;
const DEMOTING: usize = 3;

fn run(case: Case, changes: u64, reads: u64, contender: usize, seed: u64) -> Figures {
    let machine = Machine::load(Machine::DEFAULT).unwrap();
    let setup = Setup { machine: &machine, case, regions: REGIONS, changes, reads, check: true };
    study::run(&setup, &CONTENDERS[contender], seed).unwrap_or_else(|error| {
        panic!(
            "{}, {case:?}, {changes} changes, seed {seed}: {error}",
            CONTENDERS[contender].heading
        )
    })
}

fn small(case: Case, changes: u64, contender: usize) -> Figures {
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
            let expected = expected::places_hit(places, changes);
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
    // Two throws on two places: one place half of the time, else both.
    assert!((expected::places_hit(2, 2) - 1.5).abs() < 1e-12);
    assert!((expected::places_hit(1, 7) - 1.0).abs() < 1e-12);
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

fn parse(text: &str) -> Result<Options, String> {
    Options::parse(text.split_whitespace().map(String::from))
}

#[test]
fn options_are_read() {
    let options = parse("--heap 64M --written=1%,2.5% --case c --seeds 2 --check").unwrap();
    assert_eq!(options.regions * 2 * MB, 64 * MB);
    assert_eq!(options.written_percent, [1.0, 2.5]);
    assert_eq!(options.cases, [Case::ChildProtects]);
    assert!(options.seeds == 2 && options.check && !options.help);
    assert_eq!(parse("").unwrap(), Options::default());
    assert!(parse("--help").unwrap().help);
    for name in ["heap", "written", "case", "seeds", "reads", "machine", "check", "help"] {
        assert!(options::HELP.contains(&format!("\n  --{name} ")), "{name}");
    }
    assert!(options::HELP.lines().all(|line| line.len() <= 100));
    for (wrong, word) in [
        ("--heap 3M", "steps of 2M"),
        ("--heap 0", "2M to 64G"),
        ("--heap 128G", "2M to 64G"),
        ("--heap lots", "--heap"),
        ("--written 0%", "over 0%"),
        ("--written 101%", "up to 100%"),
        ("--written NaN%", "over 0%"),
        ("--written 5", "as 0.1%,1%"),
        ("--written", "needs a value"),
        ("--case d", "a, b and c"),
        ("--seeds 0", "from 1"),
        ("--reads x", "from 1"),
        ("--check=1", "takes no value"),
        ("--sheep 1", "unknown argument"),
        ("--shared", "see --help"),
    ] {
        let problem = parse(wrong).unwrap_err();
        assert!(problem.contains(word) && !problem.contains('\n'), "{wrong}: {problem}");
    }
}

#[test]
fn tables_are_at_most_100_columns_wide() {
    for (value, text) in [
        (0.0, "0"),
        (7.0, "7"),
        (0.126, "0.13"),
        (99.96, "100"),
        (512.0, "512"),
        (999.6, "1.00k"),
        (26_214.0, "26.2k"),
        (999_600.0, "1.00M"),
        (1.234e9, "1.23G"),
    ] {
        assert_eq!(table::short(value, value.fract() == 0.0), text);
    }
    assert_eq!(table::spread(&[3.0, 1.0, 2.0]), "1–2–3");
    assert_eq!(table::spread(&[5.0, 5.0]), "5");
    assert_eq!(table::spread(&[2.0, 2.5, 2.0]), "2.00–2.00–2.50");
    let figures: Vec<Figures> =
        [700, 900].map(|changes| small(Case::ParentWrites, changes, PERFORATED)).into();
    let columns = [("perforated", &figures[..]); 4];
    for case in [Case::ParentWrites, Case::ChildWrites, Case::ChildProtects] {
        let table = table::table(case, &columns);
        assert!(table.lines().count() > 10);
        assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    }
}
