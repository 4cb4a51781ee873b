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
