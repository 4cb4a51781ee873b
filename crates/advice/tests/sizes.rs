//! Page sizes by area, worked out by hand.

use std::sync::atomic::{AtomicBool, Ordering};

use perforate_advice::{AdviceError, Analysis, ENOUGH, PageOrder, analyse};
use perforate_mmu::{Coalescing, CoalescingForm, L2Part, MmuConfig, TlbConfig, TlbGeometry};
use perforate_types::Chunk;

use given::{OneChunk, map, push_read};

mod given;

const MB: u64 = 1 << 20;
const GB: u64 = 1 << 30;
/// Start of the first area, a multiple of 1GB.
const START: u64 = 4 << 30;
const ORDER_64K: PageOrder = PageOrder(4);
/// Number of times that a program reads each page.
const ROUNDS: u64 = 5;

/// TLBs in which `entries` of any page size have room, and 64KB are one entry if they are a page.
fn tlb(entries: usize) -> TlbConfig {
    let whole = |entries| TlbGeometry { entries, ways: entries };
    TlbConfig {
        l2_coalescing: Some(Coalescing { pages: 16, form: CoalescingForm::ContiguousBit }),
        l2_1g: L2Part::ALL,
        ..MmuConfig::plain(whole(4), whole(entries)).tlb
    }
}

/// A program that maps areas and reads each one's pages in order, several times, one area after the other. Areas are
/// given by their start, their length and the pages that are read.
fn analysed(areas: &[(u64, u64, Vec<u64>)], tlb: &TlbConfig) -> Analysis {
    let mut chunk = Chunk::default();
    for (start, length, _) in areas {
        chunk.push_event(map(*start, length / 4096));
    }
    for (start, _, pages) in areas {
        for _ in 0..ROUNDS {
            pages.iter().for_each(|page| push_read(&mut chunk, start + page * 4096));
        }
    }
    analyse(&mut OneChunk::new(chunk), 0, tlb, 2, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// The first 64KB of each of 64 blocks of 2MB.
fn sparse() -> (u64, u64, Vec<u64>) {
    (START, 128 * MB, (0..64).flat_map(|block| block * 512..block * 512 + 16).collect())
}

/// All pages of 32MB.
fn dense() -> (u64, u64, Vec<u64>) {
    (START + GB, 32 * MB, (0..8192).collect())
}

/// An analysis that is stopped has no result, at whatever stage. Progress tells the stage: instructions first, then
/// choices.
#[test]
fn a_stopped_analysis_has_no_result() {
    let stopped_at = |call: usize| {
        let (mut calls, stop) = (0, AtomicBool::new(false));
        let mut chunk = Chunk::default();
        chunk.push_event(map(START, 8192));
        for _ in 0..ROUNDS {
            (0..8192).for_each(|page| push_read(&mut chunk, START + page * 4096));
        }
        let found = analyse(&mut OneChunk::new(chunk), 0, &tlb(128), 2, &stop, &mut |_| {
            stop.store(calls >= call, Ordering::Relaxed);
            calls += 1;
        });
        (found, calls)
    };
    let (whole, calls) = stopped_at(usize::MAX);
    assert!(whole.is_ok() && calls > 10, "{calls}");
    for call in [0, 1, calls / 2, calls - 1] {
        let (found, _) = stopped_at(call);
        assert!(matches!(found, Err(AdviceError::Stopped)), "{call} of {calls}");
    }
}

fn gains(analysis: &Analysis) -> Vec<(usize, PageOrder, u64, u64)> {
    let gain = |gain: &perforate_advice::AreaGain| {
        (gain.area, gain.order, gain.saved_walks, gain.additional_bytes)
    };
    analysis.area_gains.iter().map(gain).collect()
}

/// With 128 entries, each of the 1,024 and 8,192 pages misses in each of the four rounds after the first. The
/// sparse area has 64 pages of 64KB, which hit. The dense one has 512, which all miss, and 16 of 2MB, which hit.
/// So 64KB are right for the first, as 2MB would take 62 of 64 × 2MB more, and 2MB for the other.
#[test]
fn each_area_has_the_size_that_is_right_for_it() {
    let analysis = analysed(&[sparse(), dense()], &tlb(128));
    let all = 4 * (1024 + 8192);
    assert_eq!((analysis.base.walks, analysis.base.first_walks), (all, 1024 + 8192));
    assert_eq!(
        gains(&analysis),
        [
            (1, ORDER_64K, 4 * (8192 - 512), 0),
            (1, PageOrder::LARGE, 4 * 8192, 0),
            (0, ORDER_64K, 4 * 1024, 0),
            (0, PageOrder::LARGE, 4 * 1024, 64 * (512 - 16) * 4096),
        ]
    );
    let point = &analysis.curve.points[analysis.curve.point_for(ENOUGH).unwrap()];
    assert_eq!((point.walks, point.additional_bytes), (0, 0));
    for choice in &analysis.curve.choices[..point.choices] {
        let expected = [ORDER_64K, PageOrder::LARGE][analysis.pieces[choice.piece].area];
        assert_eq!(choice.order, expected, "{choice:?}");
    }
    assert!(analysis.huge_curve.choices.is_empty(), "no gigabyte is mapped");
}

/// Without entries of 64KB, only 2MB pages save anything.
#[test]
fn a_tlb_that_joins_nothing_has_no_size_between() {
    let plain = TlbConfig { l2_coalescing: None, ..tlb(128) };
    let orders: Vec<PageOrder> =
        analysed(&[sparse(), dense()], &plain).area_gains.iter().map(|gain| gain.order).collect();
    assert_eq!(orders, [PageOrder::LARGE; 2]);
}

/// One page of each of 1,024 blocks of 2MB, in two gigabytes: 2MB pages all miss in 128 entries, two pages of 1GB
/// hit. The other area is too short for a page of 1GB.
#[test]
fn one_gigabyte_is_best_where_2mb_pages_have_few_entries() {
    let wide = (START, 2 * GB, (0..1024).map(|block| block * 512).collect());
    let short = (START + 4 * GB, 512 * MB, (0..256).map(|block| block * 512).collect());
    let analysis = analysed(&[wide, short], &tlb(128));
    let all = 4 * (1024 + 256);
    let found: Vec<(usize, PageOrder, u64)> =
        gains(&analysis).iter().map(|&(area, order, saved, _)| (area, order, saved)).collect();
    assert_eq!(
        found,
        [
            (0, ORDER_64K, 0),
            (0, PageOrder::LARGE, 0),
            (0, PageOrder::HUGE, 4 * 1024),
            (1, ORDER_64K, 0),
            (1, PageOrder::LARGE, 0),
        ]
    );
    assert_eq!(analysis.curve.point_for(ENOUGH), None, "no page of at most 2MB saves any");
    let huge = &analysis.huge_curve;
    assert_eq!(huge.choices.len(), 2);
    // One gigabyte leaves the 512 pages of the other, which evict it in each round.
    let walks: Vec<u64> = huge.points.iter().map(|point| point.walks).collect();
    assert_eq!(walks, [all, all - 4 * 512 + 4, all - 4 * 1024]);
    assert_eq!(huge.points[2].additional_bytes, 2 * GB - 1024 * 4096);
}

/// An area needs a hundredth of the walks: 81 pages of 8,192 do not reach that, 84 do.
#[test]
fn areas_with_few_walks_are_not_simulated_as_a_whole() {
    let areas = |pages: u64| {
        let few = (START, 8 * MB, (0..pages).collect());
        // Both miss with 64 entries.
        let analysis = analysed(&[few, dense()], &tlb(64));
        let mut areas: Vec<usize> = analysis.area_gains.iter().map(|gain| gain.area).collect();
        areas.dedup();
        areas
    };
    assert_eq!((areas(81), areas(84)), (vec![1], vec![1, 0]));
}
