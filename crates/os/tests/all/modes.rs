//! The modes of D Table III with two kernels: which modes a guest goes through, and when.

use crate::machine::{BASE, MB, Machine, populate, switch, unmap};
use perforate_config::Size;
use perforate_os::{FaultMap, KernelConfig};
use perforate_schemes::segment::{
    Application, DirectSegments, Fragmented, ModePlan, ModePolicy, ModeTransition, SegmentRule,
    Side, VirtualizedMode,
};
use perforate_types::SpaceId;

use VirtualizedMode::{BaseVirtualized, DualDirect, GuestDirect, VmmDirect};

const SPACE: SpaceId = SpaceId(0);
const INTERVAL: u64 = 1000;

/// A guest of 256MB with a program of 96MB. If fragmented, every 1000th frame is faulty.
fn guest(is_fragmented: bool) -> Machine {
    let frames = (0..65_536).step_by(1000).collect();
    let faulty = is_fragmented.then_some(FaultMap::Frames(frames));
    let config = KernelConfig { faulty, hot_add: Size(128 * MB), ..KernelConfig::new(256 * MB) };
    let mut guest = Machine::configured("base-pages", config);
    guest.map(BASE, 96 * MB);
    guest
}

/// A host of 1GB for the guest. If fragmented, another process has 2MB of every 4MB.
fn host(is_fragmented: bool) -> Machine {
    let mut host = Machine::new("base-pages", 1024 * MB);
    host.map(0, 384 * MB);
    if is_fragmented {
        host.event(switch(1));
        host.event(populate(BASE, 1000 * MB));
        for place in (0..500).step_by(2) {
            host.event(unmap(BASE + place * 2 * MB, 2 * MB));
        }
    }
    host
}

/// Steps the policy at these instructions and checks both kernels afterwards. Returns the policy
/// and the number of frames that the guest's balloon gave away.
fn run(
    application: Application,
    fragmented: Fragmented,
    instructions: &[u64],
) -> (ModePolicy, usize) {
    let (mut guest, mut host) = (guest(fragmented.guest), host(fragmented.host));
    let plan = ModePlan::new(application, fragmented);
    let mut policy = ModePolicy::new(plan, SegmentRule::default(), INTERVAL, u64::MAX);
    let mut given = 0;
    for &instruction in instructions {
        given += step(&mut policy, &mut guest, &mut host, instruction);
    }
    guest.assert_memory_adds_up();
    host.assert_memory_adds_up();
    (policy, given)
}

/// Lets the policy make one step; returns the number of frames that the guest's balloon gave away.
fn step(
    policy: &mut ModePolicy,
    guest: &mut Machine,
    host: &mut Machine,
    instruction: u64,
) -> usize {
    guest
        .act(|guest| {
            host.act(|host| {
                let mut guest = Side { kernel: guest, space: SPACE };
                let mut host = Side { kernel: host, space: SPACE };
                policy.step(instruction, &mut guest, &mut host).map(|given| given.len())
            })
        })
        .expect("the address spaces exist")
}

fn steps(log: &[ModeTransition]) -> Vec<(u64, VirtualizedMode, &'static str)> {
    log.iter().map(|transition| (transition.instruction, transition.to, transition.why)).collect()
}

#[test]
fn big_memory_on_a_fragmented_host_becomes_dual_direct_by_compaction() {
    let fragmented = Fragmented { host: true, guest: false };
    let (policy, given) = run(Application::BigMemory, fragmented, &[0, 999, 1000, 2000]);
    let expected = [(0, GuestDirect, "free guest memory"), (1000, DualDirect, "host compaction")];
    assert_eq!(steps(policy.log()), expected);
    assert_eq!(given, 0);
}

/// Slow compaction: each step moves a part, and the last step makes the segment. All steps together
/// move as much as a single one.
#[test]
fn compaction_of_the_host_is_slow() {
    let host_of = |frames: u64| {
        let (mut guest, mut host) = (guest(false), host(true));
        let fragmented = Fragmented { host: true, guest: false };
        let plan = ModePlan::new(Application::BigMemory, fragmented);
        let mut policy = ModePolicy::new(plan, SegmentRule::default(), INTERVAL, frames);
        let mut moved = Vec::new();
        for number in 0..100 {
            let before = host.kernel.compaction().frames_migrated;
            step(&mut policy, &mut guest, &mut host, number * INTERVAL);
            host.assert_memory_adds_up();
            moved.push(host.kernel.compaction().frames_migrated - before);
            if policy.mode() == DualDirect {
                return moved;
            }
        }
        panic!("no segment after {moved:?}");
    };
    let at_once = host_of(u64::MAX);
    assert_eq!(at_once.len(), 2, "not from the start, and then in one step");
    let slowly = host_of(4000);
    assert_eq!(slowly.iter().sum::<u64>(), at_once[1], "no more is moved");
    // Blocks are moved as a whole: a step ends with the block that contains the 4000th moved frame.
    let steps = slowly.len() - 1;
    assert_eq!(steps as u64, at_once[1].div_ceil(8 * 512));
    assert!(steps > 3 && slowly[1..steps].iter().all(|&moved| moved == 8 * 512), "{slowly:?}");
}

#[test]
fn big_memory_in_a_fragmented_guest_balloons() {
    let fragmented = Fragmented { host: false, guest: true };
    let (policy, given) = run(Application::BigMemory, fragmented, &[0]);
    let expected = [(0, GuestDirect, "self-ballooning"), (0, DualDirect, "free host memory")];
    assert_eq!(steps(policy.log()), expected);
    assert_eq!(given, 96 * 256);
}

/// A guest that may balloon and has free memory in one piece does not have to.
#[test]
fn free_guest_memory_is_taken_before_ballooning() {
    let (mut guest, mut host) = (guest(false), host(false));
    let plan = ModePlan::new(Application::BigMemory, Fragmented { host: false, guest: true });
    let mut policy = ModePolicy::new(plan, SegmentRule::default(), INTERVAL, u64::MAX);
    assert_eq!(step(&mut policy, &mut guest, &mut host, 0), 0);
    let expected = [(0, GuestDirect, "free guest memory"), (0, DualDirect, "free host memory")];
    assert_eq!(steps(policy.log()), expected);
}

/// The guest has less than 1MB besides its balloon, and the high watermark is 1.8MB, so no run is
/// taken from the last frames: no segment is made. More memory could be added, but in vain as well.
#[test]
fn memory_is_not_added_again_after_a_failure() {
    let faulty = Some(FaultMap::Frames((0..97 * 256).step_by(1000).collect()));
    let config = KernelConfig { faulty, hot_add: Size(512 * MB), ..KernelConfig::new(97 * MB) };
    let (mut guest, mut host) = (Machine::configured("base-pages", config), host(false));
    guest.map(BASE, 96 * MB);
    let plan = ModePlan::new(Application::BigMemory, Fragmented { guest: true, host: false });
    let mut policy = ModePolicy::new(plan, SegmentRule::default(), INTERVAL, u64::MAX);
    let mut given = Vec::new();
    for instruction in (0..10).map(|number| number * INTERVAL) {
        given.push(step(&mut policy, &mut guest, &mut host, instruction));
    }
    assert_eq!(given[0], 96 * 256);
    assert_eq!(given[1..], [0; 9]);
    // One attempt before memory was added and one after it, then after 1, 3 and 7 intervals.
    assert_eq!(guest.counter("segment_failures"), 5);
    assert_eq!(steps(policy.log()), [(0, VmmDirect, "free host memory")]);
    guest.assert_memory_adds_up();
}

#[test]
fn big_memory_with_both_fragmented_balloons_first() {
    let fragmented = Fragmented { host: true, guest: true };
    let (policy, _) = run(Application::BigMemory, fragmented, &[0, 500, 1500]);
    let expected = [(0, GuestDirect, "self-ballooning"), (1500, DualDirect, "host compaction")];
    assert_eq!(steps(policy.log()), expected);
}

#[test]
fn compute_wants_the_host_segment_only() {
    for guest in [false, true] {
        let (policy, given) =
            run(Application::Compute, Fragmented { host: true, guest }, &[0, 1000]);
        assert_eq!(steps(policy.log()), [(1000, VmmDirect, "host compaction")]);
        assert_eq!((policy.log()[0].from, given), (BaseVirtualized, 0));
        let (policy, _) = run(Application::Compute, Fragmented { host: false, guest }, &[0]);
        assert_eq!(steps(policy.log()), [(0, VmmDirect, "free host memory")]);
    }
}

#[test]
fn a_lost_segment_is_logged_and_made_again() {
    let (mut guest, mut host) = (guest(false), host(false));
    let plan = ModePlan::new(Application::BigMemory, Fragmented::default());
    let mut policy = ModePolicy::new(plan, SegmentRule::default(), INTERVAL, u64::MAX);
    step(&mut policy, &mut guest, &mut host, 0);
    guest.event(unmap(BASE, MB));
    step(&mut policy, &mut guest, &mut host, 100);
    step(&mut policy, &mut guest, &mut host, 1100);
    guest.assert_memory_adds_up();
    let expected = [
        (0, GuestDirect, "free guest memory"),
        (0, DualDirect, "free host memory"),
        (100, VmmDirect, "a segment was lost"),
        (1100, DualDirect, "free guest memory"),
    ];
    assert_eq!(steps(policy.log()), expected);
    // Segments whose registers were cleared are there still, with the same frames.
    let frame = |machine: &Machine| machine.kernel.segment(SPACE).expect("a segment").frame;
    let before = (frame(&guest), frame(&host));
    guest.act(|kernel| kernel.disable_segment(SPACE)).expect("a segment");
    host.act(|kernel| kernel.disable_segment(SPACE)).expect("a segment");
    step(&mut policy, &mut guest, &mut host, 2100);
    let log = steps(policy.log());
    let expected = [
        (2100, BaseVirtualized, "a segment was lost"),
        (2100, GuestDirect, "free guest memory"),
        (2100, DualDirect, "free host memory"),
    ];
    assert_eq!(log[4..], expected);
    assert_eq!((frame(&guest), frame(&host)), before);
}
