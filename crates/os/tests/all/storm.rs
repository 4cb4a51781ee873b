//! Random events under every policy: the oracle accepts every change, the order of updates is
//! right, and all memory is accounted for.

use crate::machine;
use crate::machine::{BASE, MB, Machine, fork, map, map_shared, populate, protect, switch, unmap};
use perforate_config::{Count, Size, read};
use perforate_kept as kept;
use perforate_os::{
    Defrag, FrameState, HardFault, HoleContent, HostSnapshot, IoGap, KernelConfig,
    KhugepagedConfig, KsmConfig, OccupancyBuilder, OsError, Span, TableFormat,
};
use perforate_records::SnapshotZone;
use perforate_schemes::segment::{DirectSegments, SegmentError, SegmentRule};
use perforate_types::{
    AccessKind, Advice, Backing, Contiguity, Counters, Frame, GapTolerance, HoleSet, Permissions,
    ProcessId, ProgramEvent, VirtualAddress,
};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use std::fmt::Write;
use std::sync::Arc;

const PAGE: u64 = 4096;
/// The storm uses four 2MB regions, with ranges at multiples of 64KB.
const STEP: u64 = 64 << 10;
const SPAN: u64 = 8 * MB;

#[derive(Clone, Debug)]
enum Action {
    Event(ProgramEvent),
    Access(u64, AccessKind),
    Punch(u64, HoleContent),
    Patch(u64),
    Share(u64, u16, u16),
    Ksm(u64),
    Promote(KhugepagedConfig),
    PagesInPlace(u64),
    Compact,
    Background,
    HardFault(u64),
    Content(u64, u64),
    Segment(SegmentAction),
    SelfBalloon(u64),
    /// Inflates the balloon by this number of frames, or deflates it.
    Balloon(u64, bool),
    /// Lets the processor with this number execute from now on.
    RunOn(usize),
    /// Looks for a run of frames, and moves frames to make one.
    Approach(u64, u64),
}

/// An action on the segment of the running process.
#[derive(Clone, Copy, Debug)]
enum SegmentAction {
    Create(SegmentRule),
    Enable,
    Disable,
    Dissolve,
    Escape(u64),
    HardFault(u64),
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    let step = SPAN / STEP;
    prop_oneof![
        2 => (0..step, 1..step / 2).prop_map(|(start, length)| (BASE + start * STEP, length * STEP)),
        1 => (0..4u64, 1..3u64).prop_map(|(start, length)| (BASE + start * 2 * MB, length * 2 * MB)),
        1 => (0..SPAN / PAGE).prop_map(|page| (BASE + page * PAGE, PAGE)),
    ]
}

fn address() -> impl Strategy<Value = u64> {
    // Few pages of each region, so that the same page is used again.
    (0..6u64, 0..8u64).prop_map(|(region, place)| BASE + region * 2 * MB + place * 73 * PAGE)
}

fn permissions() -> impl Strategy<Value = Permissions> {
    prop_oneof![
        Just(Permissions::READ),
        Just(Permissions::READ_WRITE),
        Just(Permissions::READ_EXECUTE),
    ]
}

fn event() -> impl Strategy<Value = ProgramEvent> {
    let advice = prop_oneof![
        2 => Just(Advice::DontNeed),
        2 => Just(Advice::Free),
        1 => Just(Advice::NoHugePage),
        1 => Just(Advice::HugePage),
        2 => select(vec![12, 13, 21, 22, 23, 25]).prop_map(Advice::Other),
        1 => select(vec![4, 6, 18]).prop_map(Advice::PageSize),
    ];
    let backing = select(vec![Backing::File, Backing::Stack, Backing::Heap]);
    let other = (range(), permissions(), backing, any::<[bool; 3]>()).prop_map(
        |((start, length), permissions, backing, [accessible, shared, populate])| {
            let start = VirtualAddress::new(start);
            ProgramEvent::Map { start, length, permissions, accessible, backing, shared, populate }
        },
    );
    prop_oneof![
        8 => (range(), any::<bool>()).prop_map(|((start, length), all)| {
            if all { populate(start, length) } else { map(start, length) }
        }),
        3 => range().prop_map(|(start, length)| map_shared(start, length)),
        1 => other,
        3 => range().prop_map(|(start, length)| unmap(start, length)),
        3 => (range(), permissions(), any::<bool>()).prop_map(
            |((start, length), permissions, accessible)| {
                let start = VirtualAddress::new(start);
                ProgramEvent::Protect { start, length, permissions, accessible }
            }
        ),
        2 => (range(), advice).prop_map(|((start, length), advice)| {
            ProgramEvent::Advise { start: VirtualAddress::new(start), length, advice }
        }),
        2 => (range(), range()).prop_map(|((from, from_length), (to, to_length))| {
            let to = VirtualAddress::new(to + 64 * MB);
            ProgramEvent::Remap { from: VirtualAddress::new(from), from_length, to, to_length }
        }),
        1 => range().prop_map(|(start, length)| ProgramEvent::Remap {
            from: VirtualAddress::new(start + 64 * MB),
            from_length: length,
            to: VirtualAddress::new(start),
            to_length: length,
        }),
        1 => (0..64u64).prop_map(|pages| ProgramEvent::Brk {
            start: VirtualAddress::new(16 * MB),
            end: VirtualAddress::new(16 * MB + pages * 100_000),
        }),
        1 => (1..4u16).prop_map(fork),
        2 => (0..4u16).prop_map(switch),
        1 => (1..5u16).prop_map(|process| match process {
            4 => ProgramEvent::Exec,
            _ => ProgramEvent::Exit { process: ProcessId(process) },
        }),
    ]
}

fn knobs() -> impl Strategy<Value = KhugepagedConfig> {
    let pages = || prop_oneof![Just(0u64), Just(300), Just(511)];
    (pages(), pages(), 1..4u64, any::<bool>()).prop_map(|(none, shared, regions, defrag)| {
        KhugepagedConfig {
            pages_to_scan: Count::new(regions * 512),
            max_ptes_none: Count::new(none),
            max_ptes_shared: Count::new(shared),
            defrag,
            ..KhugepagedConfig::default()
        }
    })
}

fn segment_action() -> impl Strategy<Value = SegmentAction> {
    let create = (prop_oneof![Just(PAGE), Just(2 * MB)], any::<bool>(), 0..4u64).prop_map(
        |(min_bytes, compacts, faulty_pages)| {
            SegmentAction::Create(SegmentRule { min_bytes, compacts, faulty_pages, bounds: None })
        },
    );
    prop_oneof![
        4 => create,
        2 => Just(SegmentAction::Enable),
        2 => Just(SegmentAction::Disable),
        1 => Just(SegmentAction::Dissolve),
        2 => address().prop_map(SegmentAction::Escape),
        2 => address().prop_map(SegmentAction::HardFault),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let kind = prop_oneof![Just(AccessKind::Read), Just(AccessKind::Write)];
    let hole = prop_oneof![
        Just(HoleContent::Unallocated),
        Just(HoleContent::Moved),
        permissions().prop_map(HoleContent::Permissions),
    ];
    prop_oneof![
        14 => event().prop_map(Action::Event),
        12 => (address(), kind).prop_map(|(address, kind)| Action::Access(address, kind)),
        2 => (address(), hole).prop_map(|(address, hole)| Action::Punch(address, hole)),
        2 => address().prop_map(Action::Patch),
        1 => (address(), 0..4u16, 0..4u16).prop_map(|(a, from, to)| Action::Share(a, from, to)),
        2 => prop_oneof![Just(100u64), Just(100_000)].prop_map(Action::Ksm),
        2 => knobs().prop_map(Action::Promote),
        1 => (0..4u64).prop_map(|region| Action::PagesInPlace(BASE + region * 2 * MB)),
        1 => Just(Action::Compact),
        1 => Just(Action::Background),
        2 => (0..16_384u64).prop_map(Action::HardFault),
        1 => (address(), 0..3u64).prop_map(|(address, content)| Action::Content(address, content)),
        4 => segment_action().prop_map(Action::Segment),
        1 => (1..2000u64).prop_map(Action::SelfBalloon),
        1 => (1..700u64, any::<bool>()).prop_map(|(frames, more)| Action::Balloon(frames, more)),
        1 => (0..3usize).prop_map(Action::RunOn),
        1 => (1..9000u64, 1..600u64).prop_map(|(run, frames)| Action::Approach(run, frames)),
    ]
}

/// Touches a new region page by page. The page after each touch is one above the index of the last
/// frame in its block, so most pages lie in place: frames are allocated upwards.
fn pages_in_place(machine: &mut Machine, start: u64) {
    let event = |machine: &mut Machine, event| {
        perform_if_possible(machine, &Action::Event(event));
    };
    event(machine, map(start, 2 * MB));
    event(machine, machine::advise(start, 2 * MB, Advice::NoHugePage));
    let (mut touched, mut next) = (HoleSet::EMPTY, 0);
    for _ in 0..500 {
        while !touched.insert(next) {
            next = (next + 1) % 512;
        }
        let address = start + next as u64 * PAGE;
        perform_if_possible(machine, &Action::Access(address, AccessKind::Write));
        let frame = machine.frame(address).unwrap_or_default();
        next = (frame as usize + 1) % 512;
    }
    event(machine, machine::advise(start, 2 * MB, Advice::HugePage));
}

fn perform(machine: &mut Machine, action: &Action) {
    let exists = |machine: &Machine| machine.spaces().contains(&machine.kernel.current());
    match action {
        Action::Event(event @ ProgramEvent::Switch { .. }) => machine.event(event.clone()),
        _ if !exists(machine) => machine.event(switch(0)),
        Action::Event(event) => {
            machine.note(&machine.kernel.effort_of(event));
            machine.event(event.clone());
        }
        Action::Access(address, kind) => drop(machine.access(*address, *kind)),
        Action::Punch(address, hole) => match machine.punch(*address, *hole) {
            Ok(())
            | Err(
                OsError::NotLarge { .. }
                | OsError::AlreadyHole { .. }
                | OsError::SharedMemory { .. }
                | OsError::NoShadowDirectories,
            ) => {}
            Err(error) => panic!("{error}"),
        },
        Action::Patch(address) => match machine.patch(*address) {
            Ok(())
            | Err(
                OsError::NotHole { .. }
                | OsError::Occupied { .. }
                | OsError::SharedMemory { .. }
                | OsError::SharingDiffers { .. }
                | OsError::PermissionsDiffer { .. },
            ) => {}
            Err(error) => panic!("{error}"),
        },
        Action::Share(address, from, to) => {
            let find = |process: u16| {
                machine.kernel.processes().find(|(id, _)| *id == ProcessId(process)).map(|(_, s)| s)
            };
            let (Some(from), Some(to)) = (find(*from), find(*to)) else { return };
            let page = machine::page(*address);
            match machine.act(|kernel| kernel.share(from, page, to)) {
                Ok(())
                | Err(
                    OsError::NotLarge { .. }
                    | OsError::Occupied { .. }
                    | OsError::CopyOnWrite { .. },
                ) => {}
                Err(error) => panic!("{error}"),
            }
        }
        Action::Ksm(pages_to_scan) => {
            let (pages_to_scan, max_page_sharing) = (Count::new(*pages_to_scan), Count::new(5));
            machine.kernel.set_ksm(KsmConfig { pages_to_scan, max_page_sharing });
            let pass = machine.act(|kernel| Ok(kernel.ksm_pass())).expect("cannot fail");
            machine.note(&pass);
        }
        Action::Promote(knobs) => {
            machine.kernel.set_khugepaged(*knobs);
            let pass = machine.act(|kernel| Ok(kernel.khugepaged_pass())).expect("cannot fail");
            machine.note(&pass);
        }
        Action::PagesInPlace(start) => pages_in_place(machine, *start),
        Action::Compact => {
            let done = machine.act(|kernel| Ok(kernel.compact())).expect("cannot fail");
            machine.note(&done);
        }
        Action::Background => {
            let done = machine.act(|kernel| Ok(kernel.kcompactd_pass())).expect("cannot fail");
            machine.note(&done);
        }
        Action::HardFault(frame) => {
            let failing = Frame::new(*frame);
            let outcome = machine.act(|kernel| Ok(kernel.hard_fault(failing)));
            let outcome = outcome.expect("cannot fail");
            machine.note(&outcome);
            let is_free = machine.kernel.zones().is_free(failing);
            assert!(!is_free || outcome == HardFault::Uncorrected, "{outcome:?}");
        }
        Action::Content(address, content) => {
            let (space, page) = (machine.kernel.current(), machine::page(*address));
            match machine.kernel.set_content(space, page, *content) {
                Ok(()) | Err(OsError::NotMapped { .. } | OsError::SharedContent { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        Action::Segment(action) => act_on_segment(machine, *action),
        Action::Balloon(frames, true) => {
            let taken = machine.act(|kernel| Ok(kernel.inflate_balloon(*frames)));
            machine.note(&taken);
        }
        Action::Balloon(frames, false) => {
            let given = machine.kernel.deflate_balloon(*frames);
            machine.note(&given);
        }
        Action::RunOn(processor) => machine.kernel.run_on(*processor),
        Action::Approach(run, frames) => {
            let longest = machine.kernel.longest_run_bytes(frames % 2 == 0);
            let found = machine.act(|kernel| Ok(kernel.approach_run(*run, *frames)));
            machine.note(&(longest, found));
        }
        Action::SelfBalloon(frames) => match machine.act(|kernel| kernel.self_balloon(*frames)) {
            Ok(given) => assert_eq!(given.len() as u64, *frames),
            Err(OsError::NoRoomToAdd { .. } | OsError::OutOfMemory { .. }) => {}
            Err(error) => panic!("{error}"),
        },
    }
}

fn act_on_segment(machine: &mut Machine, action: SegmentAction) {
    let space = machine.kernel.current();
    let before = machine.kernel.segment(space);
    let result = match action {
        SegmentAction::Create(rule) => {
            machine.act(|kernel| kernel.create_segment(space, Some(rule)).map(|_| ()))
        }
        SegmentAction::Enable => machine.act(|kernel| kernel.enable_segment(space)),
        SegmentAction::Disable => machine.act(|kernel| kernel.disable_segment(space)),
        SegmentAction::Dissolve => machine.act(|kernel| kernel.dissolve_segment(space)),
        SegmentAction::Escape(address) => {
            let page = machine::page(address);
            machine.act(|kernel| kernel.escape_page(space, page))
        }
        SegmentAction::HardFault(address) => {
            let Some(frame) = machine.frame(address) else { return };
            return perform(machine, &Action::HardFault(frame));
        }
    };
    match result {
        Ok(()) | Err(OsError::OutOfMemory { .. } | OsError::NoContiguousMemory { .. }) => {}
        Err(OsError::Mechanism(error)) => match error.downcast_ref() {
            Some(SegmentError::None { .. }) => assert_eq!(before, None),
            Some(SegmentError::Second { .. }) => assert_ne!(before, None),
            Some(SegmentError::NoArea { .. } | SegmentError::Outside { .. }) => {}
            _ => panic!("{error}"),
        },
        Err(error) => panic!("{error}"),
    }
}

/// Performs an action that may fail for lack of memory; a failure must not lose anything.
fn perform_if_possible(machine: &mut Machine, action: &Action) {
    let tolerate = |result: Result<(), OsError>| match result {
        Ok(()) | Err(OsError::OutOfMemory { .. }) => {}
        Err(error) => panic!("{error}"),
    };
    let exists = machine.spaces().contains(&machine.kernel.current());
    match action {
        Action::Event(event) if exists => {
            tolerate(machine.act(|kernel| kernel.event(event)));
        }
        Action::Access(address, kind) if exists => {
            let (space, page) = (machine.kernel.current(), machine::page(*address));
            let fault =
                |kernel: &mut perforate_os::Kernel| kernel.fault(space, page, *kind).map(|_| ());
            tolerate(machine.act(fault));
        }
        // These actions may be impossible for other reasons too.
        Action::Punch(address, hole) if exists => drop(machine.punch(*address, *hole)),
        Action::Share(address, from, to) => {
            let (page, spaces) = (machine::page(*address), machine.spaces());
            let space = |place: u16| spaces.get(usize::from(place)).copied();
            let (Some(from), Some(to)) = (space(*from), space(*to)) else { return };
            drop(machine.act(|kernel| kernel.share(from, page, to)));
        }
        action => perform(machine, action),
    }
}

/// A storm with less memory than it touches, with or without swap.
fn pressure(policy: &str, swap_bytes: u64, defrag: Defrag, actions: &[Action]) -> Machine {
    pressure_on(
        policy,
        KernelConfig { swap: Size(swap_bytes), defrag, ..KernelConfig::new(4 * MB) },
        actions,
    )
}

fn pressure_on(policy: &str, config: KernelConfig, actions: &[Action]) -> Machine {
    let mut machine = Machine::configured(policy, config);
    let contents = "zero=20%,duplicate=40%,distinct=30,run=4,seed=9";
    machine.kernel.set_content_distribution(read(contents).expect("valid")).expect("valid");
    // Fill memory first.
    perform_if_possible(&mut machine, &Action::Event(populate(BASE, SPAN)));
    for (place, action) in actions.iter().enumerate() {
        perform_if_possible(&mut machine, action);
        if place % 3 == 0 {
            machine.assert_memory_adds_up();
        }
    }
    machine.assert_memory_adds_up();
    machine.assert_account();
    machine.assert_copies_on_write();
    machine.assert_frames_have_one_content();
    machine.add_state_and_past_to_history();
    for process in 0..4 {
        machine.event(ProgramEvent::Exit { process: ProcessId(process) });
    }
    for counter in ["mapped_bytes", "page_table_bytes", "swapped_bytes"] {
        assert_eq!(machine.counter(counter), 0, "{counter}");
    }
    machine.assert_memory_adds_up();
    machine
}

fn storm(policy: &str, fragmentation: Option<&str>, actions: &[Action]) -> Machine {
    // Three frames more than whole blocks: the size of the hole bitmap.
    let fragmentation = fragmentation.map(|text| read(text).expect("valid"));
    let config = KernelConfig { fragmentation, ..KernelConfig::new(256 * MB + 3 * PAGE) };
    storm_on(policy, config, actions)
}

fn gap_tolerant(mode: GapTolerance) -> TableFormat {
    TableFormat { gap_tolerance: Some(mode), ..TableFormat::default() }
}

fn superpages(
    mode: GapTolerance,
    fragmentation: Option<&str>,
    memory_bytes: u64,
    actions: &[Action],
) -> Machine {
    let fragmentation = fragmentation.map(|text| read(text).expect("valid"));
    let tables = gap_tolerant(mode);
    let config = KernelConfig { tables, fragmentation, ..KernelConfig::new(memory_bytes) };
    storm_on("gap-tolerant", config, actions)
}

fn storm_on(policy: &str, config: KernelConfig, actions: &[Action]) -> Machine {
    let mut machine = Machine::configured(policy, config);
    let contents = "zero=20%,duplicate=40%,distinct=30,run=4,seed=9";
    machine.kernel.set_content_distribution(read(contents).expect("valid")).expect("valid");
    for (place, action) in actions.iter().enumerate() {
        perform(&mut machine, action);
        if place % 2 == 0 {
            machine.kernel.check_invariants().expect("records agree");
        }
    }
    machine.assert_memory_adds_up();
    machine.assert_account();
    machine.assert_copies_on_write();
    machine.assert_shared_memory_is_one();
    machine.assert_frames_have_one_content();
    machine.add_state_and_past_to_history();
    for process in 0..4 {
        machine.event(ProgramEvent::Exit { process: ProcessId(process) });
    }
    assert_eq!(machine.counter("mapped_bytes"), 0);
    assert_eq!(machine.counter("page_table_bytes"), 0, "nodes go with the last mapping");
    machine.assert_memory_adds_up();
    machine.assert_account();
    machine
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    prop::collection::vec(action(), 1..80)
}

/// A memory with folios of several sizes, whose entries can be joined.
fn with_folios(memory_bytes: u64) -> KernelConfig {
    let contiguity = Some(Contiguity::ContiguousBit);
    let tables = TableFormat { contiguity, ..TableFormat::default() };
    let mthp = Some(read("16K,64K=inherit,128K").expect("valid"));
    KernelConfig { tables, mthp, ..KernelConfig::new(memory_bytes) }
}

/// Number of storms of each kind; `PROPTEST_CASES=200` makes a long run.
fn cases() -> u32 {
    let given = std::env::var("PROPTEST_CASES").ok();
    given.and_then(|cases| cases.parse().ok()).unwrap_or(18)
}

/// Defines storms of random actions, each a test, and lists all for the storms that are kept.
macro_rules! storms {
    ($($name:ident = $run:expr;)*) => {
        const STORMS: &[(&str, Storm)] = &[$((stringify!($name), $run)),*];

        proptest! {
            #![proptest_config(ProptestConfig {
                cases: cases(), failure_persistence: None, ..Default::default()
            })]
            $(
                #[test]
                fn $name(actions in actions()) {
                    let run: fn(&[Action]) -> Machine = $run;
                    run(&actions);
                }
            )*
        }
    };
}

storms! {
    base_pages = |actions| {
        storm("base-pages", Some("portion=50%,holes=25%,dispersed"), actions)
    };

    thp = |actions| {
        storm("thp", Some("portion=50%,holes=25%,clustered"), actions)
    };

    perforated_eager = |actions| {
        storm("perforated", Some("portion=50%,holes=25%,clustered"), actions)
    };

    perforated_lazy = |actions| {
        storm("perforated:holes=lazy", Some("portion=75%,holes=10%,dispersed"), actions)
    };

    perforated_reserved = |actions| {
        storm(
            "perforated:create=reserve",
            Some("portion=50%,holes=25%,clustered"),
            actions,
        )
    };

    perforated_demoted = |actions| {
        let policy = "perforated:create=reserve,max-hole-share=1%,demote-above=1%";
        storm(policy, Some("portion=25%,holes=1%,dispersed"), actions)
    };

    thp_on_whole_memory = |actions| {
        storm("thp", None, actions)
    };

    perforated_promoting_in_place = |actions| {
        storm("perforated:promote=punch,hole-cost=0", None, actions)
    };

    perforated_on_whole_memory = |actions| {
        storm("perforated", None, actions)
    };

    superpages_of_1mb = |actions| {
        superpages(GapTolerance::SINGLE_1M, None, 256 * MB, actions)
    };

    superpages_of_2mb = |actions| {
        let fragmentation = Some("portion=50%,holes=25%,clustered");
        superpages(GapTolerance::SINGLE_2M, fragmentation, 256 * MB, actions)
    };

    superpages_of_4mb_in_short_memory = |actions| {
        superpages(GapTolerance::SINGLE_4M, None, 48 * MB, actions)
    };

    pairs_of_1mb = |actions| {
        let fragmentation = Some("portion=75%,holes=10%,clustered");
        superpages(GapTolerance::PAIRED_2M, fragmentation, 256 * MB, actions)
    };

    pairs_of_2mb = |actions| {
        superpages(GapTolerance::PAIRED_4M, None, 256 * MB + 3 * PAGE, actions)
    };

    swapped_superpages = |actions| {
        let tables = gap_tolerant(GapTolerance::SINGLE_1M);
        let config = KernelConfig { swap: Size(64 * MB), tables, ..KernelConfig::new(5 * MB) };
        pressure_on("gap-tolerant", config, actions)
    };

    segments_over_small_pages = |actions| {
        storm("segment:min=1M,escapes=40", None, actions)
    };

    segments_over_large_pages = |actions| {
        storm("segment:min=256K,pages=2m,compact=yes", None, actions)
    };

    segments_in_a_small_guest_with_a_gap = |actions| {
        let gap = IoGap { start_bytes: 9 * MB, end_bytes: 16 * MB, kept_bytes: Some(7 * MB) };
        let (io_gap, hot_add_bytes) = (Some(gap), 24 * MB);
        let config = KernelConfig { io_gap, hot_add: Size(hot_add_bytes), ..KernelConfig::new(64 * MB) };
        storm_on("segment:min=1M,escapes=40,compact=yes", config, actions)
    };

    perforated_pages_in_a_guest_with_a_gap = |actions| {
        let gap = IoGap { start_bytes: 9 * MB, end_bytes: 16 * MB, kept_bytes: None };
        let (io_gap, hot_add_bytes) = (Some(gap), 24 * MB);
        let config = KernelConfig { io_gap, hot_add: Size(hot_add_bytes), ..KernelConfig::new(96 * MB + 5 * PAGE) };
        storm_on("perforated", config, actions)
    };

    swapped_segments = |actions| {
        // The first area becomes a segment, and half as much memory is left for everything else.
        let config = KernelConfig { swap: Size(16 * MB), ..KernelConfig::new(13 * MB) };
        pressure_on("segment:min=64K,pages=2m,compact=yes,escapes=8", config, actions)
    };

    folios = |actions| {
        storm_on("mthp:16K,64K,256K", with_folios(256 * MB), actions)
    };

    folios_in_fragmented_memory = |actions| {
        let fragmentation = Some(read("portion=75%,holes=10%,dispersed").expect("valid"));
        let config = KernelConfig { fragmentation, ..with_folios(256 * MB) };
        storm_on("thp", config, actions)
    };

    folios_around_perforated_pages = |actions| {
        let fragmentation = Some(read("portion=50%,holes=25%,clustered").expect("valid"));
        let config = KernelConfig { fragmentation, ..with_folios(256 * MB + 3 * PAGE) };
        storm_on("perforated:create=reserve", config, actions)
    };

    swapped_folios = |actions| {
        let config = KernelConfig { swap: Size(64 * MB), ..with_folios(4 * MB) };
        pressure_on("thp-madvise", config, actions)
    };

    swapped_base_pages = |actions| {
        pressure("base-pages", 64 * MB, Defrag::Never, actions)
    };

    swapped_large_pages = |actions| {
        pressure("thp", 7 * MB, Defrag::Always, actions)
    };

    swapped_perforated_pages = |actions| {
        pressure("perforated", 64 * MB, Defrag::Defer, actions)
    };

    swapped_reserved_pages = |actions| {
        pressure("perforated:create=reserve", 16 * MB, Defrag::Always, actions)
    };

    swapped_demoted_pages = |actions| {
        let policy = "perforated:create=reserve,max-hole-share=5%,demote-above=5%";
        pressure(policy, 4 * MB, Defrag::Madvise, actions)
    };

    freed_without_swap = |actions| {
        pressure("perforated:holes=lazy", 0, Defrag::DeferMadvise, actions)
    };
}

/// Number of storms of each kind that always have the same actions.
const KEPT_STORMS: u8 = 3;

/// The same actions on a range that is 512 times as large, so that 2MB pages become 1GB pages.
fn enlarged(actions: &[Action]) -> Vec<Action> {
    const FACTOR: u64 = 512;
    let at = |address: VirtualAddress| VirtualAddress::new(address.value() * FACTOR);
    let event = |event: &ProgramEvent| match event.clone() {
        ProgramEvent::Map { start, length, permissions, accessible, backing, shared, populate } => {
            let (start, length) = (at(start), length * FACTOR);
            ProgramEvent::Map { start, length, permissions, accessible, backing, shared, populate }
        }
        ProgramEvent::Unmap { start, length } => {
            ProgramEvent::Unmap { start: at(start), length: length * FACTOR }
        }
        ProgramEvent::Protect { start, length, permissions, accessible } => {
            let (start, length) = (at(start), length * FACTOR);
            ProgramEvent::Protect { start, length, permissions, accessible }
        }
        ProgramEvent::Advise { start, length, advice } => {
            ProgramEvent::Advise { start: at(start), length: length * FACTOR, advice }
        }
        ProgramEvent::Remap { from, from_length, to, to_length } => ProgramEvent::Remap {
            from: at(from),
            from_length: from_length * FACTOR,
            to: at(to),
            to_length: to_length * FACTOR,
        },
        event => event,
    };
    let larger = actions.iter().map(|action| match action {
        Action::Event(of_range) => Action::Event(event(of_range)),
        Action::Access(address, kind) => Action::Access(address * FACTOR, *kind),
        Action::Share(address, from, to) => Action::Share(address * FACTOR, *from, *to),
        Action::HardFault(frame) => Action::HardFault(frame * 64),
        Action::Content(..) | Action::PagesInPlace(_) => Action::Background,
        action => action.clone(),
    });
    larger.collect()
}

/// A storm over 1GB pages, whose records are counted at its end only.
fn storm_of_huge_pages(actions: &[Action]) -> Machine {
    let mut machine = Machine::new("huge-1g", 24 << 30);
    enlarged(actions).iter().for_each(|action| perform_if_possible(&mut machine, action));
    machine.kernel.check_invariants().expect("records agree");
    machine.assert_account();
    let mut counters = Counters::default();
    machine.kernel.counters_of(Span::Run, &mut counters);
    let counters: Vec<_> = counters.iter().collect();
    let (work, map) = (machine.kernel.work(), machine.kernel.memory_map());
    machine.note(&(counters, work, map));
    machine
}

/// A storm in a memory that has been in use before, with faulty frames and several zones.
fn storm_in_aged_memory(policy: &str, age: &str, actions: &[Action]) -> Machine {
    let config = KernelConfig {
        age: Some(read(age).expect("valid")),
        faulty: Some(read("clustered=0.5%").expect("valid")),
        zones: read("dma=16M,dma32=32M").expect("valid"),
        swap: Size(16 * MB),
        defrag: Defrag::Always,
        tables: TableFormat { five_levels: true, ..TableFormat::default() },
        ..KernelConfig::new(96 * MB + 3 * PAGE)
    };
    used_before(policy, config, actions)
}

/// A storm in a memory of which others have a part.
fn used_before(policy: &str, config: KernelConfig, actions: &[Action]) -> Machine {
    let mut machine = Machine::configured(policy, config);
    actions.iter().for_each(|action| perform_if_possible(&mut machine, action));
    machine.kernel.check_invariants().expect("records agree");
    machine.assert_account();
    machine.add_state_and_past_to_history();
    machine
}

/// A storm in a memory that begins as a snapshot of another machine's.
fn storm_in_a_snapshot(policy: &str, actions: &[Action]) -> Machine {
    use FrameState::{Absent, Free, Movable, PageCache, Reclaimable, Reserved, Retired, Unmovable};
    let mut builder = OccupancyBuilder::default();
    let mut push = |state, frames| builder.push_run(state, frames).expect("small");
    push(Reserved, 100);
    for block in 0..40 {
        let states = [Movable, PageCache, FrameState::PerCpu, Reclaimable, Unmovable, Free];
        push(states[block % 6], 150 + 7 * block as u64);
        push(states[block / 6 % 6], 40);
        push(Free, 300);
        push(Retired, block as u64 % 2);
    }
    push(FrameState::Large, 512);
    push(Absent, 3000);
    push(Free, 4000);
    let mut snapshot = HostSnapshot::of(builder.finish().expect("small"));
    let zone = |name: &str, start_frame| SnapshotZone {
        name: name.into(),
        start_frame,
        present_frames: 1,
        ..SnapshotZone::default()
    };
    snapshot.about.zones = vec![zone("DMA", 1), zone("DMA32", 4096), zone("Normal", 20_480)];
    let (snapshot, swap) = (Some(Arc::new(snapshot)), Size(8 * MB));
    let config = KernelConfig { snapshot, swap, defrag: Defrag::Madvise, ..KernelConfig::new(0) };
    used_before(policy, config, actions)
}

/// Performs a storm's actions on a machine of its own.
type Storm = fn(&[Action]) -> Machine;

/// Storms of which only those with fixed actions are run.
const KEPT_ONLY: &[(&str, Storm)] = &[
    ("huge_pages", storm_of_huge_pages),
    ("aged_large_pages", |actions| {
        storm_in_aged_memory("thp", "kernel-build,free=30%,pinned=2%", actions)
    }),
    ("aged_perforated_pages", |actions| {
        storm_in_aged_memory("perforated:holes=lazy", "kernel-build,free=25%,slab=10%", actions)
    }),
    ("large_pages_in_a_snapshot", |actions| storm_in_a_snapshot("thp", actions)),
    ("perforated_pages_in_a_snapshot", |actions| storm_in_a_snapshot("perforated", actions)),
];

/// All updates of storms with fixed actions, compared by hash with a file: the checks of random storms
/// find wrong mappings only, and the file shows any other change of what the kernel does.
#[test]
fn storms_are_as_they_were() {
    let mut lines = String::new();
    for (name, run) in STORMS.iter().chain(KEPT_ONLY) {
        for seed in 0..KEPT_STORMS {
            let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
            let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
            let actions = prop::collection::vec(action(), 110).new_tree(&mut runner);
            let mut actions = actions.expect("no action is rejected").current();
            // Most addresses lie in this area, so that accesses fault.
            actions.insert(0, Action::Event(map(BASE, SPAN)));
            let machine = run(&actions);
            let (faults, hash) = (machine.counter("page_faults"), machine.history);
            writeln!(lines, "{name} {seed} {} {faults} {hash}", actions.len()).unwrap();
        }
    }
    kept::compare(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/kept-storms.txt"), &lines);
}

/// Tests 1GB pages, for which the storm's range is too small.
#[test]
fn huge_pages_are_split_and_given_back() {
    let gigabyte = 1 << 30;
    let mut machine = Machine::new("huge-1g", 4 << 30);
    machine.map(gigabyte, 2 * gigabyte);
    machine.write(gigabyte + 5 * PAGE);
    machine.write(2 * gigabyte);
    assert_eq!(machine.counter("huge_pages"), 2);
    machine.event(fork(1));
    machine.write(gigabyte);
    // The first 1GB page becomes 512 2MB pages, and the first of these becomes 512 4KB pages.
    assert_eq!(machine.counter("huge_pages"), 3);
    assert_eq!(machine.counter("large_pages"), 511);
    assert_eq!(machine.counter("base_pages"), 512);
    machine.event(protect(2 * gigabyte, 4 * MB, Permissions::READ));
    assert_eq!(machine.counter("huge_pages"), 2);
    machine.event(unmap(gigabyte, 2 * gigabyte));
    machine.event(ProgramEvent::Exit { process: ProcessId(1) });
    assert_eq!(machine.counter("free_bytes"), 4 << 30);
    assert_eq!(machine.kernel.zones().pieces(), (1, 0));
}
