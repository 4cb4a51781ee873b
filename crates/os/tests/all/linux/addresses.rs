//! Addresses that exist, and frames that page tables take.

use super::table::{check, differs, held, mended};
use super::*;
use crate::machine::unmap;
use perforate_os::{FaultOutcome, TableFormat};

fn touch(start: u64) -> FaultOutcome {
    let mut machine = machine("base-pages");
    machine.map(start, PAGE);
    let outcome = machine.fault(start, AccessKind::Write);
    assert_sound(&machine);
    outcome
}

#[test]
fn addresses_are_as_linux_and_peers_test_them() {
    check(
        "Addresses and page tables",
        &[
            held(
                "addresses of 48 bits are mapped in both halves",
                "kvm-unit-tests x86/la57.c, CANONICAL_48_VAL",
                || {
                    for start in [PAGE, 0x7fff_ffff_f000, 0xffff_8000_0000_0000, !0xfff - PAGE] {
                        assert_eq!(touch(start), FaultOutcome::Mapped, "{start:#x}");
                    }
                },
            ),
            held(
                "an address outside both halves is never mapped",
                "kvm-unit-tests x86/la57.c, NONCANONICAL",
                || {
                    for start in [0x8000_0000_0000, 0xffff_0000_0000_0000, 0x7fff_ffff_ffff_f000] {
                        let mut machine = machine("base-pages");
                        assert!(!try_event(&mut machine, &map(start, PAGE)), "{start:#x}");
                        let outcome = machine.fault(start, AccessKind::Read);
                        assert_eq!(outcome, FaultOutcome::Segfault, "{start:#x}");
                    }
                },
            ),
            differs(
                "addresses of 57 bits are mapped by tables of five levels",
                "kvm-unit-tests x86/la57.c, CANONICAL_57_VAL",
                "tables may have five levels (`page_table_levels`), but programs get addresses of 48 \
                 bits, as under Linux unless they ask for more; none of the experiments needs more \
                 than 128TB",
                || {
                    let mut machine = machine("base-pages");
                    assert!(!try_event(&mut machine, &map(1 << 50, PAGE)));
                },
            ),
            held(
                "a first page takes a frame for each table that is missing, and for itself",
                "ChampSim 801",
                || {
                    let mut machine = machine("base-pages");
                    let free = machine.counter("free_bytes");
                    machine.map(BASE, PAGE);
                    machine.write(BASE);
                    assert_eq!(
                        free - machine.counter("free_bytes"),
                        5 * PAGE,
                        "tables of four levels"
                    );
                },
            ),
            mended(
                "tables of five levels take one frame more",
                "kvm-unit-tests x86/la57.c",
                || {
                    let tables = TableFormat { five_levels: true, ..TableFormat::default() };
                    let config = KernelConfig { tables, ..KernelConfig::new(64 * MB) };
                    let mut machine = Machine::configured("base-pages", config);
                    let free = machine.counter("free_bytes");
                    machine.map(BASE, PAGE);
                    machine.write(BASE);
                    assert_eq!(free - machine.counter("free_bytes"), 6 * PAGE);
                    // The upper half has an entry of its own in the root, and tables below it.
                    machine.map(0xffff_8000_0000_0000, PAGE);
                    machine.write(0xffff_8000_0000_0000);
                    assert_eq!(machine.counter("page_table_bytes"), 9 * PAGE);
                    machine.event(unmap(BASE, PAGE));
                    assert_eq!(machine.counter("page_table_bytes"), 5 * PAGE);
                    machine.event(unmap(0xffff_8000_0000_0000, PAGE));
                    assert_eq!(machine.counter("page_table_bytes"), 0);
                    assert_sound(&machine);
                },
            ),
            held("a table that exists takes no further frame", "ChampSim 801", || {
                let mut machine = machine("base-pages");
                machine.map(BASE, 4 * REGION);
                machine.write(BASE);
                let free = machine.counter("free_bytes");
                machine.write(address(1));
                assert_eq!(free - machine.counter("free_bytes"), PAGE);
                machine.write(address(512));
                assert_eq!(free - machine.counter("free_bytes"), 3 * PAGE, "a level-1 table");
            }),
        ],
    );
}
