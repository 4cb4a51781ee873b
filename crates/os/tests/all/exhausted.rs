//! Memory of every size that is too small for what a program does: whatever fails loses nothing.
//!
//! Each case repeats one course of events in memories that differ by one frame, so that every
//! allocation on the way is the one that fails.

use std::ops::RangeInclusive;

use perforate_os::{FaultOutcome, HoleContent, KernelConfig, OsError};
use perforate_types::{AccessKind, Advice, Permissions, ProcessId, ProgramEvent};

use crate::machine::{
    BASE, GB, MB, Machine, advise, fork, map, map_shared, page, protect, remap, switch, unmap,
};

const PAGE: u64 = 4096;

enum Step {
    Event(ProgramEvent),
    Write(u64),
    Punch(u64, HoleContent),
    Patch(u64),
}

use Step::{Event, Patch, Punch, Write};

/// Performs the step. Returns false if memory ran out.
fn perform(machine: &mut Machine, step: &Step) -> bool {
    let free = machine.counter("free_bytes");
    let used = machine.counter("mapped_bytes") + machine.counter("foreign_bytes");
    let space = machine.kernel.current();
    let result = match step {
        Event(event) => machine.act(|kernel| kernel.event(event)),
        &Write(address) => {
            let serve = |kernel: &mut perforate_os::Kernel| {
                kernel.fault(space, page(address), AccessKind::Write)
            };
            let outcome = machine.act(serve);
            match &outcome {
                Ok(FaultOutcome::Mapped) => assert!(machine.frame(address).is_some()),
                Ok(FaultOutcome::Segfault) => {}
                // What is mapped by then, of a 2MB page that gets its holes at once, and foreign data that
                // the touch brought, stay.
                Err(_)
                    if machine.counter("mapped_bytes") + machine.counter("foreign_bytes")
                        > used => {}
                Err(_) => assert_eq!(machine.counter("free_bytes"), free, "a fault that fails"),
            }
            outcome.map(|_| ())
        }
        &Punch(address, content) => machine.punch(address, content),
        &Patch(address) => machine.patch(address),
    };
    match result {
        Ok(()) => true,
        Err(OsError::OutOfMemory { memory_bytes, free_bytes, .. }) => {
            assert_eq!(memory_bytes, machine.counter("memory_bytes"));
            assert!(free_bytes <= machine.counter("free_bytes").max(free));
            false
        }
        // What failed before leaves nothing to punch or to patch.
        Err(_) if matches!(step, Punch(..) | Patch(_)) => true,
        Err(error) => panic!("{error}"),
    }
}

/// Runs the course in memories of these sizes in frames. Returns, for each size, the number of steps for
/// which memory sufficed.
fn courses(
    policy: &str,
    config: &KernelConfig,
    sizes: RangeInclusive<u64>,
    course: &[Step],
) -> Vec<usize> {
    let served = sizes.map(|frames| {
        let config = KernelConfig { memory_bytes: frames * PAGE, ..config.clone() };
        let is_injected = config.fragmentation.is_some();
        let mut machine = Machine::configured(policy, config);
        let free = machine.counter("free_bytes");
        let served = course.iter().filter(|step| {
            let is_served = perform(&mut machine, step);
            machine.assert_memory_adds_up();
            machine.assert_copies_on_write();
            machine.assert_shared_memory_is_one();
            is_served
        });
        let served = served.count();
        for process in machine.kernel.processes().map(|(process, _)| process).collect::<Vec<_>>() {
            machine.event(ProgramEvent::Exit { process });
        }
        let foreign = machine.counter("foreign_bytes");
        assert!(is_injected || foreign == 0);
        assert_eq!(machine.counter("free_bytes") + foreign, free, "{policy} {frames}");
        served
    });
    served.collect()
}

/// All steps fail for the smallest memory, and none for the largest.
fn assert_served(served: &[usize], course: &[Step], what: &str) {
    assert!(served[0] < course.len(), "{what}: {served:?}");
    assert_eq!(served[served.len() - 1], course.len(), "{what}: {served:?}");
}

#[test]
fn no_4kb_page_or_table_is_lost() {
    let write = |base: u64, pages: &[u64]| -> Vec<Step> {
        pages.iter().map(|page| Write(base + page * PAGE)).collect()
    };
    let mut course = vec![Event(map(BASE, 64 * PAGE)), Event(map(BASE + GB, 4 * MB))];
    course.extend(write(BASE, &[0, 1, 20, 63]));
    course.extend(write(BASE + GB, &[0, 511, 512]));
    course.push(Event(remap(BASE, 2 * PAGE, BASE + 2 * GB, 3 * PAGE)));
    course.push(Event(protect(BASE + 20 * PAGE, PAGE, Permissions::READ)));
    course.push(Event(map_shared(BASE + 3 * GB, 20 * PAGE)));
    course.extend(write(BASE + 3 * GB, &[3]));
    course.push(Event(fork(1)));
    course.extend(write(BASE + 2 * GB, &[0, 2]));
    course.push(Event(switch(1)));
    course.extend(write(BASE + 3 * GB, &[3, 4]));
    course.extend(write(BASE + GB, &[0, 512, 513]));
    course.push(Event(remap(BASE + GB, 3 * MB, BASE + 8 * GB, 3 * MB)));
    course.push(Event(advise(BASE + 8 * GB, PAGE, Advice::DontNeed)));
    course.push(Event(switch(0)));
    course.push(Event(unmap(BASE + GB, 4 * MB)));
    course.extend(write(BASE, &[2, 63]));
    course.push(Event(ProgramEvent::Exit { process: ProcessId(1) }));
    course.extend(write(BASE + 2 * GB, &[0, 1]));
    for (policy, first, last) in
        [("base-pages", 8, 48), ("thp", 8, 48), ("perforated", 9, 72), ("segment", 8, 80)]
    {
        let served = courses(policy, &KernelConfig::default(), first..=last, &course);
        assert_served(&served, &course, policy);
    }
}

/// Steps for one 2MB page: parts of the page change in every way, then the page moves and is copied on write.
fn course_of_large_page(base: u64) -> Vec<Step> {
    vec![
        Event(map(base, 4 * MB)),
        Write(base + 7 * PAGE),
        Punch(base + 5 * PAGE, HoleContent::Moved),
        Punch(base + 6 * PAGE, HoleContent::Unallocated),
        Write(base + 6 * PAGE),
        Patch(base + 5 * PAGE),
        Event(protect(base + MB, PAGE, Permissions::READ)),
        Event(unmap(base + MB + PAGE, PAGE)),
        Event(advise(base + MB + 2 * PAGE, PAGE, Advice::DontNeed)),
        Write(base + MB + 2 * PAGE),
        Event(fork(1)),
        Write(base + 8 * PAGE),
        Event(switch(1)),
        Write(base + 9 * PAGE),
        Event(remap(base + 16 * PAGE, 2 * PAGE, base + 8 * GB, 2 * PAGE)),
        Event(remap(base, 2 * MB, base + 16 * GB, 2 * MB)),
        Write(base + 2 * MB),
        Event(switch(0)),
        Write(base + 2 * MB + 3 * PAGE),
        Event(ProgramEvent::Exit { process: ProcessId(1) }),
        Write(base + 10 * PAGE),
    ]
}

#[test]
fn no_2mb_page_or_table_is_lost() {
    let injected = |holes: &str| {
        let text = format!("portion=100%,holes={holes},clustered");
        let fragmentation = Some(perforate_config::read(&text).unwrap());
        KernelConfig { fragmentation, ..KernelConfig::default() }
    };
    let (few, many) = (injected("5%"), injected("25%"));
    let plain = KernelConfig::default();
    for (policy, config, base) in [
        ("thp", &plain, BASE),
        ("perforated", &plain, BASE),
        ("perforated:create=reserve", &plain, BASE),
        ("laid-out-over-1g", &plain, GB),
        ("thp", &many, BASE),
        ("perforated", &many, BASE),
        ("perforated", &few, BASE),
        ("perforated:create=reserve", &few, BASE),
    ] {
        let course = course_of_large_page(base);
        let served = courses(policy, config, 510..=550, &course);
        // Without a 2MB page, these memories suffice for all 4KB pages of the course.
        let is_short = served.iter().any(|&steps| steps < course.len());
        assert!(is_short || config.fragmentation.is_some(), "{policy}: {served:?}");
        let enough = courses(policy, config, 4096..=4096, &course);
        assert_eq!(enough, [course.len()], "{policy}");
    }
}

/// mremap of a 2MB page below other tables, where memory lacks one of these: the frames are free again.
#[test]
fn a_2mb_page_that_cannot_be_moved_is_freed() {
    let (other, target) = (BASE + 4 * MB, BASE + 1024 * GB);
    let course = [
        Event(map(BASE, 2 * MB)),
        Event(map(other, PAGE)),
        Write(BASE),
        Write(other),
        Event(remap(BASE, 2 * MB, target, 2 * MB)),
        Write(other),
    ];
    for policy in ["thp", "perforated"] {
        let served = courses(policy, &KernelConfig::default(), 512..=540, &course);
        assert!(served.iter().any(|&steps| steps == course.len() - 1), "{policy}: {served:?}");
        assert_eq!(served.last(), Some(&course.len()), "{policy}: {served:?}");
    }
}

/// A run of 1GB is all of memory, and then there is no frame for one table or for another.
#[test]
fn no_gigabyte_is_lost() {
    for (spare, is_huge) in [(0, false), (1, false), (2, true), (3, true)] {
        let config = KernelConfig::new(GB + spare * PAGE);
        let mut machine = Machine::configured("huge-1g", config);
        machine.map(8 * GB, GB);
        let served = perform(&mut machine, &Write(8 * GB + 5 * PAGE));
        assert_eq!((served, machine.counter("huge_pages")), (is_huge, u64::from(is_huge)));
        let mapped = if is_huge { (1 << 18) + 2 } else { 0 };
        assert_eq!(machine.counter("free_bytes"), GB + spare * PAGE - mapped * PAGE);
        machine.kernel.check_invariants().expect("records agree");
    }
}

/// The layout wants a 2MB page where none fits, or where memory has no frame for a table, and counts only
/// what it then maps.
#[test]
fn missing_pages_of_a_layout_are_counted() {
    let counted =
        |machine: &Machine| (machine.counter("layout_pages"), machine.counter("layout_missing"));
    for (length, frames, served, expected) in [
        (2 * MB, 1024, true, (1, 0)),
        (MB, 1024, true, (0, 1)),
        (2 * MB, 500, true, (0, 1)),
        (2 * MB, 512, false, (0, 0)),
        (2 * MB, 513, false, (0, 0)),
    ] {
        let mut machine = Machine::new("laid-out-over-1g", frames * PAGE);
        machine.map(GB, length);
        assert_eq!(perform(&mut machine, &Write(GB + PAGE)), served, "{length} {frames}");
        assert_eq!(counted(&machine), expected, "{length} {frames}");
        machine.assert_memory_adds_up();
        if served {
            // Further pages of the region are not first touches of it, and 4KB is right elsewhere.
            machine.access(GB + 2 * PAGE, AccessKind::Write);
            machine.map(4 * GB, 2 * MB);
            machine.write(4 * GB);
            assert_eq!(counted(&machine), expected, "{length} {frames}");
        }
    }
}
