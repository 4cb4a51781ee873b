//! Notes in results, and names of units in explanations.

use crate::runs::measuring;
use crate::sums::checked_run;
use perforate_config::OptionTexts;
use perforate_sim::{
    Composition, FiguresOnly, Machine, MemoryOptions, MemorySnapshot, MemoryState,
    ProcessorOptions, ResolvedRun, Workload, explain, run,
};

fn memory(options: &[(&str, &str)]) -> MemoryState {
    let given: OptionTexts = options.iter().copied().collect();
    MemoryOptions::read(given).unwrap().resolve(&MemorySnapshot::load).unwrap()
}

fn workload() -> Workload {
    Workload { instructions: Some(20_000), ..Workload::named("random:size=64M") }
}

/// Returns the number of perforated pages in a run without a clock, and the notes on perforation.
fn perforated(scheme: &str, options: &[(&str, &str)]) -> (f64, Vec<String>) {
    let comparison = ResolvedRun {
        processors: ProcessorOptions::default(),
        workload: workload(),
        machine: Machine::load(Machine::DEFAULT).unwrap(),
        schemes: Composition::list(scheme).unwrap(),
        memory: memory(options),
        seed: 1,
        measuring: measuring(true, false, Some(1_000)),
    };
    let result = checked_run(&comparison).unwrap().remove(0);
    let is_on_perforation = |note: &String| note.contains("perforat") && note.contains("policy");
    let mut notes = result.notes;
    notes.retain(|note| is_on_perforation(note) || note.contains("P §III.C"));
    (result.counters.get("perforated_pages").unwrap(), notes)
}

/// A note says that no page was perforated exactly if there were fragmented blocks that the scheme
/// could have perforated.
#[test]
fn missing_perforated_pages_are_noted_where_there_were_fragmented_blocks() {
    const FRAGMENTED: (&str, &str) = ("fragmentation", "portion=50%,holes=25%,clustered");
    const NONE_FITS: (&str, &str) = ("perforation", "max-hole-share=1%");
    const SMALL: (&str, &str) = ("memory", "256M");
    const AGED: [(&str, &str); 2] = [("memory", "512M"), ("age", "weeks,free=25%,unusable=90%")];
    let aged = |perforation| [AGED[0], AGED[1], ("perforation", perforation)];
    // By default, the policy selects among blocks of aged memory as in P §III.C.
    let (some, all) = (aged("max-filter-bits=8"), aged("max-hole-share=100%,max-filter-bits=8"));
    let none = aged("max-hole-share=1%");
    let never = "there never was a perforated page";
    let chosen = "blocks are perforated as P §III.C does";
    // Options, whether there are perforated pages, and the note.
    for (scheme, options, has_pages, note) in [
        ("perforated", &[SMALL][..], false, None),
        ("perforated", &[SMALL, FRAGMENTED], true, None),
        ("perforated", &[SMALL, FRAGMENTED, NONE_FITS], false, Some(never)),
        ("perforated", &[SMALL, NONE_FITS], false, None),
        ("perforated", &some, true, Some(chosen)),
        ("perforated", &all, true, None),
        ("perforated", &none, false, Some(never)),
        ("thp", &[SMALL, FRAGMENTED], false, None),
    ] {
        let (pages, notes) = perforated(scheme, options);
        let case = format!("{scheme} on {options:?}: {notes:?}");
        assert_eq!(pages > 0.0, has_pages, "{case}");
        assert_eq!(notes.len(), usize::from(note.is_some()), "{case}");
        let is_said = note.is_none_or(|note| notes[0].contains(note));
        assert!(is_said && notes.iter().all(|note| note.starts_with(scheme)), "{case}");
    }
}

/// Each note on a run is there exactly if the run has what the note is about. Maps of memory are there if
/// the observer wants them.
#[test]
fn notes_are_on_what_the_run_has() {
    let fragmented = [("memory", "256M"), ("fragmentation", "portion=50%,holes=25%,clustered")];
    let whole = &fragmented[..1];
    for (schemes, functional, options, cores) in [
        ("4k", true, whole, 1),
        ("4k", false, whole, 1),
        ("4k,4k+4k", true, whole, 1),
        ("4k", true, &fragmented[..], 1),
        ("4k", false, whole, 2),
    ] {
        let comparison = ResolvedRun {
            processors: ProcessorOptions { cores, ..ProcessorOptions::default() },
            workload: Workload { instructions: Some(2_000), ..Workload::named("random:size=1M") },
            machine: Machine::load(Machine::DEFAULT).unwrap(),
            schemes: Composition::list(schemes).unwrap(),
            memory: memory(options),
            seed: 1,
            measuring: measuring(functional, false, Some(0)),
        };
        let found = checked_run(&comparison).unwrap();
        for (note, is_expected) in [
            ("host: ", schemes.contains('+')),
            ("fragmentation is injected per virtual 2MB region", options.len() > 1),
            ("IPC is steady state", !functional),
            ("2 cores: IPC is that of all together", cores > 1),
            ("the trace is incomplete", false),
            ("the trace has no events of mappings", false),
        ] {
            for result in &found {
                let is_there = result.notes.iter().any(|one| one.starts_with(note));
                assert_eq!(is_there, is_expected, "{note}: {schemes} {options:?} {cores}");
            }
        }
        assert!(found.iter().all(|result| !result.memory_maps.is_empty()));
        let figures = run(&comparison, &mut FiguresOnly(|_| ())).unwrap();
        for (result, without) in found.iter().zip(&figures) {
            assert!(without.memory_maps.is_empty());
            assert_eq!(result.counters, without.counters);
        }
    }
}

/// In explanations, a unit of the host has the name of the host's mechanism, even if the guest has
/// a unit of another kind.
#[test]
fn units_beside_the_tlb_are_called_by_the_names_of_their_owners() {
    let machine = Machine::load(Machine::DEFAULT).unwrap();
    let steps = |pair: &str| -> Vec<String> {
        let pair = Composition::find(pair).unwrap();
        let memory = memory(&[("memory", "256M")]);
        let explained = explain(&machine, pair, &memory, &workload(), 1, &[]).unwrap();
        let translations = explained.into_iter().flat_map(|(_, translations)| translations);
        translations.flat_map(|it| it.steps).map(|step| step.text).collect()
    };
    for (pair, expected, absent) in [
        ("segment+range", "host's range TLB: ", "host's direct segment: nothing"),
        ("4k+range", "host's range TLB: ", "guest's range TLB: "),
    ] {
        let steps = steps(pair);
        assert!(steps.iter().any(|step| step.starts_with(expected)), "{pair}: {steps:#?}");
        assert!(steps.iter().all(|step| !step.starts_with(absent)), "{pair}: {steps:#?}");
    }
}
