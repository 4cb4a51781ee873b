//! Memory that a program populates in advance, by MADV_POPULATE_READ and MADV_POPULATE_WRITE.

use super::table::{check, differs, held, mended};
use super::*;
use crate::machine::unmap;

/// Sixteen pages with these permissions.
fn area(permissions: Permissions) -> Machine {
    let mut machine = machine("thp");
    machine.map(BASE, 16 * PAGE);
    machine.event(protect(BASE, 16 * PAGE, permissions));
    machine
}

fn mapped(machine: &Machine) -> u64 {
    machine.counter("mapped_bytes") / PAGE
}

#[test]
fn memory_is_populated_as_linux_tests_it() {
    check(
        "MADV_POPULATE",
        &[
            held(
                "readable memory is populated by MADV_POPULATE_READ",
                "madv_populate.c, test_prot_read",
                || {
                    let mut machine = area(Permissions::READ);
                    machine.event(advise(BASE, 16 * PAGE, Advice::POPULATE_READ));
                    assert_eq!(mapped(&machine), 16);
                },
            ),
            differs(
                "MADV_POPULATE_WRITE of read-only memory is refused",
                "madv_populate.c, test_prot_read",
                "recorded traces begin with this advice for all pages that existed, read-only \
                 ones among them; they are mapped read-only",
                || {
                    let mut machine = area(Permissions::READ);
                    machine.event(advise(BASE, 16 * PAGE, Advice::POPULATE_WRITE));
                    assert_eq!(mapped(&machine), 16);
                    assert_eq!(machine.translate(BASE).unwrap().1, Permissions::READ);
                },
            ),
            held(
                "memory that may not be accessed is not populated",
                "madv_populate.c, test_prot_write",
                || {
                    for advice in [Advice::POPULATE_READ, Advice::POPULATE_WRITE] {
                        let mut machine = area(Permissions::READ_WRITE);
                        let start = VirtualAddress::new(BASE);
                        let permissions = Permissions::READ_WRITE;
                        machine.event(ProgramEvent::Protect {
                            start,
                            length: 16 * PAGE,
                            permissions,
                            accessible: false,
                        });
                        machine.event(advise(BASE, 16 * PAGE, advice));
                        assert_eq!(mapped(&machine), 0);
                    }
                },
            ),
            differs(
                "a hole in the range ends the call; what lies before it is populated",
                "madv_populate.c, test_holes (in the middle, at the end)",
                "events of a trace are calls that succeeded, so that a hole is memory that the \
                 trace does not know; what lies behind it is populated, too",
                || {
                    let mut machine = area(Permissions::READ_WRITE);
                    machine.event(unmap(address(1), PAGE));
                    machine.event(advise(BASE, 16 * PAGE, Advice::POPULATE_WRITE));
                    assert_eq!(mapped(&machine), 15);
                    assert_eq!(machine.frame(address(1)), None);
                },
            ),
            held(
                "a range that is a hole stays one",
                "madv_populate.c, test_holes (at the beginning)",
                || {
                    for advice in [Advice::POPULATE_READ, Advice::POPULATE_WRITE] {
                        let mut machine = area(Permissions::READ_WRITE);
                        machine.event(unmap(address(1), PAGE));
                        machine.event(advise_range(address(1), advice));
                        assert_eq!(mapped(&machine), 0);
                    }
                },
            ),
            held(
                "MADV_POPULATE_READ maps the range and nothing else",
                "madv_populate.c, test_populate_read",
                || {
                    let mut machine = area(Permissions::READ_WRITE);
                    assert_eq!(mapped(&machine), 0);
                    machine.event(advise(address(2), 4 * PAGE, Advice::POPULATE_READ));
                    assert_eq!(frames(&machine, address(2), 4).iter().flatten().count(), 4);
                    assert_eq!(mapped(&machine), 4);
                },
            ),
            held(
                "MADV_POPULATE_WRITE maps the range, writable, so that stores do not fault",
                "madv_populate.c, test_populate_write",
                || {
                    let mut machine = area(Permissions::READ_WRITE);
                    machine.event(advise(BASE, 16 * PAGE, Advice::POPULATE_WRITE));
                    assert!(
                        (0..16).all(|index| machine.translate(address(index)).unwrap().1.write)
                    );
                },
            ),
            mended(
                "MADV_POPULATE_WRITE acts as a store: pages shared by a fork are copied",
                "madv_populate.c, test_softdirty",
                || {
                    for make in [|| small(0..512), large] {
                        let mut machine = make();
                        machine.event(fork(1));
                        let known = load(&mut machine, 1, BASE, 512);
                        machine.event(switch(0));
                        machine.event(advise(BASE, REGION, Advice::POPULATE_WRITE));
                        let own = frames(&machine, BASE, 512);
                        assert!((0..512).all(|index| own[index] != Some(known[index].0)));
                        assert!((0..512).all(|index| {
                            machine.translate(address(index as u64)).unwrap().1.write
                        }));
                        assert_eq!(load(&mut machine, 1, BASE, 512), known);
                        assert_sound(&machine);
                    }
                },
            ),
            held(
                "MADV_POPULATE_READ does not act as a store: pages shared by a fork stay shared",
                "madv_populate.c, test_softdirty",
                || {
                    let mut machine = small(0..512);
                    machine.event(fork(1));
                    let known = load(&mut machine, 1, BASE, 512);
                    machine.event(switch(0));
                    machine.event(advise(BASE, REGION, Advice::POPULATE_READ));
                    assert_eq!(load(&mut machine, 0, BASE, 512), known);
                },
            ),
        ],
    );
}

fn advise_range(start: u64, advice: Advice) -> ProgramEvent {
    advise(start, PAGE, advice)
}
