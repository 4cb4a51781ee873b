//! Placement of memory: closed forms, injected fragmentation, large memories, exhaustion.

use crate::machine;
use crate::machine::{BASE, GB, MB, Machine, populate};
use perforate_os::{FaultOutcome, Kernel, KernelConfig, OsError, TableFormat};
use perforate_types::{AccessKind, Advice, ProgramEvent, VirtualAddress};

const FRAGMENTED: &str = "portion=50%,holes=25%,clustered";

/// A machine with 256MB populated at [`BASE`]: 128 regions, two groups of 64.
fn populated(policy: &str, fragmentation: Option<&str>) -> Machine {
    let mut machine = Machine::with(policy, GB, fragmentation, false);
    machine.event(populate(BASE, 256 * MB));
    machine
}

#[test]
fn frames_used_are_footprint_and_tables_and_bitmap() {
    // 256MB in 4KB pages are 65536 frames. Nodes: the root, one of level 3, one of level 2, 128 of
    // level 1.
    let machine = populated("base-pages", None);
    assert_eq!(machine.counter("free_bytes"), GB - (65536 + 3 + 128) * 4096);
    // 2MB pages need three nodes.
    let machine = populated("thp", None);
    assert_eq!(machine.counter("free_bytes"), GB - (65536 + 3) * 4096);
    // Perforated format without fragmentation: the level-2 node is a pair. The bitmap has 1GB /
    // 32768 = 32KB, 8 frames.
    let machine = populated("perforated", None);
    assert_eq!(machine.counter("free_bytes"), GB - (65536 + 4 + 8) * 4096);
    assert_eq!(machine.counter("hole_bitmap_bytes"), GB / 32768);
    let bitmap = machine.kernel.hole_bitmap().unwrap();
    assert_eq!(bitmap.value(), GB - GB / 32768, "at the top of memory");
    // Half of the 128 regions are fragmented: 64 nodes of holes, 64 × 128 foreign frames, and as
    // many frames elsewhere for the data of the holes.
    let machine = populated("perforated", Some(FRAGMENTED));
    assert_eq!(machine.counter("free_bytes"), GB - (65536 + 64 * 128 + 4 + 64 + 8) * 4096);
    assert_eq!(machine.counter("perforated_pages"), 64);
    assert_eq!(machine.counter("large_pages"), 64);
    assert_eq!(machine.counter("holes_allocated"), 64 * 128);
    machine.assert_memory_adds_up();
}

#[test]
fn every_policy_sees_the_same_fragmented_regions() {
    // 64 whole regions have 2MB pages; 64 fragmented regions have 512 4KB pages each.
    let machine = populated("thp", Some(FRAGMENTED));
    assert_eq!(machine.counter("large_pages"), 64);
    assert_eq!(machine.counter("base_pages"), 64 * 512);
    assert_eq!(machine.counter("foreign_bytes"), 64 * 128 * 4096);
    assert!((machine.kernel.large_page_coverage() - 0.5).abs() < 1e-9);
    let base = populated("base-pages", Some(FRAGMENTED));
    assert_eq!(base.counter("base_pages"), 65536);
    assert_eq!(base.counter("foreign_bytes"), 64 * 128 * 4096);
    let ideal = populated("ideal", None);
    assert_eq!(ideal.counter("large_pages"), 128);
    let perforated = populated("perforated", Some(FRAGMENTED));
    // 64 × 512 + 64 × 384 of 65536 pages: 87.5 %.
    assert!((perforated.kernel.large_page_coverage() - 0.875).abs() < 1e-9);
    for region in 0..128 {
        let address = BASE + region * 2 * MB;
        let is_linear = |machine: &Machine| {
            let first = machine.frame(address).unwrap();
            (0..512).all(|index| machine.frame(address + index * 4096) == Some(first + index))
        };
        assert_eq!(is_linear(&machine), is_linear(&perforated), "region {region}");
        machine.assert_memory_adds_up();
    }
    base.assert_memory_adds_up();
}

/// Others' data lie in the same frames whether a policy wants no 2MB pages, wants them with advice only, or wants
/// other sizes. Where the program has 4KB pages as well, they lie in the same frames, too.
#[test]
fn a_policy_without_2mb_pages_sees_the_same_fragmented_memory() {
    let base = populated("base-pages", Some(FRAGMENTED));
    let unadvised = populated("thp-madvise", Some(FRAGMENTED));
    for page in 0..65536 {
        let address = BASE + page * 4096;
        assert_eq!(unadvised.frame(address), base.frame(address), "page {page}");
    }
    for policy in ["thp-madvise", "mthp:64K"] {
        let machine = populated(policy, Some(FRAGMENTED));
        assert_eq!(machine.counter("foreign_bytes"), 64 * 128 * 4096, "{policy}");
        machine.assert_memory_adds_up();
    }
}

#[test]
fn unallocated_holes_stay_empty_until_touched() {
    let text = "portion=100%,holes=90%,dispersed,unallocated";
    let mut machine = populated("perforated", Some(text));
    // round(0.9 × 512) = 461 holes in each of 128 pages.
    assert_eq!(machine.counter("holes_unallocated"), 128 * 461);
    assert_eq!(machine.counter("mapped_bytes"), 128 * 51 * 4096);
    assert_eq!(machine.counter("faulted_bytes"), 128 * 51 * 4096);
    let fragmentation = machine.kernel.config().fragmentation.unwrap();
    let holes = fragmentation.holes(42, BASE / (2 * MB)).unwrap();
    let hole = holes.iter().last().unwrap() as u64;
    machine.write(BASE + hole * 4096);
    assert_eq!(machine.counter("hole_faults"), 1);
    machine.assert_memory_adds_up();
}

#[test]
fn thresholds_decide_which_blocks_are_perforated() {
    // A clustered run of 52 sub-pages (10 %) lies in one or two 256KB regions.
    let few = "perforated:max-hole-share=25%,max-filter-bits=4";
    let machine = populated(few, Some("portion=50%,holes=10%,clustered"));
    assert_eq!(machine.counter("perforated_pages"), 64);
    // 25 % is not below the limit of 25 %.
    let machine = populated(few, Some(FRAGMENTED));
    assert_eq!(machine.counter("perforated_pages"), 0);
    assert_eq!(machine.counter("base_pages"), 64 * 512);
    // 52 dispersed holes almost certainly set all eight filter bits: a bit stays 0 with (7/8)^52 =
    // 0.1 %.
    let machine = populated(few, Some("portion=50%,holes=10%,dispersed"));
    assert_eq!(machine.counter("perforated_pages"), 0);
}

#[test]
fn mapping_and_unmapping_a_fragmented_region_does_not_eat_memory() {
    for policy in ["base-pages", "thp", "perforated"] {
        let mut machine = Machine::fragmented(policy, 64 * MB, FRAGMENTED);
        for _ in 0..200 {
            machine.event(populate(BASE, 16 * MB));
            machine.event(machine::unmap(BASE, 16 * MB));
        }
        assert!(machine.counter("foreign_bytes") <= 8 * 128 * 4096, "{policy}");
        machine.assert_memory_adds_up();
    }
}

#[test]
fn a_terabyte_and_more_need_no_host_memory_in_proportion() {
    for memory_bytes in [1 << 40, 16 << 40] {
        let mut machine = Machine::fragmented("perforated", memory_bytes, FRAGMENTED);
        machine.map(BASE, 512 * GB);
        for step in 0..512 {
            machine.write(BASE + step * GB);
        }
        // Blocks come from the bottom and single frames from the top: few runs of untouched chunks,
        // and few partly free pageblocks beside the fragmented blocks.
        let (runs, partial) = machine.kernel.zones().pieces();
        assert!(runs <= 2 && partial <= 600, "{runs} runs, {partial} chunks");
        assert_eq!(machine.counter("hole_bitmap_bytes"), memory_bytes / 32768);
    }
}

#[test]
fn large_blocks_run_out_before_frames_do() {
    let mut machine = Machine::new("thp", 16 * MB);
    machine.map(BASE, 32 * MB);
    let mut touched = 0;
    let error = loop {
        let space = machine.kernel.current();
        let page = machine::page(BASE + touched * 4096);
        if machine.translate(BASE + touched * 4096).is_none() {
            let fault = machine.act(|k| k.fault(space, page, AccessKind::Write));
            match fault {
                Ok(outcome) => assert_eq!(outcome, FaultOutcome::Mapped),
                Err(error) => break error,
            }
        }
        touched += 1;
    };
    // Seven whole blocks. The eighth holds the nodes and 4KB pages: 512 − 3 directory nodes − 1
    // level-1 node = 508.
    assert_eq!(machine.counter("large_pages"), 7);
    assert_eq!(machine.counter("base_pages"), 508);
    machine.assert_memory_adds_up();
    let OsError::OutOfMemory { asked_bytes, free_bytes, memory_bytes, enough_bytes } = error else {
        panic!("{error}");
    };
    assert_eq!((asked_bytes, free_bytes, memory_bytes), (4096, 0, 16 * MB));
    let text = error.to_string();
    assert!(text.starts_with("out of memory: 4K asked, none of 16M free;"), "{text}");
    // The size in the error message suffices.
    let mut machine = Machine::new("thp", enough_bytes);
    machine.event(populate(BASE, 32 * MB));
    assert!(enough_bytes < 48 * MB);
}

#[test]
fn impossible_memories_are_refused() {
    let make = |memory_bytes, policy: &str, shadow_directories| {
        let tables = TableFormat { shadow_directories, ..TableFormat::default() };
        let config = KernelConfig { tables, ..KernelConfig::new(memory_bytes) };
        Kernel::new(config, machine::policy(policy)).err().map(|error| error.to_string())
    };
    for (memory_bytes, reason) in
        [(0, "too small"), (4096, "too small"), (65537, "not a multiple"), (1 << 53, "52 bits")]
    {
        let error = make(memory_bytes, "thp", false).expect("refused");
        assert!(error.contains(reason), "{error}");
    }
    assert!(make(GB, "perforated", false).unwrap().contains("shadow directories"));
    assert_eq!(make(64 << 10, "thp", false), None);
}

#[test]
fn gigabyte_pages_where_memory_and_area_allow() {
    let mut machine = Machine::new("huge-1g", 4 * GB);
    machine.map(GB, 2 * GB + 2 * MB);
    for address in [GB, 2 * GB, 3 * GB] {
        machine.write(address);
    }
    assert_eq!(machine.counter("huge_pages"), 2);
    assert_eq!(machine.counter("large_pages"), 1);
    assert_eq!(machine.frame(GB + 5 * 4096), Some(5));
    let mut machine = Machine::fragmented("huge-1g", 4 * GB, FRAGMENTED);
    machine.map(GB, GB);
    machine.write(GB);
    assert_eq!(machine.counter("huge_pages"), 0);
}

/// Merging and reclaim search for regions below 1GB. They skip a 1GB page, with or without a 2MB
/// page behind it.
#[test]
fn gigabyte_pages_are_no_regions() {
    let mut machine = Machine::new("huge-1g", 4 * GB);
    machine.map(GB, 2 * GB + 2 * MB);
    let found = |machine: &Machine| {
        let space = machine.kernel.space(machine.kernel.current()).expect("it lives");
        [0, GB, GB + 2 * MB, 3 * GB, 3 * GB + 2 * MB].map(|from| space.next_region(from / (2 * MB)))
    };
    machine.write(GB);
    assert_eq!((machine.counter("huge_pages"), found(&machine)), (1, [None; 5]));
    machine.write(3 * GB);
    let large = Some(3 * GB / (2 * MB));
    assert_eq!(found(&machine), [large, large, large, large, None]);
}

#[test]
fn with_madvise_only_advised_areas_get_large_pages() {
    let mut machine = Machine::new("thp-madvise", 64 * MB);
    machine.map(BASE, 8 * MB);
    let start = VirtualAddress::new(BASE + 4 * MB);
    machine.event(ProgramEvent::Advise { start, length: 4 * MB, advice: Advice::HugePage });
    machine.write(BASE);
    machine.write(BASE + 4 * MB);
    assert_eq!((machine.counter("base_pages"), machine.counter("large_pages")), (1, 1));
    machine.event(ProgramEvent::Advise { start, length: 4 * MB, advice: Advice::NoHugePage });
    machine.write(BASE + 6 * MB);
    assert_eq!((machine.counter("base_pages"), machine.counter("large_pages")), (2, 1));
}

/// The layout is asked before the mechanism of 1GB pages.
#[test]
fn a_layout_takes_precedence_over_1gb_pages() {
    let mut machine = Machine::new("laid-out-over-1g", 4 * GB);
    machine.map(GB, 2 * GB);
    machine.write(GB);
    let pages = |machine: &Machine| {
        ["base_pages", "large_pages", "huge_pages"].map(|name| machine.counter(name))
    };
    assert_eq!(pages(&machine), [0, 1, 0]);
    machine.write(2 * GB);
    assert_eq!(pages(&machine), [0, 1, 1]);
    machine.assert_memory_adds_up();
}

/// Holes may begin at multiples of 1, 2, 4 … 512 sub-pages.
#[test]
fn holes_are_aligned_to_powers_of_two_up_to_a_whole_region() {
    let is_read = |align: u32| {
        let text = format!("portion=50%,holes=25%,clustered,align={align}");
        perforate_config::read::<perforate_os::Fragmentation>(&text).is_ok()
    };
    for (align, is_allowed) in [(0, false), (1, true), (3, false), (512, true), (1024, false)] {
        assert_eq!(is_read(align), is_allowed, "{align}");
    }
}
