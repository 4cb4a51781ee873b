//! Splits of 2MB pages, and compaction.

use super::table::{check, differs, held};
use super::*;
use crate::machine::unmap;
use perforate_types::Backing;

/// Memory of 1MB areas that filled most of the memory, with every second one unmapped.
fn every_second_megabyte() -> (Machine, Vec<u64>) {
    let mut machine = machine("thp");
    let areas: Vec<u64> = (0..48).map(|index| BASE + index * 3 * MB).collect();
    for &start in &areas {
        machine.event(map_populated(start, MB));
    }
    for &start in areas.iter().step_by(2) {
        machine.event(unmap(start, MB));
    }
    (machine, areas.into_iter().skip(1).step_by(2).collect())
}

#[test]
fn pages_are_split_as_linux_tests_it() {
    check(
        "Splits of 2MB pages",
        &[
            held(
                "a split leaves all pages where they are, with their data",
                "split_huge_page_test.c, split_pmd_thp_to_order (0)",
                || {
                    let mut machine = machine("thp");
                    machine.event(map_populated(BASE, 4 * REGION));
                    let before = load(&mut machine, 0, BASE, 2048);
                    (0..4).for_each(|region| {
                        make_read_only_for_a_moment(&mut machine, 512 * region + 9)
                    });
                    assert_eq!(sizes(&machine), (0, 2048));
                    assert_eq!(load(&mut machine, 0, BASE, 2048), before);
                    assert_sound(&machine);
                },
            ),
            differs(
                "a split may leave folios of 16KB to 1MB",
                "split_huge_page_test.c, split_pmd_thp_to_order (2 to 8)",
                "a split leaves 4KB pages; folios of 16KB to 1MB are made at first touches only",
                || {
                    assert_eq!(sizes(&split()), (0, 512));
                },
            ),
            differs(
                "pages of zeros are freed when their 2MB page is split",
                "split_huge_page_test.c, split_pmd_zero_pages",
                "contents are identities for merging only; a split frees nothing",
                || {
                    let mut machine = large();
                    let space = machine.kernel.current();
                    for index in 0..512 {
                        machine
                            .kernel
                            .set_content(space, page(address(index)), perforate_os::ZERO_PAGE)
                            .unwrap();
                    }
                    make_read_only_for_a_moment(&mut machine, 1);
                    assert_eq!(machine.counter("mapped_bytes"), REGION);
                },
            ),
            held(
                "a page that mremap took out of a 2MB page keeps frame and data",
                "split_huge_page_test.c, split_pte_mapped_thp",
                || {
                    let mut machine = machine("thp");
                    machine.event(map_populated(BASE, 4 * REGION));
                    let places: Vec<u64> = (0..4).map(|index| address(index * 513)).collect();
                    let known: Vec<_> =
                        places.iter().flat_map(|&place| load(&mut machine, 0, place, 1)).collect();
                    for (&place, target) in places.iter().zip(0..) {
                        machine.event(move_pages(place, address(target) + 64 * MB, PAGE));
                    }
                    assert_eq!(load(&mut machine, 0, BASE + 64 * MB, 4), known);
                    assert_eq!(sizes(&machine), (0, 2048));
                    assert_sound(&machine);
                },
            ),
            differs(
                "2MB pages of files are split, too",
                "split_huge_page_test.c, split_file_backed_thp, split_thp_in_pagecache_to_order",
                "files are mapped by 4KB pages only, as in Linux without large folios",
                || {
                    let mut machine = machine("thp");
                    let event = match map(BASE, REGION) {
                        ProgramEvent::Map {
                            start,
                            length,
                            permissions,
                            accessible,
                            shared,
                            populate,
                            ..
                        } => ProgramEvent::Map {
                            start,
                            length,
                            permissions,
                            accessible,
                            backing: Backing::File,
                            shared,
                            populate,
                        },
                        _ => unreachable!(),
                    };
                    machine.event(event);
                    machine.read(BASE);
                    assert_eq!(sizes(&machine), (0, 1));
                },
            ),
        ],
    );
}

#[test]
fn memory_is_compacted_as_linux_tests_it() {
    check(
        "Compaction",
        &[
            held(
                "after compaction, a third of the free memory at least is whole 2MB blocks",
                "compaction_test.c",
                || {
                    let (mut machine, _) = every_second_megabyte();
                    machine.act(|kernel| Ok(kernel.compact())).unwrap();
                    let free = machine.counter("free_bytes");
                    machine.event(map_populated(8 << 30, free / REGION * REGION));
                    assert!(3 * machine.counter("large_pages") * REGION >= free);
                    machine.assert_memory_adds_up();
                },
            ),
            held("pages keep their data when compaction moves them", "compaction_test.c", || {
                let (mut machine, areas) = every_second_megabyte();
                let known: Vec<_> =
                    areas.iter().map(|&start| contents(&mut machine, 0, start, 256)).collect();
                let done = machine.act(|kernel| Ok(kernel.compact())).unwrap();
                assert!(done.frames_migrated > 0 && done.blocks_emptied > 0);
                let after: Vec<_> =
                    areas.iter().map(|&start| contents(&mut machine, 0, start, 256)).collect();
                assert_eq!(after, known);
                assert_sound(&machine);
            }),
            differs(
                "memory locked by MAP_LOCKED is moved only if compact_unevictable_allowed says \
                 so",
                "compaction_test.c, prereq",
                "traces do not name locked memory; it is moved as with Linux's default",
                || {
                    let (mut machine, _) = every_second_megabyte();
                    let done = machine.act(|kernel| Ok(kernel.compact())).unwrap();
                    assert_eq!(
                        done.frames_migrated,
                        512 * done.blocks_emptied - 256 * done.blocks_emptied
                    );
                },
            ),
        ],
    );
}
