//! Shadow paging: one-dimensional walks, hand-counted exits, storms of guest and host events against
//! the composed oracle, planted defects, and the comparison with nested paging (D §IX.D).
//!
//! `STORM_SEED=n` replays one storm of every pair, `STORM_SEEDS=n` runs n storms of each.

use crate::runs::measuring;
use crate::storms::{Defect, Defective, Random};
use crate::sums::checked_run;
use perforate_config::{Size, read};
use perforate_mmu::{TlbGeometry, WalkCacheConfig, allow};
use perforate_os::{FrameClass, KernelConfig, KhugepagedConfig};
use perforate_schemes::shadow::Shadow;
use perforate_sim::{
    Composition, Exits, Machine, MemoryState, ProcessorOptions, ResolvedRun, RunResult, SimError,
    System, SystemOptions, Wiring, Workload,
};
use perforate_types::{
    AccessKind, Advice, Backing, Counters, Frame, GuestFrame, Permissions, ProcessId, ProgramEvent,
    Purpose, ThreadId, VirtualAddress, VirtualPage,
};

const START: u64 = 0x7f00_0000_0000;
const PAIRS: [&str; 4] = ["4k+shadow-4k", "thp+shadow-thp", "4k+shadow-thp", "thp+shadow-4k"];

/// Returns the address of page `page` of the test's mappings.
pub fn address(page: u64) -> VirtualAddress {
    VirtualAddress::new(START + page * 4096)
}

pub fn map(first: u64, pages: u64, permissions: Permissions) -> ProgramEvent {
    ProgramEvent::Map {
        start: address(first),
        length: pages * 4096,
        permissions,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: false,
    }
}

pub fn unmap(first: u64, pages: u64) -> ProgramEvent {
    ProgramEvent::Unmap { start: address(first), length: pages * 4096 }
}

fn system_on(
    machine: &Machine,
    pair: &str,
    memory: &MemoryState,
    seed: u64,
    wiring: Option<Box<dyn Wiring>>,
) -> System {
    let options = SystemOptions { check: true, implicit_maps: false, counts_only: false };
    let pair = Composition::find(pair).unwrap();
    System::wired(machine, pair, memory, seed, options, wiring).unwrap()
}

fn system_with(machine: &Machine, pair: &str, wiring: Option<Box<dyn Wiring>>) -> System {
    system_on(machine, pair, &MemoryState::of(256 << 20), 1, wiring)
}

fn system(machine: &Machine, pair: &str) -> System {
    system_with(machine, pair, None)
}

pub fn default_system(pair: &str) -> System {
    system(&Machine::load(Machine::DEFAULT).unwrap(), pair)
}

pub fn access(system: &mut System, kind: AccessKind, page: u64) {
    system.translate(kind, address(page)).unwrap().expect("allowed");
}

pub fn exits(system: &System) -> Exits {
    system.host_work().unwrap().exits
}

/// Takes the physical frames of some guest pages away, like a balloon.
fn take_back(system: &mut System, frames: &[Frame]) -> Result<(), SimError> {
    system.change_host(|host| host.take_back(frames))
}

/// A walk has as many references as the smaller page size of guest and host has levels, all to the
/// shadow tables.
#[test]
fn a_walk_reads_shadow_tables_only() {
    let mut machine = Machine::load(Machine::DEFAULT).unwrap();
    let none = WalkCacheConfig::fully_associative(0, 0, 0);
    machine.walk_cache = none;
    for (pair, levels) in PAIRS.into_iter().zip([4, 3, 4, 4]) {
        let mut system = system(&machine, pair);
        system.event(&map(0, 2048, Permissions::READ_WRITE)).unwrap();
        access(&mut system, AccessKind::Write, 700);
        system.mmu_mut().flush();
        access(&mut system, AccessKind::Write, 700);
        let (own, host) = system.steps().reads().split_at(Purpose::HostPage as usize);
        assert_eq!((own.iter().sum::<u8>(), host.iter().sum::<u8>()), (levels, 0), "{pair}");
    }
}

#[test]
fn exits_by_hand() {
    let mut system = default_system("4k+shadow-4k");
    system.event(&map(0, 8, Permissions::READ_WRITE)).unwrap();
    system.start_measuring();
    let expect = |system: &System, shadow_fault, table_update| {
        let expected = Exits { shadow_fault, table_update, ..Exits::default() };
        assert_eq!(exits(system), expected);
    };
    // There is a fault for the guest, which the hypervisor passes on, and one that fills the shadow
    // entry. No table was shadowed when the guest wrote it.
    access(&mut system, AccessKind::Write, 0);
    expect(&system, 2, 0);
    // The level-1 table is shadowed now, so writing its entry is a third exit.
    access(&mut system, AccessKind::Write, 1);
    expect(&system, 4, 1);
    access(&mut system, AccessKind::Read, 2);
    expect(&system, 6, 2);
    // The first store to a clean page must set the guest's dirty bit.
    access(&mut system, AccessKind::Write, 2);
    expect(&system, 7, 2);
    access(&mut system, AccessKind::Write, 2);
    access(&mut system, AccessKind::Read, 0);
    expect(&system, 7, 2);
    // Three entries are removed, then the entries of the level-2, level-3 and level-4 tables above.
    // The guest also invalidates three pages.
    system.event(&unmap(0, 8)).unwrap();
    let Exits { shadow_fault, table_update, invalidation, .. } = exits(&system);
    assert_eq!((shadow_fault, table_update, invalidation), (7, 2 + 3 + 3, 3));
    assert_eq!(exits(&system).total(), 7 + 8 + 3);
    let tables = system.hypervisor().unwrap().shadow_tables().unwrap();
    assert_eq!((tables.tables(), tables.entries()), (0, 0));
}

#[test]
fn a_context_switch_and_a_store_through_a_shared_page_leave_the_guest() {
    let mut system = default_system("4k+shadow-4k");
    system.event(&map(0, 8, Permissions::READ_WRITE)).unwrap();
    access(&mut system, AccessKind::Write, 0);
    system.event(&ProgramEvent::Fork { child: ProcessId(1) }).unwrap();
    system.start_measuring();
    for process in [1, 0, 1] {
        let process = ProcessId(process);
        system.event(&ProgramEvent::Switch { process, thread: ThreadId(0) }).unwrap();
    }
    assert_eq!(exits(&system).context_switch, 3);
    access(&mut system, AccessKind::Write, 0);
    let native = default_system("4k");
    assert!(native.host_work().is_none(), "nothing to leave");
}

/// A page that the host takes away leaves the shadow tables, and can be backed again.
#[test]
fn a_change_of_the_host_reaches_the_shadow_tables() {
    let mut system = default_system("4k+shadow-4k");
    system.event(&map(0, 8, Permissions::READ_WRITE)).unwrap();
    for page in 0..8 {
        access(&mut system, AccessKind::Write, page);
    }
    let entries = |system: &System| system.hypervisor().unwrap().shadow_tables().unwrap().entries();
    assert_eq!(entries(&system), 8);
    let all: Vec<Frame> = (0..(256 << 20) / 4096).map(Frame::new).collect();
    take_back(&mut system, &all).unwrap();
    assert_eq!(entries(&system), 0);
    system.start_measuring();
    access(&mut system, AccessKind::Write, 3);
    // In one exit, the host's kernel also backs the page.
    assert_eq!(exits(&system), Exits { shadow_fault: 1, ..Exits::default() });
}

#[test]
fn entries_that_stay_are_caught() {
    let touched = || {
        let machine = Machine::load(Machine::DEFAULT).unwrap();
        let wiring = Defective::new(Defect::KeepShadowEntries);
        let mut system = system_with(&machine, "4k+shadow-4k", Some(wiring));
        system.event(&map(0, 8, Permissions::READ_WRITE)).unwrap();
        access(&mut system, AccessKind::Write, 0);
        access(&mut system, AccessKind::Write, 1);
        system
    };
    let mut system = touched();
    system.event(&unmap(1, 1)).unwrap();
    let after = system.translate(AccessKind::Read, address(1));
    let Err(SimError::Disagreement { scheme, .. }) = after else {
        panic!("the guest unmapped it: {after:?}")
    };
    assert_eq!(scheme, "4k+shadow-4k", "errors name guest and host");
    let mut system = touched();
    let all: Vec<Frame> = (0..(256 << 20) / 4096).map(Frame::new).collect();
    take_back(&mut system, &all).unwrap();
    let after = system.translate(AccessKind::Read, address(1));
    assert!(matches!(after, Err(SimError::Disagreement { .. })), "the host took it: {after:?}");
}

/// Number of 2MB regions of the arena.
const REGIONS: u64 = 4;
const GUEST_FRAMES: u64 = (24 << 20) / 4096;

/// Ignores errors of the small memories running out, which storms may cause.
fn ignore_out_of_memory<T>(outcome: Result<T, SimError>) -> Result<(), SimError> {
    match outcome {
        Ok(_) | Err(SimError::Os { .. } | SimError::HostOs { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

fn storm(pair: &str, seed: u64, events: u64) -> Result<Exits, SimError> {
    let mut random = Random::new(seed);
    let mut machine = Machine::load(Machine::DEFAULT).unwrap();
    machine.tlb.tagged = random.below(4) > 0;
    if random.below(2) == 0 {
        machine.tlb.l2 = TlbGeometry { entries: 48, ways: 12 };
        machine.tlb.l1_data_4k = TlbGeometry { entries: 8, ways: 4 };
    }
    // In half of the storms the host has less memory than its guest, and swaps.
    let kernel = KernelConfig { swap: Size(64 << 20), ..KernelConfig::new(12 << 20) };
    let small = Box::new(MemoryState { kernel, ..MemoryState::default() });
    let host = (random.below(2) == 0).then_some(small);
    let memory = MemoryState { host, ..MemoryState::of(24 << 20) };
    let mut system = system_on(&machine, pair, &memory, seed, None);
    let contents = read("zero=5%,duplicate=50%,distinct=20").unwrap();
    system.change_host(|host| host.kernel_mut().set_content_distribution(contents))?;
    let mut processes = vec![ProcessId(0)];
    system.event(&map(0, REGIONS * 512, Permissions::READ_WRITE))?;
    for event in 0..events {
        system.at_instruction(event);
        if random.below(6) > 0 {
            let kind = [AccessKind::Read, AccessKind::Write, AccessKind::Write, AccessKind::Fetch]
                [random.below(4) as usize];
            let page = random.below(REGIONS) * 512 + random.below(40);
            let outcome = system.translate(kind, address(page));
            if kind == AccessKind::Write && matches!(outcome, Ok(Some(_))) {
                assert_marked(&system, address(page).page(), seed);
            }
            ignore_out_of_memory(outcome)?;
        } else if random.below(3) == 0 {
            change_host(&mut system, &mut random)?;
        } else {
            change_guest(&mut system, &mut random, &mut processes)?;
        }
        if event % 500 == 0 {
            let host = system.hypervisor().unwrap().kernel();
            host.check_invariants().unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        }
    }
    assert_map_adds_up(&system, seed);
    Ok(exits(&system))
}

/// The hardware sets bits of the shadow tables alone. So a store that shadow tables allow finds the dirty
/// bits of guest and host set.
fn assert_marked(system: &System, page: VirtualPage, seed: u64) {
    let shadow: &Shadow = system.mmu().dimension().part().unwrap();
    let guest = shadow.guest_leaf(system.kernel().current(), page).unwrap();
    let host = shadow.host_leaf(GuestFrame::new(guest.frame_of(page).number())).unwrap();
    for (side, leaf) in [("guest", guest), ("host", host)] {
        assert!(leaf.allows & allow::DIRTY != 0, "seed {seed}: {page:?} is clean in the {side}");
    }
}

/// Shadow tables appear as tables in the map of the host's memory.
fn assert_map_adds_up(system: &System, seed: u64) {
    let host = system.hypervisor().unwrap();
    let mut counters = Counters::default();
    host.kernel().counters(&mut counters);
    let bytes = |name: &str| counters.get(name).unwrap() as u64;
    let unmovable = host.kernel().memory_map().frames(FrameClass::Unmovable) * 4096;
    assert_eq!(unmovable, bytes("page_table_bytes"), "seed {seed}");
    let shadow = host.shadow_tables().unwrap().tables() as u64 * 4096;
    assert!(shadow <= unmovable, "seed {seed}");
}

fn change_guest(
    system: &mut System,
    random: &mut Random,
    processes: &mut Vec<ProcessId>,
) -> Result<(), SimError> {
    let pages = [512, 1, 3, 100][random.below(4) as usize];
    let index = if pages == 512 { 0 } else { random.below(40) };
    let first = random.below(REGIONS - 1) * 512 + index;
    let (start, length) = (address(first), pages * 4096);
    let permissions =
        [Permissions::READ, Permissions::READ_WRITE, Permissions::ALL][random.below(3) as usize];
    let any = processes[random.below(processes.len() as u64) as usize];
    let event = match random.below(7) {
        0 => unmap(first, pages),
        1 | 2 => map(first, pages, permissions),
        3 => ProgramEvent::Protect { start, length, permissions, accessible: true },
        4 => ProgramEvent::Advise { start, length, advice: Advice::DontNeed },
        5 if processes.len() < 3 => {
            let child = ProcessId(random.below(60_000) as u16 + 1);
            if processes.contains(&child) {
                return Ok(());
            }
            processes.push(child);
            ProgramEvent::Fork { child }
        }
        5 => {
            let process = processes.pop().unwrap();
            let first = ProgramEvent::Switch { process: ProcessId(0), thread: ThreadId(0) };
            ignore_out_of_memory(system.event(&first))?;
            ProgramEvent::Exit { process }
        }
        _ => ProgramEvent::Switch { process: any, thread: ThreadId(0) },
    };
    ignore_out_of_memory(system.event(&event))
}

fn change_host(system: &mut System, random: &mut Random) -> Result<(), SimError> {
    let choice = random.below(5);
    let frames: Vec<Frame> =
        (0..random.below(200)).map(|_| Frame::new(random.below(GUEST_FRAMES))).collect();
    ignore_out_of_memory(system.change_host(|host| {
        let kernel = host.kernel_mut();
        match choice {
            0 => drop(kernel.compact()),
            1 => {
                kernel.set_ksm(read("pages-to-scan=500,max-page-sharing=8").expect("knobs"));
                kernel.ksm_pass();
            }
            2 => {
                kernel.set_khugepaged(KhugepagedConfig::default());
                kernel.khugepaged_pass();
            }
            _ => host.take_back(&frames)?,
        }
        Ok(())
    }))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn storms_of_guest_and_host_agree_with_the_oracle() {
    let seeds = match number("STORM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("STORM_SEEDS").unwrap_or(8),
    };
    for pair in PAIRS {
        let mut all = Exits::default();
        for seed in seeds.clone() {
            let exits = storm(pair, seed, 6_000)
                .unwrap_or_else(|error| panic!("{pair} with STORM_SEED={seed}: {error}"));
            all.shadow_fault += exits.shadow_fault;
            all.table_update += exits.table_update;
        }
        assert_eq!(all.nested_fault, 0, "{pair}");
        assert!(all.shadow_fault > 1000 && all.table_update > 1000, "{pair}: {all:?}");
    }
}

fn figures(workload: &str) -> Vec<RunResult> {
    let comparison = ResolvedRun {
        processors: ProcessorOptions::default(),
        workload: Workload { instructions: Some(2_000_000), ..Workload::named(workload) },
        machine: Machine::load(Machine::DEFAULT).unwrap(),
        schemes: Composition::list("4k,4k+4k,4k+shadow-4k").unwrap(),
        memory: MemoryState::of(1 << 30),
        seed: 1,
        measuring: measuring(false, false, Some(1_000_000)),
    };
    checked_run(&comparison).unwrap()
}

/// With static memory, shadow paging is near native speed. With frequent unmapping and mapping,
/// exits dominate and nested paging is faster (D §IX.D).
#[test]
fn static_programs_run_near_native_and_churning_ones_do_not() {
    let counter = |result: &RunResult, name: &str| result.counters.get(name).unwrap_or_default();
    let cycles = |result: &RunResult| counter(result, "cycles_with_operating_system");
    let [native, nested, shadow] = &figures("random:size=8M,writes=50%")[..] else { panic!() };
    let slowdown = cycles(shadow) / cycles(native) - 1.0;
    assert!(slowdown < 0.05, "static, over native: {slowdown}");
    assert!(cycles(nested) > cycles(shadow));
    assert_eq!(counter(shadow, "host_references_per_walk"), 0.0);
    let churn = "churn:size=8M,writes=50%,between=5000";
    let [native, nested, shadow] = &figures(churn)[..] else { panic!() };
    let slowdown = cycles(shadow) / cycles(native) - 1.0;
    assert!(slowdown > 0.25, "churning, over native: {slowdown}");
    assert!(cycles(nested) < cycles(shadow));
    let exits = counter(shadow, "operating_system_cycles_vm_exits");
    assert!(exits > 0.5 * (cycles(shadow) - cycles(native)), "{exits} cycles of exits");
    let updates = counter(shadow, "virtual_machine_exits_table_update");
    // Every page of a piece is unmapped and mapped again.
    let pieces = counter(shadow, "work_pages_unmapped") + counter(shadow, "work_pages_mapped");
    assert!((updates / pieces - 1.0).abs() < 0.05, "{updates} exits for {pieces} entries");
}
