//! Page contents and same-page merging, worked by hand.

use crate::machine;
use crate::machine::{BASE, MB, Machine, fork, page, protect, switch, unmap};
use perforate_os::{ContentDistribution, KsmConfig, OsError, ZERO_PAGE};
use perforate_types::{Advice, Backing, Permissions, ProgramEvent, SpaceId, VirtualAddress};

const PAGE: u64 = 4096;
const FIRST: SpaceId = SpaceId(0);
const SECOND: SpaceId = SpaceId(1);

/// Two processes, each with a populated 2MB at [`BASE`]; the second one runs.
fn two_processes(policy: &str) -> Machine {
    let mut machine = Machine::new(policy, 64 * MB);
    for process in 0..2 {
        machine.event(switch(process));
        machine.event(machine::populate(BASE, 2 * MB));
    }
    machine.kernel.set_ksm(perforate_config::read("pages-to-scan=100000").unwrap());
    machine
}

fn set(machine: &mut Machine, space: SpaceId, subpage: u64, content: u64) {
    machine.kernel.set_content(space, page(BASE + subpage * PAGE), content).unwrap();
}

/// Runs full scans; the first one only records the contents, the second merges.
fn scan(machine: &mut Machine, times: u64) -> u64 {
    let mut merged = 0;
    for _ in 0..times {
        let pass = machine.act(|kernel| Ok(kernel.ksm_pass())).unwrap();
        assert!(pass.ended_full_scan);
        merged += pass.pages_merged;
    }
    machine.assert_memory_adds_up();
    machine.assert_copies_on_write();
    merged
}

fn frame(machine: &Machine, space: SpaceId, subpage: u64) -> (u64, bool) {
    let (frame, permissions) =
        machine.oracle.translate(space, page(BASE + subpage * PAGE)).expect("mapped");
    (frame.number(), permissions.write)
}

#[test]
fn thp_splits_both_large_pages_for_one_common_page() {
    let mut machine = two_processes("thp");
    set(&mut machine, FIRST, 7, 1000);
    set(&mut machine, SECOND, 9, 1000);
    let free = machine.counter("free_bytes");
    assert_eq!(scan(&mut machine, 1), 0, "a first look only remembers");
    assert_eq!(machine.counter("large_pages"), 2);
    assert_eq!(scan(&mut machine, 1), 1);
    // The page met last keeps its frame; the other page's frame is freed. Each split takes a
    // level-1 node.
    assert_eq!(frame(&machine, FIRST, 7), frame(&machine, SECOND, 9));
    assert!(!frame(&machine, FIRST, 7).1, "read-only");
    assert!(frame(&machine, FIRST, 8).1, "the others may be written as before");
    assert_eq!(machine.counter("large_pages"), 0);
    assert_eq!(machine.counter("ksm_large_pages_split"), 2);
    assert_eq!(machine.counter("ksm_subpages_punched"), 0);
    assert_eq!(machine.counter("free_bytes"), free + PAGE - 2 * PAGE);
    let figures = ["ksm_pages_shared", "ksm_pages_sharing", "ksm_saved_bytes", "ksm_full_scans"];
    assert_eq!(figures.map(|name| machine.counter(name)), [1, 1, PAGE, 2]);
    // 1024 pages in each scan: sub-pages of large pages count as pages.
    assert_eq!(machine.counter("ksm_pages_scanned"), 2048);
}

#[test]
fn perforated_punches_one_hole_in_each() {
    let mut machine = two_processes("perforated");
    set(&mut machine, FIRST, 7, 1000);
    set(&mut machine, SECOND, 9, 1000);
    assert_eq!(scan(&mut machine, 2), 1);
    assert_eq!(frame(&machine, FIRST, 7), frame(&machine, SECOND, 9));
    assert!(!frame(&machine, FIRST, 7).1);
    assert_eq!(machine.counter("perforated_pages"), 2);
    assert_eq!(machine.counter("base_pages"), 0);
    assert_eq!(machine.counter("ksm_large_pages_perforated"), 2);
    assert_eq!(machine.counter("ksm_subpages_punched"), 2);
    assert_eq!(machine.counter("ksm_large_pages_split"), 0);
    // Another pair in the same 2MB page: two more holes, and no further perforated page.
    set(&mut machine, FIRST, 100, 1001);
    set(&mut machine, FIRST, 101, 1001);
    assert_eq!(scan(&mut machine, 2), 1);
    assert_eq!(machine.counter("ksm_subpages_punched"), 4);
    assert_eq!(machine.counter("ksm_large_pages_perforated"), 2);
    // The second process wrote nothing: the frame of sub-page 7 of the first process is free.
    assert_eq!(machine.counter("holes_allocated"), 4);
    assert_eq!(machine.counter("ksm_saved_bytes"), 2 * PAGE);
}

#[test]
fn a_write_takes_a_page_out_and_gives_it_new_content() {
    for policy in ["base-pages", "thp", "perforated"] {
        let mut machine = two_processes(policy);
        set(&mut machine, FIRST, 7, 1000);
        set(&mut machine, SECOND, 9, 1000);
        assert_eq!(scan(&mut machine, 2), 1);
        let merged = frame(&machine, FIRST, 7).0;
        machine.write(BASE + 9 * PAGE); // The second process runs.
        assert_ne!(frame(&machine, SECOND, 9).0, merged);
        assert!(frame(&machine, SECOND, 9).1);
        assert_eq!(machine.counter("ksm_unmerged_by_writes"), 1, "{policy}");
        let content = machine.kernel.content(SECOND, page(BASE + 9 * PAGE)).unwrap();
        assert_ne!(content, 1000);
        assert_eq!(machine.kernel.content(FIRST, page(BASE + 7 * PAGE)), Some(1000));
        // One page is left in the stable tree: it saves nothing, but a page with equal content
        // joins it in its first scan.
        let figures = ["ksm_pages_shared", "ksm_pages_sharing"];
        assert_eq!(figures.map(|name| machine.counter(name)), [1, 0]);
        set(&mut machine, SECOND, 9, 1000);
        assert_eq!(scan(&mut machine, 1), 1);
        assert_eq!(frame(&machine, SECOND, 9).0, merged);
        // Both pages are written: the second write needs no copy, and the frame is no longer
        // merged.
        machine.write(BASE + 9 * PAGE);
        machine.event(switch(0));
        machine.write(BASE + 7 * PAGE);
        assert_eq!(frame(&machine, FIRST, 7), (merged, true));
        assert_eq!(figures.map(|name| machine.counter(name)), [0, 0]);
        set(&mut machine, SECOND, 9, 1000);
        assert_eq!(scan(&mut machine, 2), 0, "nobody has that content any more");
    }
}

#[test]
fn a_frame_takes_no_more_sharers_than_allowed() {
    let mut machine = two_processes("base-pages");
    machine
        .kernel
        .set_ksm(perforate_config::read("pages-to-scan=5000,max-page-sharing=3").unwrap());
    for subpage in 0..4 {
        set(&mut machine, FIRST, subpage, ZERO_PAGE);
        set(&mut machine, SECOND, subpage, ZERO_PAGE);
    }
    // Second scan: page 1 finds 0 (two sharers), 2 joins (three: full), 3 waits. Then 0' finds 3,
    // 1' joins, 2' waits, 3' finds 2'. Three frames for eight pages.
    assert_eq!(scan(&mut machine, 2), 5);
    assert_eq!(machine.counter("ksm_pages_shared"), 3);
    assert_eq!(machine.counter("ksm_pages_sharing"), 5);
    let most = *machine.mapped_frames().values().max().unwrap();
    assert_eq!(most, 3);
    // The place of an unmapped sharer is used again.
    machine.event(switch(0));
    machine.event(unmap(BASE, PAGE));
    machine.event(switch(1));
    machine.write(BASE + 20 * PAGE);
    set(&mut machine, SECOND, 20, ZERO_PAGE);
    assert_eq!(scan(&mut machine, 2), 1);
    assert_eq!(machine.counter("ksm_pages_shared"), 3);
}

#[test]
fn only_unchanged_private_anonymous_memory_is_merged() {
    let mut machine = two_processes("base-pages");
    set(&mut machine, FIRST, 7, 1);
    set(&mut machine, SECOND, 9, 2);
    scan(&mut machine, 1);
    set(&mut machine, FIRST, 7, 5);
    set(&mut machine, SECOND, 9, 5);
    assert_eq!(scan(&mut machine, 1), 0, "both changed since the last scan");
    assert_eq!(scan(&mut machine, 1), 1);
    for (backing, shared) in [(Backing::Anonymous, true), (Backing::File, false)] {
        let (start, length) = (VirtualAddress::new(BASE + 8 * MB), 2 * PAGE);
        machine.event(ProgramEvent::Map {
            start,
            length,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing,
            shared,
            populate: true,
        });
        for subpage in [2048, 2049] {
            set(&mut machine, SECOND, subpage, 6);
        }
        assert_eq!(scan(&mut machine, 3), 0);
    }
}

#[test]
fn a_forked_page_joins_without_moving() {
    let mut machine = two_processes("thp");
    set(&mut machine, FIRST, 7, 1000);
    set(&mut machine, SECOND, 9, 1000);
    scan(&mut machine, 2);
    machine.event(fork(2)); // Of the second process; its child has address space 2.
    let third = SpaceId(2);
    assert_eq!(machine.kernel.content(third, page(BASE + 9 * PAGE)), Some(1000));
    assert_eq!(scan(&mut machine, 2), 0, "nothing is saved that was not before");
    assert_eq!(machine.counter("ksm_pages_sharing"), 2);
    // The last of the three pages is found by its frame.
    machine.event(ProgramEvent::Exec);
    machine.event(switch(0));
    machine.event(ProgramEvent::Exec);
    scan(&mut machine, 1);
    assert_eq!(machine.counter("ksm_pages_shared"), 1);
    assert!(!frame(&machine, third, 9).1);
}

#[test]
fn passes_go_on_where_the_last_one_ended() {
    let mut machine = two_processes("base-pages");
    machine.kernel.set_ksm(perforate_config::read("pages-to-scan=400").unwrap());
    let passes: Vec<_> = (0..4)
        .map(|_| machine.act(|kernel| Ok(kernel.ksm_pass())).unwrap())
        .map(|pass| (pass.pages_scanned, pass.ended_full_scan))
        .collect();
    assert_eq!(passes, [(400, false), (400, false), (224, true), (400, false)]);
}

#[test]
fn contents_go_where_the_pages_go() {
    let mut machine = two_processes("thp");
    machine
        .kernel
        .set_content_distribution(perforate_config::read("zero=50%,run=512,seed=5").unwrap())
        .unwrap();
    let content = |machine: &Machine, address| machine.kernel.content(SECOND, page(address));
    let (before, other) = (content(&machine, BASE + PAGE), content(&machine, BASE + 2 * PAGE));
    set(&mut machine, SECOND, 2, 77);
    let to = BASE + 16 * MB;
    machine.event(ProgramEvent::Remap {
        from: VirtualAddress::new(BASE),
        from_length: 2 * MB,
        to: VirtualAddress::new(to),
        to_length: 2 * MB,
    });
    assert_eq!(content(&machine, BASE), None, "nothing is mapped there");
    assert_eq!(content(&machine, to + PAGE), before);
    assert_eq!(content(&machine, to + 2 * PAGE), Some(77));
    // A new page at the old address gets a drawn content again.
    machine.event(machine::populate(BASE, 2 * MB));
    assert_eq!(content(&machine, BASE + 2 * PAGE), other);
    machine.event(ProgramEvent::Advise {
        start: VirtualAddress::new(to),
        length: 2 * MB,
        advice: Advice::DontNeed,
    });
    machine.write(to);
    assert_ne!(content(&machine, to + 2 * PAGE), Some(77));
}

#[test]
fn content_of_a_shared_frame_changes_by_writes_only() {
    let mut machine = two_processes("base-pages");
    let place = page(BASE + 7 * PAGE);
    set(&mut machine, FIRST, 7, 1000);
    set(&mut machine, SECOND, 9, 1000);
    scan(&mut machine, 2);
    let refused = OsError::SharedContent { space: FIRST, page: place };
    assert_eq!(machine.kernel.set_content(FIRST, place, 5), Err(refused));
    assert_eq!(machine.kernel.set_content(FIRST, place, 1000), Ok(()));
    let nowhere = page(BASE + 100 * MB);
    let error = machine.kernel.set_content(FIRST, nowhere, 5).expect_err("nothing is there");
    assert!(error.to_string().ends_with("of address space 0 is not mapped"), "{error}");
}

#[test]
fn read_only_pages_merge_and_may_become_writable_later() {
    for policy in ["thp", "perforated"] {
        let mut machine = two_processes(policy);
        set(&mut machine, FIRST, 7, 1000);
        set(&mut machine, SECOND, 9, 1000);
        machine.event(protect(BASE, 2 * MB, Permissions::READ));
        assert_eq!(scan(&mut machine, 2), 1);
        machine.event(protect(BASE, 2 * MB, Permissions::READ_WRITE));
        assert!(!frame(&machine, SECOND, 9).1, "the frame is still shared");
        assert!(frame(&machine, SECOND, 8).1);
        machine.write(BASE + 9 * PAGE);
        assert_ne!(frame(&machine, SECOND, 9).0, frame(&machine, FIRST, 7).0);
    }
}

#[test]
fn wrong_settings_are_explained() {
    let mut machine = Machine::new("thp", 64 * MB);
    for wrong in ["zero=5%,run=0", "zero=5%,duplicate=10%", "zero=60%,duplicate=50%,distinct=1"] {
        let wrong: ContentDistribution = perforate_config::read(wrong).unwrap();
        let result = machine.kernel.set_content_distribution(wrong);
        assert!(matches!(result, Err(OsError::Config(_))), "{wrong:?}");
    }
    for (text, reason) in [
        ("pages-to-scan=0", "pages-to-scan: is at least 1, not 0"),
        ("max-page-sharing=1", "max-page-sharing: is at least 2, not 1"),
        ("max-page-sharing=many", "max-page-sharing: expected a whole number"),
        ("max-page-shoring=2", "there is no \"max-page-shoring\"; did you mean max-page-sharing?"),
        ("pages-to-scan", "pages-to-scan: has no value"),
        ("pages-to-scan=1,pages-to-scan=2", "pages-to-scan is given twice"),
    ] {
        let error = perforate_config::read::<KsmConfig>(text).expect_err(text).to_string();
        assert!(error.starts_with(reason), "{error}");
    }
    assert_eq!(perforate_config::read("default"), Ok(KsmConfig::default()));
}

/// Without a frame for a page-table node, the 2MB page stays, and the merge has failed.
#[test]
fn a_merge_without_memory_fails() {
    let mut machine = Machine::new("thp", 16 * MB);
    machine.event(machine::populate(BASE, 12 * MB));
    machine.map(BASE + 64 * MB, 16 * MB);
    machine.event(machine::advise(BASE + 64 * MB, 16 * MB, Advice::NoHugePage));
    let mut touched = 0;
    loop {
        let place = page(BASE + 64 * MB + touched * PAGE);
        let kind = perforate_types::AccessKind::Write;
        if machine.act(|kernel| kernel.fault(FIRST, place, kind)).is_err() {
            break;
        }
        touched += 1;
    }
    machine.kernel.set_ksm(perforate_config::read("pages-to-scan=100000").unwrap());
    set(&mut machine, FIRST, 7, 1000);
    set(&mut machine, FIRST, 9, 1000);
    assert_eq!(scan(&mut machine, 2), 0);
    let names = ["ksm_merges_failed", "ksm_pages_merged", "ksm_large_pages_split"];
    assert_eq!(names.map(|name| machine.counter(name)), [1, 0, 0]);
    assert_eq!(machine.counter("large_pages"), 6);
    // With memory for the node, the two pages merge.
    machine.event(unmap(BASE + 64 * MB, 16 * MB));
    assert_eq!(scan(&mut machine, 1), 1);
    assert_eq!(names.map(|name| machine.counter(name)), [1, 1, 1]);
}

/// A frame that lost a sharer takes another, although the frame made after it is full.
#[test]
fn the_first_of_two_full_frames_is_used_again() {
    let mut machine = two_processes("base-pages");
    machine
        .kernel
        .set_ksm(perforate_config::read("pages-to-scan=5000,max-page-sharing=3").unwrap());
    for subpage in 0..3 {
        set(&mut machine, FIRST, subpage, 1000);
        set(&mut machine, SECOND, subpage, 1000);
    }
    assert_eq!(scan(&mut machine, 2), 4);
    assert_eq!(machine.counter("ksm_pages_shared"), 2);
    let first = frame(&machine, FIRST, 1).0;
    machine.event(switch(0));
    machine.event(unmap(BASE, PAGE));
    assert_eq!(scan(&mut machine, 1), 0);
    set(&mut machine, SECOND, 20, 1000);
    assert_eq!(scan(&mut machine, 1), 1);
    assert_eq!(frame(&machine, SECOND, 20), (first, false));
}
