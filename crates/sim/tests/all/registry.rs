//! Every counter that a run records is registered, and some run records every registered counter.

use crate::runs::measuring;
use crate::sums::checked_run;
use std::collections::BTreeSet;

use perforate_config::{Size, read};
use perforate_sim::{
    Composition, Machine, MemoryState, ProcessorOptions, ResolvedRun, Workload, counters,
    vocabulary,
};

use crate::sums::assert_sums_add_up;

/// Returns the names of the counters that one run under these schemes records, and checks their
/// sums.
fn written(
    machine: &str,
    schemes: &str,
    functional: bool,
    change: &dyn Fn(&mut MemoryState),
) -> BTreeSet<String> {
    let mut memory = MemoryState::of("256M".parse::<Size>().unwrap().bytes());
    change(&mut memory);
    let comparison = ResolvedRun {
        processors: ProcessorOptions::default(),
        workload: Workload { instructions: Some(60_000), ..Workload::named("random:size=64M") },
        machine: Machine::load(machine).unwrap(),
        schemes: Composition::list(schemes).unwrap(),
        memory,
        seed: 1,
        measuring: measuring(functional, false, Some(10_000)),
    };
    let results = checked_run(&comparison).unwrap();
    results.iter().for_each(|result| assert_sums_add_up(&comparison.machine, 1, result));
    let names = results.iter().flat_map(|result| result.counters.iter());
    names.map(|(name, _)| name.to_owned()).collect()
}

/// With two hardware threads and a small memory, the kernel does work of all kinds, and there are
/// shootdowns.
#[test]
fn sums_add_up_on_several_cores_too() {
    let comparison = ResolvedRun {
        processors: ProcessorOptions { cores: 2, ..ProcessorOptions::default() },
        workload: Workload { instructions: Some(60_000), ..Workload::named("random:size=64M") },
        machine: Machine::load(Machine::DEFAULT).unwrap(),
        schemes: Composition::list("4k,perforated,perforated+perforated").unwrap(),
        memory: MemoryState::of("256M".parse::<Size>().unwrap().bytes()),
        seed: 1,
        measuring: measuring(false, false, Some(10_000)),
    };
    let results = checked_run(&comparison).unwrap();
    results.iter().for_each(|result| assert_sums_add_up(&comparison.machine, 2, result));
}

#[test]
fn what_is_written_is_registered_and_what_is_registered_is_written() {
    let names: Vec<String> = counters().into_iter().map(|counter| counter.id.into()).collect();
    let known: BTreeSet<String> = names.iter().cloned().collect();
    assert_eq!(known.len(), names.len(), "each once");
    let scanners = |state: &mut MemoryState| {
        // Some regions have 4KB pages, which the scanners examine.
        state.kernel.fragmentation = Some(read("portion=50%,holes=25%,dispersed").unwrap());
        state.kernel.khugepaged = Some(read("every=10K").unwrap());
        state.kernel.ksm = Some(read("every=10K").unwrap());
        state.kernel.contents = Some(read("default").unwrap());
        state.kernel.hard_faults = Some(read("every=10K").unwrap());
    };
    let native = "4k,thp,layout,scripted,perforated,segment,range,gt-pde-4m";
    let runs = [
        // This machine has a last-level cache.
        written("ice-lake-sp", native, false, &|_| ()),
        written(Machine::DEFAULT, "4k", true, &|_| ()),
        written(Machine::DEFAULT, "thp", true, &scanners),
        written(Machine::DEFAULT, "segment+4k,perforated+thp,4k+shadow-4k", false, &|_| ()),
    ];
    let all: BTreeSet<String> = runs.iter().flatten().cloned().collect();
    let unregistered: Vec<&String> = all.difference(&known).collect();
    assert!(unregistered.is_empty(), "not registered: {unregistered:?}");
    let unwritten: Vec<&String> = known.difference(&all).collect();
    assert!(unwritten.is_empty(), "no run writes: {unwritten:?}");
    // Without a clock there are no cycles; native runs have no host.
    let functional = &runs[1];
    assert!(!functional.contains("cycles") && !functional.contains("static_energy_nj"));
    assert!(!runs[0].iter().any(|name| name.starts_with("host_page")));
}

#[test]
fn every_counter_says_what_it_is() {
    for counter in counters() {
        let id = &counter.id;
        assert!(counter.meaning.ends_with('.') && !counter.label.is_empty(), "{id}");
        assert!(!counter.group.is_empty(), "{id}");
        // Names end in their unit if the unit is bytes.
        assert_eq!(counter.unit.name() == "bytes", id.ends_with("_bytes"), "{id}");
    }
}

#[test]
fn one_scheme_has_each_role_that_is_for_one() {
    use perforate_types::SchemeRole;
    let schemes = vocabulary().schemes;
    for role in [
        SchemeRole::Base,
        SchemeRole::Conventional,
        SchemeRole::Ideal,
        SchemeRole::Free,
        SchemeRole::Proposal,
    ] {
        let count = schemes.iter().filter(|scheme| scheme.role == role).count();
        assert_eq!(count, 1, "{role:?}");
    }
}
