//! Small runs, every translation compared with the oracle.

use super::*;
use filter::false_positive_share;
use statistics::false_positives;

const SMALL: Subject = Subject {
    name: "small",
    workload: "random:size=64M,writes=50%",
    guest: "segment",
    memory_mb: 256,
    paper_percent: None,
};

fn machine(bits: usize) -> Machine {
    let mut machine = Machine::load("sandy-bridge-table6").unwrap();
    machine.virtualization.escape_filter_bits = bits;
    machine
}

/// Runs the program over no and over these faulty frames.
fn run(subject: &Subject, bits: usize, count: usize) -> (Outcome, Outcome, Vec<u64>) {
    let machine = machine(bits);
    let tape = Tape::read(subject, 100_000).unwrap();
    let composition = subject.composition().unwrap();
    let study = Study { machine: &machine, subject, composition, tape: &tape, check: true };
    let base = study.run(None).unwrap().unwrap();
    let frames = faulty_frames(&study.frames(&base.segment), count, 7);
    let outcome = study.run(Some(&frames)).unwrap().unwrap();
    (base, outcome, frames)
}

#[test]
fn segments_are_made_over_faulty_frames() {
    for guest in ["segment", "4k"] {
        let subject = Subject { guest, ..SMALL };
        let (base, outcome, _) = run(&subject, 256, 16);
        assert_eq!((base.segment.escaped_pages, base.segment.paged_pages), (0, 0));
        assert_eq!(base.escaped, 0.0, "{guest}");
        assert_eq!(outcome.segment.escaped_pages, 16);
        assert!(outcome.segment.is_active && outcome.segment.frame == base.segment.frame);
    }
}

/// A filter of 64 bits lets 16 pages and 40 % of the others escape: those that are touched are
/// mapped in place, and the walks take time.
#[test]
fn false_positives_are_paged_in_place_and_cost_time() {
    let (base, outcome, frames) = run(&SMALL, 64, 16);
    let share = false_positive_share((64, 4), &outcome.segment, &frames);
    assert!((share / false_positives(64, 4, 16) - 1.0).abs() < 0.5, "{share}");
    // 25,000 touches of 16,384 pages leave e^-1.5 of them untouched; besides, H3 is linear.
    let touched = 16_384.0 * (1.0 - (-25_000.0f64 / 16_384.0).exp());
    let expected = touched * share;
    let paged = outcome.segment.paged_pages as f64;
    assert!((paged / expected - 1.0).abs() < 0.25, "{paged}, expected {expected}");
    // The L2 TLB holds 512 of them, for nobody else needs it.
    let kept = 512.0 / (16_384.0 * share);
    let expected = share * (1.0 - kept) / (1.0 - share * kept);
    let walked = outcome.escaped / (outcome.by_segments + outcome.escaped);
    assert!((walked / expected - 1.0).abs() < 0.2, "{walked} of the misses, expected {expected}");
    assert!(outcome.cycles > base.cycles);
}

#[test]
fn the_same_sets_give_the_same_outcomes_in_order() {
    let machine = machine(256);
    let tape = Tape::read(&SMALL, 20_000).unwrap();
    let composition = SMALL.composition().unwrap();
    let study =
        Study { machine: &machine, subject: &SMALL, composition, tape: &tape, check: false };
    let frames = 20_000..30_000;
    let sets: Vec<Vec<u64>> = (0..4).map(|set| faulty_frames(&frames, 4, set)).collect();
    let together = study.run_all(&sets, &|| {}).unwrap();
    let one_by_one: Result<Vec<_>, SimError> =
        sets.iter().map(|set| study.run(Some(set))).collect();
    assert_eq!(together, one_by_one.unwrap());
    assert!(sets.iter().all(|set| set.len() == 4 && set[0] >= 20_000 && set[3] < 30_000));
    assert_ne!(sets[0], sets[1]);
}
