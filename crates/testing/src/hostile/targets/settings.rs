//! Targets for files that users write: machines, experiments, measured counters, lists of faulty
//! frames.

use std::path::PathBuf;

use perforate_experiment::Experiment;
use perforate_experiment::linear_model::{ResultSchemes, read_perf, read_results};
use perforate_os::FaultMap;
use perforate_sim::{
    Composition, Machine, MemoryOptions, MemoryState, ProcessorOptions, RunOptions, Scheme,
    Simulation, SystemOptions,
};

use super::{Target, target, told, with_file};
use crate::hostile::target::Seeds;

/// Memory limit in bytes for the simulation of a generated machine, with a simulated memory of 8MB.
const BUILT_BYTES: usize = 64 << 20;
/// Largest estimate in bytes of a simulated machine's host memory for which the target runs the
/// simulation.
const SAID_BYTES: u64 = 24 << 20;

pub const TARGETS: &[Target] = &[
    target("machine-file", |bytes| {
        with_file(bytes, |path| drop(told(Machine::load(&path.to_string_lossy()))));
    })
    .with_seeds(Seeds::Folder("machines")),
    target("machine-built", built).with_memory(BUILT_BYTES),
    target("experiment-file", |bytes| {
        with_file(bytes, |path| drop(told(Experiment::load(&path.to_string_lossy()))));
    })
    .with_seeds(Seeds::Folder("experiments")),
    target("perf-file", |bytes| {
        with_file(bytes, |path| {
            let group: &[PathBuf] = &[path.to_owned(), path.to_owned()];
            if let Some(files) = told(read_perf(&[group, group])) {
                assert!(files.iter().all(|file| file.measured.cycles > 0.0));
            }
        });
    })
    .with_seeds(Seeds::Folder("docs/perf")),
    target("results-file", |bytes| {
        with_file(bytes, |path| drop(told(read_results(path, &ResultSchemes::default()))));
    })
    .with_seeds(Seeds::Folder("crates/report/tests/data")),
    target("faulty-file", |bytes| {
        with_file(bytes, |path| {
            let given = [("faulty", path.to_string_lossy())].into_iter().collect();
            told(MemoryOptions::read(given));
        });
        if let Some(map) = told(FaultMap::from_lines(&String::from_utf8_lossy(bytes))) {
            told(map.frames(1 << 20, 7));
        }
    }),
];

/// Loads a machine with the keys and number of cores in the input's lines `KEY=VALUE`. Valid values may
/// still make the machine too large. If its estimate of memory is small, creates a simulation, which
/// must stay within the target's memory limit.
fn built(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let values = text.lines().filter_map(|line| line.split_once('=')).take(16);
    let (cores, values): (Vec<_>, Vec<_>) = values.partition(|(key, _)| *key == "cores");
    let cores = cores.first().and_then(|(_, count)| count.parse().ok()).unwrap_or(1);
    let processors = ProcessorOptions { cores, ..ProcessorOptions::default() };
    let Some(machine) = told(Machine::load_with(Machine::DEFAULT, values.into_iter())) else {
        return;
    };
    if told(processors.check()).is_none() || machine.host_bytes(&processors, false) > SAID_BYTES {
        return;
    }
    let scheme = Composition::from(Scheme::find("4k").expect("it is registered"));
    let memory = MemoryState::of(8 << 20);
    let system = SystemOptions { check: true, implicit_maps: true, counts_only: false };
    let options = RunOptions { functional: false, system, warmup: 0 };
    let simulation = Simulation::new(&machine, scheme, &memory, 1, options);
    let Some(simulation) = told(simulation) else { return };
    told(simulation.with_hardware_threads(&processors));
}
