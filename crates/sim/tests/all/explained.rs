//! Explaining a translation does not change later explanations.

use perforate_sim::{Composition, Machine, TlbState, Workload, explain};
use perforate_trace::{TraceMetadata, TraceWriter};
use perforate_types::{
    AccessKind, Backing, Instruction, MemoryAccess, PageSize, Permissions, ProgramEvent, VirtualAddress,
};

use crate::storms::memory_of;

/// Explains every state of a few addresses twice in a row. Translations from empty TLBs are the
/// same both times. An explanation must not fill a hole, back a page of the host or make a shadow
/// entry, because the next explanation would show it.
#[test]
fn an_explanation_repeats_itself() {
    let machine = Machine::load("perforated-table2").unwrap();
    let holes = ("fragmentation", "portion=50%,holes=30%,dispersed");
    let mut memory = memory_of(&[("memory", "256M"), holes, ("perforation", "holes=lazy")]);
    // No register has the address of the guest's bitmaps, because the host has no free block for
    // them.
    let everywhere = ("fragmentation", "portion=100%,holes=30%,dispersed");
    memory.host = Some(Box::new(memory_of(&[("memory", "512M"), everywhere])));
    let workload =
        Workload { instructions: Some(60_000), ..Workload::named("random:size=24M,writes=30%") };
    for name in [
        "4k",
        "thp",
        "perforated",
        "gt-pde-2m",
        "4k+4k",
        "thp+4k",
        "perforated+4k",
        "4k+perforated",
        "perforated+perforated",
        "perforated+shadow-4k",
        "perforated+segment",
        "perforated+flat-4k",
    ] {
        let pair = Composition::find(name).unwrap();
        let examples = explain(&machine, pair, &memory, &workload, 1, &[]).unwrap();
        let first =
            examples.first().map(|(address, _)| address.page().align_down(PageSize::Size2M));
        // The whole region of the first address, untouched holes included, each page twice.
        let pages = (0..512).step_by(27).filter_map(|index| Some(first?.add(index).address()));
        let addresses: Vec<_> = pages.flat_map(|address| [address, address]).collect();
        let explained = explain(&machine, pair, &memory, &workload, 1, &addresses).unwrap();
        assert!(explained.iter().any(|(_, all)| !all.is_empty()), "{name}: nothing is mapped");
        for twice in explained.chunks_exact(2) {
            let [(address, before), (_, after)] = twice else { unreachable!() };
            assert_eq!(before, after, "{name} at {address:?}");
            for explanation in before {
                let (cold, warm) = explanation.cycles();
                let reads = explanation.situation == TlbState::Cold;
                assert!(warm > 0 && (if reads { cold > warm } else { cold >= warm }));
            }
        }
    }
}

const START: u64 = 0x7f00_0000_0000;

/// Writes the trace of a program that maps and writes 4MB, and then reads its first page.
fn program(path: &std::path::Path) {
    let metadata = TraceMetadata { has_events: true, ..TraceMetadata::default() };
    let mut trace = TraceWriter::create(path, &metadata).unwrap();
    let start = VirtualAddress::new(START);
    trace
        .event(ProgramEvent::Map {
            start,
            length: 4 << 20,
            permissions: Permissions::READ_WRITE,
            accessible: true,
            backing: Backing::Anonymous,
            shared: false,
            populate: true,
        })
        .unwrap();
    for page in [700, 5, 100] {
        let access =
            MemoryAccess { address: start.add(page * 4096), size: 8, kind: AccessKind::Write };
        trace.push(&Instruction { accesses: 1, ..Instruction::default() }, &[access]).unwrap();
    }
    trace.finish().unwrap();
}

/// The steps of a translation in each state of the TLBs, with their cycles; addresses are left out.
#[test]
fn steps_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program.trace");
    program(&path);
    let workload = Workload::named(path.to_string_lossy().into_owned());
    let without_addresses = |text: &str| {
        let words = text.split(' ').map(|word| match word.starts_with("0x") {
            true => word.trim_start_matches("0x").trim_start_matches(|c: char| c.is_ascii_hexdigit()).to_owned(),
            false => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    };
    for (scheme, holes) in [
        ("4k", false), ("thp", false), ("perforated", true), ("gt-pde-2m", false), ("segment", false), ("range", false),
        ("4k+thp", false), ("perforated+perforated", true), ("thp+shadow-4k", false), ("4k+shadow-thp", false),
        ("perforated+shadow-thp", true), ("gt-pde-2m+shadow-4k", false), ("range+shadow-4k", false), ("thp+segment", false), ("thp+flat-4k", false), ("segment-l1", false), ("4k+range", false), ("gt-pde-2m+gt-pde-2m", false),
    ] {
        let fragmentation = if holes { "portion=100%,holes=25%,clustered" } else { "none" };
        let memory = memory_of(&[("memory", "256M"), ("fragmentation", fragmentation), ("host-memory", "512M"), ("segment", "min=2M"), ("host-segment", "min=64M")]);
        let machine = Machine::load("perforated-table2").unwrap();
        let scheme_ = Composition::find(scheme).unwrap();
        let addresses = [];
        let found = explain(&machine, scheme_, &memory, &workload, 1, &addresses).unwrap();
        for (address, explanations) in found {
            for it in explanations {
                println!("## {scheme} {:#x} {:?} {:?} walked {} {:#x} {:?}", address, it.situation, it.case, it.walked, it.physical, it.cycles());
                for step in &it.steps {
                    println!("##   {} [{} {}]  |{}", step.text, step.cold_cycles, step.warm_cycles, without_addresses(&step.text));
                }
            }
        }
    }
}
