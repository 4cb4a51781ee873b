//! The truths that each kind of change reports, worked by hand, independent of table writes.

use crate::machine::{BASE, MB, Machine, page, protect, unmap};
use perforate_os::{HoleContent, KernelConfig, TableFormat};
use perforate_schemes::segment::DirectSegments;
use perforate_types::{Frame, GapTolerance, PageRun, Permissions, SpaceId, Truth};

const SPACE: SpaceId = SpaceId(0);
const RW: Permissions = Permissions::READ_WRITE;
const PAGE: u64 = 4096;

fn run(first: u64, pages: u64) -> PageRun {
    PageRun::new(SPACE, page(BASE + first * PAGE), pages)
}

/// Truth of pages mapped from page `first` of the area on.
fn mapped(first: u64, pages: u64, frame: u64) -> Truth {
    Truth::Map { run: run(first, pages), frame: Frame::new(frame), permissions: RW }
}

fn unmapped(first: u64, pages: u64) -> Truth {
    Truth::Unmap { run: run(first, pages) }
}

fn protected(first: u64, pages: u64) -> Truth {
    Truth::Protect { run: run(first, pages), permissions: Permissions::READ }
}

/// A machine whose first 2MB are touched, and the frame of the first page.
fn touched(policy: &str) -> (Machine, u64) {
    let mut machine = Machine::new(policy, 64 * MB);
    machine.map(BASE, 4 * MB);
    machine.write(BASE);
    let frame = machine.frame(BASE).expect("it was touched");
    (machine, frame)
}

#[test]
fn small_pages() {
    let (mut machine, frame) = touched("base-pages");
    assert_eq!(machine.truths, [mapped(0, 1, frame)]);
    machine.event(protect(BASE, PAGE, Permissions::READ));
    assert_eq!(machine.truths, [protected(0, 1)]);
    machine.event(unmap(BASE, 4 * MB));
    assert_eq!(machine.truths, [unmapped(0, 1)]);
}

#[test]
fn a_large_page_that_is_split_stays_true_where_it_lies() {
    let (mut machine, block) = touched("thp");
    assert_eq!(machine.truths, [mapped(0, 512, block)]);
    machine.event(unmap(BASE + 7 * PAGE, 2 * PAGE));
    assert_eq!(machine.truths, [unmapped(7, 2)], "510 pages are where they were");
    machine.event(protect(BASE, 2 * MB, Permissions::READ));
    assert_eq!(machine.truths.len(), 510, "they have entries of their own now");
}

#[test]
fn a_perforated_page_is_the_runs_between_its_holes() {
    let (mut machine, block) = touched("perforated");
    let punch = |machine: &mut Machine, subpage: u64, hole| {
        machine.punch(BASE + subpage * PAGE, hole).unwrap();
        machine.truths.clone()
    };
    assert_eq!(punch(&mut machine, 5, HoleContent::Unallocated), [unmapped(5, 1)]);
    let truths = punch(&mut machine, 6, HoleContent::Moved);
    let moved = machine.frame(BASE + 6 * PAGE).expect("it moved");
    assert_eq!(truths, [unmapped(6, 1), mapped(6, 1, moved)]);
    machine.event(protect(BASE, 2 * MB, Permissions::READ));
    assert!(machine.truths.starts_with(&[protected(0, 5), protected(7, 505)]));
    machine.event(protect(BASE, 2 * MB, RW));
    machine.patch(BASE + 6 * PAGE).unwrap();
    assert_eq!(machine.truths, [unmapped(6, 1), mapped(6, 1, block + 6)]);
    machine.event(unmap(BASE, 2 * MB));
    assert_eq!(machine.truths, [unmapped(0, 5), unmapped(6, 506)]);
}

#[test]
fn a_superpage_is_the_runs_of_its_blocks() {
    let mode = GapTolerance::SINGLE_4M;
    let tables = TableFormat { gap_tolerance: Some(mode), ..TableFormat::default() };
    let config = KernelConfig { tables, ..KernelConfig::new(128 * MB) };
    let mut machine = Machine::configured("gap-tolerant", config);
    // B-blocks of 32 frames: those that contain frames 40 and 100 are not used.
    for frame in [40, 100] {
        let frame = Frame::new(frame);
        machine.act(|kernel| Ok(kernel.hard_fault(frame))).unwrap();
    }
    machine.map(BASE, 4 * MB);
    machine.write(BASE);
    let frames: Vec<u64> =
        (0..1024).map(|index| machine.frame(BASE + index * PAGE).expect("mapped")).collect();
    let mut expected = vec![mapped(0, 1, frames[0])];
    for index in 1..1024 {
        match expected.last_mut() {
            Some(Truth::Map { run, .. }) if frames[index] == frames[index - 1] + 1 => {
                run.pages += 1;
            }
            _ => expected.push(mapped(index as u64, 1, frames[index])),
        }
    }
    assert_eq!(machine.truths, expected);
    // Unmapping a part leaves the rest mapped in place, by 4KB pages.
    machine.event(unmap(BASE + 9 * PAGE, PAGE));
    assert_eq!(machine.truths, [unmapped(9, 1)]);
}

#[test]
fn a_segment_is_what_no_entry_maps() {
    let config = KernelConfig::new(256 * MB);
    let mut machine = Machine::configured("segment:min=16M", config);
    machine.map(BASE, 32 * MB);
    machine.write(BASE);
    let first = machine.frame(BASE).expect("it was touched");
    assert_eq!(machine.truths, [mapped(0, 8192, first)]);
    // A false positive of the escape filter: an entry maps the page as well, so no truth changes.
    machine.write(BASE + 9 * PAGE);
    assert_eq!(machine.truths, []);
    let escape = |machine: &mut Machine, subpage: u64| {
        let page = page(BASE + subpage * PAGE);
        machine.act(|kernel| kernel.escape_page(SPACE, page)).unwrap();
    };
    escape(&mut machine, 20);
    assert_eq!(machine.truths, [], "it escaped where it is");
    let switch = |machine: &mut Machine, active: bool| {
        machine
            .act(|kernel| match active {
                true => kernel.enable_segment(SPACE),
                false => kernel.disable_segment(SPACE),
            })
            .unwrap();
    };
    switch(&mut machine, false);
    assert_eq!(machine.truths, [unmapped(0, 9), unmapped(10, 10), unmapped(21, 8171)]);
    switch(&mut machine, true);
    let covered = [(0, 9), (10, 10), (21, 8171)];
    assert_eq!(machine.truths, covered.map(|(at, pages)| mapped(at, pages, first + at)));
    let dissolve = |machine: &mut Machine| {
        machine.act(|kernel| kernel.dissolve_segment(SPACE)).unwrap();
    };
    dissolve(&mut machine);
    assert_eq!(machine.truths, [], "all of it has entries where it was");
    machine.assert_memory_adds_up();
}
