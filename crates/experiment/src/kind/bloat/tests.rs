//! Tests with small key-value stores; every translation is compared with the oracle.

use super::*;
use crate::kind::tests::{check, settings};

/// Settings with 1500 keys, of which 900 are left after deleting; translations are compared with the oracle.
fn small(more: &[(&str, &str)]) -> Settings {
    let mut all = settings(&[
        ("store.keys", "1500"),
        ("store.live", "60%"),
        ("store.page-reads", "300"),
        ("store.reads", "50"),
        ("check", "true"),
    ]);
    all.0.extend(settings(more).0);
    all
}

fn measure(settings: &Settings, subject: &str) -> Measurement {
    crate::kind::tests::measure::<Bloat>(settings, subject, 4)
}

/// Translations agree with the oracle under every scheme. Mapped memory equals touched memory, except with
/// ordinary large pages, which map more.
#[test]
fn the_oracle_agrees_and_only_large_pages_bloat() {
    let [base, large, perforated] =
        ["4k", "thp", "perforated-reserve"].map(|name| measure(&small(&[]), name));
    for figures in [&base, &perforated] {
        assert_eq!(figures["mapped_bytes"], figures["touched_bytes"]);
        assert_eq!(figures["live_keys"], 900.0);
    }
    assert_eq!(base["touched_bytes"], large["touched_bytes"]);
    assert!(large["mapped_bytes"] > 1.15 * large["touched_bytes"], "{large:?}");
    assert!(perforated["reserved_bytes"] > 0.0);
    assert!(perforated["filling_shootdown_batches"] > 0.5 * perforated["first_touches"]);
    assert!(!base.contains_key("promoting_operating_system_cycles"));
    let promoted = measure(&small(&[("khugepaged", "max-ptes-none=511")]), "thp");
    assert!(promoted["mapped_bytes"] > large["mapped_bytes"]);
    assert!(promoted["promoting_operating_system_cycles"] > 0.0);
}

/// A value with its header is 16,390 bytes: 513 vectors to load and to store. None crosses a page, because a
/// value begins at a cache line. Before that, a request reads slot, entry, name and object, each with three
/// other instructions, and up to 40 instructions follow the hash chain.
#[test]
fn timed_reads_copy_vector_by_vector() {
    let figures = measure(&small(&[]), "4k");
    let instructions = figures["instructions_per_request"];
    assert!((1026.0 + 16.0..1026.0 + 16.0 + 40.0).contains(&instructions), "{instructions}");
    let cycles = figures["cycles_per_request"];
    let second = figures["requests_per_second"];
    assert!((second * cycles / 2e9 - 1.0).abs() < 1e-9, "2GHz");
    assert_eq!(figures["operating_system_cycles_per_request"], 0.0);
    let untimed = measure(&small(&[("store.reads", "0")]), "4k");
    assert!(!untimed.contains_key("cycles_per_request"));
    assert_eq!(untimed["l2_tlb_misses"], figures["l2_tlb_misses"]);
}

/// Counters are reset before the counted reads, so that misses are proportional to the number of reads.
#[test]
fn misses_are_those_of_the_reads() {
    let misses = |reads: &str| {
        let own = [("store.page-reads", reads), ("store.reads", "0"), ("check", "false")];
        measure(&small(&own), "4k")["l2_tlb_misses"]
    };
    let (once, twice) = (misses("300"), misses("600"));
    assert!((twice / once - 2.0).abs() < 0.2, "{once}, {twice}");
}

#[test]
fn the_same_alone_and_together() {
    let (settings, mut heard) = (small(&[("check", "false")]), Vec::new());
    let subjects = ["4k".to_string(), "thp".to_string()];
    let together = Bloat::read(&settings).unwrap();
    let together = together.measure_all(&subjects, 4, &mut |part| heard.push(part)).unwrap();
    assert_eq!(together[0], measure(&settings, "4k"));
    assert_eq!(together[1], measure(&settings, "thp"));
    assert_eq!(heard, [0.5, 1.0]);
}

#[test]
fn settings_are_checked() {
    let fine = [("store.keys", "4M"), ("store.value", "2K"), ("store.live", "50%")];
    assert_eq!(check::<Bloat>(&fine, "perforated-reserve"), Ok(()));
    for (text, subject, part) in [
        (("store.keys", "0"), "thp", "store: keys: is at least 1"),
        (("store.value", "2M"), "thp", "1B to 1M"),
        (("store.live", "nan"), "thp", "a share from"),
        (("store.page-reads", "0"), "thp", "at least 1"),
        (("store.kes", "5"), "thp", "did you mean keys?"),
        (("khugepaged", "often"), "thp", "khugepaged"),
        (("machine", "none"), "thp", "none"),
        (("store.reads", "5"), "2m", "2m"),
    ] {
        let problem = check::<Bloat>(&[text], subject).unwrap_err();
        assert!(problem.contains(part) && !problem.contains('\n'), "{problem}");
    }
}
