//! What the blocks of a machine can become.

use perforate_os::{FrameState, OccupancyBuilder};
use perforate_records::BlockReach;
use perforate_schemes::perforated::{Perforated, PerforationOptions};

use FrameState::{Absent, Free, Large, Movable, PageCache, Reclaimable, Unmovable};

/// Blocks: whole; compactable (movable 100); dropped page cache only; much slab; little slab; two
/// unmovable frames in two regions with free ones; the same with movable ones; a large page; 300
/// unmovable frames; nothing.
#[test]
fn blocks_are_told_by_what_they_can_become() {
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
        (Unmovable, 300),
        (Free, 212),
        (Absent, 512),
    ];
    let mut builder = OccupancyBuilder::default();
    runs.iter().for_each(|&(state, frames)| builder.push_run(state, frames).unwrap());
    let made = builder.finish().unwrap();
    let policy = Perforated::new(PerforationOptions::SELECTIVE).unwrap();
    let survey = made.survey(&policy);
    for (reach, blocks) in [
        (BlockReach::Whole, 1),
        (BlockReach::Compactable, 2),
        (BlockReach::Reclaimable, 1),
        (BlockReach::PerforableNow, 2),
        (BlockReach::Perforable, 1),
        (BlockReach::Large, 1),
        (BlockReach::Neither, 1),
        (BlockReach::Absent, 1),
    ] {
        assert_eq!(survey.count(reach), blocks, "{reach:?}");
    }
    assert_eq!(survey.memory_blocks, 9);
    assert_eq!(survey.whole_without_page_cache, 1);
    // With the compactable one of which 100 frames in two regions are in use.
    assert_eq!(survey.perforable_as_they_are, 3);
    // Free outside whole blocks: 412 + 200 + 500 + 510 + 110 + 212 frames, room for three blocks.
    assert_eq!(survey.compactable_with_room, 2);
    // Two with two holes, one with twelve.
    assert_eq!(survey.holes, [0, 2, 0, 0, 1, 0, 0, 0, 0, 0]);
    // One filter bit only: two holes 400 frames apart are in two regions.
    let strict = Perforated::new(perforate_config::read("max-filter-bits=1").unwrap()).unwrap();
    assert_eq!(made.survey(&strict).count(BlockReach::Perforable), 0);
}
