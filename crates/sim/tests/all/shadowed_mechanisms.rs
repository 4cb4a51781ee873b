//! Hand-counted results for guests with mechanisms under shadow paging: sizes of shadow entries,
//! exits, and effects of the guest's changes on shadow entries. The oracle checks every
//! translation.

use crate::shadow_paging::{access, address, default_system, exits, map, unmap};
use perforate_os::HoleContent;
use perforate_schemes::segment::{DirectSegments, SEGMENT_REGISTERS};
use perforate_sim::{Composition, Exits, Machine, MemoryState, System, SystemOptions};
use perforate_types::{
    AccessKind, Advice, Frame, PageSize, Permissions, ProcessId, ProgramEvent, ThreadId,
};

use AccessKind::{Read, Write};
use PageSize::{Size2M, Size4K};

const RW: Permissions = Permissions::READ_WRITE;

/// Returns the page size and frame of a page's shadow entry; `None` if there is none.
fn entry(system: &System, page: u64) -> Option<(PageSize, Frame)> {
    let (space, page) = (system.kernel().current(), address(page).page());
    let found = system.mmu().dimension().look_at(space, page)?;
    Some((found.size, found.frame_of(page)))
}

fn size(system: &System, page: u64) -> Option<PageSize> {
    entry(system, page).map(|(size, _)| size)
}

/// Returns the number of shadow tables, and of their entries.
fn shadow(system: &System) -> (usize, usize) {
    let tables = system.hypervisor().unwrap().shadow_tables().unwrap();
    (tables.tables(), tables.entries())
}

/// Returns the number of exits for faults, for table updates and for register writes.
fn causes(system: &System) -> (u64, u64, u64) {
    let Exits { shadow_fault, table_update, register_write, .. } = exits(system);
    (shadow_fault, table_update, register_write)
}

fn punch(system: &mut System, page: u64, hole: HoleContent) {
    let (space, page) = (system.kernel().current(), address(page).page());
    system.change(|kernel| kernel.punch(space, page, hole)).unwrap();
}

fn patch(system: &mut System, page: u64) {
    let (space, page) = (system.kernel().current(), address(page).page());
    system.change(|kernel| kernel.patch(space, page)).unwrap();
}

#[test]
fn a_punched_page_has_small_shadow_entries_until_it_is_patched() {
    let mut system = default_system("perforated+shadow-thp");
    system.event(&map(0, 512, RW)).unwrap();
    system.start_measuring();
    access(&mut system, Write, 0);
    assert_eq!(size(&system, 7), Some(Size2M), "a guest's page without holes");
    // There is a fault for the guest, and one that fills the shadow entry.
    assert_eq!((causes(&system), shadow(&system)), ((2, 0, 0), (3, 1)));
    let (_, in_place) = entry(&system, 7).unwrap();
    // The guest writes twice to the shadowed directory: the shadow entry of the node of holes, and
    // the filter. That node is not shadowed yet. One invalidation covers the page, its bitmap entry
    // and its 2MB entry.
    punch(&mut system, 7, HoleContent::Moved);
    assert_eq!((causes(&system), exits(&system).invalidation), ((2, 2, 0), 1));
    assert_eq!(shadow(&system), (3, 0), "all of the 2MB entry is gone");
    access(&mut system, Write, 7);
    access(&mut system, Write, 8);
    let (hole, beside) = (entry(&system, 7).unwrap(), entry(&system, 8).unwrap());
    assert_eq!((hole.0, beside), (Size4K, (Size4K, in_place.add(1))));
    assert_ne!(hole.1, in_place, "the hole lies elsewhere");
    assert_eq!((causes(&system), shadow(&system)), ((4, 2, 0), (4, 2)));
    // The guest writes twice again. Freeing the node of holes frees its shadow table as well.
    patch(&mut system, 7);
    assert_eq!((causes(&system), shadow(&system)), ((4, 4, 0), (3, 0)));
    access(&mut system, Read, 7);
    assert_eq!(entry(&system, 7), Some((Size2M, in_place)));
    assert_eq!((causes(&system), shadow(&system)), ((5, 4, 0), (3, 1)));
}

/// The hypervisor treats the node of holes as an ordinary table. The bitmap is not a table, so
/// writes to it are not intercepted.
#[test]
fn writes_of_holes_leave_the_guest_once_their_node_is_shadowed() {
    let mut system = default_system("perforated+shadow-4k");
    system.event(&map(0, 512, RW)).unwrap();
    access(&mut system, Write, 0);
    punch(&mut system, 7, HoleContent::Moved);
    system.start_measuring();
    // A shadow table covers the region, but dates from before the node of holes. Writes to the
    // directory exit, writes to the node do not.
    punch(&mut system, 8, HoleContent::Moved);
    assert_eq!(causes(&system), (0, 1, 0));
    access(&mut system, Write, 7);
    assert_eq!(causes(&system), (1, 1, 0));
    punch(&mut system, 9, HoleContent::Moved);
    assert_eq!(causes(&system), (1, 3, 0), "the node of holes is shadowed");
    let advice = Advice::DontNeed;
    system.event(&ProgramEvent::Advise { start: address(7), length: 4096, advice }).unwrap();
    assert_eq!((causes(&system), size(&system, 7)), ((1, 4, 0), None));
}

#[test]
fn segment_registers_are_emulated() {
    let mut system = default_system("segment+shadow-thp");
    system.event(&map(0, 16_384, RW)).unwrap();
    system.start_measuring();
    access(&mut system, Write, 0);
    // The guest's fault sets the registers; its page tables are empty. The segment has no dirty
    // bits.
    assert_eq!((causes(&system), shadow(&system)), ((2, 0, SEGMENT_REGISTERS), (3, 1)));
    assert_eq!(size(&system, 0), Some(Size2M));
    access(&mut system, Read, 600);
    access(&mut system, Write, 600);
    assert_eq!((causes(&system), shadow(&system)), ((3, 0, 7), (3, 2)));
    // Page 7 leaves the segment. Its new entry is in tables that are not shadowed.
    let (_, in_place) = entry(&system, 7).unwrap();
    let space = system.kernel().current();
    let page = address(7).page();
    system.change(|kernel| kernel.escape_page(space, page)).unwrap();
    assert_eq!((causes(&system), shadow(&system)), ((3, 0, 8), (3, 1)));
    access(&mut system, Read, 7);
    access(&mut system, Read, 8);
    assert_eq!(entry(&system, 7), Some((Size4K, in_place)));
    assert_eq!(entry(&system, 8), Some((Size4K, in_place.add(1))), "the filter is for 4KB pages");
    assert_eq!(causes(&system), (5, 0, 8));
    // The hypervisor has read the guest's tables for page 7, and intercepts writes to them from
    // then on.
    access(&mut system, Write, 7);
    assert_eq!(causes(&system), (6, 0, 8), "its dirty bit");
    let protect = ProgramEvent::Protect {
        start: address(7),
        length: 4096,
        permissions: Permissions::READ,
        accessible: true,
    };
    system.event(&protect).unwrap();
    assert_eq!((causes(&system), size(&system, 7)), ((6, 1, 8), None));
    access(&mut system, Read, 7);
    assert!(system.translate(Write, address(7)).unwrap().is_none(), "it is read-only now");
    // Clearing the registers removes the shadow entries of the segment. The guest has tables for page
    // 7.
    system.change(|kernel| kernel.disable_segment(space)).unwrap();
    assert_eq!((causes(&system).2, shadow(&system)), (9, (4, 0)));
    access(&mut system, Write, 600);
    assert_eq!(entry(&system, 7), None);
}

/// A page of a segment whose frame fails escapes to another frame.
#[test]
fn an_escape_is_seen_through_the_shadow_entry() {
    let mut system = default_system("segment+shadow-thp");
    system.event(&map(0, 16_384, RW)).unwrap();
    access(&mut system, Write, 7);
    let before = entry(&system, 7).unwrap();
    let segment = system.kernel().segment(system.kernel().current()).unwrap();
    let failing = segment.frame.add(address(7).page().number() - segment.page.number());
    system.change(|kernel| Ok(kernel.hard_fault(failing))).unwrap();
    access(&mut system, Write, 7);
    let after = entry(&system, 7).unwrap();
    assert_eq!((before.0, after.0), (Size2M, Size4K));
    assert_ne!(before.1, after.1);
}

/// Each context switch loads the segment registers of the new process (D §II.B).
#[test]
fn a_context_switch_loads_segment_registers_one_by_one() {
    let mut system = default_system("segment+shadow-4k");
    system.event(&map(0, 16_384, RW)).unwrap();
    access(&mut system, Write, 0);
    system.start_measuring();
    for process in [1, 0] {
        let process = ProcessId(process);
        system.event(&ProgramEvent::Switch { process, thread: ThreadId(0) }).unwrap();
    }
    let Exits { context_switch, register_write, .. } = exits(&system);
    assert_eq!((context_switch, register_write), (2, 2 * SEGMENT_REGISTERS));
}

#[test]
fn a_gap_tolerant_superpage_has_small_shadow_entries() {
    let mut system = default_system("gt-pde-4m+shadow-thp");
    system.event(&map(0, 1024, RW)).unwrap();
    system.start_measuring();
    access(&mut system, Write, 0);
    // A control register states the format of the guest's directories.
    assert_eq!((causes(&system), shadow(&system)), ((2, 0, 1), (4, 1)));
    access(&mut system, Write, 600);
    assert_eq!((causes(&system), shadow(&system)), ((3, 0, 1), (5, 2)));
    assert_eq!((size(&system, 0), size(&system, 600)), (Some(Size4K), Some(Size4K)));
    // The 4MB entry is dirty, so the hypervisor need not see later stores.
    access(&mut system, Read, 5);
    access(&mut system, Write, 5);
    assert_eq!(causes(&system), (4, 0, 1));
    // The superpage becomes 4KB pages. Its entry is removed, with the two tables that existed only as
    // shadows; two level-1 nodes are added, which are not shadowed.
    system.event(&unmap(5, 1)).unwrap();
    assert_eq!((causes(&system), shadow(&system)), ((4, 3, 1), (3, 0)));
    access(&mut system, Read, 600);
    assert!(system.translate(Read, address(5)).unwrap().is_none());
    assert_eq!(shadow(&system), (4, 1));
}

/// Page tables contain all mappings of ranges. The range table is not read, and writing it causes no
/// exit.
#[test]
fn ranges_are_read_in_page_tables() {
    let mut system = default_system("range+shadow-thp");
    system.start_measuring();
    system.event(&map(0, 64, RW)).unwrap();
    // No table was shadowed when the guest wrote its tables; the root of the range table is a register.
    assert_eq!(causes(&system), (0, 0, 1));
    access(&mut system, Write, 7);
    assert_eq!((causes(&system), size(&system, 7)), ((1, 0, 1), Some(Size4K)));
    let nodes = system.kernel().work();
    system.event(&unmap(7, 1)).unwrap();
    assert_eq!(system.kernel().work().pages_unmapped - nodes.pages_unmapped, 1);
    assert_eq!((causes(&system), size(&system, 7)), ((1, 1, 1), None));
    assert!(system.translate(Read, address(7)).unwrap().is_none());
}

/// The TLB holds shadow entries, so it need not support the entries of the guest's scheme. The
/// registers of the original segment are emulated too.
#[test]
fn a_shadowed_guest_asks_nothing_of_the_hardware() {
    let machine = Machine::load("sandy-bridge-table6").unwrap();
    let options = SystemOptions { check: true, implicit_maps: false, counts_only: false };
    let system = |pair: &str| {
        let pair = Composition::find(pair).unwrap();
        System::new(&machine, pair, &MemoryState::of(256 << 20), 1, options)
    };
    assert!(system("perforated+4k").is_err(), "no entries of 2MB in the second-level TLB");
    for pair in ["perforated+shadow-thp", "segment-l1+shadow-4k"] {
        let mut system = system(pair).unwrap();
        system.event(&map(0, 16_384, RW)).unwrap();
        access(&mut system, Write, 7);
        access(&mut system, Read, 700);
    }
}
