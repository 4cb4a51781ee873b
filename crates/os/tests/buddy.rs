//! The buddy allocator: no overlap, conservation, merging, laziness, directions.

use perforate_os::Buddy;
use perforate_types::Frame;
use proptest::prelude::*;

#[test]
fn single_frames_come_from_the_top_and_blocks_from_the_bottom() {
    // 4096 frames are four 4MB chunks.
    let mut buddy = Buddy::new(4096);
    assert_eq!(buddy.allocate(0), Some(Frame::new(4095)));
    assert_eq!(buddy.allocate(1), Some(Frame::new(4092)), "a pair; 4094 is left as order 0");
    assert_eq!(buddy.allocate(0), Some(Frame::new(4094)), "the smallest sufficient order first");
    assert_eq!(buddy.allocate(9), Some(Frame::new(3072)), "half of the chunk that is open");
    assert_eq!(buddy.allocate(9), Some(Frame::new(0)));
    assert_eq!(buddy.allocate(9), Some(Frame::new(512)));
    assert_eq!(buddy.allocate(10), Some(Frame::new(1024)));
    assert_eq!(buddy.free_frames(), 4096 - 4 - 3 * 512 - 1024);
}

#[test]
fn a_freed_frame_merges_with_all_its_buddies() {
    let mut buddy = Buddy::new(2048);
    let frame = buddy.allocate(0).unwrap();
    // One frame out of a chunk leaves one block of each order 0 to 9.
    assert!((0..10).all(|order| buddy.free_blocks(order) == 1));
    assert_eq!(buddy.free_blocks(10), 1);
    buddy.free(frame, 0);
    assert!((0..10).all(|order| buddy.free_blocks(order) == 0));
    assert_eq!(buddy, Buddy::new(2048));
}

#[test]
fn a_chosen_frame_can_be_taken_once() {
    let mut buddy = Buddy::new(4096);
    assert!(buddy.take(Frame::new(1500)));
    assert!(!buddy.take(Frame::new(1500)));
    assert!(!buddy.is_free(Frame::new(1500)));
    assert!(buddy.is_free(Frame::new(1501)));
    buddy.free(Frame::new(1500), 0);
    assert_eq!(buddy, Buddy::new(4096));
}

#[test]
fn memory_sizes_that_are_no_multiple_of_4mb_are_used_to_the_last_frame() {
    for frames in [1, 7, 1023, 1025, 5000] {
        let mut buddy = Buddy::new(frames);
        assert_eq!(buddy.free_frames(), frames);
        let mut taken: Vec<_> = std::iter::from_fn(|| buddy.allocate(0)).collect();
        taken.sort();
        assert_eq!(taken, (0..frames).map(Frame::new).collect::<Vec<_>>());
    }
}

#[test]
fn runs_of_1gb_are_aligned_and_leave_single_frames_alone() {
    let mut buddy = Buddy::new(3 << 18);
    buddy.allocate(0).unwrap();
    assert_eq!(buddy.allocate_run(1 << 18), Some(Frame::new(0)));
    assert_eq!(buddy.allocate_run(1 << 18), Some(Frame::new(1 << 18)));
    assert_eq!(buddy.allocate_run(1 << 18), None, "the last GB is touched");
    buddy.free_run(Frame::new(0), 1 << 18);
    assert_eq!(buddy.free_frames(), (2 << 18) - 1);
    buddy.free_run(Frame::new(1 << 18), 1 << 18);
    assert_eq!(buddy.pieces(), (1, 1));
}

#[test]
fn sixteen_terabytes_cost_nothing_until_touched() {
    let mut buddy = Buddy::new(1 << 32);
    let taken: Vec<_> = (0..1000).map(|_| buddy.allocate(9).unwrap()).collect();
    let single: Vec<_> = (0..1000).map(|_| buddy.allocate(0).unwrap()).collect();
    assert_eq!(buddy.free_frames(), (1 << 32) - 1000 * 512 - 1000);
    // 1000 blocks fill 500 chunks, which need no state; 1000 frames open one chunk.
    assert_eq!(buddy.pieces(), (1, 1));
    taken.into_iter().for_each(|block| buddy.free(block, 9));
    single.into_iter().for_each(|frame| buddy.free(frame, 0));
    assert_eq!(buddy.pieces(), (1, 0));
}

proptest! {
    #[test]
    fn blocks_never_overlap_and_nothing_is_lost(
        frames in 1..9000u64,
        steps in prop::collection::vec((0..=10u32, any::<prop::sample::Index>(), 0..3u8), 1..200),
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
            } else if let Some(frame) = buddy.allocate(order) {
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
        prop_assert_eq!(buddy, Buddy::new(frames), "all freed: as it was");
    }
}
