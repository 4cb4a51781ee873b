//! Memory that begins in the state of a snapshot of a real machine.

use std::sync::Arc;

use crate::machine::policy;
use perforate_config::read;
use perforate_os::{
    Ageing, Defrag, FrameState, FreeMemory, HostSnapshot, Kernel, KernelConfig, OccupancyBuilder,
    TableFormat,
};
use perforate_records::SnapshotZone;
use perforate_schemes::perforated::PerforatedOperation;
use perforate_types::{
    AccessKind, Backing, Counters, Frame, HoleSet, Permissions, ProgramEvent, Update,
    VirtualAddress, VirtualPage,
};

use FrameState::{
    Absent, Free, Large, Movable, PageCache, Reclaimable, Reserved, Retired, Unmovable,
};

fn snapshot(runs: &[(FrameState, u64)]) -> HostSnapshot {
    let mut builder = OccupancyBuilder::default();
    runs.iter().for_each(|&(state, frames)| builder.push_run(state, frames).unwrap());
    HostSnapshot::of(builder.finish().unwrap())
}

fn kernel(snapshot: &HostSnapshot, policy_name: &str, config: KernelConfig) -> Kernel {
    let config = KernelConfig {
        snapshot: Some(Arc::new(snapshot.clone())),
        tables: TableFormat {
            shadow_directories: policy_name.starts_with("perforated"),
            ..TableFormat::default()
        },
        ..config
    };
    let kernel = Kernel::new(config, policy(policy_name)).unwrap();
    kernel.check_invariants().unwrap();
    kernel
}

fn config() -> KernelConfig {
    KernelConfig { seed: 3, ..KernelConfig::default() }
}

const START: u64 = 0x7f00_0000_0000;

fn map(kernel: &mut Kernel, bytes: u64) {
    let event = ProgramEvent::Map {
        start: VirtualAddress::new(START),
        length: bytes,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: false,
    };
    kernel.event(&event).unwrap();
}

fn touch(kernel: &mut Kernel, page: u64) -> Result<Vec<Update>, String> {
    let page = VirtualPage::new(START / 4096 + page);
    kernel.fault(kernel.current(), page, AccessKind::Write).map_err(|error| error.to_string())?;
    Ok(std::mem::take(kernel.updates()))
}

fn count(kernel: &Kernel, name: &str) -> u64 {
    let mut counters = Counters::default();
    kernel.counters(&mut counters);
    counters.get(name).unwrap_or_else(|| panic!("no {name}")) as u64
}

/// Block 0: 256 reserved, 256 free. 1: unmovable at 3 and 200–209. 2 and 3: absent. 4: page cache.
/// 5: 500 movable. 6: a large page. 7: 8 slab, rest free.
fn small() -> HostSnapshot {
    snapshot(&[
        (Reserved, 256),
        (Free, 256 + 3),
        (Unmovable, 1),
        (Free, 196),
        (Unmovable, 10),
        (Free, 302),
        (Absent, 1024),
        (PageCache, 512),
        (Movable, 500),
        (Free, 12),
        (Large, 512),
        (Reclaimable, 8),
        (Free, 504),
    ])
}

#[test]
fn exactly_these_frames_are_free() {
    let kernel = kernel(&small(), "thp", config());
    let snapshot = small();
    let occupancy = snapshot.frames().unwrap();
    let is_free = |frame: &u64| kernel.zones().is_free(Frame::new(*frame));
    let free: Vec<u64> = (0..8 * 512).filter(is_free).collect();
    let expected: Vec<u64> = (0..8 * 512).filter(|&frame| occupancy.state(frame) == Free).collect();
    assert_eq!(free, expected);
    // Orders of the aligned blocks: of 256–514: 8, 1, 0; of 516–711: 2, 3, 4, 5, 6, 6, 3; of
    // 722–1023: 1, 2, 3, 5, 8; of 3060–3071: 2, 3; of 3592–4095: 3, 4, 5, 6, 7, 8.
    assert_eq!(kernel.free_memory().blocks, [1, 2, 3, 5, 2, 3, 3, 1, 3, 0, 0]);
    assert_eq!(count(&kernel, "memory_bytes"), (8 - 2) * 512 * 4096);
    assert_eq!(count(&kernel, "page_cache_bytes"), 512 * 4096);
    assert_eq!(count(&kernel, "slab_bytes"), 8 * 4096);
    assert_eq!(count(&kernel, "other_programs_bytes"), (500 + 512) * 4096);
    assert_eq!(count(&kernel, "kernel_data_bytes"), (256 + 11) * 4096);
    let map = kernel.memory_map();
    assert_eq!(map.frames(perforate_os::FrameClass::PageCache), 512);
    assert_eq!(map.frames(perforate_os::FrameClass::Absent), 1024);
    assert_eq!(map.frames(perforate_os::FrameClass::Large), 512, "another program's");
    assert_eq!(map.frames(perforate_os::FrameClass::Unmovable), 256 + 11);
}

#[test]
fn a_guests_memory_slots_are_where_its_snapshot_has_memory() {
    let slots = |runs: &[(FrameState, u64)]| {
        let slots = kernel(&snapshot(runs), "base-pages", config()).memory_slots();
        slots.iter().map(|slot| slot.start.number()..slot.end.number()).collect::<Vec<_>>()
    };
    assert_eq!(slots(&[(Free, 2048)]), vec![0..2048; 1]);
    assert_eq!(slots(&[(Free, 1000), (Absent, 24), (Free, 2048)]), [0..1000, 1024..3072]);
    assert_eq!(slots(&[(Absent, 512), (Free, 700), (PageCache, 836)]), vec![512..2048; 1]);
    let kernel = kernel(&small(), "base-pages", config());
    assert_eq!(kernel.memory_slots().len(), 2);
}

#[test]
fn retired_frames_of_a_snapshot_stay_out_of_use() {
    let snapshot = snapshot(&[(Reserved, 512), (Free, 400), (Retired, 112), (Free, 1024)]);
    let kernel = kernel(&snapshot, "thp", config());
    assert_eq!(count(&kernel, "retired_bytes"), 112 * 4096);
    assert_eq!(kernel.memory_map().frames(perforate_os::FrameClass::Retired), 112);
    assert_eq!(count(&kernel, "free_bytes"), (400 + 1024) * 4096);
    kernel.check_invariants().unwrap();
}

/// A perforated page in block 1 has exactly the block's unmovable frames as holes: 3 and 200–209.
/// Block 7, with slab, has fewer usable frames at the same bound and is tried later.
#[test]
fn a_perforated_page_has_the_snapshots_holes() {
    let mut kernel = kernel(&small(), "perforated:max-hole-share=25%,max-filter-bits=4", config());
    map(&mut kernel, 2 << 20);
    let updates = touch(&mut kernel, 0).unwrap();
    let made = updates.iter().find_map(|update| match update.operation()?.downcast_ref() {
        Some(PerforatedOperation::Perforate { block, holes, .. }) => Some((*block, *holes)),
        _ => None,
    });
    let (frame, holes) = made.expect("a perforated page");
    let expected: HoleSet = [3].into_iter().chain(200..210).collect();
    assert_eq!((frame, holes), (Frame::new(512), expected));
    kernel.check_invariants().unwrap();
}

/// Two blocks can be emptied: page cache, and 500 frames of a program. The lower one is emptied,
/// and its contents are not lost.
#[test]
fn compaction_empties_what_is_movable() {
    let mut kernel = kernel(&small(), "thp", KernelConfig { defrag: Defrag::Always, ..config() });
    assert_eq!(kernel.free_memory().blocks[9..], [0, 0]);
    map(&mut kernel, 2 << 20);
    touch(&mut kernel, 0).unwrap();
    assert_eq!(count(&kernel, "large_pages"), 1);
    assert_eq!(count(&kernel, "compaction_frames_migrated"), 512);
    assert_eq!(count(&kernel, "page_cache_bytes"), 512 * 4096);
    assert_eq!(count(&kernel, "other_programs_bytes"), (500 + 512) * 4096);
    kernel.check_invariants().unwrap();
}

#[test]
fn page_cache_and_slab_make_room_and_programs_do_not() {
    let mut kernel = kernel(&small(), "base-pages", config());
    let free = kernel.zones().free_frames();
    map(&mut kernel, 64 << 20);
    let mut touched = 0;
    let error = loop {
        match touch(&mut kernel, touched) {
            Ok(_) => touched += 1,
            Err(error) => break error,
        }
    };
    assert!(error.contains("out of memory"), "{error}");
    kernel.check_invariants().unwrap();
    assert_eq!(count(&kernel, "page_cache_bytes") + count(&kernel, "slab_bytes"), 0);
    assert_eq!(count(&kernel, "other_programs_bytes"), (500 + 512) * 4096);
    // Page tables take a few of these frames.
    let gained = free + 512 + 8;
    assert!((gained - 16..gained).contains(&touched), "{touched} of {gained}");
}

/// The free lists of a snapshot and of the memory made from it are equal, also after ageing.
#[test]
fn an_aged_memory_survives_the_round_trip() {
    for zones in ["Normal", "DMA32"] {
        let aged = KernelConfig {
            age: Some(read::<Ageing>("kernel-build").unwrap()),
            ..KernelConfig { seed: 5, ..KernelConfig::new(256 << 20) }
        };
        let aged = Kernel::new(aged, policy("thp")).unwrap();
        let mut taken = HostSnapshot::of(aged.occupancy().unwrap());
        taken.about.zones = vec![SnapshotZone {
            name: zones.into(),
            present_frames: 65_536,
            ..SnapshotZone::default()
        }];
        let mut file = Vec::new();
        taken.write_to(&mut file).unwrap();
        let read = HostSnapshot::read_from(&mut file.as_slice()).unwrap();
        let (free, placed) = (aged.free_memory(), read.placed_free().unwrap());
        assert_eq!(placed, free);
        let again = kernel(&read, "thp", config());
        assert_eq!(again.free_memory(), free);
        assert!(free.unusable_thousandths(FreeMemory::LARGE_ORDER) > 500, "it is fragmented");
        assert_eq!(again.zones().iter().next().unwrap().name, zones);
        // The same memory under a perforating kernel: its bitmap takes no frame from it.
        let perforated = kernel(&read, "perforated", config());
        assert_eq!(perforated.zones().free_frames(), again.zones().free_frames());
        assert!(perforated.hole_bitmap().unwrap().value() >= 256 << 20);
    }
}

#[test]
fn the_same_seed_drops_the_same_frames() {
    let dropped = |seed| {
        let mut runs = vec![(Reserved, 512)];
        (0..40).for_each(|_| runs.extend([(PageCache, 300), (Unmovable, 212)]));
        runs.push((Free, 1024));
        let mut kernel = kernel(&snapshot(&runs), "base-pages", KernelConfig { seed, ..config() });
        map(&mut kernel, 16 << 20);
        (0..2000).for_each(|page| drop(touch(&mut kernel, page).unwrap()));
        kernel.check_invariants().unwrap();
        (0..42 * 512).filter(|&frame| kernel.zones().is_free(Frame::new(frame))).collect::<Vec<_>>()
    };
    assert_eq!(dropped(1), dropped(1));
    assert_ne!(dropped(1), dropped(2));
}
