//! Contiguous memory in a fragmented guest (D §IV): self-ballooning, the I/O gap.

use crate::machine;
use crate::machine::{BASE, MB, Machine, populate, unmap};
use perforate_config::{Count, Size};
use perforate_os::{FaultMap, FrameClass, IoGap, KernelConfig, OsError, SelfBalloonConfig};
use perforate_schemes::segment::{DirectSegments, SegmentRule};
use perforate_types::{Frame, SpaceId};

const SPACE: SpaceId = SpaceId(0);
const FRAMES_PER_MB: u64 = 256;

/// 256MB in which every 1000th frame is faulty: no long run is free, and compaction cannot make
/// one.
fn fragmented(hot_add_bytes: u64) -> Machine {
    let faulty = Some(FaultMap::Frames((0..256 * FRAMES_PER_MB).step_by(1000).collect()));
    let config =
        KernelConfig { hot_add: Size(hot_add_bytes), faulty, ..KernelConfig::new(256 * MB) };
    let mut machine = Machine::configured("base-pages", config);
    machine.map(BASE, 96 * MB);
    machine
}

#[test]
fn self_ballooning_makes_contiguous_memory_without_copies() {
    let mut machine = fragmented(128 * MB);
    assert!(machine.kernel.longest_run_bytes(true) < 4 * MB);
    let create = |machine: &mut Machine| machine.act(|kernel| kernel.create_segment(SPACE, None));
    assert!(matches!(create(&mut machine), Err(OsError::NoContiguousMemory { .. })));
    let before = (machine.counter("balloon_bytes"), machine.counter("free_bytes"));
    let given =
        machine.act(|kernel| kernel.self_balloon(96 * FRAMES_PER_MB)).expect("there is room");
    assert_eq!(given.len() as u64, 96 * FRAMES_PER_MB);
    assert!(given.iter().all(|frame| frame.number() < 256 * FRAMES_PER_MB));
    let after = (machine.counter("balloon_bytes"), machine.counter("free_bytes"));
    assert_eq!(after, (before.0 + 96 * MB, before.1), "the guest has as much as before");
    assert_eq!(machine.counter("memory_bytes"), 352 * MB);
    let migrated = machine.kernel.work().frames_migrated;
    let made = create(&mut machine).expect("a run of 96MB");
    // Memory ended at block 128. The block before, after the last faulty frame (65000), is wholly
    // free too.
    assert_eq!(made.frame, Frame::new(127 * 512));
    assert_eq!(machine.kernel.work().frames_migrated, migrated);
    machine.assert_memory_adds_up();
    machine.assert_account();
}

/// Fragmentation is injected into the memory present at boot only. Added memory has no holes, and
/// the balloon takes no more than the segment needs.
#[test]
fn added_memory_is_whole_where_fragmentation_is_injected() {
    let fragmentation =
        Some(perforate_config::read("portion=100%,holes=25%,clustered").expect("right options"));
    let config =
        KernelConfig { hot_add: Size(128 * MB), fragmentation, ..KernelConfig::new(256 * MB) };
    let mut machine = Machine::configured("base-pages", config);
    machine.map(BASE, 96 * MB);
    machine.event(populate(BASE, 8 * MB));
    let create = |machine: &mut Machine| machine.act(|kernel| kernel.create_segment(SPACE, None));
    assert!(matches!(create(&mut machine), Err(OsError::NoContiguousMemory { .. })));
    machine.act(|kernel| kernel.self_balloon(96 * FRAMES_PER_MB)).expect("there is room");
    let made = create(&mut machine).expect("the memory that was added");
    assert_eq!(made.frame, Frame::new(256 * FRAMES_PER_MB));
    assert_eq!(machine.counter("balloon_bytes"), 96 * MB);
    machine.assert_memory_adds_up();
    machine.assert_account();
}

/// D §IV, worked by hand. Every 1000th frame is faulty, so 62 of 128 blocks are wholly free. With
/// 40 more blocks requested, 80MB are exchanged. The second request finds nothing to do.
#[test]
fn self_ballooning_makes_blocks_for_large_pages() {
    let mut machine = fragmented(128 * MB);
    let make = |machine: &mut Machine, blocks| {
        let config = SelfBalloonConfig { blocks: Count::new(blocks) };
        machine.act(|kernel| kernel.self_balloon_blocks(config)).expect("memory")
    };
    // Frame 1000 × k lies in block 1000 × k ÷ 512: of 128 blocks, 66 have a faulty frame and 62
    // have none.
    let whole = 62;
    assert!(make(&mut machine, whole).is_empty());
    assert_eq!(make(&mut machine, whole + 40).len(), 40 * 512);
    assert_eq!(machine.counter("balloon_bytes"), 80 * MB);
    assert!(make(&mut machine, whole + 40).is_empty());
    // Of the 128MB that can be added, 24 blocks are left.
    assert_eq!(make(&mut machine, 1000).len(), 24 * 512);
    machine.assert_memory_adds_up();
    machine.assert_account();
}

#[test]
fn what_cannot_be_exchanged_stays() {
    let mut machine = fragmented(128 * MB);
    let free = machine.counter("free_bytes");
    let too_much = machine.act(|kernel| kernel.self_balloon(129 * FRAMES_PER_MB));
    let (asked_bytes, left_bytes) = (129 * MB, 128 * MB);
    assert_eq!(too_much, Err(OsError::NoRoomToAdd { asked_bytes, left_bytes }));
    // Requests more than is free.
    machine.event(populate(BASE + 512 * MB, 160 * MB));
    let balloon = machine.counter("balloon_bytes");
    let too_much = machine.act(|kernel| kernel.self_balloon(128 * FRAMES_PER_MB));
    assert!(matches!(too_much, Err(OsError::OutOfMemory { .. })), "{too_much:?}");
    assert_eq!(machine.counter("balloon_bytes"), balloon);
    machine.event(unmap(BASE + 512 * MB, 160 * MB));
    assert_eq!(machine.counter("free_bytes"), free);
    machine.assert_memory_adds_up();
    let added = machine.kernel.hot_add(5).expect("there is room");
    let first = 256 * FRAMES_PER_MB;
    assert_eq!(added, Frame::new(first)..Frame::new(first + 5));
    machine.assert_memory_adds_up();
    // All that is left, and a frame more than that.
    let left = 128 * FRAMES_PER_MB - 5;
    let (asked_bytes, left_bytes) = ((left + 1) * 4096, left * 4096);
    let refused = machine.kernel.hot_add(left + 1);
    assert_eq!(refused, Err(OsError::NoRoomToAdd { asked_bytes, left_bytes }));
    let added = machine.kernel.hot_add(left).expect("there is room");
    assert_eq!(added, Frame::new(first + 5)..Frame::new(first + 5 + left));
    let (asked_bytes, left_bytes) = (4096, 0);
    let refused = machine.kernel.hot_add(1);
    assert_eq!(refused, Err(OsError::NoRoomToAdd { asked_bytes, left_bytes }));
    machine.assert_memory_adds_up();
}

#[test]
fn moving_memory_from_below_the_gap_makes_it_contiguous() {
    // 8GB in a PC: 3GB, and 5GB above 4GB. Reclaimed: 256MB, and 7.75GB (D §VI.C).
    let with = |io_gap| {
        let config = KernelConfig { io_gap, ..KernelConfig::new(8192 * MB) };
        Machine::configured("base-pages", config)
    };
    let mut plain = with(None);
    assert_eq!(plain.kernel.longest_run_bytes(false), 8192 * MB);
    let mut split = with(Some(IoGap::PC));
    assert_eq!(split.kernel.longest_run_bytes(true), 5 * 1024 * MB);
    assert_eq!(split.kernel.end_frame(), Frame::new(9 << 18));
    assert_eq!(split.kernel.memory_map().frames(FrameClass::Absent), 1 << 18);
    let mut reclaimed = with(Some(IoGap::RECLAIMED));
    assert_eq!(reclaimed.kernel.longest_run_bytes(false), (8192 - 256) * MB);
    for machine in [&plain, &split, &reclaimed] {
        assert_eq!(machine.counter("free_bytes"), 8192 * MB);
        machine.assert_memory_adds_up();
    }
    // One segment holds almost all of the guest's memory.
    reclaimed.map(1 << 40, 7900 * MB);
    let rule = SegmentRule { compacts: false, ..SegmentRule::default() };
    let made =
        reclaimed.act(|kernel| kernel.create_segment(SPACE, Some(rule))).expect("a run of 7900MB");
    assert_eq!(made.frame, Frame::new(4 << 18));
    let invalid = KernelConfig {
        io_gap: Some(IoGap { start_bytes: 8 << 30, ..IoGap::PC }),
        ..KernelConfig::new(8192 * MB)
    };
    let policy = machine::policy("base-pages");
    let error = perforate_os::Kernel::new(invalid, policy).err().expect("invalid").to_string();
    assert!(error.contains("the I/O gap ends before it begins"), "{error}");
}

/// Slots of a guest's memory reach over memory that can still be added.
#[test]
fn slots_are_what_there_is_and_what_can_be_added() {
    let gap = IoGap { start_bytes: 4 * MB, end_bytes: 8 * MB, kept_bytes: None };
    for (memory_bytes, io_gap, hot_add_bytes, expected) in [
        (16 * MB, None, 0, vec![0..4096; 1]),
        (16 * MB, None, 8 * MB, vec![0..6144; 1]),
        (16 * MB, None, 1, vec![0..5120; 1]),
        (5 * MB, None, 8 * MB, vec![0..1280, 2048..4096]),
        (4 * MB, Some(gap), 0, vec![0..1024; 1]),
        (6 * MB, Some(gap), 0, vec![0..1024, 2048..2560]),
        (12 * MB, Some(gap), 4 * MB, vec![0..1024, 2048..5120]),
        (6 * MB, Some(gap), 4 * MB, vec![0..1024, 2048..2560, 3072..4096]),
    ] {
        let hot_add = Size(hot_add_bytes);
        let config = KernelConfig { io_gap, hot_add, ..KernelConfig::new(memory_bytes) };
        let machine = Machine::configured("base-pages", config);
        let slots = machine.kernel.memory_slots();
        let slots: Vec<_> =
            slots.iter().map(|slot| slot.start.number()..slot.end.number()).collect();
        assert_eq!(slots, expected, "{memory_bytes} {io_gap:?} {hot_add_bytes}");
    }
}

/// What would suffice is what is used, and what was asked for.
#[test]
fn an_exchange_that_fails_says_what_it_needs() {
    let config = KernelConfig { hot_add: Size(64 * MB), ..KernelConfig::new(16 * MB) };
    let mut machine = Machine::configured("base-pages", config);
    machine.event(populate(BASE, 8 * MB));
    let used_bytes = 16 * MB - machine.counter("free_bytes");
    let error = machine.act(|kernel| kernel.self_balloon(12 * FRAMES_PER_MB)).unwrap_err();
    let expected = OsError::OutOfMemory {
        asked_bytes: 12 * MB,
        free_bytes: 16 * MB - used_bytes,
        memory_bytes: 16 * MB,
        enough_bytes: used_bytes + 12 * MB,
    };
    assert_eq!(error, expected);
    assert_eq!(machine.counter("balloon_bytes"), 0);
    // All that can be added at once, to the last frame.
    machine.event(unmap(BASE, 8 * MB));
    let mut machine = fragmented(8 * MB);
    assert!(machine.act(|kernel| kernel.self_balloon(8 * FRAMES_PER_MB)).is_ok());
    let none = machine.act(|kernel| kernel.self_balloon(1)).unwrap_err();
    assert_eq!(none, OsError::NoRoomToAdd { asked_bytes: 4096, left_bytes: 0 });
}
