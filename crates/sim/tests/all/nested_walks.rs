//! Closed forms of nested (two-dimensional) page walks, and pairs of page sizes and perforated
//! pages compared with the oracle.

use perforate_mmu::{TlbGeometry, WalkCacheConfig};
use perforate_sim::{Composition, Machine, MemoryState, System, SystemOptions};
use perforate_types::{
    AccessKind, Backing, Counters, GuestFrame, Permissions, ProgramEvent, Purpose, VirtualAddress,
};

use crate::storms;

const START: u64 = 0x7f00_0000_0000;
const OPTIONS: SystemOptions =
    SystemOptions { check: true, implicit_maps: false, counts_only: false };

/// Returns a machine that caches no page-table entries.
fn without_caches() -> Machine {
    let mut machine = Machine::load(Machine::DEFAULT).unwrap();
    let none = WalkCacheConfig::fully_associative(0, 0, 0);
    machine.walk_cache = none;
    machine.virtualization.host_walk_cache = Some(none);
    machine.virtualization.nested_tlb = Some(TlbGeometry { entries: 0, ways: 0 });
    machine
}

fn map(length: u64) -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(START),
        length,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: false,
    }
}

fn system(machine: &Machine, pair: &str, memory: &MemoryState) -> System {
    System::new(machine, Composition::find(pair).unwrap(), memory, 1, OPTIONS).unwrap()
}

/// Creates a guest with 8GB of memory and a mapping of 4GB.
fn ready(machine: &Machine, pair: &str) -> System {
    let memory = MemoryState::of(8 << 30);
    let mut system = system(machine, pair, &memory);
    system.event(&map(4 << 30)).unwrap();
    system
}

/// Counts the entries that a walk with empty caches reads from the guest's and the host's tables,
/// and its comparisons with segments.
fn cold_walk(system: &mut System) -> (u64, u64, u64) {
    let address = VirtualAddress::new(START + (1 << 30) + 0x12_3456);
    system.translate(AccessKind::Write, address).unwrap().unwrap();
    system.mmu_mut().flush();
    system.translate(AccessKind::Write, address).unwrap().unwrap();
    let reads = system.steps().reads();
    let sum = |reads: &[u8]| reads.iter().map(|&count| u64::from(count)).sum();
    let (guest, host) = reads.split_at(Purpose::HostPage as usize);
    (sum(guest), sum(host), system.steps().checks().into())
}

/// A walk of g guest levels over h host levels has (g + 1)(h + 1) − 1 references, g of them to the
/// guest's tables (D Fig. 2).
#[test]
fn a_walk_of_two_dimensions_reads_as_the_closed_form_says() {
    let sizes = [("4k", 4), ("thp", 3), ("1g", 2)];
    for (guest, g) in sizes {
        for (host, h) in sizes {
            let mut system = ready(&without_caches(), &format!("{guest}+{host}"));
            let (guest_reads, host_reads, _) = cold_walk(&mut system);
            assert_eq!(guest_reads, g, "{guest}+{host}");
            assert_eq!(guest_reads + host_reads, (g + 1) * (h + 1) - 1, "{guest}+{host}");
        }
    }
}

/// Most walks have the references to guest and host, and the comparisons, of D Tables I and II in
/// each mode. In VMM Direct, five comparisons translate the addresses of the guest's four tables
/// and of the page itself.
#[test]
fn direct_segments_flatten_one_dimension_or_both() {
    for (mode, pair, expected) in [
        ("base virtualized", "4k+4k", (4, 20, 0)),
        ("VMM Direct", "4k+segment", (4, 0, 5)),
        ("Guest Direct", "segment+4k", (0, 4, 1)),
        ("Dual Direct", "segment+segment", (0, 0, 1)),
        ("unvirtualized direct segment", "segment", (0, 0, 1)),
    ] {
        let mut system = ready(&without_caches(), pair);
        assert_eq!(cold_walk(&mut system), expected, "{mode}");
    }
}

#[test]
fn natively_a_walk_reads_one_entry_a_level() {
    for (scheme, levels) in [("4k", 4), ("thp", 3), ("1g", 2)] {
        let mut system = ready(&without_caches(), scheme);
        assert_eq!(cold_walk(&mut system), (levels, 0, 0), "{scheme}");
    }
}

#[test]
fn caches_shorten_the_walk_in_both_dimensions() {
    let machine = Machine::load(Machine::DEFAULT).unwrap();
    let mut system = ready(&machine, "4k+4k");
    let touch = |system: &mut System, page: u64| {
        let address = VirtualAddress::new(START + page * 4096);
        system.translate(AccessKind::Write, address).unwrap().unwrap();
        let reads = system.steps().reads();
        let guest: u8 = reads[..Purpose::HostPage as usize].iter().sum();
        let host: u8 = reads[Purpose::HostPage as usize..].iter().sum();
        (guest, host)
    };
    for page in 0..600 {
        touch(&mut system, page);
    }
    system.mmu_mut().flush();
    touch(&mut system, 0);
    // The level-1 node and its physical address are cached, so one guest entry is read. The next
    // page is in a host page whose level-1 node is cached as well.
    assert_eq!(touch(&mut system, 1), (1, 1));
    // In another 2MB region, the guest's level-2 and level-1 entries are read. One host entry is
    // read for the new level-1 node, and two for the page, which is in another 2MB of the guest's
    // memory as well.
    assert_eq!(touch(&mut system, 512), (2, 3));
}

/// The hypervisor updates the register with the physical address of the guest's bitmaps (P §V).
/// After one of their frames fails, it moves all bitmaps, so that reads of a bitmap still need no
/// translation.
#[test]
fn the_register_follows_the_bitmaps_of_the_guest() {
    let holes = ("fragmentation", "portion=100%,holes=50%,dispersed");
    let memory = storms::memory_of(&[("memory", "256M"), holes]);
    let mut system = system(&without_caches(), "perforated+4k", &memory);
    system.event(&map(16 << 20)).unwrap();
    let address = VirtualAddress::new(START + (4 << 20));
    let bitmap_of_guest = |system: &mut System| {
        system.translate(AccessKind::Read, address).unwrap().unwrap();
        system.mmu_mut().flush();
        system.translate(AccessKind::Read, address).unwrap().unwrap();
        let reads = system.steps().reads();
        let host: u64 =
            reads[Purpose::HostPage as usize..].iter().map(|&count| u64::from(count)).sum();
        (reads[Purpose::Bitmap as usize], host)
    };
    let before = bitmap_of_guest(&mut system);
    assert_eq!(before.0, 1, "the walk asks the bitmap");
    let page = GuestFrame::new(system.kernel().hole_bitmap().unwrap().page().number());
    let place = |system: &System| {
        system.mmu().dimension().host().unwrap().look_at(page).map(|reach| reach.frame)
    };
    let failing = place(&system).unwrap();
    system
        .change_host(|host| {
            host.kernel_mut().hard_fault(failing);
            Ok(())
        })
        .unwrap();
    assert_ne!(place(&system), Some(failing));
    assert_eq!(bitmap_of_guest(&mut system), before);
}

/// The host calls mprotect on the virtual machine's memory while the guest runs. The guest cannot
/// repair such faults.
#[test]
fn what_the_host_forbids_is_refused_until_it_is_allowed() {
    let machine = Machine::load(Machine::DEFAULT).unwrap();
    let mut system = ready(&machine, "thp+4k");
    let address = VirtualAddress::new(START);
    system.translate(AccessKind::Write, address).unwrap().unwrap();
    let protect = |system: &mut System, permissions: Permissions| {
        let event = ProgramEvent::Protect {
            start: VirtualAddress::new(0),
            length: 8 << 30,
            permissions,
            accessible: true,
        };
        let outcome = system.change_host(|host| {
            let space = host.space();
            host.kernel_mut().event_in(space, &event)
        });
        outcome.unwrap();
    };
    protect(&mut system, Permissions::READ);
    // Loads are refused as well: the walker writes accessed bits into the guest's tables.
    for kind in [AccessKind::Read, AccessKind::Write] {
        assert_eq!(system.translate(kind, address).unwrap(), None, "{kind:?}");
    }
    let mut counters = Counters::default();
    system.record(1, &mut counters);
    assert_eq!(counters.get("accesses_refused"), Some(2.0));
    protect(&mut system, Permissions::ALL);
    assert!(system.translate(AccessKind::Write, address).unwrap().is_some());
}

/// A guest's gap-tolerant page directory has up to four pages. The host may not have backed the page
/// that a walk reads.
#[test]
fn each_page_of_a_large_directory_may_be_backed_late() {
    for pair in ["p-gt-pde-2m+4k", "gt-pde-4m+thp", "perforated+4k"] {
        let machine = Machine::load(Machine::DEFAULT).unwrap();
        let mut system = system(&machine, pair, &MemoryState::of(64 << 20));
        system.event(&map(1 << 30)).unwrap();
        for quarter in 0..4 {
            let address = VirtualAddress::new(START + quarter * (256 << 20));
            let found = system.translate(AccessKind::Write, address).unwrap();
            assert!(found.is_some(), "{pair}");
        }
    }
}
