//! Whose work it is: of the program or of a thread of the kernel, of guest or host, of which core, before or
//! after measuring starts.

use perforate_config::Size;
use perforate_os::{KernelConfig, Work};
use perforate_sim::{
    Composition, Exits, HostWork, Machine, MemoryState, ProcessorOptions, System, SystemOptions,
};
use perforate_types::{
    AccessKind, Advice, Backing, Counters, Frame, Permissions, ProcessId, ProgramEvent, ThreadId,
    VirtualAddress,
};

const START: u64 = 0x4000_0000;

fn system_with(scheme: &str, implicit_maps: bool, processors: &ProcessorOptions) -> System {
    let machine = Machine::load(Machine::DEFAULT).unwrap();
    let options = SystemOptions { check: true, implicit_maps, counts_only: true };
    let (scheme, memory) = (Composition::find(scheme).unwrap(), MemoryState::of(256 << 20));
    let mut system = System::new(&machine, scheme, &memory, 1, options).unwrap();
    system.set_processors(processors).unwrap();
    system
}

fn cores(cores: u64, threads_per_core: u64) -> ProcessorOptions {
    ProcessorOptions { cores, threads_per_core, ..ProcessorOptions::default() }
}

fn system(scheme: &str) -> System {
    system_with(scheme, false, &cores(1, 1))
}

fn map(pages: u64, permissions: Permissions) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(START),
        length: pages * 4096,
        permissions,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: false,
    }
}

fn unmap(pages: u64) -> ProgramEvent {
    ProgramEvent::Unmap { start: VirtualAddress::new(START), length: pages * 4096 }
}

/// Accesses pages, all of which are allowed.
fn access(system: &mut System, kind: AccessKind, pages: std::ops::Range<u64>) {
    for page in pages {
        let address = VirtualAddress::new(START + page * 4096);
        system.translate(kind, address).unwrap().expect("allowed");
    }
}

/// A system whose program has written eight pages, before measuring starts.
fn written(scheme: &str, processors: &ProcessorOptions) -> System {
    let mut system = system_with(scheme, false, processors);
    system.event(&map(8, Permissions::READ_WRITE)).unwrap();
    access(&mut system, AccessKind::Write, 0..8);
    system.start_measuring();
    system
}

/// Writes of the guest's kernel threads to shadowed tables make another processor leave the virtual machine.
/// Writes for the program make its own processor leave.
#[test]
fn exits_of_kernel_threads_are_in_the_background() {
    for in_background in [true, false] {
        let mut system = written("4k+shadow-4k", &cores(1, 1));
        assert_eq!(system.host_work(), Some(HostWork::default()), "measuring starts");
        match in_background {
            true => system.change_in_background(|kernel| kernel.event(&unmap(8))).unwrap(),
            false => system.event(&unmap(8)).unwrap(),
        }
        let HostWork { exits, background_exits, .. } = system.host_work().unwrap();
        // Eight entries, and one at each of three levels above; the guest invalidates eight pages.
        let expected = Exits { table_update: 8 + 3, invalidation: 8, ..Exits::default() };
        assert_eq!(exits, expected);
        let table_update = if in_background { 8 + 3 } else { 0 };
        assert_eq!(background_exits, Exits { table_update, ..Exits::default() });
    }
}

/// Threads of the host's kernel work on other processors, but for shootdowns, which interrupt the program's
/// unless other processors are simulated. Nothing of it is an exit.
#[test]
fn work_of_the_hosts_threads_is_in_the_background() {
    for (processors, in_background) in
        [(cores(1, 1), true), (cores(1, 1), false), (cores(2, 1), true), (cores(2, 1), false)]
    {
        let mut system = written("4k+4k", &processors);
        let oracle = system.oracle().expect("translations are checked");
        let page = |page: u64| VirtualAddress::new(START + page * 4096).page();
        let frame = |at| oracle.translate(system.kernel().current(), page(at)).expect("mapped").0;
        let frames: Vec<Frame> = (0..4).map(frame).collect();
        match in_background {
            true => system.change_host_in_background(|host| host.take_back(&frames)).unwrap(),
            false => system.change_host(|host| host.take_back(&frames)).unwrap(),
        }
        let HostWork { work, background, exits, backing, .. } = system.host_work().unwrap();
        assert_eq!((work.pages_unmapped, work.entries_invalidated > 0), (4, true));
        assert!(work.shootdown_batches > 0);
        let expected = match (in_background, processors.cores) {
            (false, _) => Default::default(),
            (true, 1) => work.apart_from_shootdowns(),
            (true, _) => work,
        };
        assert_eq!(background, expected, "{processors:?}");
        assert_eq!((exits, backing), (Exits::default(), Default::default()));
        assert_eq!(system.work(), Default::default(), "the guest did nothing");
        // What was taken is backed anew by the program's next accesses: it is no work of threads.
        access(&mut system, AccessKind::Read, 0..4);
        let more = system.host_work().unwrap();
        assert_eq!(more.background, background);
        assert_eq!((more.exits.nested_fault, more.backing_exits), (4, 4));
        assert_eq!(more.backing.pages_mapped, 4);
    }
}

/// Exits with an active segment of the host are counted; so are such exits that back memory first.
#[test]
fn exits_with_a_segment_of_the_host() {
    for (scheme, has_segment) in [("4k+segment", true), ("4k+4k", false), ("segment+4k", false)] {
        let mut system = system(scheme);
        system.start_measuring();
        system.event(&map(8, Permissions::READ_WRITE)).unwrap();
        access(&mut system, AccessKind::Write, 0..8);
        let host = system.host_work().unwrap();
        let exits = host.exits.nested_fault;
        assert!(exits > 0 && host.exits.total() == exits, "{scheme}: {exits}");
        assert_eq!((host.backing_exits, host.backing), (exits, host.work), "{scheme}");
        let with_segment = if has_segment { exits } else { 0 };
        let found = (host.segment_exits, host.backing_segment_exits);
        assert_eq!(found, (with_segment, with_segment), "{scheme}");
        // Pages that were there before are no first backing.
        let before = system.host_work().unwrap();
        access(&mut system, AccessKind::Write, 0..8);
        assert_eq!(system.host_work().unwrap(), before, "{scheme}");
    }
}

/// MADV_POPULATE_READ and MADV_POPULATE_WRITE have the host back what the guest maps; other advice does not.
#[test]
fn populating_advice_reaches_the_host() {
    for (advice, permissions, is_populated) in [
        (22, Permissions::READ, true),
        (22, Permissions::READ_WRITE, true),
        (23, Permissions::READ_WRITE, true),
        (21, Permissions::READ_WRITE, false),
        (24, Permissions::READ_WRITE, false),
    ] {
        let mut system = system("4k+4k");
        system.event(&map(16, permissions)).unwrap();
        let (start, length) = (VirtualAddress::new(START), 16 * 4096);
        let advice = Advice::Other(advice);
        system.event(&ProgramEvent::Advise { start, length, advice }).unwrap();
        let populated = system.host_work().unwrap();
        assert_eq!(populated.exits.total(), populated.backing_exits);
        system.start_measuring();
        access(&mut system, AccessKind::Read, 0..16);
        let more = system.host_work().unwrap().exits.nested_fault;
        assert_eq!(more == 0, is_populated, "{advice:?}: {more} exits");
        assert_eq!(system.work().pages_mapped == 0, is_populated, "{advice:?}");
    }
}

/// Accesses beyond the user's half of addresses are refused without a fault, others by the kernel. Those
/// before measuring do not count.
#[test]
fn refused_accesses_are_those_of_the_measured_part() {
    let refused = |system: &System| {
        let mut counters = Counters::default();
        system.record(1, &mut counters);
        counters.get("accesses_refused").unwrap()
    };
    let end = 1 << 47;
    let mut implicit = system_with("4k", true, &cores(1, 1));
    for (address, is_allowed, count) in
        [(end - 8, true, 0.0), (end, false, 1.0), (u64::MAX - 7, false, 2.0), (0x5000, true, 2.0)]
    {
        let found = implicit.translate(AccessKind::Read, VirtualAddress::new(address)).unwrap();
        assert_eq!((found.is_some(), refused(&implicit)), (is_allowed, count), "{address:#x}");
    }
    implicit.start_measuring();
    assert_eq!(refused(&implicit), 0.0);
    for (permissions, kind, is_allowed) in [
        (Permissions::READ, AccessKind::Write, false),
        (Permissions::READ, AccessKind::Read, true),
        (Permissions::READ_WRITE, AccessKind::Fetch, false),
    ] {
        let mut system = system("4k");
        system.event(&map(1, permissions)).unwrap();
        for times in 1..3 {
            let found = system.translate(kind, VirtualAddress::new(START)).unwrap();
            let count = if is_allowed { 0.0 } else { f64::from(times) };
            assert_eq!((found.is_some(), refused(&system)), (is_allowed, count), "{kind:?}");
        }
    }
}

/// Each core has TLBs of its own, which the hardware threads of the core share.
#[test]
fn tlbs_are_of_cores() {
    for (processors, misses) in [
        // Threads 0 to 2 of the program are on cores 0, 1 and 0.
        (cores(2, 1), [0, 1, 0, 0]),
        // Thread 2 is on the second hardware thread of core 0.
        (cores(2, 2), [0, 1, 0, 0]),
        (cores(1, 2), [0, 0, 0, 0]),
        (cores(3, 1), [0, 1, 1, 0]),
    ] {
        let mut system = written("4k", &processors);
        let found = [0, 1, 2, 1].map(|thread| {
            let (process, thread) = (ProcessId(0), ThreadId(thread));
            system.event(&ProgramEvent::Switch { process, thread }).unwrap();
            let before = system.mmu().counters().l2_misses;
            access(&mut system, AccessKind::Read, 0..1);
            system.mmu().counters().l2_misses - before
        });
        assert_eq!(found, misses, "{processors:?}");
    }
}

/// Guest and host have other seeds, so that their memories are not fragmented alike.
#[test]
fn guest_and_host_have_seeds_of_their_own() {
    let system = system("4k+4k");
    let host = system.hypervisor().unwrap().kernel();
    assert_eq!((system.kernel().config().seed, host.config().seed), (1, !1));
}

/// The hypervisor backs what it reads for a shadow entry: the page, and at first the guest's four tables.
#[test]
fn tables_of_the_guest_are_backed_for_shadow_entries() {
    let mut system = system("4k+shadow-4k");
    system.event(&map(1024, Permissions::READ_WRITE)).unwrap();
    system.start_measuring();
    let found = [
        (0, AccessKind::Read),
        (1, AccessKind::Write),
        (0, AccessKind::Write),
        // In another level-1 table.
        (512, AccessKind::Write),
    ]
    .map(|(page, kind)| {
        let before = system.host_work().unwrap();
        access(&mut system, kind, page..page + 1);
        let HostWork { work, backing, .. } = system.host_work().unwrap();
        let mapped = |now: Work, before: Work| now.pages_mapped - before.pages_mapped;
        (mapped(work, before.work), mapped(backing, before.backing))
    });
    // Each access makes a shadow entry, which is no memory of the guest.
    assert_eq!(found, [(1 + 4 + 1, 1 + 4), (1 + 1, 1), (1, 0), (1 + 1 + 1, 1 + 1)]);
}

/// A host with less memory than its guest swaps. What comes back from swap was backed before.
#[test]
fn memory_from_swap_is_no_first_backing() {
    for scheme in ["4k+4k", "4k+shadow-4k"] {
        let machine = Machine::load(Machine::DEFAULT).unwrap();
        let options = SystemOptions { check: true, implicit_maps: false, counts_only: true };
        let kernel = KernelConfig { swap: Size(64 << 20), ..KernelConfig::new(12 << 20) };
        let host = Some(Box::new(MemoryState { kernel, ..MemoryState::default() }));
        let memory = MemoryState { host, ..MemoryState::of(32 << 20) };
        let pair = Composition::find(scheme).unwrap();
        let mut system = System::new(&machine, pair, &memory, 1, options).unwrap();
        const PAGES: u64 = 4096;
        system.event(&map(PAGES, Permissions::READ_WRITE)).unwrap();
        access(&mut system, AccessKind::Write, 0..PAGES);
        let first = system.host_work().unwrap();
        access(&mut system, AccessKind::Read, 0..PAGES);
        let HostWork { work, backing, exits, backing_exits, .. } = system.host_work().unwrap();
        assert!(work.pages_swapped_in > 1_000, "{scheme}: {}", work.pages_swapped_in);
        assert_eq!((backing.pages_swapped_in, backing), (0, first.backing), "{scheme}");
        assert_eq!(backing_exits, first.backing_exits, "{scheme}");
        if scheme == "4k+4k" {
            assert!(exits.nested_fault - backing_exits >= work.pages_swapped_in, "{exits:?}");
            assert!(backing_exits >= PAGES, "{backing_exits}");
        }
    }
}
