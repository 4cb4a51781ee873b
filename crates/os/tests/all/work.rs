//! The account of the kernel's work, worked by hand: most tests state the whole account.

use crate::machine;
use crate::machine::{BASE, GB, MB, Machine, fork, populate, protect, switch, unmap};
use perforate_os::{FaultOutcome, HardFault, HoleContent, Work};
use perforate_types::{AccessKind, Backing, Permissions, ProgramEvent};

/// Work done since `before`.
fn since(machine: &Machine, before: Work) -> Work {
    machine.kernel.work() - before
}

/// Three 4KB pages: the first one needs four nodes. The unmap is one batch of three shootdowns.
#[test]
fn base_pages() {
    let mut machine = Machine::new("base-pages", 64 * MB);
    machine.map(BASE, 4 * MB);
    for page in 0..3 {
        machine.write(BASE + page * 4096);
    }
    assert_eq!(machine.fault(0x1000, AccessKind::Read), FaultOutcome::Segfault);
    machine.read(BASE); // mapped already
    let touched = Work {
        memory_calls: 1,
        faults_4k: 3,
        faults_other: 2,
        frames_zeroed_4k: 3,
        frames_zeroed_tables: 4,
        pages_mapped: 3,
        ..Work::default()
    };
    assert_eq!(machine.kernel.work(), touched);
    machine.event(unmap(BASE, 4 * MB));
    let unmapped = Work {
        memory_calls: 1,
        pages_unmapped: 3,
        shootdowns_page: 3,
        shootdown_batches: 1,
        entries_invalidated: 3,
        ..Work::default()
    };
    assert_eq!(since(&machine, touched), unmapped);
}

/// 33 pages are invalidated one by one; 34 by a flush.
#[test]
fn many_pages_are_flushed() {
    for (pages, entries_invalidated, spaces_flushed) in [(33, 33, 0), (34, 0, 1)] {
        let mut machine = Machine::new("base-pages", 64 * MB);
        machine.event(populate(BASE, pages * 4096));
        let before = machine.kernel.work();
        assert_eq!((before.faults_4k, before.frames_zeroed_4k), (0, pages), "no fault is needed");
        machine.event(unmap(BASE, pages * 4096));
        let work = since(&machine, before);
        assert_eq!(work.shootdowns_page, pages);
        assert_eq!(work.shootdown_batches, 1);
        assert_eq!(work.entries_invalidated, entries_invalidated);
        assert_eq!(work.spaces_flushed, spaces_flushed);
    }
}

/// Protecting one sub-page splits a large page: one entry is removed, 512 are added, one of them
/// changes.
#[test]
fn a_large_page_is_split() {
    let mut machine = Machine::new("thp", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    let touched = Work {
        memory_calls: 1,
        faults_2m: 1,
        blocks_zeroed_2m: 1,
        frames_zeroed_tables: 3,
        pages_mapped: 1,
        ..Work::default()
    };
    assert_eq!(machine.kernel.work(), touched);
    machine.event(protect(BASE + 0x7000, 4096, Permissions::READ));
    let split = Work {
        memory_calls: 1,
        large_pages_split: 1,
        frames_zeroed_tables: 1,
        pages_mapped: 512,
        pages_unmapped: 1,
        pages_protected: 1,
        shootdowns_large: 1,
        shootdowns_page: 1,
        shootdown_batches: 1,
        entries_invalidated: 2,
        ..Work::default()
    };
    assert_eq!(since(&machine, touched), split);
}

/// Protecting one sub-page of a perforated page punches a hole and maps it in place. Its filter bit
/// is new, so the large entry is shot down too, by the same invalidation of the address.
/// Directories are pairs.
#[test]
fn a_sub_page_is_punched_and_patched() {
    let mut machine = Machine::new("perforated", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    let touched = machine.kernel.work();
    assert_eq!((touched.faults_2m, touched.frames_zeroed_tables), (1, 4));
    machine.event(protect(BASE + 0x7000, 4096, Permissions::READ));
    let punched = Work {
        memory_calls: 1,
        frames_zeroed_tables: 1,
        subpages_punched: 1,
        pages_mapped: 1,
        shootdowns_page: 1,
        shootdowns_bitmap: 1,
        shootdowns_large: 1,
        shootdown_batches: 1,
        entries_invalidated: 1,
        ..Work::default()
    };
    assert_eq!(since(&machine, touched), punched);
    let before = machine.kernel.work();
    machine.event(protect(BASE + 0x7000, 4096, Permissions::READ_WRITE));
    let patched = Work { frames_zeroed_tables: 0, pages_mapped: 0, subpages_punched: 0, ..punched };
    assert_eq!(since(&machine, before), Work { subpages_patched: 1, ..patched });

    // Punched out and patched back: two copies.
    let before = machine.kernel.work();
    machine.punch(BASE + 0x1000, HoleContent::Moved).unwrap();
    machine.patch(BASE + 0x1000).unwrap();
    let work = since(&machine, before);
    assert_eq!((work.frames_copied, work.shootdown_batches), (2, 2));
    // Dropped, and patched back as a new page.
    let before = machine.kernel.work();
    machine.punch(BASE + 0x1000, HoleContent::Unallocated).unwrap();
    machine.patch(BASE + 0x1000).unwrap();
    let work = since(&machine, before);
    assert_eq!((work.frames_copied, work.frames_zeroed_4k), (0, 1));
}

/// A quarter of the block belongs to others: 384 frames in place and 128 holes are cleared one by
/// one. With lazy allocation, only the touched hole is cleared.
#[test]
fn a_perforated_page_is_cleared_frame_by_frame() {
    let fragmentation = "portion=100%,holes=25%,clustered";
    for (policy, holes) in [("perforated", 128), ("perforated:holes=lazy", 0)] {
        let mut machine = Machine::fragmented(policy, 64 * MB, fragmentation);
        machine.map(BASE, 2 * MB);
        machine.write(BASE);
        let work = machine.kernel.work();
        assert_eq!(work.faults_perforated, 1);
        // The touched page may be a hole; then it is filled at once.
        let filled = machine.counter("holes_allocated");
        assert!(filled == holes || (holes == 0 && filled == 1), "{filled}");
        assert_eq!(work.frames_zeroed_4k, 384 + filled);
        assert_eq!(work.pages_mapped, 1 + filled);
        assert_eq!(work.blocks_zeroed_2m, 0);
        assert_eq!(work.frames_zeroed_tables, 5, "root, level 3, a pair, the holes' node");
    }
    let mut machine = Machine::fragmented("perforated:holes=lazy", 64 * MB, fragmentation);
    machine.map(BASE, 2 * MB);
    for page in 0..512 {
        machine.access(BASE + page * 4096, AccessKind::Read);
    }
    let work = machine.kernel.work();
    // The touch that maps the perforated page may touch a hole, which is filled at once.
    assert!((127..=128).contains(&work.faults_hole), "{work:?}");
    assert_eq!(work.frames_zeroed_4k, 512);
}

/// Fork protects the parent's page and maps it in the child; the child's write copies it.
#[test]
fn copy_on_write() {
    let mut machine = Machine::new("base-pages", 64 * MB);
    machine.map(BASE, 4096);
    machine.write(BASE);
    let before = machine.kernel.work();
    machine.event(fork(1));
    let forked = Work {
        forks: 1,
        pages_mapped: 1,
        pages_protected: 1,
        frames_zeroed_tables: 4,
        shootdowns_page: 1,
        shootdown_batches: 1,
        entries_invalidated: 1,
        ..Work::default()
    };
    assert_eq!(since(&machine, before), forked);
    let before = machine.kernel.work();
    machine.event(switch(1));
    machine.event(switch(1)); // runs already
    machine.write(BASE);
    let copied = Work {
        context_switches: 1,
        faults_copy_on_write: 1,
        frames_copied: 1,
        pages_mapped: 1,
        pages_unmapped: 1,
        shootdowns_page: 1,
        shootdown_batches: 1,
        entries_invalidated: 1,
        ..Work::default()
    };
    assert_eq!(since(&machine, before), copied);
    // Only the parent maps its frame now, so only its permissions change.
    let before = machine.kernel.work();
    machine.event(switch(0));
    machine.write(BASE);
    let again = since(&machine, before);
    assert_eq!((again.frames_copied, again.pages_protected), (0, 1));
}

#[test]
fn a_gigabyte() {
    let mut machine = Machine::new("huge-1g", 4 * GB);
    machine.map(GB, GB);
    machine.write(GB);
    let work = machine.kernel.work();
    assert_eq!((work.faults_1g, work.blocks_zeroed_1g, work.pages_mapped), (1, 1, 1));
    let before = work;
    machine.event(unmap(GB, 2 * MB));
    let work = since(&machine, before);
    assert_eq!((work.huge_pages_split, work.pages_mapped, work.pages_unmapped), (1, 512, 2));
}

/// Memory of files is read, not cleared.
#[test]
fn files_are_not_cleared() {
    let mut machine = Machine::new("thp", 64 * MB);
    let ProgramEvent::Map { start, length, permissions, accessible, shared, populate, .. } =
        machine::map(BASE, 2 * MB)
    else {
        unreachable!()
    };
    let backing = Backing::File;
    machine.event(ProgramEvent::Map {
        start,
        length,
        permissions,
        accessible,
        backing,
        shared,
        populate,
    });
    machine.write(BASE);
    let work = machine.kernel.work();
    assert_eq!((work.faults_4k, work.frames_zeroed_4k, work.pages_mapped), (1, 0, 1));
}

/// A frame of a 2MB page fails: the page is split, and the frame's content moves to a free frame.
#[test]
fn a_split_and_a_migration() {
    let mut machine = Machine::new("thp", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    let frame = machine.translate(BASE).unwrap().0;
    let before = machine.kernel.work();
    let outcome = machine.act(|kernel| Ok(kernel.hard_fault(frame)));
    assert_eq!(outcome.unwrap(), HardFault::Split);
    let split = Work {
        frames_zeroed_tables: 1,
        pages_unmapped: 2,
        pages_mapped: 513,
        large_pages_split: 1,
        frames_migrated: 1,
        shootdowns_large: 1,
        shootdowns_page: 1,
        shootdown_batches: 1,
        entries_invalidated: 1,
        ..Work::default()
    };
    assert_eq!(since(&machine, before), split);
}

/// Pages that a scanner visits count as scanned frames, also by name.
#[test]
fn a_scan() {
    let mut machine = Machine::new("base-pages", 64 * MB);
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine.write(BASE + 4096);
    let before = machine.kernel.work();
    let pass = machine.act(|kernel| Ok(kernel.ksm_pass())).unwrap();
    assert_eq!(pass.pages_scanned, 2);
    let work = since(&machine, before);
    assert_eq!(work, Work { frames_scanned: 2, ..Work::default() });
    let names: Vec<_> = work.iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(names, [("frames_scanned", 2)]);
}
