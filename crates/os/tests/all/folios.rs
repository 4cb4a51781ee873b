//! Folios of 16KB to 1MB (multi-size THP), worked by hand.
//!
//! Memory has 64MB. Pages are counted from `BASE`, which begins a block of every size.

use std::ops::Range;

use perforate_config::{Size, read};
use perforate_os::{FolioSizes, KernelConfig, TableFormat};
use perforate_types::{
    AccessKind, Advice, Contiguity, Permissions, ProcessId, ProgramEvent, Shootdown, SpaceId,
    TableOperation, Update, VirtualAddress,
};

use crate::machine::{BASE, MB, Machine, advise, fork, map, page, protect, remap, switch, unmap};

const PAGE: u64 = 4096;
const KB64: u64 = 16 * PAGE;
const SPACE: SpaceId = SpaceId(0);

/// A machine whose entries can be joined, under a policy and with an option `mthp`.
fn machine_with(policy: &str, mthp: &str) -> Machine {
    let tables =
        TableFormat { contiguity: Some(Contiguity::ContiguousBit), ..TableFormat::default() };
    let mthp: Option<FolioSizes> = (!mthp.is_empty()).then(|| read(mthp).expect("valid"));
    let swap = Size(8 * MB);
    let config = KernelConfig { tables, mthp, swap, ..KernelConfig::new(64 * MB) };
    Machine::configured(policy, config)
}

fn machine(sizes: &str) -> Machine {
    machine_with("base-pages", sizes)
}

/// Numbers of the mapped pages, counted from `BASE`, of the first 2MB.
fn mapped(machine: &Machine) -> Vec<u64> {
    (0..512).filter(|index| machine.frame(BASE + index * PAGE).is_some()).collect()
}

/// Operations of the last call that join or part entries: page counted from `BASE`, and true if it
/// joins.
fn joins(machine: &Machine) -> Vec<(u64, bool)> {
    let found = machine.updates.iter().filter_map(|update| match update {
        Update::Table(TableOperation::Join { page: at, contiguity, .. }) => {
            Some((at.number() - page(BASE).number(), contiguity.is_some()))
        }
        _ => None,
    });
    found.collect()
}

fn page_down(index: u64) -> Update {
    Shootdown::Page { space: SPACE, page: page(BASE + index * PAGE) }.into()
}

fn assert_contiguous(machine: &Machine, pages: Range<u64>) {
    let first = machine.frame(BASE + pages.start * PAGE).expect("mapped");
    assert_eq!(first % (pages.end - pages.start), 0, "frame {first:#x} is not aligned");
    for (index, at) in pages.enumerate() {
        assert_eq!(machine.frame(BASE + at * PAGE), Some(first + index as u64), "page {at}");
    }
}

#[test]
fn a_first_touch_maps_the_aligned_block_around_it() {
    for (size, pages) in [("16K", 4), ("64K", 16), ("1M", 256)] {
        let mut machine = machine(size);
        machine.map(BASE, 2 * MB);
        machine.write(BASE + (pages + 3) * PAGE);
        assert_eq!(mapped(&machine), (pages..2 * pages).collect::<Vec<_>>());
        assert_contiguous(&machine, pages..2 * pages);
        let work = machine.kernel.work();
        assert_eq!((work.faults_folio, work.faults_4k, work.frames_zeroed_4k), (1, 0, pages));
        assert_eq!(machine.counter("folio_pages_around"), pages - 1);
        assert_eq!(machine.counter(&format!("folios_{}", size.to_lowercase())), 1);
        // The program touched one page, and memory holds the whole folio.
        assert_eq!(machine.counter("faulted_bytes"), PAGE);
        assert_eq!(machine.counter("mapped_bytes"), pages * PAGE);
        machine.assert_account();
        machine.assert_memory_adds_up();
    }
}

/// The area has pages 2 to 37: a block of 16 fits from 16 on only, blocks of 4 from 4 to 35.
#[test]
fn a_block_must_lie_in_the_area() {
    let mut machine = machine("64K,16K");
    machine.map(BASE + 2 * PAGE, 36 * PAGE);
    for (touched, expected) in [(3, 2..4), (5, 4..8), (20, 16..32), (33, 32..36), (37, 36..38)] {
        let before = mapped(&machine);
        machine.write(BASE + touched * PAGE);
        let new: Vec<_> = mapped(&machine).into_iter().filter(|at| !before.contains(at)).collect();
        // No block fits around pages 2, 3, 36 and 37, which are mapped one by one.
        let alone = vec![touched];
        let whole = expected.end - expected.start >= 4;
        assert_eq!(new, if whole { expected.collect() } else { alone });
    }
    assert_eq!((machine.counter("folios_64k"), machine.counter("folios_16k")), (1, 2));
    assert_eq!(machine.counter("folio_fallbacks"), 0, "memory was there");
    machine.assert_memory_adds_up();
}

#[test]
fn a_block_in_which_a_page_is_mapped_is_passed_over() {
    let mut machine = machine("64K,16K");
    machine.map(BASE, 2 * MB);
    machine.event(advise(BASE + 6 * PAGE, PAGE, Advice::NoHugePage));
    machine.write(BASE + 6 * PAGE);
    assert_eq!(mapped(&machine), [6], "refused areas have single pages");
    machine.event(advise(BASE + 6 * PAGE, PAGE, Advice::HugePage));
    machine.event(unmap(BASE + 40 * PAGE, PAGE));
    // Page 6 lies in the blocks 0 to 15 and 4 to 7. Neither is offered around page 5.
    machine.write(BASE + 5 * PAGE);
    assert_eq!(mapped(&machine), [5, 6]);
    machine.write(BASE + 9 * PAGE);
    assert_eq!(mapped(&machine), [5, 6, 8, 9, 10, 11]);
    machine.assert_memory_adds_up();
}

/// Every second block of 64KB of the free memory is taken before, so that no 128KB is free.
#[test]
fn without_a_free_block_the_next_smaller_size_is_taken() {
    let mut machine = machine("128K,64K");
    machine.map(BASE, 128 * MB);
    let refused = advise(BASE, 128 * MB, Advice::NoHugePage);
    machine.event(refused);
    let touched = 14_000;
    for at in 0..touched {
        machine.write(BASE + at * PAGE);
    }
    // Frames of consecutive pages are consecutive; every second 64KB is given back.
    for block in (0..touched / 16).step_by(2) {
        machine.event(advise(BASE + block * KB64, KB64, Advice::DontNeed));
    }
    let rest = machine.counter("free_bytes");
    let other = BASE + 256 * MB;
    machine.map(other, 64 * MB);
    // The rest of memory, in larger blocks, is used first by what needs them.
    let mut at = other;
    while machine.counter("folio_fallbacks") == 0 {
        machine.write(at);
        at += 2 * KB64;
    }
    assert!(machine.counter("folios_128k") * 2 * KB64 < rest);
    assert_eq!(machine.counter("folios_64k"), 1, "64KB was free");
    let (before, at) = (machine.counter("mapped_bytes"), at + 2 * KB64);
    machine.write(at);
    assert_eq!(machine.counter("mapped_bytes"), before + KB64);
    assert_eq!(machine.counter("folio_fallbacks"), 2);
    machine.assert_memory_adds_up();
}

#[test]
fn sizes_are_enabled_as_sysfs_has_it() {
    let pages = |policy: &str, sizes: &str, advised: bool| {
        let mut machine = machine_with(policy, sizes);
        // No 2MB fits.
        machine.map(BASE, MB);
        if advised {
            machine.event(advise(BASE, MB, Advice::HugePage));
        }
        machine.write(BASE);
        machine.assert_memory_adds_up();
        mapped(&machine).len()
    };
    assert_eq!(pages("base-pages", "64K=madvise,16K", false), 4);
    assert_eq!(pages("base-pages", "64K=madvise,16K", true), 16);
    assert_eq!(pages("base-pages", "64K=inherit", true), 1, "there are no 2MB pages");
    assert_eq!(pages("thp", "64K=inherit", false), 16);
    assert_eq!(pages("thp-madvise", "64K=inherit", false), 1);
    assert_eq!(pages("thp-madvise", "64K=inherit", true), 16);
    assert_eq!(pages("thp-madvise", "64K", false), 16, "always is always");
    assert_eq!(pages("mthp:64K", "", false), 16, "the policy's own");
    assert_eq!(pages("mthp:64K", "64K=never,32K", false), 8, "the option overrides it");
}

/// A 2MB page where one fits, 64KB in the rest of the area.
#[test]
fn large_pages_come_first() {
    let mut machine = machine_with("thp", "64K");
    machine.map(BASE, 2 * MB + 96 * 1024);
    machine.write(BASE + 5 * PAGE);
    assert_eq!((machine.counter("large_pages"), machine.counter("folios_64k")), (1, 0));
    machine.write(BASE + 2 * MB);
    machine.write(BASE + 2 * MB + KB64);
    assert_eq!(machine.counter("base_pages"), 16 + 1, "a block and, of 32KB, one page");
    machine.assert_memory_adds_up();
}

#[test]
fn shared_memory_and_files_have_single_pages() {
    let mut machine = machine("64K");
    machine.event(crate::machine::map_shared(BASE, MB));
    machine.write(BASE);
    assert_eq!(mapped(&machine), [0]);
}

#[test]
fn the_entries_of_whole_blocks_of_64k_are_joined() {
    for (size, expected) in [("16K", vec![]), ("64K", vec![(16, true)])] {
        let mut machine = machine(size);
        machine.map(BASE, MB);
        machine.write(BASE + 16 * PAGE);
        assert_eq!(joins(&machine), expected);
    }
    let mut machine = machine("256K");
    machine.map(BASE, MB);
    machine.write(BASE + 16 * PAGE);
    assert_eq!(joins(&machine), [(0, true), (16, true), (32, true), (48, true)]);
    assert_eq!(machine.kernel.work().entries_joined, 64);
    machine.assert_account();
}

/// Joining is for folios: 16 single pages may lie in 16 aligned frames and stay as they are. Without
/// hardware for them, no entries are joined.
#[test]
fn only_folios_are_joined_and_only_for_hardware_that_knows_it() {
    let mut machine = machine("");
    machine.map(BASE, MB);
    (0..16).for_each(|at| machine.write(BASE + at * PAGE));
    assert_eq!(machine.kernel.work().entries_joined, 0);
    let config = KernelConfig::new(64 * MB);
    let mut machine = Machine::configured("mthp:64K", config);
    machine.map(BASE, MB);
    machine.write(BASE);
    assert_eq!(mapped(&machine).len(), 16);
    assert_eq!(machine.kernel.work().entries_joined, 0);
}

#[test]
fn unmapping_one_page_parts_its_block() {
    let mut machine = machine("64K");
    machine.map(BASE, MB);
    machine.write(BASE);
    let before = machine.counter("free_bytes");
    machine.event(unmap(BASE + 5 * PAGE, PAGE));
    let parted = TableOperation::Join { space: SPACE, page: page(BASE), contiguity: None };
    assert_eq!(machine.updates[..2], [parted.into(), page_down(0)]);
    assert_eq!(mapped(&machine), (0..16).filter(|&at| at != 5).collect::<Vec<_>>());
    assert_eq!(machine.counter("free_bytes"), before + PAGE, "the others stay mapped");
    // A page that is mapped there later belongs to no folio.
    machine.map(BASE + 5 * PAGE, PAGE);
    machine.write(BASE + 5 * PAGE);
    assert_eq!(joins(&machine), []);
    machine.assert_account();
    machine.assert_memory_adds_up();
}

/// The entries go as they are: nothing has to be parted.
#[test]
fn unmapping_a_whole_block_parts_nothing() {
    let mut machine = machine("128K");
    machine.map(BASE, MB);
    machine.write(BASE);
    machine.event(unmap(BASE, KB64));
    assert_eq!(joins(&machine), []);
    assert_eq!(mapped(&machine), (16..32).collect::<Vec<_>>());
    machine.event(unmap(BASE + 31 * PAGE, PAGE));
    assert_eq!(joins(&machine), [(16, false)], "the other block was joined");
    machine.assert_memory_adds_up();
}

#[test]
fn protecting_one_page_parts_its_block_until_all_agree() {
    let mut machine = machine("64K");
    machine.map(BASE, MB);
    machine.write(BASE);
    machine.event(protect(BASE + 3 * PAGE, PAGE, Permissions::READ));
    assert_eq!(joins(&machine), [(0, false)]);
    // All but page 3 change; the last of the block joins it, as they agree again.
    machine.event(protect(BASE, KB64, Permissions::READ));
    assert_eq!(joins(&machine), [(0, true)]);
    machine.event(protect(BASE, KB64, Permissions::READ_WRITE));
    assert_eq!(joins(&machine), [(0, false), (0, true)]);
    machine.assert_account();
    machine.assert_memory_adds_up();
}

/// Parent and child map the same frames, read-only and joined. A copied page parts the block of the
/// process that wrote; the folio of the other stays.
#[test]
fn fork_joins_both_and_a_copied_page_leaves_its_folio() {
    let mut machine = machine("64K");
    machine.map(BASE, MB);
    machine.write(BASE);
    machine.event(fork(1));
    let joined = |machine: &Machine| {
        let table = machine.updates.iter().filter_map(|update| match update {
            Update::Table(TableOperation::Join { space, contiguity, .. }) => {
                Some((space.0, contiguity.is_some()))
            }
            _ => None,
        });
        table.collect::<Vec<_>>()
    };
    assert_eq!(joined(&machine), [(0, false), (0, true), (1, true)]);
    assert_eq!(machine.mapped_frames().len(), 16);
    machine.event(switch(1));
    machine.write(BASE + 7 * PAGE);
    assert_eq!(joined(&machine), [(1, false)]);
    assert_eq!(machine.mapped_frames().len(), 17, "one page was copied, not the folio");
    machine.assert_copies_on_write();
    machine.event(ProgramEvent::Exit { process: ProcessId(1) });
    machine.event(switch(0));
    // The parent is alone: a write makes its page writable, and at the last one all agree.
    for at in 0..16 {
        machine.write(BASE + at * PAGE);
        let expected: &[_] = if at == 0 { &[(0, false)] } else { &[] };
        assert_eq!(joined(&machine), if at == 15 { &[(0, true)] } else { expected }, "page {at}");
    }
    machine.assert_account();
    machine.assert_memory_adds_up();
}

/// A block that moves by a multiple of 64KB stays contiguous, others do not.
#[test]
fn moved_blocks_are_joined_where_they_are_aligned() {
    for (offset, expected) in [(KB64, vec![(0, false), (512 + 16, true)]), (PAGE, vec![(0, false)])]
    {
        let mut machine = machine("64K");
        machine.map(BASE, KB64);
        machine.write(BASE);
        machine.event(remap(BASE, KB64, BASE + 2 * MB + offset, KB64));
        assert_eq!(joins(&machine), expected);
        machine.assert_memory_adds_up();
    }
}

/// Two frames are wanted; reclaim takes pages of the folio one by one and the rest stays mapped. A
/// page that is read back comes alone, although its block is otherwise unmapped.
#[test]
fn swap_takes_pages_and_not_folios() {
    let mut machine = machine("64K");
    machine.map(BASE, 80 * MB);
    let mut at = 0;
    while machine.counter("swap_outs") == 0 {
        machine.write(BASE + at * PAGE);
        at += 1;
        assert!(at < 20_480, "memory was enough");
        while machine.frame(BASE + at * PAGE).is_some() {
            at += 1;
        }
    }
    let out =
        (0..at).find(|index| machine.frame(BASE + index * PAGE).is_none()).expect("one is out");
    let folios = machine.counter("folios_64k");
    let before = machine.counter("swap_ins");
    machine.read(BASE + out * PAGE);
    assert_eq!(machine.counter("swap_ins"), before + 1);
    assert_eq!(machine.counter("folios_64k"), folios);
    machine.assert_memory_adds_up();
    machine.assert_account();
}

/// A folio would take the last frames above the watermark, so the page is mapped alone.
#[test]
fn folios_leave_the_watermark_alone() {
    let mut machine = machine("1M");
    machine.map(BASE, 80 * MB);
    let mut at = BASE;
    while machine.counter("folio_fallbacks") == 0 {
        machine.write(at);
        at += MB;
    }
    let before = machine.counter("mapped_bytes");
    machine.write(at);
    assert_eq!(machine.counter("mapped_bytes"), before + PAGE);
    assert_eq!(machine.counter("swap_outs"), 0);
}

/// A 2MB page that is split becomes 4KB entries of one folio: blocks that keep all pages are joined.
#[test]
fn the_parts_of_a_split_large_page_are_joined() {
    let mut machine = machine_with("thp", "");
    machine.map(BASE, 2 * MB);
    machine.write(BASE);
    machine.event(unmap(BASE + 17 * PAGE, PAGE));
    let expected: Vec<_> =
        (0..32).filter(|&block| block != 1).map(|block| (block * 16, true)).collect();
    assert_eq!(joins(&machine), expected);
    assert_eq!(machine.kernel.work().large_pages_split, 1);
    machine.assert_memory_adds_up();
}

#[test]
fn populating_touches_each_folio_once() {
    let mut machine = machine("64K");
    machine.event(map(BASE, MB));
    machine.event(crate::machine::populate(BASE, MB));
    assert_eq!((machine.counter("folios_64k"), machine.counter("base_pages")), (16, 256));
    let space = machine.kernel.current();
    let at = VirtualAddress::new(BASE + PAGE).page();
    machine.act(|kernel| kernel.fault(space, at, AccessKind::Read)).unwrap();
    assert_eq!(machine.counter("spurious_faults"), 1);
}

/// Pages that are wanted by their order: folios and 1GB pages, where the policy makes large pages at all.
#[test]
fn an_order_that_an_area_wants_is_taken() {
    let pages = |machine: &Machine| {
        ["base_pages", "large_pages", "huge_pages"].map(|name| machine.counter(name))
    };
    for (policy, order, expected) in [
        ("thp", 1, [0, 1, 0]),
        ("thp", 2, [4, 0, 0]),
        ("thp", 8, [256, 0, 0]),
        ("thp", 9, [0, 1, 0]),
        ("thp", 18, [0, 0, 1]),
        ("thp-madvise", 4, [16, 0, 0]),
        ("thp-madvise", 18, [0, 0, 1]),
        ("thp-madvise", 9, [1, 0, 0]),
        ("huge-1g", 4, [16, 0, 0]),
        ("base-pages", 4, [1, 0, 0]),
        ("base-pages", 18, [1, 0, 0]),
    ] {
        let mut machine = Machine::new(policy, 4 << 30);
        let (start, length) = (1 << 30, 1 << 30);
        machine.map(start, length);
        machine.event(advise(start, length, Advice::PageSize(order)));
        machine.write(start + 300 * PAGE);
        assert_eq!(pages(&machine), expected, "{policy} {order}");
        let (faults, work) = (machine.counter("page_faults"), machine.kernel.work());
        assert_eq!(faults, 1);
        let kinds = [work.faults_4k, work.faults_folio, work.faults_2m, work.faults_1g];
        let folio = (expected[0] > 1) as u64;
        assert_eq!(kinds, [u64::from(expected[0] == 1), folio, expected[1], expected[2]]);
        let around = machine.counter("folio_pages_around");
        assert_eq!(around, folio * (expected[0].max(1) - 1), "{policy} {order}");
        machine.assert_memory_adds_up();
    }
}
