//! Hand-counted effects of context switches, exec and sharing on cached translations. Two processes
//! map the same shared memory. The TLBs have address-space tags (PCID) or none.

use perforate_mmu::MmuCounters;
use perforate_os::HoleContent;
use perforate_sim::{Machine, MemoryState, Scheme, System, SystemOptions};
use perforate_types::{
    AccessKind, Backing, Permissions, ProcessId, ProgramEvent, ThreadId, VirtualAddress,
};

const START: u64 = 0x4000_0000;
const A: u16 = 0;
const B: u16 = 1;

/// Creates a system whose oracle checks every translation.
fn system(scheme: &str, tagged: bool) -> System {
    let mut machine = Machine::load(Machine::DEFAULT).unwrap();
    machine.tlb.tagged = tagged;
    let memory = MemoryState::of(1 << 30);
    let options = SystemOptions { check: true, implicit_maps: false, counts_only: false };
    System::new(&machine, Scheme::find(scheme).unwrap(), &memory, 1, options).unwrap()
}

fn map_shared() -> ProgramEvent {
    ProgramEvent::Map {
        start: VirtualAddress::new(START),
        length: 2 << 20,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared: true,
        populate: false,
    }
}

fn switch(system: &mut System, process: u16) {
    let (process, thread) = (ProcessId(process), ThreadId(0));
    system.event(&ProgramEvent::Switch { process, thread }).unwrap();
}

/// Reads pages as a process; returns the frame of the last one.
fn read(system: &mut System, process: u16, pages: &[u64]) -> u64 {
    switch(system, process);
    let mut frame = 0;
    for page in pages {
        let address = VirtualAddress::new(START + page * 4096);
        let translated = system.translate(AccessKind::Read, address).unwrap().expect("allowed");
        frame = translated.physical.page().number();
    }
    frame
}

/// Returns the counters of the actions of `act`.
fn counts(system: &mut System, act: impl FnOnce(&mut System)) -> MmuCounters {
    system.start_measuring();
    act(system);
    *system.mmu().counters()
}

/// Creates a system in which both processes have touched these pages of the same memory, and all
/// TLBs are empty.
fn two_processes(scheme: &str, tagged: bool, pages: &[u64]) -> System {
    let mut system = system(scheme, tagged);
    system.event(&map_shared()).unwrap();
    system.event(&ProgramEvent::Fork { child: ProcessId(B) }).unwrap();
    assert_eq!(read(&mut system, A, pages), read(&mut system, B, pages), "the same frame");
    system.mmu_mut().flush();
    system
}

/// Two processes access four pages each, in the order A, B, A. With tags, A hits its four pages
/// again; without tags, it walks again.
#[test]
fn four_pages_each() {
    let pages = [0, 1, 2, 3];
    for (tagged, misses) in [(true, 8), (false, 12)] {
        let mut system = two_processes("4k", tagged, &pages);
        let counts = counts(&mut system, |system| {
            for process in [A, B, A] {
                read(system, process, &pages);
            }
        });
        assert_eq!((counts.l1_accesses, counts.l1_misses), (12, misses), "tagged: {tagged}");
        assert_eq!((counts.l2_misses, counts.walks), (misses, misses), "tagged: {tagged}");
    }
}

/// A switch to the running process flushes nothing.
#[test]
fn a_switch_between_threads_keeps_everything() {
    let mut system = two_processes("4k", false, &[0]);
    let counts = counts(&mut system, |system| {
        for process in [A, A, A] {
            read(system, process, &[0]);
        }
    });
    assert_eq!((counts.l1_accesses, counts.l1_misses), (3, 1));
}

/// Page 5 is a hole, page 6 is in its 256KB, page 100 is not.
///
/// With empty TLBs, page 5 misses everywhere, walks to the perforated entry, reads the bitmap and
/// walks on to the hole. Page 6 hits the perforated entry and the bitmap entry. Page 100 hits only
/// the perforated entry, because its filter excludes a hole. After a flush of the first level only,
/// page 5 hits its 4KB entry; pages 6 and 100 are as before.
#[test]
fn perforated_and_bitmap_entries() {
    let pages = [5, 6, 100];
    for (tagged, cold) in [(true, 2), (false, 3)] {
        let mut system = system("perforated", tagged);
        system.event(&map_shared()).unwrap();
        system.event(&ProgramEvent::Fork { child: ProcessId(B) }).unwrap();
        read(&mut system, A, &pages);
        let space = system.kernel().current();
        let hole = VirtualAddress::new(START + 5 * 4096).page();
        system.change(|kernel| kernel.punch(space, hole, HoleContent::Moved)).unwrap();
        assert_eq!(read(&mut system, A, &[5]), read(&mut system, B, &[5]));
        assert_eq!(read(&mut system, A, &[6]), read(&mut system, B, &[6]));
        system.mmu_mut().flush();
        let counts = counts(&mut system, |system| {
            read(system, A, &pages);
            read(system, B, &pages);
            system.mmu_mut().flush_first_level();
            read(system, A, &pages);
        });
        assert_eq!((counts.l1_accesses, counts.l1_misses), (9, 9));
        assert_eq!((counts.l2_misses, counts.walks), (cold, cold), "tagged: {tagged}");
        assert_eq!((counts.bitmap_misses, counts.holes_translated), (cold, cold));
        assert_eq!((counts.bitmap_hits, counts.bitmap_filtered, counts.generated), (3, 3, 6));
    }
}

/// The bitmap contains the holes of both processes that share the page (P §IV.B). B has cached the
/// part with page 7. When B runs again, it must see A's new hole there, although B has no hole
/// there, and later the end of that hole.
#[test]
fn a_bitmap_changed_by_a_sharer_is_read_again() {
    for tagged in [true, false] {
        let mut system = two_processes("perforated", tagged, &[5]);
        let hole = |page: u64| VirtualAddress::new(START + page * 4096).page();
        let punch = |system: &mut System, process, page| {
            switch(system, process);
            let (space, page) = (system.kernel().current(), hole(page));
            system.change(|kernel| kernel.punch(space, page, HoleContent::Unallocated)).unwrap();
        };
        punch(&mut system, B, 60); // sets B's filter bit of the first 64 pages
        let frame = read(&mut system, B, &[7]);
        let visit = |system: &mut System, page: u64| {
            counts(system, |system| {
                switch(system, B);
                system.mmu_mut().flush_first_level();
                assert_eq!(read(system, B, &[page]), frame + page - 7, "B's stay in place");
            })
        };
        let before = visit(&mut system, 7);
        assert_eq!((before.bitmap_hits, before.bitmap_misses, before.generated), (1, 0, 1));
        punch(&mut system, A, 7);
        let punched = visit(&mut system, 7);
        assert_eq!((punched.bitmap_misses, punched.holes_translated), (1, 1));
        // A touches its hole. The frame is B's, in place, so the hole is patched.
        assert_eq!(read(&mut system, A, &[7]), frame);
        // With tags B still has its 4KB entry for page 7, which is valid. Page 8 shares the bitmap
        // entry.
        let patched = visit(&mut system, 8);
        assert_eq!((patched.bitmap_misses, patched.generated), (1, 1), "tagged: {tagged}");
        if !tagged {
            let patched = visit(&mut system, 7);
            assert_eq!((patched.holes_translated, patched.generated), (0, 1));
        }
    }
}

/// exec removes the mappings and their TLB entries, so the first accesses of the new program fault.
#[test]
fn exec_begins_anew() {
    for scheme in ["4k", "thp", "perforated"] {
        for tagged in [true, false] {
            let mut system = two_processes(scheme, tagged, &[0]);
            let old = read(&mut system, A, &[0]);
            read(&mut system, B, &[0]);
            system.event(&ProgramEvent::Exec).unwrap();
            let address = VirtualAddress::new(START);
            let refused = system.translate(AccessKind::Read, address).unwrap();
            assert!(refused.is_none(), "{scheme}: nothing is mapped after exec");
            system.event(&map_shared()).unwrap();
            assert_ne!(read(&mut system, B, &[0]), old, "{scheme}: memory of its own");
            assert_eq!(read(&mut system, A, &[0]), old, "{scheme}: the other keeps its memory");
        }
    }
}
