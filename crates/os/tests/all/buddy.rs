//! The buddy allocator: no overlap, conservation, merging, laziness, directions.

use perforate_os::{Buddy, MigrateType};
use perforate_types::Frame;
use proptest::prelude::*;

/// Free blocks of each order, and numbers of pieces.
fn free_lists(buddy: &Buddy) -> (Vec<u64>, (usize, usize)) {
    ((0..=Buddy::MAX_ORDER).map(|order| buddy.free_blocks(order)).collect(), buddy.pieces())
}

#[test]
fn single_frames_come_from_the_highest_pageblock_and_blocks_from_the_bottom() {
    // 4096 frames are four 4MB chunks.
    let mut buddy = Buddy::new(4096);
    assert_eq!(buddy.allocate(0, MigrateType::Movable), Some(Frame::new(3584)));
    assert_eq!(
        buddy.allocate(1, MigrateType::Movable),
        Some(Frame::new(3586)),
        "a pair; 3585 is left as order 0"
    );
    assert_eq!(
        buddy.allocate(0, MigrateType::Movable),
        Some(Frame::new(3585)),
        "the smallest sufficient order first"
    );
    assert_eq!(
        buddy.allocate(9, MigrateType::Movable),
        Some(Frame::new(3072)),
        "half of the chunk that is open"
    );
    assert_eq!(buddy.allocate(9, MigrateType::Movable), Some(Frame::new(0)));
    assert_eq!(buddy.allocate(9, MigrateType::Movable), Some(Frame::new(512)));
    assert_eq!(buddy.allocate(10, MigrateType::Movable), Some(Frame::new(1024)));
    assert_eq!(buddy.free_frames(), 4096 - 4 - 3 * 512 - 1024);
}

#[test]
fn frames_taken_one_after_the_other_ascend() {
    let mut buddy = Buddy::new(2048);
    let taken: Vec<_> =
        (0..512).map(|_| buddy.allocate(0, MigrateType::Movable).unwrap()).collect();
    assert_eq!(taken, (1536..2048).map(Frame::new).collect::<Vec<_>>());
}

#[test]
fn a_freed_frame_merges_with_all_its_buddies() {
    let mut buddy = Buddy::new(2048);
    let frame = buddy.allocate(0, MigrateType::Movable).unwrap();
    // One frame out of a 4MB chunk leaves one free block of each order from 0 to 9.
    assert!((0..10).all(|order| buddy.free_blocks(order) == 1));
    assert_eq!(buddy.free_blocks(10), 1);
    buddy.free(frame, 0);
    assert!((0..10).all(|order| buddy.free_blocks(order) == 0));
    assert_eq!(free_lists(&buddy), free_lists(&Buddy::new(2048)));
}

#[test]
fn a_chosen_frame_can_be_taken_once() {
    let mut buddy = Buddy::new(4096);
    assert!(buddy.take(Frame::new(1500)));
    assert!(!buddy.take(Frame::new(1500)));
    assert!(!buddy.is_free(Frame::new(1500)));
    assert!(buddy.is_free(Frame::new(1501)));
    buddy.free(Frame::new(1500), 0);
    assert_eq!(free_lists(&buddy), free_lists(&Buddy::new(4096)));
}

#[test]
fn memory_sizes_that_are_no_multiple_of_4mb_are_used_to_the_last_frame() {
    for frames in [1, 7, 1023, 1025, 5000] {
        let mut buddy = Buddy::new(frames);
        assert_eq!(buddy.free_frames(), frames);
        let mut taken: Vec<_> =
            std::iter::from_fn(|| buddy.allocate(0, MigrateType::Movable)).collect();
        taken.sort();
        assert_eq!(taken, (0..frames).map(Frame::new).collect::<Vec<_>>());
    }
}

#[test]
fn runs_of_1gb_are_aligned_and_leave_single_frames_alone() {
    let mut buddy = Buddy::new(3 << 18);
    buddy.allocate(0, MigrateType::Movable).unwrap();
    assert_eq!(buddy.allocate_run(1 << 18), Some(Frame::new(0)));
    assert_eq!(buddy.allocate_run(1 << 18), Some(Frame::new(1 << 18)));
    assert_eq!(buddy.allocate_run(1 << 18), None, "the last GB is touched");
    buddy.free_run(Frame::new(0), 1 << 18);
    assert_eq!(buddy.free_frames(), (2 << 18) - 1);
    buddy.free_run(Frame::new(1 << 18), 1 << 18);
    assert_eq!(buddy.pieces(), (1, 2), "both pageblocks of the pair that is open have state");
}

#[test]
fn sixteen_terabytes_cost_nothing_until_touched() {
    let mut buddy = Buddy::new(1 << 32);
    let taken: Vec<_> =
        (0..1000).map(|_| buddy.allocate(9, MigrateType::Movable).unwrap()).collect();
    let single: Vec<_> =
        (0..1000).map(|_| buddy.allocate(0, MigrateType::Movable).unwrap()).collect();
    assert_eq!(buddy.free_frames(), (1 << 32) - 1000 * 512 - 1000);
    // Full pageblocks need no state: of the two pageblocks that 1000 frames open, one has none.
    assert_eq!(buddy.pieces(), (1, 1));
    taken.into_iter().for_each(|block| buddy.free(block, 9));
    single.into_iter().for_each(|frame| buddy.free(frame, 0));
    assert_eq!(buddy.pieces(), (1, 0));
}

#[test]
fn each_type_fills_pageblocks_of_its_own() {
    // Two pairs of pageblocks: 0 and 1, 2 and 3.
    let mut buddy = Buddy::new(2048);
    let movable = buddy.allocate(0, MigrateType::Movable).unwrap();
    let table = buddy.allocate(0, MigrateType::Unmovable).unwrap();
    assert_eq!(movable, Frame::new(1536));
    assert_eq!(table, Frame::new(512), "the other pair is opened, not the movable one used");
    assert_eq!(buddy.migrate_type(table), MigrateType::Unmovable);
    assert_eq!(buddy.migrate_type(Frame::new(0)), MigrateType::Unmovable, "the whole pair is");
    assert_eq!(buddy.allocate(0, MigrateType::Unmovable), Some(Frame::new(513)));
    assert_eq!(buddy.steals_and_claims(), (0, 0));
    // Slab has no pageblock of its own: the largest block is pageblock 0, wholly free, which is
    // claimed.
    assert_eq!(buddy.allocate(0, MigrateType::Reclaimable), Some(Frame::new(0)));
    assert_eq!(buddy.migrate_type(Frame::new(0)), MigrateType::Reclaimable);
    assert_eq!(buddy.steals_and_claims(), (1, 1));
    buddy.free(movable, 0);
    assert_eq!(buddy.free_blocks_of(MigrateType::Movable, 10), 1);
}

#[test]
fn less_than_half_a_pageblock_is_stolen_from_but_not_claimed() {
    let mut buddy = Buddy::new(1024);
    // 700 frames are taken: all of pageblock 1, and 188 frames of pageblock 0.
    for _ in 0..700 {
        buddy.allocate(0, MigrateType::Movable).unwrap();
    }
    // The largest free block of pageblock 0 is frames 256–511; its 324 free frames are more than
    // half.
    let mut other = buddy.clone();
    assert_eq!(other.allocate(0, MigrateType::Unmovable), Some(Frame::new(256)));
    assert_eq!(other.steals_and_claims(), (1, 1));
    for _ in 0..70 {
        buddy.allocate(0, MigrateType::Movable).unwrap();
    }
    // 254 frames are free now: a block is stolen, but the pageblock stays movable.
    assert_eq!(buddy.allocate(0, MigrateType::Unmovable), Some(Frame::new(384)));
    assert_eq!(buddy.steals_and_claims(), (1, 0));
    assert_eq!(buddy.migrate_type(Frame::new(0)), MigrateType::Movable);
}

proptest! {
    #[test]
    fn blocks_never_overlap_and_nothing_is_lost(
        frames in 1..9000u64,
        steps in prop::collection::vec((0..=10u32, any::<prop::sample::Index>(), 0..6u8), 1..200),
    ) {
        let mut buddy = Buddy::new(frames);
        let mut live: Vec<(u64, u32)> = Vec::new();
        for (order, index, what) in steps {
            if what == 0 && !live.is_empty() {
                let (frame, order) = live.swap_remove(index.index(live.len()));
                buddy.free(Frame::new(frame), order);
            } else if what == 1 {
                let frame = index.index(frames as usize) as u64;
                let is_used = live.iter().any(|&(start, order)| (start..start + (1 << order)).contains(&frame));
                prop_assert_eq!(buddy.take(Frame::new(frame)), !is_used);
                if !is_used {
                    live.push((frame, 0));
                }
            } else if let Some(frame) = buddy.allocate(order, MigrateType::ALL[usize::from(what) % 3]) {
                let start = frame.number();
                prop_assert_eq!(start % (1 << order), 0);
                prop_assert!(start + (1 << order) <= frames);
                for &(other, other_order) in &live {
                    prop_assert!(start + (1 << order) <= other || other + (1 << other_order) <= start);
                }
                live.push((start, order));
            }
            let used: u64 = live.iter().map(|&(_, order)| 1u64 << order).sum();
            prop_assert_eq!(buddy.free_frames(), frames - used);
            let listed: u64 = (0..=Buddy::MAX_ORDER).map(|order| buddy.free_blocks(order) << order).sum();
            prop_assert_eq!(listed, buddy.free_frames());
        }
        for (frame, order) in live {
            buddy.free(Frame::new(frame), order);
        }
        prop_assert_eq!(free_lists(&buddy), free_lists(&Buddy::new(frames)), "all freed: as it was");
    }
}
