//! mremap: frames and data follow the addresses, whatever the alignments are.

use super::table::{check, differs, held, mended};
use super::*;
use crate::machine::{remap, unmap};
use perforate_os::FaultOutcome;

/// Distance between source and target in the tests.
const FAR: u64 = 64 * MB;

/// Moves `length` bytes that are mapped as `policy` does, and checks that frames and contents follow and
/// nothing stays. Returns the numbers of 2MB and 4KB pages afterwards.
fn moves(policy: &str, from: u64, to: u64, length: u64) -> (u64, u64) {
    let mut machine = machine(policy);
    machine.event(map_populated(from, length));
    let known = load(&mut machine, 0, from, length / PAGE);
    machine.event(move_pages(from, to, length));
    assert_eq!(load(&mut machine, 0, to, length / PAGE), known);
    assert!(frames(&machine, from, length / PAGE).iter().all(Option::is_none));
    assert_eq!(machine.fault(from, AccessKind::Read), FaultOutcome::Segfault);
    assert_sound(&machine);
    sizes(&machine)
}

/// Touched pages with these numbers of an area of `length` pages; all other pages are unmapped.
fn islands(numbers: &[u64], length: u64) -> Machine {
    let mut machine = machine("thp");
    machine.map(BASE, length * PAGE);
    for index in 0..length {
        match numbers.contains(&index) {
            true => machine.write(address(index)),
            false => machine.event(unmap(address(index), PAGE)),
        }
    }
    machine
}

/// Checks that the pages at `start` are mapped where `numbers` says and lie outside all areas elsewhere.
fn assert_islands(machine: &mut Machine, start: u64, numbers: &[u64], known: &[(u64, u64)]) {
    for (&index, &expected) in numbers.iter().zip(known) {
        assert_eq!(load(machine, 0, start + index * PAGE, 1), [expected]);
    }
    for gap in (0..11).filter(|index| !numbers.contains(index)) {
        assert_eq!(machine.fault(start + gap * PAGE, AccessKind::Read), FaultOutcome::Segfault);
    }
}

fn known(machine: &mut Machine, numbers: &[u64]) -> Vec<(u64, u64)> {
    numbers.iter().flat_map(|&index| load(machine, 0, address(index), 1)).collect()
}

/// True if every page of the range lies in an area that the program may write.
fn is_usable(machine: &mut Machine, pages: Range<u64>) -> bool {
    pages
        .into_iter()
        .all(|index| machine.access(address(index), AccessKind::Write) == FaultOutcome::Mapped)
}

#[test]
fn mappings_move_as_linux_tests_it() {
    const PIECES: [u64; 7] = [0, 2, 4, 5, 6, 8, 10];
    check(
        "mremap",
        &[
            held(
                "a target that overlaps the source is refused, and nothing changes",
                "mremap_test.c, Source and Destination Regions Overlapping",
                || {
                    let mut machine = small(0..4);
                    let before = frames(&machine, BASE, 4);
                    assert!(!try_event(&mut machine, &move_pages(BASE, address(2), 4 * PAGE)));
                    assert_eq!(frames(&machine, BASE, 4), before);
                    assert_sound(&machine);
                },
            ),
            differs(
                "an address that is not a multiple of 4KB is refused",
                "mremap_test.c, Address Misaligned (1KB-aligned)",
                "events of a trace are calls that succeeded; an address within a page means the \
                 page",
                || {
                    let mut machine = small(0..1);
                    let before = machine.frame(BASE);
                    machine.event(move_pages(BASE + 1024, BASE + FAR + 1024, 1024));
                    assert_eq!((machine.frame(BASE), machine.frame(BASE + FAR)), (None, before));
                },
            ),
            held("8KB move to any page", "mremap_test.c, 8KB, PTE-aligned to PTE-aligned", || {
                assert_eq!(moves("thp", address(1), address(3) + FAR, 2 * PAGE), (0, 2));
            }),
            held(
                "2MB that begin at 1MB move to any page",
                "mremap_test.c, 2MB, 1MB-aligned to PTE-aligned",
                || {
                    assert_eq!(moves("thp", BASE + MB, address(1) + FAR, 2 * MB), (0, 512));
                },
            ),
            held(
                "2MB that begin at 1MB move to another 1MB and stay 4KB pages",
                "mremap_test.c, 2MB, 1MB-aligned to 1MB-aligned",
                || {
                    assert_eq!(moves("thp", BASE + MB, BASE + FAR + MB, 2 * MB), (0, 512));
                },
            ),
            held(
                "2MB pages that move to any page are split",
                "mremap_test.c, 4MB, PMD-aligned to PTE-aligned",
                || {
                    assert_eq!(moves("thp", BASE, address(1) + FAR, 4 * MB), (0, 1024));
                    assert_eq!(moves("base-pages", BASE, address(1) + FAR, 4 * MB), (0, 1024));
                },
            ),
            held(
                "2MB pages that move to an odd 1MB are split",
                "mremap_test.c, 4MB, PMD-aligned to 1MB-aligned",
                || {
                    assert_eq!(moves("thp", BASE, BASE + FAR + MB, 4 * MB), (0, 1024));
                },
            ),
            held(
                "2MB pages that move to 2MB stay whole",
                "mremap_test.c, 4MB, PMD-aligned to PMD-aligned",
                || {
                    assert_eq!(moves("thp", BASE, BASE + FAR, 4 * MB), (2, 0));
                    assert_eq!(moves("base-pages", BASE, BASE + FAR, 4 * MB), (0, 1024));
                },
            ),
            held(
                "2GB with few pages move to any alignment",
                "mremap_test.c, 2GB, PUD-aligned to PTE-, 1MB-, PMD- and PUD-aligned",
                || {
                    const GB: u64 = 1 << 30;
                    for (offset, expected) in
                        [(PAGE, (0, 1536)), (MB, (0, 1536)), (REGION, (3, 0)), (GB, (3, 0))]
                    {
                        let mut machine = machine("thp");
                        let (from, to) = (GB, 8 * GB + offset);
                        machine.map(from, 2 * GB);
                        let places = [0, GB - REGION, 2 * GB - REGION];
                        places.iter().for_each(|place| machine.write(from + place));
                        let before: Vec<_> =
                            places.map(|place| load(&mut machine, 0, from + place, 512)).into();
                        machine.event(move_pages(from, to, 2 * GB));
                        let after: Vec<_> =
                            places.map(|place| load(&mut machine, 0, to + place, 512)).into();
                        assert_eq!((after, sizes(&machine)), (before, expected));
                        assert_sound(&machine);
                    }
                },
            ),
            differs(
                "page tables move as a whole where both addresses are aligned",
                "mremap_test.c, HAVE_MOVE_PMD/PUD",
                "each entry is written at its new place, and counted as work; translations are \
                 the same",
                || {
                    let mut machine = small(0..512);
                    let before = machine.kernel.work();
                    machine.event(move_pages(BASE, BASE + FAR, REGION));
                    let work = machine.kernel.work() - before;
                    assert_eq!((work.pages_unmapped, work.pages_mapped), (512, 512));
                },
            ),
            held(
                "a mapping grows into a gap and joins the area behind it",
                "mremap_test.c, mremap_expand_merge",
                || {
                    let mut machine = machine("thp");
                    machine.map(BASE, 3 * PAGE);
                    machine.event(unmap(address(1), PAGE));
                    machine.event(remap(BASE, PAGE, BASE, 2 * PAGE));
                    assert!(is_usable(&mut machine, 0..3));
                    assert_eq!(
                        machine
                            .kernel
                            .readable_within(page(BASE).number()..page(address(9)).number())
                            .len(),
                        1
                    );
                },
            ),
            held(
                "a part of a mapping grows and joins the area before it",
                "mremap_test.c, mremap_expand_merge_offset",
                || {
                    let mut machine = machine("thp");
                    machine.map(BASE, 3 * PAGE);
                    machine.event(unmap(address(2), PAGE));
                    machine.event(remap(address(1), PAGE, address(1), 2 * PAGE));
                    assert!(is_usable(&mut machine, 0..3));
                    assert_eq!(
                        machine
                            .kernel
                            .readable_within(page(BASE).number()..page(address(9)).number())
                            .len(),
                        1
                    );
                },
            ),
            held(
                "a move within an area leaves its neighbours alone",
                "mremap_test.c, mremap_move_within_range",
                || {
                    let mut machine = machine("thp");
                    machine.event(map_populated(BASE, 20 * MB));
                    let (source, target) = (BASE + 6 * MB, BASE + 4 * MB);
                    let kept = load(&mut machine, 0, source, 256);
                    let moved = load(&mut machine, 0, source + MB, 256);
                    machine.event(move_pages(source + MB, target + MB, MB));
                    assert_eq!(load(&mut machine, 0, source, 256), kept);
                    assert_eq!(load(&mut machine, 0, target + MB, 256), moved);
                    assert_sound(&machine);
                },
            ),
            held(
                "several areas and the gaps between them move together, also onto others",
                "mremap_test.c, mremap_move_multiple_vmas",
                || {
                    let mut machine = islands(&PIECES, 11);
                    let known = known(&mut machine, &PIECES);
                    let (first, second) = (BASE + FAR, BASE + FAR + 11 * PAGE);
                    machine.event(move_pages(BASE, first, 11 * PAGE));
                    assert_islands(&mut machine, first, &PIECES, &known);
                    machine.event(move_pages(first, second, 11 * PAGE));
                    assert_islands(&mut machine, second, &PIECES, &known);
                    machine.map(first, 11 * PAGE);
                    machine.event(move_pages(second, first, 11 * PAGE));
                    for (&index, &expected) in PIECES.iter().zip(&known) {
                        assert_eq!(load(&mut machine, 0, first + index * PAGE, 1), [expected]);
                    }
                    assert_sound(&machine);
                },
            ),
            held(
                "parts of two areas move with the gap between them",
                "mremap_test.c, mremap_move_multiple_vmas_split",
                || {
                    let pieces = [0, 1, 2, 3, 4, 6, 7, 8, 9];
                    let mut machine = islands(&pieces, 10);
                    let known = known(&mut machine, &[2, 3, 4, 6, 7, 8]);
                    machine.event(move_pages(address(2), BASE + FAR, 7 * PAGE));
                    assert_islands(&mut machine, BASE + FAR, &[0, 1, 2, 4, 5, 6], &known);
                    for index in [0, 1, 9] {
                        assert_eq!(
                            machine.fault(address(index), AccessKind::Write),
                            FaultOutcome::Mapped
                        );
                    }
                    assert_eq!(machine.fault(address(2), AccessKind::Read), FaultOutcome::Segfault);
                },
            ),
            mended(
                "several areas shrink in place to the first page, though the range ends in a gap",
                "mremap_test.c, mremap_shrink_multiple_vmas (in place)",
                || {
                    let mut machine = islands(&[0, 2, 4, 6, 8], 10);
                    machine.event(remap(BASE, 10 * PAGE, BASE, PAGE));
                    assert_eq!(machine.counter("mapped_bytes"), PAGE);
                    for index in 1..10 {
                        assert_eq!(
                            machine.fault(address(index), AccessKind::Read),
                            FaultOutcome::Segfault
                        );
                    }
                },
            ),
            mended(
                "several areas shrink to the first page elsewhere, though the range ends in a \
                 gap",
                "mremap_test.c, mremap_shrink_multiple_vmas",
                || {
                    let mut machine = islands(&[0, 2, 4, 6, 8], 10);
                    let known = known(&mut machine, &[0]);
                    machine.event(remap(BASE, 10 * PAGE, BASE + FAR, PAGE));
                    assert_eq!(load(&mut machine, 0, BASE + FAR, 1), known);
                    assert_eq!(machine.counter("mapped_bytes"), PAGE);
                    assert_sound(&machine);
                },
            ),
            differs(
                "MREMAP_DONTUNMAP leaves an empty mapping at the source",
                "mremap_test.c, mremap_move_multiple_vmas (dont_unmap)",
                "the event of a trace has no flags; later accesses to the source are refused",
                || {
                    let mut machine = small(0..1);
                    machine.event(move_pages(BASE, BASE + FAR, PAGE));
                    assert_eq!(machine.fault(BASE, AccessKind::Read), FaultOutcome::Segfault);
                },
            ),
        ],
    );
}
