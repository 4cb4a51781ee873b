//! Tests with small runs, in which every translation is compared with the oracle.

use super::program::Outcome;
use super::*;
use crate::kind::tests::{check, settings};

/// Runs a program without faulty frames, and then with `count` faulty frames, which are the third result.
fn run(subject: &str, bits: usize, count: usize) -> (Outcome, Outcome, Vec<u64>) {
    let mut machine = Machine::load(MACHINE).unwrap();
    machine.virtualization.escape_filter_bits = bits;
    let study = EscapeFilter {
        machine,
        workload: "random:size=64M,writes=50%".into(),
        instructions: 100_000,
        guest: MemoryState::of(256 << 20),
        bad_pages: count,
        check: true,
    };
    let tape = Tape::read(&study).unwrap();
    let program = Program { study: &study, composition: pair(subject).unwrap(), tape: &tape };
    let base = program.run(&[], &mut |_| ()).unwrap().unwrap();
    let place = program.place().unwrap().unwrap();
    assert_eq!((place.frame, place.pages), (base.segment.frame, base.segment.pages));
    let frames = faulty_frames(&frames(&place).unwrap(), count, 7).unwrap();
    let mut told = vec![0.0];
    let outcome = program.run(&frames, &mut |part| told.push(part)).unwrap().unwrap();
    assert!(told.is_sorted() && told.last() == Some(&1.0), "progress: {told:?}");
    (base, outcome, frames)
}

#[test]
fn segments_are_made_over_faulty_frames() {
    for guest in ["segment+segment", "4k+segment"] {
        let (base, outcome, _) = run(guest, 256, 16);
        assert_eq!((base.segment.escaped_pages, base.segment.paged_pages), (0, 0));
        assert_eq!(base.walked, 0.0, "{guest}");
        assert_eq!(outcome.segment.escaped_pages, 16);
        assert!(outcome.segment.is_active && outcome.segment.frame == base.segment.frame);
    }
}

/// In a filter of 64 bits, 16 escaped pages make 40 % of the other pages false positives. Touched false
/// positives are mapped in place by page tables, and their walks take time.
#[test]
fn false_positives_are_paged_in_place_and_cost_time() {
    let (base, outcome, frames) = run("segment+segment", 64, 16);
    let share = false_positive_share((64, 4), &outcome.segment, &frames);
    assert!((share / expected_false_positive_share((64, 4), 16) - 1.0).abs() < 0.5, "{share}");
    // 25,000 touches of 16,384 pages miss a share of e^-1.5; besides, the hash function H3 is linear.
    let touched = 16_384.0 * (1.0 - (-25_000.0f64 / 16_384.0).exp());
    let expected = touched * share;
    let paged = outcome.segment.paged_pages as f64;
    assert!((paged / expected - 1.0).abs() < 0.25, "{paged}, expected {expected}");
    // The L2 TLB holds 512 of these pages, because no other pages need it.
    let kept = 512.0 / (16_384.0 * share);
    let expected = share * (1.0 - kept) / (1.0 - share * kept);
    let walked = outcome.walked / (outcome.by_segments + outcome.walked);
    assert!((walked / expected - 1.0).abs() < 0.2, "{walked} of the misses, expected {expected}");
    assert!(outcome.cycles > base.cycles);
}

#[test]
fn sets_differ_by_seed_alone() {
    let frames = 20_000..30_000;
    let set = |seed| faulty_frames(&frames, 4, seed).unwrap();
    assert!(set(1).len() == 4 && set(1)[0] >= 20_000 && set(1)[3] < 30_000);
    assert_eq!(set(1), set(1));
    assert_ne!(set(1), set(2));
    assert!(faulty_frames(&(0..3), 4, 1).unwrap_err().contains("among 3"));
}

const SMALL: [(&str, &str); 4] = [
    ("workload", "random:size=64M,writes=50%"),
    ("memory", "256M"),
    ("instructions", "20000"),
    ("machine.virtualization.escape_filter_bits", "64"),
];

#[test]
fn figures_do_not_depend_on_company() {
    let subjects = ["segment+segment".to_string(), "4k+segment".to_string()];
    let measure = |bad_pages, subjects: &[String], seed| {
        let mut settings = settings(&SMALL);
        settings.0.insert("bad-pages".into(), bad_pages);
        EscapeFilter::read(&settings).unwrap().measure_all(subjects, seed, &mut |_| ()).unwrap()
    };
    let together = measure("16".into(), &subjects, 2);
    assert_eq!(together[1], measure("16".into(), &subjects[1..], 2)[0]);
    assert_eq!((together[0]["escaped_pages"], together[0]["has_segment"]), (16.0, 1.0));
    assert!((together[0]["false_positive_share_expected"] - 0.172).abs() < 1e-3);
    // Only the faulty frames depend on the seed.
    let without = [1, 2].map(|seed| measure("0".into(), &subjects, seed));
    assert_eq!(without[0], without[1]);
    assert_eq!(without[0][0]["false_positive_share"], 0.0);
    assert!(together[0]["cycles"] > without[0][0]["cycles"]);
}

#[test]
fn settings_are_checked() {
    let check = check::<EscapeFilter>;
    assert_eq!(check(&SMALL, "segment+segment"), Ok(()));
    for (texts, subject, word) in [
        ([("bad-pages", "1001")], "4k+segment", "at most 1000"),
        ([("instructions", "1")], "4k+segment", "at least 10000"),
        ([("machine.virtualization.escape_filter_functions", "3")], "4k+segment", "no filter"),
        ([("segment", "nonsense")], "4k+segment", "nonsense"),
        ([("memory", "lots")], "4k+segment", "lots"),
        ([("bad-pages", "1")], "4k+thp", "no host with direct segments"),
        ([("bad-pages", "1")], "segment", "no host with direct segments"),
    ] {
        let problem = check(&texts, subject).unwrap_err();
        assert!(problem.contains(word) && !problem.contains('\n'), "{problem}");
    }
}
