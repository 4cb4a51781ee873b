//! Survey of a memory: possible uses of its blocks.

use perforate_os::{FrameState, OccupancyBuilder};
use perforate_records::BlockReach;
use perforate_schemes::perforated::{Perforated, PerforationOptions};

use FrameState::{Absent, Free, Huge, Large, Movable, PageCache, Reclaimable, Unmovable};

/// The blocks: free; compactable (100 movable frames); page cache; much slab; little slab; two
/// unmovable frames in two regions, the rest free; two unmovable frames, the rest movable and free;
/// a large page; part of a 1GB page; 300 unmovable frames; absent.
#[test]
fn blocks_are_classified_by_possible_use() {
    let runs = [
        (Free, 512),
        (Free, 412),
        (Movable, 100),
        (PageCache, 512),
        (Free, 200),
        (Reclaimable, 312),
        (Free, 500),
        (Reclaimable, 12),
        (Unmovable, 1),
        (Free, 400),
        (Unmovable, 1),
        (Free, 110),
        (Unmovable, 1),
        (Movable, 400),
        (Unmovable, 1),
        (Free, 110),
        (Large, 512),
        (Huge, 512),
        (Unmovable, 300),
        (Free, 212),
        (Absent, 512),
    ];
    let mut builder = OccupancyBuilder::default();
    runs.iter().for_each(|&(state, frames)| builder.push_run(state, frames).unwrap());
    let occupancy = builder.finish().unwrap();
    let policy = Perforated::new(PerforationOptions::SELECTIVE).unwrap();
    let survey = occupancy.survey(&policy);
    for (reach, blocks) in [
        (BlockReach::Whole, 1),
        (BlockReach::Compactable, 2),
        (BlockReach::Reclaimable, 1),
        (BlockReach::PerforableNow, 2),
        (BlockReach::Perforable, 1),
        (BlockReach::Large, 2),
        (BlockReach::Neither, 1),
        (BlockReach::Absent, 1),
    ] {
        assert_eq!(survey.count(reach), blocks, "{reach:?}");
    }
    assert_eq!(survey.memory_blocks, 10);
    assert_eq!(survey.whole_without_page_cache, 1);
    // Includes the compactable block with 100 frames in use in two regions.
    assert_eq!(survey.perforable_as_they_are, 3);
    // Free frames outside wholly free blocks: 412 + 200 + 500 + 510 + 110 + 212, room for three
    // blocks.
    assert_eq!(survey.compactable_with_room, 2);
    // Two blocks with two holes, one with twelve.
    assert_eq!(survey.holes, [0, 2, 0, 0, 1, 0, 0, 0, 0, 0]);
    // With one filter bit only: two holes 400 frames apart lie in two regions.
    let strict = Perforated::new(perforate_config::read("max-filter-bits=1").unwrap()).unwrap();
    assert_eq!(occupancy.survey(&strict).count(BlockReach::Perforable), 0);
}

/// One block each: all of them others' data that move; a program's among them; a part of the block absent; a
/// single frame of a kernel; slab alone; slab and a kernel's frame; 2MB pages beside free frames; three holes.
#[test]
fn the_reach_of_a_block_is_that_of_its_worst_frame() {
    let blocks: [(&[(FrameState, u64)], BlockReach); 9] = [
        (&[(PageCache, 300), (FrameState::PerCpu, 212)], BlockReach::Compactable),
        (&[(PageCache, 511), (Movable, 1)], BlockReach::Compactable),
        (&[(Free, 511), (Absent, 1)], BlockReach::PerforableNow),
        (&[(Unmovable, 1), (Movable, 511)], BlockReach::Perforable),
        (&[(Reclaimable, 512)], BlockReach::Reclaimable),
        (&[(Reclaimable, 511), (Unmovable, 1)], BlockReach::Neither),
        (&[(Large, 1), (Free, 511)], BlockReach::Large),
        (&[(Huge, 511), (Unmovable, 1)], BlockReach::Large),
        (&[(Unmovable, 3), (Free, 509)], BlockReach::PerforableNow),
    ];
    let policy = Perforated::new(PerforationOptions::SELECTIVE).unwrap();
    let mut builder = OccupancyBuilder::default();
    for (runs, reach) in blocks {
        let mut alone = OccupancyBuilder::default();
        for &(state, frames) in runs {
            alone.push_run(state, frames).unwrap();
            builder.push_run(state, frames).unwrap();
        }
        let survey = alone.finish().unwrap().survey(&policy);
        assert_eq!(survey.count(reach), 1, "{runs:?}: {survey:?}");
    }
    let survey = builder.finish().unwrap().survey(&policy);
    assert_eq!((survey.memory_blocks, survey.whole_without_page_cache), (9, 1));
    // Of the blocks that hold no large page, two have so few frames in use.
    assert_eq!(survey.perforable_as_they_are, 2);
    // One hole, one hole, three holes.
    assert_eq!(survey.holes, [2, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    // 511 + 511 + 509 free frames have room for two blocks, as many as could be emptied.
    assert_eq!(survey.compactable_with_room, 2);
    let none = OccupancyBuilder::default().finish().unwrap().survey(&policy);
    assert_eq!((none.memory_blocks, none.compactable_with_room), (0, 0));
}
