//! Miss-ratio curves, compared with separate simulations of fully associative TLBs.

use std::collections::HashSet;

use perforate_advice::{MissRatioCurves, PageOrder, Sampling, miss_ratio_curves};
use perforate_mmu::{SetAssociative, TlbGeometry};
use perforate_sim::{MemoryState, Workload, open_workload};
use perforate_trace::Source;
use perforate_types::Chunk;
use proptest::prelude::*;

use given::{OneChunk, map, push_read};

mod given;

const ORDERS: [PageOrder; 5] =
    [PageOrder::BASE, PageOrder(2), PageOrder(4), PageOrder::LARGE, PageOrder::HUGE];

fn open(workload: &str, instructions: u64) -> Box<dyn Source> {
    let name = perforate_trace::bundled::resolve(workload);
    let workload = Workload { instructions: Some(instructions), ..Workload::named(name) };
    open_workload(&workload, &MemoryState::of(32 << 30), 1).unwrap()
}

fn curves(source: &mut dyn Source, sampling: Sampling) -> MissRatioCurves {
    let sizes = ORDERS.map(|order| (order, sampling));
    miss_ratio_curves(source, &sizes, &mut |_| {}).unwrap()
}

/// Misses of a fully associative TLB with LRU replacement for pages of one order: all, and those that are
/// first touches. For programs of one process that unmap nothing.
fn simulated(source: &mut dyn Source, order: PageOrder, entries: usize) -> [u64; 2] {
    let mut tlb = SetAssociative::<()>::new(TlbGeometry { entries, ways: entries });
    let (mut misses, mut seen) = (0, HashSet::new());
    let mut chunk = Chunk::default();
    while source.next_chunk(&mut chunk).unwrap() {
        for access in &chunk.accesses {
            let first = access.address.value() >> 12;
            let last = (access.address.value() + u64::from(access.size) - 1) >> 12;
            for page in first..=last {
                let block = page >> order.0;
                seen.insert(block);
                if tlb.look_up(0, block).is_none() {
                    misses += 1;
                    tlb.insert_absent(0, block, ());
                }
            }
        }
    }
    [misses, seen.len() as u64]
}

#[test]
fn curves_equal_separate_simulations() {
    for workload in ["random:size=64M", "zipf:size=256M", "stride:size=64M", "mummer", "bfs"] {
        let open = || open(workload, 100_000);
        let found = curves(&mut open(), Sampling::ALL);
        for (curve, order) in found.curves.iter().zip(ORDERS) {
            for entries in [1, 2, 7, 64, 127, 128, 129, 500, 1536, 4096] {
                let [misses, first] = simulated(&mut open(), order, entries);
                let counted = curve.misses(entries) + curve.first_touches();
                assert_eq!(
                    (counted, curve.first_touches()),
                    (misses, first),
                    "{workload} {order:?} {entries}"
                );
                assert_eq!(curve.error(entries), None);
            }
            let needed = curve.entries_for(100);
            assert!(curve.misses(needed) <= 100 && (needed == 0 || curve.misses(needed - 1) > 100));
        }
    }
}

/// The intervals of a sample contain the misses of all blocks in at least nine of ten places of the curves. Misses of
/// small TLBs, and first touches, are counted.
#[test]
fn samples_are_within_their_error() {
    let (mut within, mut all) = (0, 0);
    for workload in ["random:size=256M", "zipf:size=256M", "mummer", "bfs", "gups", "redis", "xz"] {
        let exact = curves(&mut open(workload, 1_500_000), Sampling::ALL);
        for blocks in [4, 16] {
            let sampling = Sampling::one_in(blocks).unwrap();
            let sampled = curves(&mut open(workload, 1_500_000), sampling);
            assert_eq!(sampled.accesses, exact.accesses);
            for (exact, sampled) in exact.curves.iter().zip(&sampled.curves).take(3) {
                assert_eq!(sampled.first_touches(), exact.first_touches());
                for entries in [1, 2, 5, 16, 64, 127, 128] {
                    assert_eq!(sampled.misses(entries), exact.misses(entries), "{workload}");
                    assert_eq!(sampled.error(entries), None);
                }
                for entries in (8..17).map(|bits| 1_usize << bits) {
                    let off = exact.misses(entries).abs_diff(sampled.misses(entries));
                    within += u32::from(off <= sampled.error(entries).unwrap());
                    all += 1;
                }
            }
        }
    }
    assert!(within * 10 >= all * 9, "{within} of {all}");
}

const START: u64 = 0x1000_0000;
const PAGES: u64 = 600;

/// Access to a page, or its unmapping, after which it is mapped again.
#[derive(Clone, Copy, Debug)]
enum Action {
    Access(u64),
    Renew(u64),
}

/// A program of one process: a mapping, then accesses and pages that are mapped again, in order.
fn program(actions: &[Action]) -> OneChunk {
    let mut chunk = Chunk::default();
    chunk.push_event(map(START, PAGES));
    for action in actions {
        match *action {
            Action::Access(page) => push_read(&mut chunk, START + page * 4096 + 8),
            Action::Renew(page) => chunk.push_event(map(START + page * 4096, 1)),
        }
    }
    OneChunk::new(chunk)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Also if pages are unmapped: entries of blocks with such a page are invalid if the page was touched, and
    /// other blocks use them.
    #[test]
    fn curves_equal_simulations_with_unmapped_pages(
        actions in prop::collection::vec(
            prop_oneof![
                8 => (0..PAGES, 0..PAGES).prop_map(|(one, other)| Action::Access(one * other / PAGES)),
                1 => (0..PAGES, 0..PAGES).prop_map(|(one, other)| Action::Renew(one * other / PAGES)),
            ],
            1..3000,
        ),
        entries in prop_oneof![1_usize..40, 40_usize..700],
        order in prop_oneof![Just(PageOrder::BASE), Just(PageOrder(2)), Just(PageOrder::LARGE)],
    ) {
        let sizes = [(order, Sampling::ALL)];
        let found = miss_ratio_curves(&mut program(&actions), &sizes, &mut |_| {}).unwrap();
        let mut tlb = SetAssociative::<()>::new(TlbGeometry { entries, ways: entries });
        let (mut misses, mut first) = (0, 0);
        let (mut seen, mut touched) = (HashSet::new(), HashSet::new());
        for action in &actions {
            match *action {
                Action::Access(page) => {
                    let block = (START / 4096 + page) >> order.0;
                    touched.insert(page);
                    let is_first = seen.insert(block);
                    if tlb.look_up(0, block).is_none() {
                        first += u64::from(is_first);
                        misses += u64::from(!is_first);
                        tlb.insert_absent(0, block, ());
                    }
                }
                Action::Renew(page) if touched.remove(&page) => {
                    let block = (START / 4096 + page) >> order.0;
                    tlb.invalidate_if(|key| key == block);
                    seen.remove(&block);
                }
                Action::Renew(_) => {}
            }
        }
        let curve = &found.curves[0];
        prop_assert_eq!((curve.misses(entries), curve.first_touches()), (misses, first));
    }
}
