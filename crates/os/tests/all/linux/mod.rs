//! Behaviours of Linux's memory manager, as its own tests and those of the Linux Test Project specify them.
//! Names of files without a folder are in Linux's `tools/testing/selftests/mm`.

mod addresses;
mod cow;
mod huge_pages;
mod khugepaged;
mod ksm;
mod mremap;
mod populate;
pub mod table;

use std::ops::Range;

use perforate_config::{Size, read};
use perforate_os::KernelConfig;
use perforate_types::{AccessKind, Advice, Permissions, ProcessId, ProgramEvent, VirtualAddress};

use crate::machine::{
    BASE, MB, Machine, advise, fork, map, page, populate as map_populated, protect, switch,
};

const PAGE: u64 = 4096;
const REGION: u64 = 2 * MB;

// Linux's numbers of madvise.
const DONTFORK: Advice = Advice::Other(10);

/// A machine with 64MB of memory and of swap space, whose pages have contents.
fn machine(policy: &str) -> Machine {
    let config = KernelConfig { swap: Size(64 * MB), ..KernelConfig::new(64 * MB) };
    let mut machine = Machine::configured(policy, config);
    machine.kernel.set_content_distribution(read("zero=0%,duplicate=0%").unwrap()).unwrap();
    machine
}

fn address(subpage: u64) -> u64 {
    BASE + subpage * PAGE
}

/// A 2MB region of which these pages were touched as 4KB pages; 2MB pages are allowed again.
fn small(pages: Range<u64>) -> Machine {
    let mut machine = machine("thp");
    machine.map(BASE, REGION);
    machine.event(advise(BASE, REGION, Advice::NoHugePage));
    pages.for_each(|subpage| machine.write(address(subpage)));
    machine.event(advise(BASE, REGION, Advice::HugePage));
    machine
}

/// A 2MB page at [`BASE`].
fn large() -> Machine {
    let mut machine = machine("thp");
    machine.event(map_populated(BASE, REGION));
    assert_eq!(machine.counter("large_pages"), 1);
    machine
}

/// A 2MB page at [`BASE`] that was split into 4KB pages in place.
fn split() -> Machine {
    let mut machine = large();
    make_read_only_for_a_moment(&mut machine, 1);
    assert_eq!(sizes(&machine), (0, 512));
    machine
}

/// Splits the 2MB page around a page by taking write permission from that page and giving it back.
fn make_read_only_for_a_moment(machine: &mut Machine, subpage: u64) {
    machine.event(protect(address(subpage), PAGE, Permissions::READ));
    machine.event(protect(address(subpage), PAGE, Permissions::READ_WRITE));
}

/// Numbers of 2MB pages and of 4KB pages.
fn sizes(machine: &Machine) -> (u64, u64) {
    (machine.counter("large_pages"), machine.counter("base_pages"))
}

fn exit(process: u16) -> ProgramEvent {
    ProgramEvent::Exit { process: ProcessId(process) }
}

/// Writes to pages of the running process as a program does.
fn store(machine: &mut Machine, pages: Range<u64>) {
    pages.for_each(|subpage| {
        machine.access(address(subpage), AccessKind::Write);
    });
}

/// Reads pages of a process as a program does, and returns their frames and contents.
fn load(machine: &mut Machine, process: u16, start: u64, pages: u64) -> Vec<(u64, u64)> {
    machine.event(switch(process));
    (0..pages)
        .map(|index| {
            let place = start + index * PAGE;
            machine.access(place, AccessKind::Read);
            (machine.frame(place).expect("just read"), content(machine, place))
        })
        .collect()
}

fn contents(machine: &mut Machine, process: u16, start: u64, pages: u64) -> Vec<u64> {
    load(machine, process, start, pages).into_iter().map(|(_, content)| content).collect()
}

fn content(machine: &Machine, place: u64) -> u64 {
    machine.kernel.content(machine.kernel.current(), page(place)).expect("mapped")
}

/// Frames of the 4KB pages of a range in the running process; `None` for pages that are not mapped.
fn frames(machine: &Machine, start: u64, pages: u64) -> Vec<Option<u64>> {
    (0..pages).map(|index| machine.frame(start + index * PAGE)).collect()
}

/// Runs khugepaged over all memory and returns the number of regions that became 2MB pages.
fn promote(machine: &mut Machine) -> u64 {
    let pass = machine.act(|kernel| Ok(kernel.khugepaged_pass())).unwrap();
    assert!(pass.ended_full_scan);
    assert_sound(machine);
    pass.regions_collapsed
}

fn assert_sound(machine: &Machine) {
    machine.assert_memory_adds_up();
    machine.assert_copies_on_write();
    machine.assert_frames_have_one_content();
    machine.assert_account();
}

/// Attempts an event that the kernel may refuse.
fn try_event(machine: &mut Machine, event: &ProgramEvent) -> bool {
    machine.act(|kernel| kernel.event(event)).is_ok()
}

fn move_pages(from: u64, to: u64, length: u64) -> ProgramEvent {
    crate::machine::remap(from, length, to, length)
}

#[test]
fn the_page_adds_up() {
    let page = table::page();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    let rows = rows.into_iter().filter(|line| !line.starts_with("| behaviour |"));
    let states: Vec<(bool, bool)> =
        rows.map(|row| (row.contains("| holds | holds |"), row.ends_with("| holds |"))).collect();
    let held = states.iter().filter(|(before, _)| *before).count();
    let now = states.iter().filter(|(_, now)| *now).count();
    let sum = format!("Of {} behaviours, {held} held before, and {now} hold now.", states.len());
    assert!(page.contains(&sum), "docs/linux.md should say: {sum}");
}
