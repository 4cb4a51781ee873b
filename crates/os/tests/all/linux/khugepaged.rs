//! Promotion to 2MB pages, in the background and by MADV_COLLAPSE.

use super::table::{check, differs, held, mended};
use super::*;
use crate::machine::map_shared;
use perforate_types::Backing;

fn set(machine: &mut Machine, knobs: &str) {
    machine.kernel.set_khugepaged(read(knobs).unwrap());
}

/// Advises MADV_COLLAPSE for the region at [`BASE`] and returns the number of 2MB pages that it made.
fn collapse(machine: &mut Machine) -> u64 {
    let before = machine.counter("large_pages");
    machine.event(advise(BASE, REGION, Advice::COLLAPSE));
    assert_sound(machine);
    machine.counter("large_pages") - before
}

/// Promotes the region at [`BASE`] and checks that its first `pages` pages keep their contents.
fn promotes(machine: &mut Machine, pages: u64, act: fn(&mut Machine) -> u64, expected: u64) {
    let space = machine.kernel.current();
    let known = |machine: &Machine| -> Vec<_> {
        (0..pages).map(|index| machine.kernel.content(space, page(address(index)))).collect()
    };
    let before = known(machine);
    assert_eq!(act(machine), expected);
    for (index, content) in before.iter().enumerate() {
        if let Some(content) = content {
            assert_eq!(known(machine)[index], Some(*content), "page {index}");
        }
    }
}

fn assert_parent_has_its_large_page(machine: &mut Machine, known: &[(u64, u64)]) {
    assert_eq!(load(machine, 0, BASE, 512), known);
    let run: Vec<u64> = known.iter().map(|(frame, _)| frame - known[0].0).collect();
    assert!(run.into_iter().eq(0..512), "it is one block");
}

/// Checks that a child with `512 - shared` pages of its own is promoted only as `max_ptes_shared` allows.
fn at_most_shared(shared: u64, act: fn(&mut Machine) -> u64, expected: u64) {
    let mut machine = large();
    let known = load(&mut machine, 0, BASE, 512);
    machine.event(fork(1));
    machine.event(switch(1));
    store(&mut machine, 0..512 - shared);
    set(&mut machine, "max-ptes-shared=256");
    promotes(&mut machine, 512, act, expected);
    assert_parent_has_its_large_page(&mut machine, &known);
}

/// Checks that a region with this number of swapped pages is promoted only as `max_ptes_swap` allows.
fn at_most_swapped(swapped: u64, act: fn(&mut Machine) -> u64, expected: u64) {
    let mut machine = small(0..512);
    let known = contents(&mut machine, 0, BASE, 512);
    machine.event(advise(BASE, swapped * PAGE, Advice::PAGEOUT));
    assert_eq!(machine.counter("swapped_bytes"), swapped * PAGE);
    set(&mut machine, "max-ptes-swap=64");
    assert_eq!(act(&mut machine), expected);
    assert_eq!(machine.counter("swapped_bytes"), (1 - expected) * swapped * PAGE);
    assert_eq!(contents(&mut machine, 0, BASE, 512), known);
}

/// Checks that a region with this number of mapped pages is promoted only as `max_ptes_none` allows.
fn at_most_absent(mapped: u64, act: fn(&mut Machine) -> u64, expected: u64) {
    let mut machine = small(0..mapped);
    set(&mut machine, "max-ptes-none=256");
    promotes(&mut machine, mapped, act, expected);
}

#[test]
fn promotion_is_as_linux_tests_it() {
    check(
        "Promotion: khugepaged and MADV_COLLAPSE",
        &[
            held(
                "a first touch of a whole region maps a 2MB page",
                "khugepaged.c, alloc_at_fault",
                || {
                    let mut machine = machine("thp");
                    machine.map(BASE, REGION);
                    machine.write(address(7));
                    assert_eq!(sizes(&machine), (1, 0));
                },
            ),
            held(
                "MADV_DONTNEED of one page splits the 2MB page and frees that page",
                "khugepaged.c, alloc_at_fault",
                || {
                    let mut machine = large();
                    let before = frames(&machine, BASE, 512);
                    machine.event(advise(BASE, PAGE, Advice::DontNeed));
                    assert_eq!(sizes(&machine), (0, 511));
                    assert_eq!(machine.frame(BASE), None);
                    assert_eq!(frames(&machine, address(1), 511), before[1..]);
                    assert_sound(&machine);
                },
            ),
            held(
                "four full regions become four 2MB pages in one scan",
                "khugepaged.c, collapse_full",
                || {
                    let mut machine = machine("thp");
                    machine.map(BASE, 4 * REGION);
                    machine.event(advise(BASE, 4 * REGION, Advice::NoHugePage));
                    store(&mut machine, 0..2048);
                    machine.event(advise(BASE, 4 * REGION, Advice::HugePage));
                    let known = contents(&mut machine, 0, BASE, 2048);
                    assert_eq!(promote(&mut machine), 4);
                    assert_eq!(contents(&mut machine, 0, BASE, 2048), known);
                },
            ),
            mended(
                "MADV_COLLAPSE promotes a full region at once",
                "khugepaged.c, collapse_full (madvise)",
                || {
                    promotes(&mut small(0..512), 512, collapse, 1);
                },
            ),
            held("a region without pages stays as it is", "khugepaged.c, collapse_empty", || {
                for act in [promote, collapse] {
                    let mut machine = small(0..0);
                    assert_eq!(act(&mut machine), 0);
                    assert_eq!(machine.counter("mapped_bytes"), 0);
                }
            }),
            held(
                "one page is enough by default; the rest becomes zeros",
                "khugepaged.c, collapse_single_pte_entry",
                || {
                    let mut machine = small(0..1);
                    promotes(&mut machine, 1, promote, 1);
                    assert_eq!(machine.counter("khugepaged_zeroed_bytes"), 511 * PAGE);
                },
            ),
            held(
                "a region with one absent page more than max_ptes_none stays",
                "khugepaged.c, collapse_max_ptes_none",
                || at_most_absent(255, promote, 0),
            ),
            held(
                "a region with exactly max_ptes_none absent pages is promoted",
                "khugepaged.c, collapse_max_ptes_none",
                || at_most_absent(256, promote, 1),
            ),
            mended(
                "MADV_COLLAPSE ignores max_ptes_none",
                "khugepaged.c, collapse_max_ptes_none (madvise)",
                || at_most_absent(255, collapse, 1),
            ),
            held(
                "one swapped page is read back for a promotion",
                "khugepaged.c, collapse_swapin_single_pte",
                || at_most_swapped(1, promote, 1),
            ),
            held(
                "a region with one swapped page more than max_ptes_swap stays in swap",
                "khugepaged.c, collapse_max_ptes_swap",
                || at_most_swapped(65, promote, 0),
            ),
            held(
                "a region with exactly max_ptes_swap swapped pages is promoted",
                "khugepaged.c, collapse_max_ptes_swap",
                || at_most_swapped(64, promote, 1),
            ),
            mended(
                "MADV_COLLAPSE ignores max_ptes_swap",
                "khugepaged.c, collapse_max_ptes_swap (madvise)",
                || at_most_swapped(65, collapse, 1),
            ),
            mended(
                "MADV_PAGEOUT writes the pages of its range to swap, and no others",
                "khugepaged.c, collapse_swapin_single_pte",
                || {
                    let mut machine = small(0..512);
                    let known = contents(&mut machine, 0, BASE, 512);
                    machine.event(advise(address(3), 2 * PAGE, Advice::PAGEOUT));
                    assert_eq!(machine.counter("swapped_bytes"), 2 * PAGE);
                    assert_eq!(frames(&machine, address(2), 4).iter().flatten().count(), 2);
                    assert_eq!(contents(&mut machine, 0, BASE, 512), known);
                    assert_eq!(machine.counter("swapped_bytes"), 0);
                },
            ),
            held(
                "the last page of a 2MB page that was split is promoted with its data",
                "khugepaged.c, collapse_single_pte_entry_compound",
                || {
                    let mut machine = large();
                    machine.event(advise(address(1), REGION - PAGE, Advice::DontNeed));
                    assert_eq!(sizes(&machine), (0, 1));
                    promotes(&mut machine, 1, promote, 1);
                },
            ),
            mended(
                "MADV_NOHUGEPAGE for a part of a 2MB page splits it",
                "khugepaged.c, collapse_full_of_compound",
                || {
                    let mut machine = large();
                    let before = frames(&machine, BASE, 512);
                    machine.event(advise(BASE, PAGE, Advice::NoHugePage));
                    assert_eq!(sizes(&machine), (0, 512));
                    assert_eq!(frames(&machine, BASE, 512), before);
                },
            ),
            held(
                "the 4KB pages of a split 2MB page are promoted again",
                "khugepaged.c, collapse_full_of_compound",
                || {
                    promotes(&mut split(), 512, promote, 1);
                },
            ),
            held(
                "a region of pages from 512 different 2MB pages is promoted",
                "khugepaged.c, collapse_compound_extreme",
                || {
                    let mut machine = machine("thp");
                    machine.map(BASE, REGION);
                    let source = BASE + 64 * MB;
                    for index in 0..512 {
                        machine.event(map_populated(source, REGION));
                        machine.event(move_pages(source + index * PAGE, address(index), PAGE));
                    }
                    machine.event(crate::machine::unmap(source, REGION));
                    assert_eq!(sizes(&machine), (0, 512));
                    promotes(&mut machine, 512, promote, 1);
                },
            ),
            held(
                "a child's region with a page of its parent is promoted; the parent keeps its \
                 page",
                "khugepaged.c, collapse_fork",
                || {
                    let mut machine = small(0..1);
                    machine.event(fork(1));
                    let parent = load(&mut machine, 0, BASE, 1);
                    machine.event(switch(1));
                    store(&mut machine, 1..2);
                    set(&mut machine, "max-ptes-none=510");
                    promotes(&mut machine, 2, promote, 1);
                    assert_ne!(machine.frame(BASE), Some(parent[0].0));
                    assert_eq!(load(&mut machine, 0, BASE, 1), parent);
                    assert_eq!(sizes(&machine), (1, 1));
                },
            ),
            held(
                "a child's split 2MB page is promoted into memory of its own",
                "khugepaged.c, collapse_fork_compound",
                || {
                    let mut machine = large();
                    let known = load(&mut machine, 0, BASE, 512);
                    machine.event(fork(1));
                    machine.event(switch(1));
                    make_read_only_for_a_moment(&mut machine, 0);
                    store(&mut machine, 0..1);
                    set(&mut machine, "max-ptes-shared=511");
                    promotes(&mut machine, 512, promote, 1);
                    assert_ne!(machine.frame(address(9)), Some(known[9].0));
                    assert_parent_has_its_large_page(&mut machine, &known);
                },
            ),
            held(
                "a region with one shared page more than max_ptes_shared stays",
                "khugepaged.c, collapse_max_ptes_shared",
                || at_most_shared(257, promote, 0),
            ),
            held(
                "a region with exactly max_ptes_shared shared pages is promoted",
                "khugepaged.c, collapse_max_ptes_shared",
                || at_most_shared(256, promote, 1),
            ),
            mended(
                "MADV_COLLAPSE ignores max_ptes_shared",
                "khugepaged.c, collapse_max_ptes_shared (madvise)",
                || at_most_shared(257, collapse, 1),
            ),
            held(
                "MADV_COLLAPSE of a 2MB page changes nothing",
                "khugepaged.c, madvise_collapse_existing_thps",
                || {
                    let mut machine = large();
                    let before = frames(&machine, BASE, 512);
                    assert_eq!(collapse(&mut machine), 0);
                    assert_eq!((sizes(&machine), frames(&machine, BASE, 512)), ((1, 0), before));
                },
            ),
            differs(
                "files and shared memory are promoted",
                "khugepaged.c, collapse_full (file, shmem)",
                "traces name no files, so there is no page cache of which a 2MB page could be a \
                 part; for shared memory, Linux's default is never, too",
                || {
                    for (backing, shared) in [(Backing::File, false), (Backing::Anonymous, true)] {
                        let mut machine = machine("thp");
                        let event = match map_shared(BASE, REGION) {
                            ProgramEvent::Map {
                                start,
                                length,
                                permissions,
                                accessible,
                                populate,
                                ..
                            } => ProgramEvent::Map {
                                start,
                                length,
                                permissions,
                                accessible,
                                backing,
                                shared,
                                populate,
                            },
                            _ => unreachable!(),
                        };
                        machine.event(event);
                        machine.event(advise(BASE, REGION, Advice::NoHugePage));
                        store(&mut machine, 0..512);
                        machine.event(advise(BASE, REGION, Advice::HugePage));
                        assert_eq!((promote(&mut machine), collapse(&mut machine)), (0, 0));
                    }
                },
            ),
            differs(
                "MADV_COLLAPSE works whatever transparent_hugepage/enabled says",
                "khugepaged.c, all tests (madvise)",
                "the policy decides about every 2MB page, which is what policies are compared \
                 by; with thp-madvise the area needs MADV_HUGEPAGE, too",
                || {
                    let mut machine = machine("thp-madvise");
                    machine.map(BASE, REGION);
                    store(&mut machine, 0..512);
                    assert_eq!(collapse(&mut machine), 0);
                    machine.event(advise(BASE, REGION, Advice::HugePage));
                    assert_eq!(collapse(&mut machine), 1);
                },
            ),
        ],
    );
}
