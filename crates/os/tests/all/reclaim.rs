//! Reclaim of program memory, worked by hand: the order of victims, swap, and reading back; and the
//! modes of fault-time compaction.
//!
//! 64MB are 16,384 frames. The min watermark is 256 frames (4·√65,536 KB), so reclaim begins below
//! 320 free frames and ends at 384.

use crate::machine;
use crate::machine::{BASE, MB, Machine, advise, fork, map, populate, switch, unmap};
use perforate_config::Size;
use perforate_os::{CompactionCounts, Defrag, HoleContent, KernelConfig, OsError};
use perforate_types::{AccessKind, Advice, ProcessId, ProgramEvent, VirtualAddress};

const PAGE: u64 = 4096;
const REGION: u64 = 2 * MB;
/// Number of first touches of 4KB pages in 64MB after which 319 frames are free: 16,384 less 3
/// directories, 32 level-1 nodes and the pages themselves.
const NEARLY_FULL: u64 = 16_030;

fn swapping(policy: &str, memory_bytes: u64, swap_bytes: u64) -> Machine {
    let config = KernelConfig { swap: Size(swap_bytes), ..KernelConfig::new(memory_bytes) };
    Machine::configured(policy, config)
}

/// A process with 80MB that has touched the first `pages` pages.
fn touched(pages: u64, swap_bytes: u64) -> Machine {
    let mut machine = swapping("base-pages", 64 * MB, swap_bytes);
    machine.map(BASE, 80 * MB);
    for page in 0..pages {
        machine.write(BASE + page * PAGE);
    }
    machine
}

fn nearly_full(swap_bytes: u64) -> Machine {
    let machine = touched(NEARLY_FULL, swap_bytes);
    assert_eq!(machine.counter("free_bytes"), 319 * PAGE);
    machine
}

/// Number of mapped pages in the region at `start`.
fn mapped(machine: &Machine, start: u64) -> usize {
    (0..512).filter(|page| machine.translate(start + page * PAGE).is_some()).count()
}

/// Touches pages in sequence until memory runs out; returns the number of touched pages.
fn exhaust(machine: &mut Machine, start: u64) -> u64 {
    let space = machine.kernel.current();
    for touched in 0.. {
        let page = machine::page(start + touched * PAGE);
        let kind = AccessKind::Write;
        match machine.act(|kernel| kernel.fault(space, page, kind)) {
            Ok(_) => {}
            Err(OsError::OutOfMemory { .. }) => return touched,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!()
}

#[test]
fn the_first_region_goes_to_swap_and_comes_back_page_by_page() {
    let mut machine = nearly_full(64 * MB);
    assert_eq!(machine.counter("swap_outs"), 0, "320 frames were free before each fault");
    let before = machine.kernel.work();
    machine.write(BASE + NEARLY_FULL * PAGE);
    // 512 frames and their level-1 node are freed, and one frame is the new page's. 384 free frames
    // would have sufficed.
    assert_eq!(machine.counter("free_bytes"), (319 + 513 - 1) * PAGE);
    assert_eq!((mapped(&machine, BASE), mapped(&machine, BASE + REGION)), (0, 512));
    let work = machine.kernel.work() - before;
    assert_eq!((work.pages_swapped_out, work.pages_unmapped, work.faults_4k), (512, 512, 1));
    assert_eq!((work.shootdowns_page, work.shootdown_batches, work.spaces_flushed), (512, 1, 1));
    machine.assert_memory_adds_up();

    let before = machine.kernel.work();
    machine.write(BASE + 5 * PAGE);
    let work = machine.kernel.work() - before;
    assert_eq!((work.faults_swap, work.pages_swapped_in, work.faults_4k), (1, 1, 0));
    assert_eq!(work.frames_zeroed_4k, 0, "it is read");
    assert_eq!(machine.counter("swapped_bytes"), 511 * PAGE);
    assert_eq!((machine.counter("swap_outs"), machine.counter("swap_ins")), (512, 1));
    assert_eq!(mapped(&machine, BASE), 1);
    machine.assert_memory_adds_up();
}

/// The store that faults writes the page after this; it was not written while it was in swap.
#[test]
fn a_page_has_the_same_content_after_its_time_in_swap() {
    let mut machine = touched(NEARLY_FULL, 64 * MB);
    let place = machine::page(BASE + 5 * PAGE);
    let space = machine.kernel.current();
    machine.kernel.set_content(space, place, 77).unwrap();
    machine.write(BASE + NEARLY_FULL * PAGE);
    assert_eq!(machine.kernel.content(space, place), None, "in swap");
    machine.write(BASE + 5 * PAGE);
    assert_eq!(machine.kernel.content(space, place), Some(77));
}

/// The hand of the clock moves from region to region and wraps around.
#[test]
fn victims_go_in_turn() {
    let mut machine = nearly_full(256 * MB);
    // About 31 of 40 regions fit. In the second round, the region touched last is in memory and the
    // one touched next is not.
    for round in 0..2 {
        for region in 0..40 {
            for page in 0..512 {
                machine.access(BASE + region * REGION + page * PAGE, AccessKind::Write);
            }
            assert_eq!(mapped(&machine, BASE + region * REGION), 512);
            let next = BASE + (region + 1) % 40 * REGION;
            assert!(round == 0 || mapped(&machine, next) == 0, "{region}");
        }
    }
    assert_eq!(machine.counter("mapped_bytes") + machine.counter("swapped_bytes"), 80 * MB);
    machine.assert_memory_adds_up();
    machine.event(ProgramEvent::Exec);
    assert_eq!(machine.counter("swapped_bytes"), 0);
    assert_eq!(machine.counter("free_bytes"), 64 * MB);
}

#[test]
fn advised_pages_go_first_and_without_swap() {
    for swap_bytes in [0, 64 * MB] {
        // One page less, so that the advice itself meets no shortage.
        let mut machine = touched(NEARLY_FULL - 1, swap_bytes);
        let full = NEARLY_FULL * PAGE;
        machine.event(advise(BASE + 5 * REGION, 100 * PAGE, Advice::Free));
        machine.event(advise(BASE + 7 * REGION, REGION, Advice::Free));
        assert_eq!(machine.counter("mapped_bytes"), full - PAGE, "nothing goes without need");
        machine.write(BASE + full - PAGE);
        machine.write(BASE + full);
        // 319 and 100 free frames are more than 384.
        assert_eq!(machine.counter("reclaimed_advised_bytes"), 100 * PAGE);
        assert_eq!(machine.counter("free_bytes"), (319 + 100 - 1) * PAGE);
        assert_eq!(mapped(&machine, BASE + 5 * REGION), 412);
        assert!(machine.translate(BASE + 5 * REGION + 99 * PAGE).is_none());
        assert_eq!(mapped(&machine, BASE + 7 * REGION), 512);
        // A dropped page is a new page at its next touch.
        let before = machine.kernel.work();
        machine.write(BASE + 5 * REGION);
        let work = machine.kernel.work() - before;
        assert_eq!((work.faults_4k, work.faults_swap, work.frames_zeroed_4k), (1, 0, 1));
        // 97 more pages leave 320 frames free, one more leaves 319.
        for page in 1..99 {
            machine.write(BASE + full + page * PAGE);
        }
        assert_eq!(mapped(&machine, BASE + 7 * REGION), 512);
        machine.write(BASE + full + 99 * PAGE);
        assert_eq!(mapped(&machine, BASE + 7 * REGION), 0);
        assert_eq!(machine.counter("reclaimed_advised_bytes"), 612 * PAGE);
        assert_eq!(machine.counter("swap_outs"), 0);
        machine.assert_memory_adds_up();
    }
}

/// One process of two has pages to drop, whichever it is.
#[test]
fn pages_of_the_first_or_the_last_process_are_dropped() {
    for advising in [0, 1] {
        let mut machine = swapping("base-pages", 64 * MB, 0);
        machine.map(BASE, 80 * MB);
        machine.event(switch(1));
        machine.map(BASE, 80 * MB);
        machine.event(switch(advising));
        (0..100).for_each(|page| machine.write(BASE + page * PAGE));
        machine.event(advise(BASE, 100 * PAGE, Advice::Free));
        machine.event(switch(1 - advising));
        let mut page = 0;
        while machine.counter("free_bytes") >= 320 * PAGE {
            machine.write(BASE + page * PAGE);
            page += 1;
        }
        assert_eq!(machine.counter("reclaimed_advised_bytes"), 0);
        machine.write(BASE + page * PAGE);
        assert_eq!(machine.counter("reclaimed_advised_bytes"), 100 * PAGE, "{advising}");
        machine.assert_memory_adds_up();
    }
}

/// A page that was dropped, from memory or from swap, is a new page at its next touch.
#[test]
fn what_is_dropped_loses_its_content() {
    let mut machine = touched(NEARLY_FULL - 1, 64 * MB);
    let space = machine.kernel.current();
    let places = [1, 2, 3].map(|index| BASE + index * PAGE);
    for (content, place) in (70..).zip(places) {
        machine.kernel.set_content(space, machine::page(place), content).unwrap();
    }
    let contents = |machine: &mut Machine| {
        places.map(|place| {
            machine.access(place, AccessKind::Read);
            machine.kernel.content(space, machine::page(place)).unwrap()
        })
    };
    assert_eq!(contents(&mut machine), [70, 71, 72]);
    machine.event(advise(places[0], PAGE, Advice::Free));
    machine.write(BASE + (NEARLY_FULL - 1) * PAGE);
    // Page 1 is dropped, which does not suffice, and the region of the other two is swapped.
    machine.write(BASE + NEARLY_FULL * PAGE);
    assert_eq!(machine.counter("reclaimed_advised_bytes"), PAGE);
    assert_eq!(machine.counter("swapped_bytes"), 511 * PAGE);
    machine.event(advise(places[1], PAGE, Advice::Free));
    let [dropped, dropped_from_swap, kept] = contents(&mut machine);
    assert_ne!(dropped, 70);
    assert_ne!(dropped_from_swap, 71);
    assert_eq!(kept, 72);
}

/// A 1GB page is not swapped: hugetlb memory stays.
#[test]
fn a_1gb_page_stays_in_memory() {
    let gigabyte = 1024 * MB;
    let mut machine = swapping("huge-1g", gigabyte + 8 * MB, 2 * gigabyte);
    machine.map(gigabyte, gigabyte);
    machine.write(gigabyte);
    machine.map(4 * gigabyte, 16 * MB);
    (0..4096).for_each(|page| machine.write(4 * gigabyte + page * PAGE));
    assert!(machine.counter("swap_outs") >= 2048);
    assert_eq!(machine.counter("huge_pages"), 1);
    assert_eq!(
        machine.counter("mapped_bytes") + machine.counter("swapped_bytes"),
        gigabyte + 16 * MB
    );
}

#[test]
fn advice_is_forgotten_with_the_pages() {
    let mut machine = swapping("base-pages", 64 * MB, 0);
    machine.event(populate(BASE, 16 * MB));
    machine.event(advise(BASE, REGION, Advice::Free));
    machine.event(advise(BASE, REGION, Advice::DontNeed));
    machine.event(advise(BASE + REGION, REGION, Advice::Free));
    machine.event(unmap(BASE + REGION, REGION));
    // One request ends the advice of several regions.
    machine.event(advise(BASE + 4 * REGION, 3 * REGION, Advice::Free));
    machine.event(advise(BASE + 4 * REGION, 3 * REGION, Advice::DontNeed));
    machine.event(populate(BASE, 16 * MB));
    // After the exit of a child, writes fault although no frame is shared: the kernel sees one of
    // them.
    machine.event(fork(1));
    machine.event(ProgramEvent::Exit { process: ProcessId(1) });
    machine.event(advise(BASE + 2 * REGION, 2 * PAGE, Advice::Free));
    machine.write(BASE + 2 * REGION);
    machine.map(BASE + 64 * MB, 64 * MB);
    machine.read(BASE + 64 * MB);
    // Of this region one page is mapped; the others are no memory that could be taken.
    machine.event(advise(BASE + 64 * MB, REGION, Advice::Free));
    exhaust(&mut machine, BASE + 64 * MB + PAGE);
    assert_eq!(machine.counter("reclaimed_advised_bytes"), 2 * PAGE);
    assert_eq!(mapped(&machine, BASE + 64 * MB), 511);
    assert!(machine.translate(BASE + 2 * REGION).is_some());
    assert!(machine.translate(BASE + 2 * REGION + PAGE).is_none());
    assert_eq!(mapped(&machine, BASE), 512);
    machine.assert_memory_adds_up();
}

/// The limit is memory alone, or memory plus swap. No page is lost on the way.
#[test]
fn a_full_swap_ends_in_out_of_memory() {
    for (swap_bytes, slots) in [(0, 0), (4 * MB, 1024), (3 * MB, 768)] {
        let mut machine = swapping("base-pages", 64 * MB, swap_bytes);
        machine.map(BASE, 128 * MB);
        let touched = exhaust(&mut machine, BASE);
        assert_eq!(machine.counter("swapped_bytes"), slots * PAGE);
        assert_eq!(machine.counter("mapped_bytes"), (touched - slots) * PAGE);
        assert_eq!(machine.counter("free_bytes"), 0);
        machine.assert_memory_adds_up();
        machine.event(unmap(BASE, 128 * MB));
        assert_eq!(machine.counter("swapped_bytes"), 0);
        assert_eq!(machine.counter("free_bytes"), 64 * MB);
    }
}

/// Swap has room for a region and a half: half of the second region is split or punched off.
#[test]
fn large_and_perforated_pages_are_swapped() {
    for (policy, split, punched) in [("thp", 1, 0), ("perforated", 0, 256)] {
        let mut machine = swapping(policy, 64 * MB, 3 * MB);
        machine.map(BASE, 128 * MB);
        exhaust(&mut machine, BASE);
        assert_eq!(machine.counter("swapped_bytes"), 3 * MB);
        assert_eq!((mapped(&machine, BASE), mapped(&machine, BASE + REGION)), (0, 256));
        let work = machine.kernel.work();
        assert_eq!((work.large_pages_split, work.subpages_punched), (split, punched), "{policy}");
        machine.assert_memory_adds_up();
        machine.assert_account();
        // With room again, a page of the former 2MB page is read back as a 4KB page. The hole is
        // patched, as its in-place frame is free again.
        machine.event(unmap(BASE + 32 * MB, 96 * MB));
        let (pages, holes) = (machine.counter("base_pages"), machine.counter("holes_allocated"));
        let before = machine.kernel.work();
        machine.event(populate(BASE + 24 * MB, REGION));
        machine.read(BASE + 7 * PAGE);
        machine.read(BASE + REGION + 3 * PAGE);
        let work = machine.kernel.work() - before;
        assert_eq!((work.faults_swap, work.faults_2m, work.faults_hole), (2, 0, 0));
        let more =
            (machine.counter("base_pages") - pages, machine.counter("holes_allocated") - holes);
        assert_eq!(more, if split == 1 { (2, 0) } else { (1, 0) });
        // A page of that region that stayed in memory is still in its place.
        assert_eq!(mapped(&machine, BASE + REGION), 257);
        machine.assert_memory_adds_up();
    }
}

/// A perforated page with foreign frames in its block is swapped with its holes; the foreign frames
/// stay.
#[test]
fn holes_are_swapped_with_their_page() {
    let config = KernelConfig {
        swap: Size(64 * MB),
        fragmentation: Some(perforate_config::read("portion=100%,holes=25%,clustered").unwrap()),
        ..KernelConfig::new(64 * MB)
    };
    let mut machine = Machine::configured("perforated", config);
    machine.map(BASE, 128 * MB);
    let (mut address, mut foreign) = (BASE, 0);
    while machine.counter("swap_outs") == 0 {
        foreign = machine.counter("foreign_bytes");
        machine.access(address, AccessKind::Write);
        address += PAGE;
    }
    let swapped = machine.counter("swap_outs");
    assert!(swapped >= 512 && swapped.is_multiple_of(512), "{swapped}");
    assert_eq!(mapped(&machine, BASE), 0);
    assert!(foreign > 0 && foreign.is_multiple_of(128 * PAGE));
    assert_eq!(machine.counter("foreign_bytes"), foreign);
    let (pages, perforated) = (machine.counter("base_pages"), machine.counter("perforated_pages"));
    for page in 0..512 {
        machine.write(BASE + page * PAGE);
    }
    let now = (machine.counter("base_pages"), machine.counter("perforated_pages"));
    let gone = machine.counter("swap_outs") - swapped;
    assert_eq!(now, (pages + 512, perforated - gone / 512));
    assert_eq!(machine.counter("swap_ins"), 512);
    machine.assert_memory_adds_up();
    machine.event(unmap(BASE, 128 * MB));
    assert_eq!(machine.counter("swapped_bytes"), 0);
    machine.assert_memory_adds_up();
}

/// Parent and child share a 2MB page except one hole: the holes are swapped, the page stays.
#[test]
fn what_others_map_stays() {
    let mut machine = swapping("perforated", 64 * MB, 64 * MB);
    machine.event(populate(BASE, REGION));
    machine.punch(BASE + 7 * PAGE, HoleContent::Moved).unwrap();
    machine.event(fork(1));
    machine.event(switch(1));
    machine.write(BASE + 7 * PAGE);
    machine.map(BASE + 32 * MB, 128 * MB);
    let mut address = BASE + 32 * MB;
    while machine.counter("swap_outs") < 2 {
        machine.access(address, AccessKind::Write);
        address += PAGE;
    }
    assert_eq!(machine.counter("swap_outs") % 512, 2, "two holes and whole regions");
    assert_eq!(mapped(&machine, BASE), 511);
    machine.event(switch(0));
    assert_eq!(mapped(&machine, BASE), 511);
    assert!(machine.translate(BASE + 7 * PAGE).is_none());
    let before = machine.kernel.work();
    machine.read(BASE + 7 * PAGE);
    let work = machine.kernel.work() - before;
    assert_eq!((work.faults_swap, work.faults_hole, work.frames_zeroed_4k), (1, 0, 0));
    assert_eq!(mapped(&machine, BASE), 512);
    // Patching the child's hole reads it back too, once its in-place frame is free.
    machine.event(switch(1));
    machine.event(unmap(BASE + 32 * MB, 128 * MB));
    let before = machine.kernel.work();
    machine.patch(BASE + 7 * PAGE).unwrap();
    let work = machine.kernel.work() - before;
    assert_eq!((work.pages_swapped_in, work.subpages_patched, work.frames_zeroed_4k), (1, 1, 0));
    assert_eq!(mapped(&machine, BASE), 512);
    machine.assert_memory_adds_up();
}

/// Contents follow their pages: to swap and back, to a child, and to another address by mremap.
#[test]
fn fork_and_remap_of_swapped_pages() {
    let mut machine = nearly_full(64 * MB);
    machine.kernel.set_content_distribution(perforate_config::read("zero=50%").unwrap()).unwrap();
    let content = |machine: &Machine, address| {
        machine.kernel.content(machine.kernel.current(), machine::page(address))
    };
    let known: Vec<_> = (0..512).map(|page| content(&machine, BASE + page * PAGE)).collect();
    machine.write(BASE + NEARLY_FULL * PAGE);
    assert_eq!(content(&machine, BASE), None, "swapped");
    // Make room for the child's tables, so that the fork swaps nothing out.
    machine.event(unmap(BASE + 16 * MB, 64 * MB));
    machine.event(fork(1));
    assert_eq!(machine.counter("swapped_bytes"), REGION, "slots are shared");
    machine.read(BASE);
    assert_eq!(machine.counter("swapped_bytes"), REGION, "the child still needs it");
    let from = VirtualAddress::new(BASE);
    let to = VirtualAddress::new(BASE + 64 * MB + 8 * PAGE);
    machine.event(ProgramEvent::Remap { from, from_length: REGION, to, to_length: REGION });
    machine.event(switch(1));
    machine.read(BASE);
    assert_eq!(machine.counter("swapped_bytes"), REGION - PAGE);
    machine.write(BASE + PAGE);
    assert_ne!(content(&machine, BASE + PAGE), known[1], "written, apart from the parent's");
    machine.event(switch(0));
    for page in 0..512 {
        let address = to.value() + page * PAGE;
        machine.access(address, AccessKind::Read);
        assert_eq!(content(&machine, address), known[page as usize]);
        assert!(machine.translate(BASE + page * PAGE).is_none());
    }
    machine.assert_memory_adds_up();
    machine.assert_copies_on_write();
    machine.assert_frames_have_one_content();
    assert_eq!(machine.counter("swapped_bytes"), 510 * PAGE, "the child's");
    machine.event(ProgramEvent::Exit { process: ProcessId(1) });
    assert_eq!(machine.counter("swapped_bytes"), 0);
}

/// Swapped pages that are unmapped or advised free leave swap without being read.
#[test]
fn swapped_pages_are_dropped() {
    let mut machine = nearly_full(64 * MB);
    machine.write(BASE + NEARLY_FULL * PAGE);
    let advice = [Advice::Free, Advice::DontNeed];
    for (place, advice) in advice.into_iter().enumerate() {
        machine.event(advise(BASE + place as u64 * PAGE, PAGE, advice));
        assert_eq!(machine.counter("swapped_bytes"), (511 - place as u64) * PAGE);
    }
    machine.map(BASE + 2 * PAGE, PAGE);
    assert_eq!(machine.counter("swapped_bytes"), 509 * PAGE);
    let before = machine.kernel.work();
    machine.write(BASE + 2 * PAGE);
    let work = machine.kernel.work() - before;
    assert_eq!((work.faults_4k, work.faults_swap, work.pages_swapped_in), (1, 0, 0));
}

/// A region larger than memory evicts its own pages, and every access succeeds.
#[test]
fn a_region_larger_than_memory_does_not_hang() {
    for policy in ["base-pages", "thp", "perforated"] {
        let mut machine = swapping(policy, MB, 4 * MB);
        machine.map(BASE, REGION);
        for _ in 0..3 {
            for page in 0..512 {
                machine.access(BASE + page * PAGE, AccessKind::Write);
            }
        }
        let kept = machine.counter("mapped_bytes") + machine.counter("swapped_bytes");
        assert_eq!(kept, REGION, "{policy}");
        assert!(machine.counter("swap_ins") >= 512, "{policy}");
        machine.assert_memory_adds_up();
    }
    // Populates more at once than fits into memory.
    let mut machine = swapping("thp", 16 * MB, 64 * MB);
    machine.event(populate(BASE, 40 * MB));
    assert_eq!(machine.counter("mapped_bytes") + machine.counter("swapped_bytes"), 40 * MB);
    machine.assert_memory_adds_up();
}

/// Half of every block is free: no block is wholly free, but many could be emptied.
fn checkered(defrag: Defrag) -> Machine {
    let config = KernelConfig { defrag, ..KernelConfig::new(64 * MB) };
    let mut machine = Machine::configured("thp", config);
    machine.event(map(BASE, 64 * MB));
    machine.event(advise(BASE, 64 * MB, Advice::NoHugePage));
    exhaust(&mut machine, BASE);
    for page in (0..64 * MB / PAGE).step_by(2) {
        machine.event(unmap(BASE + page * PAGE, PAGE));
    }
    machine
}

#[test]
fn modes_of_fault_time_compaction() {
    for (defrag, large_if_advised, large_else, wakes_if_advised, wakes_else) in [
        (Defrag::Always, true, true, false, false),
        (Defrag::Defer, false, false, true, true),
        (Defrag::DeferMadvise, true, false, false, true),
        (Defrag::Madvise, true, false, false, false),
        (Defrag::Never, false, false, false, false),
    ] {
        for (advised, large, wakes) in
            [(true, large_if_advised, wakes_if_advised), (false, large_else, wakes_else)]
        {
            let what = format!("{defrag} {advised}");
            let mut machine = checkered(defrag);
            let start = BASE + 256 * MB;
            machine.map(start, 2 * REGION);
            if advised {
                machine.event(advise(start, 2 * REGION, Advice::HugePage));
            }
            machine.write(start);
            assert_eq!(machine.counter("large_pages"), u64::from(large), "{what}");
            assert_eq!(machine.counter("compaction_frames_migrated") > 0, large, "{what}");
            let mut pass = || machine.act(|kernel| Ok(kernel.kcompactd_pass())).unwrap();
            let first = pass();
            assert_eq!(first.blocks_emptied > 0, wakes, "{what}: {first:?}");
            assert_eq!(pass(), CompactionCounts::default(), "{what}: it sleeps again");
            // The blocks that kcompactd emptied serve the next fault.
            machine.write(start + REGION);
            let large = 2 * u64::from(large) + u64::from(wakes);
            assert_eq!(machine.counter("large_pages"), large, "{what}");
            machine.assert_memory_adds_up();
            machine.assert_account();
        }
    }
}

/// While nothing can be emptied, kcompactd skips 1, 3, 7… of its calls.
#[test]
fn kcompactd_gives_up_for_a_while() {
    let config = KernelConfig { defrag: Defrag::Defer, ..KernelConfig::new(64 * MB) };
    let mut machine = Machine::configured("thp", config);
    machine.map(BASE, 256 * MB);
    // Memory is full of one program's pages, with one free frame in each block: nothing can be
    // migrated.
    machine.event(advise(BASE, 64 * MB, Advice::NoHugePage));
    exhaust(&mut machine, BASE);
    machine.event(unmap(BASE, 300 * PAGE));
    let mut passes = Vec::new();
    for region in 0..16 {
        machine.write(BASE + 64 * MB + region * REGION);
        let pass = machine.act(|kernel| Ok(kernel.kcompactd_pass())).unwrap();
        assert_eq!(pass.blocks_emptied, 0);
        if pass.blocks_scanned > 0 {
            passes.push(region);
        }
    }
    assert_eq!(passes, [0, 2, 6, 14]);
}

#[test]
fn modes_have_linux_names() {
    for name in ["always", "defer", "defer+madvise", "madvise", "never"] {
        assert_eq!(perforate_config::read::<Defrag>(name).unwrap().to_string(), name);
    }
    assert!(perforate_config::read::<Defrag>("Always").is_err());
}

/// A fork needs as many frames for the child's tables as the parent has: 3 and one for each of 32 regions.
#[test]
fn a_fork_makes_room_for_the_childs_tables() {
    for (free, swapped) in [(384 + 35, 0), (384 + 34, 512)] {
        let mut machine = touched(NEARLY_FULL + 319 - free, 64 * MB);
        assert_eq!(machine.counter("free_bytes"), free * PAGE);
        assert_eq!(machine.counter("page_table_bytes"), 35 * PAGE);
        machine.event(fork(1));
        assert_eq!(machine.counter("swap_outs"), swapped, "{free}");
        machine.assert_memory_adds_up();
    }
}
