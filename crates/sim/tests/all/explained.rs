//! Explaining a translation does not change later explanations.

use perforate_sim::{Composition, Explanation, Machine, TlbState, Workload, explain};
use perforate_trace::{TraceMetadata, TraceWriter};
use perforate_types::{
    AccessKind, Backing, Instruction, MemoryAccess, PageSize, Permissions, ProgramEvent,
    VirtualAddress,
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

/// Returns each explanation of a run's examples in words: its state, its case and the sums of its cycles, then
/// its steps. Addresses of entries, tables and pages are left out.
fn in_words(scheme: &str, fragmentation: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program.trace");
    program(&path);
    let workload = Workload::named(path.to_string_lossy().into_owned());
    let memory = memory_of(&[
        ("memory", "256M"),
        ("fragmentation", fragmentation),
        ("segment", "min=2M"),
        ("host-memory", "512M"),
        ("host-segment", "min=64M"),
    ]);
    let machine = Machine::load("perforated-table2").unwrap();
    let composition = Composition::find(scheme).unwrap();
    let explained = explain(&machine, composition, &memory, &workload, 1, &[]).unwrap();
    let without_addresses = |text: &str| {
        let mut parts = text.split("0x");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |words, part| {
            words + "@" + part.trim_start_matches(|digit: char| digit.is_ascii_hexdigit())
        })
    };
    let words = |it: &Explanation| {
        let steps: Vec<_> = it.steps.iter().map(|step| without_addresses(&step.text)).collect();
        let walked = if it.walked { "walked " } else { "" };
        let (cold, warm) = it.cycles();
        let Explanation { situation, case, .. } = it;
        format!("{situation:?} {case:?} {walked}{cold}/{warm}: {}", steps.join("; "))
    };
    explained.iter().flat_map(|(_, translations)| translations.iter().map(words)).collect()
}

/// A look-up of the L2 TLB takes 9 cycles, one of the walk caches 1, a selection 3. A read of memory takes 158
/// cycles, 130 in an open row, and 26 from the walkers' cache.
#[test]
fn steps_of_native_translations_in_words() {
    let cold = "L2 TLB: nothing found; walk cache: nothing found; level-4 entry at @: table at @; \
                level-3 entry at @: table at @; level-2 entry at @: ";
    let bitmap = "L2 TLB, second look-up: no bitmap entry; the block's bitmap line at @";
    let cached = "L2 TLB: entry found; L2 TLB, second look-up: bitmap entry found";
    let hole = "hole's level-1 entry at @: 4KB page at @";
    let with_holes = format!("{cold}perforated at @, filter 00000111");
    let hit = |case: &str| format!("FirstLevelLost {case} 9/9: L2 TLB: entry found");
    let selection = "selection ffffffff00000000: block 11 is B-block 43 of slice @";
    for (scheme, fragmentation, expected) in [
        (
            "4k",
            "none",
            vec![
                format!(
                    "Cold Regular walked 586/114: {cold}table at @; level-1 entry at @: 4KB page at @"
                ),
                hit("Regular"),
            ],
        ),
        (
            "thp",
            "none",
            vec![format!("Cold Regular walked 456/88: {cold}2MB page at @"), hit("Regular")],
        ),
        (
            "perforated",
            "portion=100%,holes=25%,clustered",
            vec![
                format!("Cold Filtered walked 456/88: {with_holes}"),
                hit("Filtered"),
                format!("Cold ReadInPlace walked 623/123: {with_holes}; {bitmap}"),
                format!("FirstLevelLost BitmapInPlace 18/18: {cached}"),
                format!("BitmapLost ReadInPlace 176/44: L2 TLB: entry found; {bitmap}"),
                format!(
                    "Cold ReadHole walked 912/176: {with_holes}; {bitmap}; walk cache: entry found; \
                     shadow level-2 entry at @: table at @; {hole}"
                ),
                hit("Regular"),
                format!("HoleLost BitmapHole 177/45: {cached}; walk cache: entry found; {hole}"),
                format!(
                    "BitmapLost ReadHole 335/71: L2 TLB: entry found; {bitmap}; walk cache: entry \
                     found; {hole}"
                ),
            ],
        ),
        (
            "gt-pde-2m",
            "none",
            vec![
                format!("Cold Regular walked 459/91: {cold}GT-PDE-2MB, slice @; {selection}"),
                hit("Regular"),
                format!(
                    "PageLost Regular walked 13/13: L2 TLB: nothing found; walk cache: entry found; \
                     {selection}"
                ),
            ],
        ),
        (
            "segment",
            "none",
            ["Cold", "FirstLevelLost"]
                .map(|state| {
                    format!(
                        "{state} Beside 1/1: direct segment: BASE, LIMIT and escape filter checked"
                    )
                })
                .to_vec(),
        ),
        ("segment-l1", "none", vec!["Cold BesideFirstLevel 0/0: ".into()]),
    ] {
        assert_eq!(in_words(scheme, fragmentation), expected, "{scheme}");
    }
}

#[test]
fn steps_of_translations_in_virtual_machines_in_words() {
    let hit = |case: &str| format!("FirstLevelLost {case} 9/9: L2 TLB: entry found");
    let shadowed = |cycles: &str, origin: &str| {
        let cold = "L2 TLB: nothing found; shadow walk cache: nothing found; shadow level-4 entry at \
                    @: table at @; shadow level-3 entry at @: table at @; shadow level-2 entry at @: \
                    table at @; shadow level-1 entry at @: 4KB page at @";
        let cold = format!("Cold Regular walked {cycles}: {cold}; made of {origin} of the host");
        [cold, hit("Regular")]
    };
    let segment = "host's direct segment: BASE, LIMIT and escape filter checked";
    let holes = "the guest's perforated page over a 2MB page";
    let host = "host's level-4 entry at @: table at @; host's level-3 entry at @: table at @; ";
    let nested = "nested TLB: nothing found; host's walk cache: ";
    for (scheme, fragmentation, expected) in [
        (
            "thp+shadow-4k",
            "none",
            shadowed("642/114", "the guest's 2MB page over a 4KB page").to_vec(),
        ),
        (
            "4k+shadow-thp",
            "none",
            shadowed("586/114", "the guest's 4KB page over a 2MB page").to_vec(),
        ),
        (
            "gt-pde-2m+shadow-4k",
            "none",
            shadowed("642/114", "the guest's gap-tolerant superpage over a 4KB page").to_vec(),
        ),
        (
            "perforated+shadow-thp",
            "portion=100%,holes=25%,clustered",
            [
                shadowed("586/114", holes),
                shadowed("586/114", holes),
                shadowed("614/114", &format!("a hole in {holes}")),
            ]
            .concat(),
        ),
        (
            "thp+segment",
            "none",
            vec![
                format!(
                    "Cold Regular walked 460/92: L2 TLB: nothing found; guest's walk cache: nothing \
                     found; {segment}; guest's level-4 entry at @: table at @; {segment}; guest's \
                     level-3 entry at @: table at @; {segment}; guest's level-2 entry at @: 2MB page \
                     at @; {segment}"
                ),
                hit("Regular"),
            ],
        ),
        (
            "4k+thp",
            "none",
            vec![
                format!(
                    "Cold Regular walked 1105/265: L2 TLB: nothing found; guest's walk cache: nothing \
                     found; {nested}nothing found; {host}host's level-2 entry at @: 2MB page at @; \
                     guest's level-4 entry at @: table at @; nested TLB: entry found; guest's level-3 \
                     entry at @: table at @; nested TLB: entry found; guest's level-2 entry at @: \
                     table at @; nested TLB: entry found; guest's level-1 entry at @: 4KB page at @; \
                     {nested}entry found; host's level-2 entry at @: 2MB page at @"
                ),
                hit("Regular"),
            ],
        ),
    ] {
        assert_eq!(in_words(scheme, fragmentation), expected, "{scheme}");
    }
}

/// Addresses that an access may not reach have no explanation; a host that is too small is an error.
#[test]
fn what_cannot_be_explained() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program.trace");
    program(&path);
    let workload = Workload::named(path.to_string_lossy().into_owned());
    let machine = Machine::load("perforated-table2").unwrap();
    let of = |scheme: &str, host: &str, addresses: &[VirtualAddress]| {
        let memory = memory_of(&[("memory", "256M"), ("host-memory", host)]);
        explain(&machine, Composition::find(scheme).unwrap(), &memory, &workload, 1, addresses)
    };
    let addresses = [START, START + (4 << 20)].map(VirtualAddress::new);
    for scheme in ["4k", "4k+4k"] {
        let found = of(scheme, "512M", &addresses).unwrap();
        let counts: Vec<_> = found.iter().map(|(address, all)| (*address, all.len())).collect();
        assert_eq!(counts, [(addresses[0], 2), (addresses[1], 0)], "{scheme}");
    }
    assert!(of("4k", "128M", &addresses).is_ok());
    let error = of("4k+4k", "128M", &addresses).unwrap_err().to_string();
    assert!(error.starts_with("a guest with 256M of memory does not fit"), "{error}");
}
