//! Explaining a translation does not change later explanations.

use perforate_sim::{Composition, Machine, TlbState, Workload, explain};
use perforate_types::PageSize;

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
