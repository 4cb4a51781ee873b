//! Same-page merging: frames by content, refusals, and limits.

use super::table::{check, differs, held, mended};
use super::*;
use crate::machine::unmap;

/// Pages of each program.
const PAGES: u64 = 16;

fn set_contents(machine: &mut Machine, process: u16, pages: Range<u64>, identity: u64) {
    machine.event(switch(process));
    let space = machine.kernel.current();
    for index in pages {
        // Only a write can change a page that was merged.
        machine.access(address(index), AccessKind::Write);
        machine.kernel.set_content(space, page(address(index)), identity).unwrap();
    }
}

/// Programs with [`PAGES`] pages each, of which all pages of a program have the same content.
fn programs(identities: &[u64]) -> Machine {
    let mut machine = machine("base-pages");
    machine.kernel.set_ksm(read("pages-to-scan=100000,max-page-sharing=100000").unwrap());
    for (process, &identity) in (0..).zip(identities) {
        machine.event(switch(process));
        machine.map(BASE, PAGES * PAGE);
        set_contents(&mut machine, process, 0..PAGES, identity);
    }
    machine
}

/// Scans all memory three times: pages whose content has changed are looked at in the second scan.
fn scan(machine: &mut Machine) {
    for _ in 0..3 {
        let pass = machine.act(|kernel| Ok(kernel.ksm_pass())).unwrap();
        assert!(pass.ended_full_scan);
    }
    assert_sound(machine);
}

/// Numbers of merged frames and of further pages that map them.
fn merged(machine: &Machine) -> (u64, u64) {
    (machine.counter("ksm_pages_shared"), machine.counter("ksm_pages_sharing"))
}

/// True if no two pages of the process share a frame.
fn are_apart(machine: &mut Machine, process: u16) -> bool {
    machine.event(switch(process));
    let frames: Vec<u64> = frames(machine, BASE, PAGES).into_iter().flatten().collect();
    let distinct: std::collections::BTreeSet<u64> = frames.iter().copied().collect();
    distinct.len() == frames.len()
}

/// A program whose pages are merged.
fn merged_program() -> Machine {
    let mut machine = programs(&[7]);
    scan(&mut machine);
    assert_eq!(merged(&machine), (1, PAGES - 1));
    assert!(!are_apart(&mut machine, 0));
    machine
}

#[test]
fn pages_merge_as_linux_tests_it() {
    check(
        "Same-page merging",
        &[
            mended(
                "MADV_UNMERGEABLE gives every page a frame of its own, with its data",
                "ksm_functional_tests.c, test_unmerge",
                || {
                    let mut machine = merged_program();
                    machine.event(advise(BASE, PAGES * PAGE, Advice::UNMERGEABLE));
                    assert!(are_apart(&mut machine, 0));
                    assert_eq!(contents(&mut machine, 0, BASE, PAGES), [7; PAGES as usize]);
                    assert_sound(&machine);
                },
            ),
            mended(
                "pages that refused are not merged again until MADV_MERGEABLE",
                "ksm_functional_tests.c, test_unmerge",
                || {
                    let mut machine = merged_program();
                    machine.event(advise(BASE, PAGES * PAGE, Advice::UNMERGEABLE));
                    scan(&mut machine);
                    assert!(are_apart(&mut machine, 0));
                    machine.event(advise(BASE, PAGES * PAGE, Advice::MERGEABLE));
                    scan(&mut machine);
                    assert_eq!(merged(&machine), (1, PAGES - 1));
                },
            ),
            mended(
                "discarded pages stay discarded when the others are unmerged",
                "ksm_functional_tests.c, test_unmerge_discarded",
                || {
                    let mut machine = merged_program();
                    machine.event(advise(BASE, PAGES / 2 * PAGE, Advice::DontNeed));
                    machine.event(advise(BASE, PAGES * PAGE, Advice::UNMERGEABLE));
                    assert!(are_apart(&mut machine, 0));
                    assert_eq!(machine.counter("mapped_bytes"), PAGES / 2 * PAGE);
                    assert_sound(&machine);
                },
            ),
            mended(
                "pages that may not be accessed are unmerged, too",
                "ksm_functional_tests.c, test_prot_none",
                || {
                    let mut machine = merged_program();
                    let start = VirtualAddress::new(BASE);
                    let (length, permissions) = (PAGES * PAGE, Permissions::READ_WRITE);
                    machine.event(ProgramEvent::Protect {
                        start,
                        length,
                        permissions,
                        accessible: false,
                    });
                    machine.event(advise(BASE, length, Advice::UNMERGEABLE));
                    assert!(are_apart(&mut machine, 0));
                    machine.event(protect(BASE, length, permissions));
                    assert_eq!(contents(&mut machine, 0, BASE, PAGES), [7; PAGES as usize]);
                },
            ),
            differs(
                "pages of zeros can be mapped to the kernel's page of zeros instead",
                "ksm_functional_tests.c, test_unmerge_zero_pages",
                "use_zero_pages is off by default in Linux, and is not an option here: they \
                 merge with each other",
                || {
                    let mut machine = programs(&[perforate_os::ZERO_PAGE]);
                    scan(&mut machine);
                    assert_eq!(merged(&machine), (1, PAGES - 1));
                },
            ),
            differs(
                "only areas and processes that asked are merged",
                "ksm_functional_tests.c, test_prctl",
                "programs recorded in traces were not written for merging; the option ksm stands \
                 for a process that asked (PR_SET_MEMORY_MERGE)",
                || {
                    let mut machine = merged_program();
                    assert_eq!(machine.counter("ksm_pages_merged"), PAGES - 1);
                    machine.event(advise(BASE, PAGE, Advice::MERGEABLE));
                    assert_eq!(merged(&machine), (1, PAGES - 1));
                },
            ),
            held(
                "a child's memory is merged as its parent's",
                "ksm_functional_tests.c, test_prctl_fork",
                || {
                    let mut machine = machine("base-pages");
                    machine.kernel.set_ksm(read("pages-to-scan=100000").unwrap());
                    machine.event(fork(1));
                    machine.event(switch(1));
                    machine.map(BASE, PAGES * PAGE);
                    set_contents(&mut machine, 1, 0..PAGES, 7);
                    scan(&mut machine);
                    assert_eq!(merged(&machine), (1, PAGES - 1));
                },
            ),
            held(
                "pages merge across programs, one frame for each content",
                "LTP ksm01.c, contents c, a, a",
                || {
                    let mut machine = programs(&[1, 2, 2]);
                    scan(&mut machine);
                    assert_eq!(merged(&machine), (2, 3 * PAGES - 2));
                },
            ),
            held(
                "pages that are written leave their frame and join that of their new content",
                "LTP ksm01.c, contents c, b, a",
                || {
                    let mut machine = programs(&[1, 2, 2]);
                    scan(&mut machine);
                    set_contents(&mut machine, 1, 0..PAGES, 3);
                    scan(&mut machine);
                    assert_eq!(merged(&machine), (3, 3 * PAGES - 3));
                    assert_eq!(contents(&mut machine, 2, BASE, PAGES), [2; PAGES as usize]);
                },
            ),
            held(
                "equal pages of all programs end in one frame",
                "LTP ksm01.c, contents d, d, d",
                || {
                    let mut machine = programs(&[1, 3, 2]);
                    scan(&mut machine);
                    (0..3).for_each(|process| set_contents(&mut machine, process, 0..PAGES, 4));
                    scan(&mut machine);
                    assert_eq!(merged(&machine), (1, 3 * PAGES - 1));
                    assert_eq!(machine.counter("mapped_bytes"), 3 * PAGES * PAGE);
                    assert_eq!(machine.mapped_frames().len(), 1);
                },
            ),
            held(
                "a page with other content stays by itself",
                "LTP ksm01.c, contents d, d but one page e, d",
                || {
                    let mut machine = programs(&[4, 4, 4]);
                    scan(&mut machine);
                    set_contents(&mut machine, 1, PAGES - 1..PAGES, 5);
                    scan(&mut machine);
                    assert_eq!(merged(&machine), (1, 3 * PAGES - 2));
                    assert_eq!(machine.mapped_frames().len(), 2);
                },
            ),
            held(
                "a page that changes between two scans is not merged",
                "LTP ksm01.c, pages_volatile",
                || {
                    let mut machine = programs(&[1, 1]);
                    set_contents(&mut machine, 1, 0..1, 8);
                    set_contents(&mut machine, 1, 1..2, 9);
                    for changing in 10..14 {
                        machine.act(|kernel| Ok(kernel.ksm_pass())).unwrap();
                        set_contents(&mut machine, 1, 0..2, changing);
                    }
                    assert_eq!(merged(&machine), (1, 2 * PAGES - 3));
                    assert!(machine.counter("ksm_pages_changing") > 2 * PAGES);
                },
            ),
            differs(
                "merging can be undone for all programs while they run",
                "LTP ksm01.c, run = 2",
                "the option ksm holds for a whole run; merged pages stay when nothing is \
                 scanned, and programs can refuse one by one",
                || {
                    let mut machine = programs(&[4, 4]);
                    scan(&mut machine);
                    (0..2).for_each(|process| {
                        machine.event(switch(process));
                        machine.event(advise(BASE, PAGES * PAGE, Advice::UNMERGEABLE));
                    });
                    assert!(are_apart(&mut machine, 0) && are_apart(&mut machine, 1));
                    assert_eq!(machine.mapped_frames().len() as u64, 2 * PAGES);
                },
            ),
            held(
                "no more than max_page_sharing pages share a frame",
                "LTP ksm_test.h, max_page_sharing",
                || {
                    let mut machine = programs(&[4, 4]);
                    machine
                        .kernel
                        .set_ksm(read("pages-to-scan=100000,max-page-sharing=8").unwrap());
                    scan(&mut machine);
                    assert_eq!(merged(&machine), (4, 2 * PAGES - 4));
                    assert!(machine.mapped_frames().values().all(|&sharers| sharers == 8));
                },
            ),
            differs(
                "merging can stay within a node or a memory cgroup",
                "LTP ksm02.c, ksm03.c, ksm04.c, ksm06.c",
                "memory is one node, and programs have no limits of their own",
                || {
                    let mut machine = programs(&[4, 4]);
                    scan(&mut machine);
                    assert_eq!(merged(&machine), (1, 2 * PAGES - 1));
                },
            ),
            held("a program may end while the scanner is inside its memory", "LTP ksm05.c", || {
                let mut machine = programs(&[4, 4, 5]);
                scan(&mut machine);
                machine.kernel.set_ksm(read("pages-to-scan=20").unwrap());
                machine.act(|kernel| Ok(kernel.ksm_pass())).unwrap();
                machine.event(exit(1));
                machine.kernel.set_ksm(read("pages-to-scan=100000").unwrap());
                scan(&mut machine);
                assert_eq!(merged(&machine), (2, 2 * PAGES - 2));
            }),
            differs(
                "pages that did not merge are left out of most scans (smart_scan)",
                "LTP ksm07.c",
                "every scan looks at every page, as Linux did before 6.7; it costs the kernel \
                 scans and changes no mapping",
                || {
                    let mut machine = machine("base-pages");
                    machine.kernel.set_ksm(read("pages-to-scan=100000").unwrap());
                    machine.map(BASE, PAGE);
                    machine.write(BASE);
                    scan(&mut machine);
                    assert_eq!(machine.counter("ksm_pages_scanned"), 3);
                },
            ),
            held(
                "2MB pages are split for the pages that merge",
                "ksm_tests.c, merging huge pages",
                || {
                    let mut machine = large();
                    machine.kernel.set_ksm(read("pages-to-scan=100000").unwrap());
                    set_contents(&mut machine, 0, 3..5, 7);
                    scan(&mut machine);
                    assert_eq!((merged(&machine), sizes(&machine)), ((1, 1), (0, 512)));
                    machine.event(unmap(BASE, REGION));
                    assert_eq!(machine.counter("mapped_bytes"), 0);
                },
            ),
        ],
    );
}
