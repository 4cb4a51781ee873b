//! Copy on write after fork, for each way in which memory can be mapped.

use super::table::{check, differs, held, mended};
use super::*;
use crate::machine::{map_shared, unmap};
use perforate_types::Backing;

/// Forks a child and checks that neither process sees what the other one writes to these pages: first the
/// parent writes, in another machine the child.
fn writes_stay_apart(make: fn() -> Machine, start: u64, pages: u64) {
    for writer in [0, 1] {
        let mut machine = make();
        machine.event(fork(1));
        let known = load(&mut machine, 1 - writer, start, pages);
        machine.event(switch(writer));
        for index in 0..pages {
            machine.access(start + index * PAGE, AccessKind::Write);
        }
        let written = load(&mut machine, writer, start, pages);
        assert!(
            written.iter().zip(&known).all(|(own, other)| own.0 != other.0),
            "process {writer}"
        );
        assert_eq!(load(&mut machine, 1 - writer, start, pages), known, "process {writer}");
        assert_sound(&machine);
    }
}

fn paged_out(mut machine: Machine, start: u64, length: u64) -> Machine {
    machine.event(advise(start, length, Advice::PAGEOUT));
    assert_eq!(machine.counter("swapped_bytes"), length);
    machine
}

/// A region of which the upper half was moved to [`MOVED`] as 4KB pages.
fn half_moved() -> Machine {
    let mut machine = large();
    machine.event(move_pages(address(256), MOVED, MB));
    machine
}

/// Address to which the tests move half a 2MB page; it is not aligned like the source.
const MOVED: u64 = BASE + 64 * MB + 3 * PAGE;

/// A private mapping of one page at [`BASE`] with this backing.
fn private(backing: Backing) -> Machine {
    let mut machine = machine("thp");
    let event = match map(BASE, PAGE) {
        ProgramEvent::Map { start, length, permissions, accessible, shared, populate, .. } => {
            ProgramEvent::Map { start, length, permissions, accessible, backing, shared, populate }
        }
        _ => unreachable!(),
    };
    machine.event(event);
    machine
}

#[test]
fn copies_are_made_as_linux_tests_them() {
    check(
        "Copy on write",
        &[
            held(
                "after fork, neither process sees what the other writes to a 4KB page",
                "cow.c, with base page",
                || writes_stay_apart(|| small(0..1), BASE, 1),
            ),
            held(
                "mprotect to read-only and back does not end copy on write",
                "cow.c, with mprotect() optimization",
                || {
                    let mut machine = small(0..2);
                    machine.event(fork(1));
                    let known = load(&mut machine, 1, BASE, 1);
                    machine.event(switch(0));
                    make_read_only_for_a_moment(&mut machine, 0);
                    store(&mut machine, 0..1);
                    assert_ne!(machine.frame(BASE), Some(known[0].0));
                    assert_eq!(load(&mut machine, 1, BASE, 1), known);
                },
            ),
            held(
                "a swapped page is shared by fork, and each process reads back its own",
                "cow.c, with swapped out base page",
                || {
                    writes_stay_apart(|| paged_out(small(0..1), BASE, PAGE), BASE, 1);
                },
            ),
            held(
                "a write to a shared 2MB page copies that page alone",
                "cow.c, with PMD-mapped THP",
                || {
                    let mut machine = large();
                    machine.event(fork(1));
                    let known = load(&mut machine, 1, BASE, 512);
                    machine.event(switch(0));
                    let copied = machine.kernel.work().frames_copied;
                    store(&mut machine, 7..8);
                    assert_eq!(machine.kernel.work().frames_copied - copied, 1);
                    let own = load(&mut machine, 0, BASE, 512);
                    assert!((0..512).all(|index| (own[index] == known[index]) == (index != 7)));
                    assert_eq!(load(&mut machine, 1, BASE, 512), known);
                    assert_eq!(sizes(&machine), (1, 512), "the child keeps its 2MB page");
                    assert_sound(&machine);
                },
            ),
            held(
                "writes to a whole shared 2MB page stay apart",
                "cow.c, with PMD-mapped THP",
                || writes_stay_apart(large, BASE, 512),
            ),
            held(
                "writes to a swapped 2MB page stay apart",
                "cow.c, with swapped-out, PMD-mapped THP",
                || {
                    writes_stay_apart(|| paged_out(large(), BASE, REGION), BASE, 512);
                },
            ),
            held("writes to a split 2MB page stay apart", "cow.c, with PTE-mapped THP", || {
                writes_stay_apart(split, BASE, 512)
            }),
            held(
                "writes to a split and swapped 2MB page stay apart",
                "cow.c, with swapped-out, PTE-mapped THP",
                || {
                    writes_stay_apart(|| paged_out(split(), BASE, REGION), BASE, 512);
                },
            ),
            held(
                "writes to the only page left of a 2MB page stay apart",
                "cow.c, with single PTE of THP",
                || {
                    let make = || {
                        let mut machine = large();
                        machine.event(unmap(address(1), REGION - PAGE));
                        machine
                    };
                    writes_stay_apart(make, BASE, 1);
                },
            ),
            held(
                "writes to a swapped page, the only one left of a 2MB page, stay apart",
                "cow.c, with single PTE of swapped-out THP",
                || {
                    let make = || {
                        let mut machine = large();
                        machine.event(unmap(address(1), REGION - PAGE));
                        paged_out(machine, BASE, PAGE)
                    };
                    writes_stay_apart(make, BASE, 1);
                },
            ),
            held(
                "writes to either half of a 2MB page that mremap has divided stay apart",
                "cow.c, with partially mremap()'ed THP",
                || {
                    writes_stay_apart(half_moved, BASE, 256);
                    writes_stay_apart(half_moved, MOVED, 256);
                },
            ),
            held(
                "a 2MB page of which a child once had a half is written without a copy",
                "cow.c, with partially shared THP",
                || {
                    let mut machine = large();
                    machine.event(fork(1));
                    machine.event(switch(1));
                    machine.event(unmap(address(256), MB));
                    machine.event(exit(1));
                    machine.event(switch(0));
                    let before = frames(&machine, BASE, 512);
                    store(&mut machine, 0..512);
                    assert_eq!(frames(&machine, BASE, 512), before);
                    assert_eq!(machine.kernel.work().frames_copied, 0);
                    assert_sound(&machine);
                },
            ),
            differs(
                "MADV_DONTFORK keeps a part of a 2MB page from the child",
                "cow.c, with partially shared THP",
                "the advice is ignored: the child gets the whole area, and writes of both are \
                 copied",
                || {
                    let mut machine = large();
                    machine.event(advise(BASE, MB, DONTFORK));
                    machine.event(fork(1));
                    let parent = load(&mut machine, 0, BASE, 512);
                    assert_eq!(load(&mut machine, 1, BASE, 512), parent);
                },
            ),
            held(
                "the last process that maps a page writes it without a copy",
                "cow.c, R/O GUP pin on R/O-mapped exclusive page",
                || {
                    let mut machine = small(0..1);
                    let before = machine.frame(BASE);
                    machine.event(fork(1));
                    machine.event(exit(1));
                    store(&mut machine, 0..1);
                    assert_eq!(
                        (machine.frame(BASE), machine.kernel.work().frames_copied),
                        (before, 0)
                    );
                },
            ),
            mended(
                "writes to a region that was promoted before the fork stay apart",
                "cow.c, collapsing before fork()",
                || {
                    let make = || {
                        let mut machine = split();
                        machine.event(advise(BASE, REGION, Advice::COLLAPSE));
                        assert_eq!(sizes(&machine), (1, 0));
                        machine
                    };
                    writes_stay_apart(make, BASE, 512);
                },
            ),
            mended(
                "a wholly shared region is promoted after the fork; the child keeps its data",
                "cow.c, collapsing after fork() (fully shared)",
                || {
                    let mut machine = split();
                    machine.event(fork(1));
                    let known = load(&mut machine, 1, BASE, 512);
                    machine.event(switch(0));
                    machine.event(advise(BASE, REGION, Advice::COLLAPSE));
                    assert_eq!(sizes(&machine), (1, 512));
                    store(&mut machine, 0..512);
                    assert_eq!(load(&mut machine, 1, BASE, 512), known);
                    assert_sound(&machine);
                },
            ),
            mended(
                "a region is promoted of which one half is shared, be it the lower or the upper",
                "cow.c, collapsing after fork() (lower shared, upper shared)",
                || {
                    for (kept, dropped) in [(0, 256), (256, 0)] {
                        let mut machine = split();
                        machine.event(fork(1));
                        machine.event(switch(1));
                        machine.event(unmap(address(dropped), MB));
                        let known = load(&mut machine, 1, address(kept), 256);
                        machine.event(switch(0));
                        machine.event(advise(BASE, REGION, Advice::COLLAPSE));
                        assert_eq!(sizes(&machine), (1, 256));
                        store(&mut machine, 0..512);
                        assert_eq!(load(&mut machine, 1, address(kept), 256), known);
                        assert_sound(&machine);
                    }
                },
            ),
            differs(
                "a write to a shared 1GB page copies all of it",
                "cow.c, with hugetlb",
                "1GB pages here are those of any private area, and are divided as 2MB pages are; \
                 memory of hugetlbfs is not told apart",
                || {
                    let config = KernelConfig::new(4 << 30);
                    let mut machine = Machine::configured("huge-1g", config);
                    let start = 4 << 30;
                    machine.map(start, 1 << 30);
                    machine.write(start);
                    assert_eq!(machine.counter("huge_pages"), 1);
                    machine.event(fork(1));
                    let before = machine.frame(start + PAGE);
                    machine.access(start, AccessKind::Write);
                    assert_eq!(machine.kernel.work().frames_copied, 1);
                    assert_eq!(machine.frame(start + PAGE), before);
                    machine.assert_memory_adds_up();
                    machine.assert_copies_on_write();
                },
            ),
            differs(
                "pages that were only read share one page of zeros",
                "cow.c, with shared zeropage, with huge zeropage",
                "a page gets its frame at the first touch, be it a load or a store",
                || {
                    let mut machine = machine("thp");
                    machine.map(BASE, REGION);
                    machine.read(BASE);
                    assert_eq!(sizes(&machine), (1, 0));
                    machine.map(BASE + 2 * REGION, 2 * PAGE);
                    machine.read(BASE + 2 * REGION);
                    machine.read(BASE + 2 * REGION + PAGE);
                    assert_eq!(machine.mapped_frames().len(), 514);
                    machine.write(BASE + 2 * REGION);
                    assert_eq!(machine.counter("copy_on_write_faults"), 0);
                },
            ),
            differs(
                "a private and a shared mapping of one file share its pages until a write",
                "cow.c, with memfd, with tmpfile",
                "traces name no files: every mmap is memory of its own",
                || {
                    let mut machine = private(Backing::File);
                    machine.event(map_shared(BASE + REGION, PAGE));
                    machine.read(BASE);
                    machine.read(BASE + REGION);
                    assert_ne!(machine.frame(BASE), machine.frame(BASE + REGION));
                },
            ),
        ],
    );
}
