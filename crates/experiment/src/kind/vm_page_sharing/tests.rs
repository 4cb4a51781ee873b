//! Tests with small virtual machines, in which every translation is compared with the oracle.

use std::collections::BTreeMap;

use perforate_types::{SpaceId, VirtualPage};

use super::*;
use crate::kind::tests::{check, settings};

/// Setup with heaps of 80MB and 5000 reads; translations are compared with the oracle.
fn setup(contents: &str) -> VmPageSharing {
    let texts = [
        ("contents", contents),
        ("readers.heap", "80M"),
        ("readers.reads", "5k"),
        ("readers.warmup", "5k"),
        ("check", "true"),
    ];
    VmPageSharing::read(&settings(&texts)).unwrap()
}

/// Merging leaves one frame for every 256 pages of equal content, as counting page by page confirms.
#[test]
fn pages_of_both_machines_share_one_frame_for_each_content() {
    let setup = setup("zero=5%,duplicate=20%,distinct=3000");
    for host in ["4k", "thp", "perforated"] {
        let mut run = setup.start(host, 3).unwrap();
        let kernel = run.simulation.system().hypervisor().unwrap().kernel();
        let mut counts: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
        for machine in 0..2u16 {
            for page in 0..(40 + 32) * 512 {
                if let Some(content) = kernel.content(SpaceId(machine), VirtualPage::new(page)) {
                    counts.entry(content).or_default()[usize::from(machine)] += 1;
                }
            }
        }
        let in_both = counts.values().filter(|count| count[0] > 0 && count[1] > 0).count();
        // 4,096 random choices miss a share of e^-1.37 of 3,000 contents: 2,234 are in each machine, 1,664 in
        // both.
        assert!((1_550..1_780).contains(&in_both), "{host}: {in_both} are in both machines");
        let all = |count: &[u64; 2]| count[0] + count[1];
        let saved: u64 = counts.values().map(|count| all(count) - all(count).div_ceil(256)).sum();
        let usage = |system: &perforate_sim::System| {
            let mut counters = perforate_types::Counters::default();
            system.hypervisor().unwrap().kernel().counters(&mut counters);
            (counters.get("free_bytes").unwrap() + counters.get("page_table_bytes").unwrap()) as u64
        };
        let before = usage(run.simulation.system());
        merge_on_host(run.simulation.system_mut()).unwrap();
        assert_eq!((usage(run.simulation.system()) - before) / 4096, saved, "{host}");
        if host == "thp" {
            let figures = setup.run(host, 3).unwrap();
            assert_eq!(figures["frames_saved"], saved as f64);
            assert_eq!(figures["large_pages_split_share"], 1.0);
            assert_eq!(figures["table_frames_added"], figures["host_large_pages"]);
        }
    }
}

/// Savings with random contents in both machines agree with the closed form. Pages in segments are not
/// merged.
#[test]
fn savings_agree_with_the_closed_form_outside_segments() {
    let setup = setup("zero=5%,duplicate=20%,distinct=4000");
    for host in ["4k", "thp", "perforated"] {
        let figures = setup.run(host, 1).unwrap();
        // 15 % of 43,000 pages are saved; the standard deviation is about 1 % of that.
        let (saved, closed) =
            (figures["frames_saved_share"], figures["frames_saved_expected_share"]);
        assert!((saved / closed - 1.0).abs() < 0.05, "{host}: {figures:?}");
        let expected = match host {
            "4k" => (0.0, 0.0),
            "thp" => (1.0, 0.0),
            _ => (0.0, 1.0),
        };
        let (split, punched) =
            (figures["large_pages_split_share"], figures["large_pages_punched_share"]);
        assert_eq!((split, punched), expected, "{host}");
        // 20,480 pages of 4KB in a TLB of 1,536 entries: 7.5 % of uniform reads hit.
        let walks =
            |reads: &str, when: &str| figures[&format!("{reads}_{when}_walks_per_1000_reads")];
        let in_4kb = 850.0..1_000.0;
        assert_eq!(in_4kb.contains(&walks("uniform", "before")), host == "4k", "{host}");
        assert_eq!(in_4kb.contains(&walks("uniform", "after")), host != "perforated", "{host}");
        assert!(walks("skewed", "after") < walks("uniform", "after"), "{host}: {figures:?}");
    }
    let figures = setup.run("segment", 1).unwrap();
    for name in ["frames_saved", "large_pages_split_share", "large_pages_punched_share"] {
        assert_eq!(figures[name], 0.0, "{name}");
    }
    let [before, after] =
        ["before", "after"].map(|when| figures[&format!("uniform_{when}_walks_per_1000_reads")]);
    assert_eq!(before, after);
}

#[test]
fn figures_have_names_and_do_not_depend_on_company() {
    let texts = [
        ("readers.heap", "64M"),
        ("readers.reads", "1000"),
        ("readers.warmup", "1000"),
        ("contents", "zero=5%,duplicate=20%"),
    ];
    let study = VmPageSharing::read(&settings(&texts)).unwrap();
    let hosts = ["thp".to_string(), "segment".to_string()];
    let measure = |hosts: &[String]| study.measure_all(hosts, 2, &mut |_| ()).unwrap();
    let together = measure(&hosts);
    assert_eq!(together[0], measure(&hosts[..1])[0]);
    let [thp, segment] = &together[..] else { panic!("one for each host") };
    assert!(thp.keys().eq(segment.keys()));
    // Of a pool half as large as the number of random choices, a share of e^-2 is never chosen: 0.2 − 0.1·(1
    // − e^-2) + 0.05 less one zero page in 256; the guests' page tables are a few more pages with such
    // contents.
    let expected = 0.05 * (1.0 - 1.0 / 256.0) + 0.2 - 0.1 * (1.0 - (-2.0f64).exp());
    let closed = thp["frames_saved_expected_share"];
    assert!((closed / expected - 1.0).abs() < 0.04, "{closed}, not {expected}");
    assert!((thp["frames_saved_share"] / closed - 1.0).abs() < 0.05);
    assert!(thp["frames_saved_net_share"] < thp["frames_saved_share"]);
    assert_eq!(thp["large_pages_split_share"], 1.0);
    assert_eq!((segment["frames_saved_share"], segment["large_pages_split_share"]), (0.0, 0.0));
}

#[test]
fn settings_are_checked() {
    let check = |key, text, host| check::<VmPageSharing>(&[(key, text)], host);
    assert_eq!(check("readers.heap", "64M", "segment"), Ok(()));
    for (key, text, host, word) in [
        ("readers.heap", "32M", "thp", "64M or more"),
        ("readers.processes", "2", "thp", "one reader"),
        ("readers.reads", "0", "thp", "at least 1"),
        ("contents", "zero=200%", "thp", "200%"),
        ("guest", "nonsense", "thp", "nonsense"),
        ("guest", "perforated", "thp", "take 4k or thp"),
        ("readers.heap", "64M", "nonsense", "nonsense"),
        ("readers.heap", "64M", "shadow-4k", "shadow-4k"),
    ] {
        let problem = check(key, text, host).unwrap_err();
        assert!(problem.contains(word) && !problem.contains('\n'), "{key}={text}: {problem}");
    }
}

/// A pool with `distinct=` keeps its size; otherwise it is half as large as the number of pages with its
/// contents.
#[test]
fn pools_have_a_size() {
    let pool = |text| contents(perforate_config::read(text).unwrap(), 32 * 512).unwrap().distinct;
    assert_eq!(pool("duplicate=50%,distinct=7"), 7);
    // Two machines have heaps of 16,384 pages each.
    assert_eq!(pool("duplicate=50%"), 8192);
    assert_eq!(pool("zero=50%"), 0);
}
