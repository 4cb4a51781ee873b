//! Maps of physical memory: every frame is counted once, in the right class.

use crate::machine::{BASE, GB, MB, Machine, fork, map, populate, protect, switch, unmap};
use perforate_os::{BlockClass, BlockFrames, FrameClass, HardFault, HoleContent, HostSnapshot};
use perforate_records::SnapshotZone;
use perforate_types::{AccessKind, Frame, Permissions, ProcessId, ProgramEvent};

/// Number and class of blocks, in runs.
fn blocks(machine: &Machine) -> Vec<(u64, BlockClass)> {
    let map = machine.kernel.memory_map();
    map.runs().iter().map(|run| (run.blocks, run.frames.class())).collect()
}

/// Frames of the first block of a class.
fn first(machine: &Machine, class: BlockClass) -> BlockFrames {
    let map = machine.kernel.memory_map();
    let found = map.runs().iter().find(|run| run.frames.class() == class);
    found.unwrap_or_else(|| panic!("no {class:?} block")).frames
}

#[test]
fn a_new_machine_is_free_but_for_its_bitmap() {
    let machine = Machine::new("thp", 64 * MB);
    assert_eq!(blocks(&machine), [(32, BlockClass::Free)]);
    // The hole bitmap of 64MB has 16384 bits: one frame at the top.
    let machine = Machine::new("perforated", 64 * MB);
    assert_eq!(blocks(&machine), [(31, BlockClass::Free), (1, BlockClass::Unmovable)]);
    let map = machine.kernel.memory_map();
    assert_eq!(map.frames(FrameClass::Unmovable), 1);
    assert_eq!(map.frames(FrameClass::Free), 16383);
}

#[test]
fn pages_of_each_size_lie_where_the_allocator_puts_them() {
    let mut machine = Machine::new("thp", 64 * MB);
    machine.event(populate(BASE, 4 * MB));
    // A further 1MB has no large page. Table nodes and 4KB pages lie in separate pageblocks.
    machine.event(populate(BASE + 6 * MB, MB));
    let map = machine.kernel.memory_map();
    assert_eq!(map.blocks_of(BlockClass::Large), 2);
    assert_eq!(map.block(0).unwrap().count(FrameClass::Large), 512);
    // Nodes of levels 4, 3 and 2 and one level-1 node; the rest is free.
    let nodes = map.block(31).unwrap();
    assert_eq!(nodes.class(), BlockClass::Unmovable);
    assert_eq!(nodes.count(FrameClass::Unmovable), 4);
    assert_eq!(nodes.count(FrameClass::Free), 508);
    let pages = map.block(29).unwrap();
    assert_eq!((pages.count(FrameClass::Movable), pages.count(FrameClass::Free)), (256, 256));
    assert_eq!(map.blocks_of(BlockClass::Free), 28);
}

#[test]
fn a_huge_page_is_512_blocks_and_its_split_shows() {
    let mut machine = Machine::new("huge-1g", 3 * GB);
    machine.map(GB, GB);
    machine.write(GB);
    assert_eq!(machine.kernel.memory_map().blocks_of(BlockClass::Huge), 512);
    machine.event(fork(1));
    machine.write(GB + 5 * 4096);
    // The child still maps the run as one page, so all of it counts as a 1GB page.
    assert_eq!(machine.kernel.memory_map().blocks_of(BlockClass::Huge), 512);
    machine.event(ProgramEvent::Exit { process: ProcessId(1) });
    let map = machine.kernel.memory_map();
    assert_eq!(map.blocks_of(BlockClass::Large), 511);
    // The first block lost the frame that was copied.
    assert_eq!(map.frames(FrameClass::Movable), 512);
    assert_eq!(map.block(0).unwrap().class(), BlockClass::PartlyFree);
    assert_eq!(map.block(0).unwrap().count(FrameClass::Free), 1);
}

#[test]
fn perforated_blocks_show_their_holes_and_what_is_in_them() {
    let mut machine =
        Machine::fragmented("perforated", 64 * MB, "portion=100%,holes=25%,clustered");
    machine.event(map(BASE, 2 * MB));
    machine.write(BASE);
    let block = first(&machine, BlockClass::Perforated);
    assert_eq!(block.holes(), 128);
    assert_eq!(block.count(FrameClass::Unmovable), 128, "holes are injected foreign frames");

    let mut machine = Machine::new("perforated", 64 * MB);
    machine.event(map(BASE, 2 * MB));
    machine.write(BASE);
    machine.punch(BASE + 7 * 4096, HoleContent::Unallocated).unwrap();
    let block = first(&machine, BlockClass::Perforated);
    assert_eq!((block.holes(), block.count(FrameClass::Free)), (1, 1));
    machine.write(BASE + 7 * 4096);
    // The page's other hole has a frame of its own, a movable one.
    let movable = |machine: &Machine| machine.kernel.memory_map().frames(FrameClass::Movable);
    let before = movable(&machine);
    machine.punch(BASE + 9 * 4096, HoleContent::Moved).unwrap();
    assert_eq!(movable(&machine), before + 1);
    machine.event(fork(1));
    assert_eq!(movable(&machine), before + 1, "also while another process shares it");
    machine.event(ProgramEvent::Exit { process: ProcessId(1) });
    machine.event(unmap(BASE, 2 * MB));
    assert_eq!(blocks(&machine), [(31, BlockClass::Free), (1, BlockClass::Unmovable)]);
}

#[test]
fn frames_that_stay_behind_a_mapping_are_unmovable() {
    let mut machine = Machine::fragmented("thp", 64 * MB, "portion=100%,holes=25%,dispersed");
    machine.event(map(BASE, 2 * MB));
    machine.write(BASE);
    machine.event(unmap(BASE, 2 * MB));
    let block = machine.kernel.memory_map().block(0).unwrap();
    assert_eq!(block.count(FrameClass::Unmovable), 128);
    assert_eq!(block.count(FrameClass::Free), 384);
    assert_eq!(block.class(), BlockClass::Unmovable);
}

#[test]
fn a_memory_that_ends_inside_a_block_is_counted_to_its_end() {
    let machine = Machine::new("perforated", 5 * MB);
    let map = machine.kernel.memory_map();
    assert_eq!(map.blocks(), 3);
    assert_eq!(map.frames(FrameClass::Free) + map.frames(FrameClass::Unmovable), 1280);
    assert_eq!(map.block(2).unwrap().count(FrameClass::Unmovable), 1);
}

#[test]
fn a_large_memory_costs_what_is_in_it() {
    let mut machine = Machine::new("thp", 64 << 40);
    machine.event(populate(BASE, 64 * MB));
    machine.access(BASE, AccessKind::Write);
    let map = machine.kernel.memory_map();
    assert_eq!(map.blocks(), 32 << 20);
    // Runs of large blocks, free blocks and table nodes.
    assert_eq!(map.runs().len(), 3);
    assert_eq!(map.blocks_of(BlockClass::Large), 32);
    machine.event(switch(1));
    assert_eq!(machine.kernel.memory_map(), map);
}

/// A perforated page whose sub-pages all have entries of their own: compaction can empty its block.
#[test]
fn the_block_of_a_perforated_page_of_holes_alone_may_be_free() {
    let mut machine = Machine::new("perforated", 256 * MB);
    // A failing frame leaves small free pieces, into which frames can be migrated.
    machine.act(|kernel| Ok(kernel.hard_fault(Frame::new(0)))).unwrap();
    // The first two 2MB pages lie beside the broken block and the bitmap; the third lies beside a
    // free block.
    machine.event(populate(BASE, 6 * MB));
    let third = BASE + 4 * MB;
    machine.event(unmap(third, 4096));
    machine.event(protect(third + 4096, 2 * MB - 4096, Permissions::READ));
    assert_eq!(machine.counter("holes_allocated"), 511);
    let free = machine.kernel.memory_map().frames(FrameClass::Free);
    machine.act(|kernel| Ok(kernel.compact())).unwrap();
    assert_eq!(machine.counter("compaction_frames_migrated"), 511);
    assert_eq!(machine.kernel.memory_map().frames(FrameClass::Free), free);
    machine.assert_memory_adds_up();
}

/// Programs' 4KB pages are movable, in blocks that they fill and in others.
#[test]
fn pages_of_programs_are_movable() {
    let mut machine = Machine::new("base-pages", 64 * MB);
    machine.event(populate(BASE, 8 * MB + MB));
    let map = machine.kernel.memory_map();
    assert_eq!(map.frames(FrameClass::Movable), 9 * 256);
    // Levels 4, 3 and 2, and a node for each 2MB.
    assert_eq!(map.frames(FrameClass::Unmovable), 3 + 5);
}

/// `/proc/zoneinfo` also lists zones that have no memory, such as Movable.
#[test]
fn zones_without_memory_have_no_range() {
    let machine = Machine::new("base-pages", 64 * MB);
    let mut snapshot = HostSnapshot::of(machine.kernel.occupancy().expect("small enough"));
    let zone = |name: &str, start_frame, present_frames| SnapshotZone {
        name: name.into(),
        start_frame,
        present_frames,
        ..SnapshotZone::default()
    };
    snapshot.about.zones = vec![
        zone("DMA", 0, 4096),
        zone("DMA32", 4096, 0),
        zone("Normal", 8192, 8192),
        zone("Movable", 12_288, 0),
    ];
    let names: Vec<&str> = snapshot.zone_ranges().iter().map(|range| range.name).collect();
    assert_eq!(names, ["DMA", "Normal"]);
}

/// Frames whose failure cannot be hidden: tables, the bitmap, shared frames, 1GB pages, and frames that failed.
#[test]
fn some_failures_are_not_corrected() {
    let fail = |machine: &mut Machine, frame: u64| {
        machine.act(|kernel| Ok(kernel.hard_fault(Frame::new(frame)))).unwrap()
    };
    let mut machine = Machine::new("perforated", 64 * MB + 4096);
    machine.event(populate(BASE, 2 * MB));
    let bitmap = machine.kernel.hole_bitmap().unwrap().value() / 4096;
    let table = *machine.inspector.table_frames().iter().next().unwrap();
    for frame in [bitmap, bitmap + 1, u64::MAX >> 12, table] {
        assert_eq!(fail(&mut machine, frame), HardFault::Uncorrected, "{frame:#x}");
    }
    let free = machine.counter("free_bytes");
    assert_eq!(fail(&mut machine, bitmap - 1), HardFault::WasFree);
    assert_eq!(fail(&mut machine, bitmap - 1), HardFault::Uncorrected, "it has failed before");
    assert_eq!(machine.counter("free_bytes"), free - 4096);
    machine.event(fork(1));
    let shared = machine.frame(BASE).unwrap();
    assert_eq!(fail(&mut machine, shared), HardFault::Uncorrected);
    machine.event(ProgramEvent::Exit { process: ProcessId(1) });
    assert_eq!(fail(&mut machine, shared), HardFault::Punched);
    assert_eq!(machine.counter("retired_bytes"), 2 * 4096);
    let mut machine = Machine::new("huge-1g", 3 * GB);
    machine.map(GB, GB);
    machine.write(GB);
    let frame = machine.frame(GB + 5 * 4096).unwrap();
    assert_eq!(fail(&mut machine, frame), HardFault::Uncorrected);
    assert_eq!((machine.counter("huge_pages"), machine.counter("retired_bytes")), (1, 0));
}
