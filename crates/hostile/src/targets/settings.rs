//! Files that people write: machines, experiments, measured counters, lists of faulty frames.

use std::path::PathBuf;

use perforate_experiment::Experiment;
use perforate_os::FaultMap;
use perforate_sim::linear_model::{ResultSchemes, read_perf, read_results};
use perforate_sim::{FaultyFrames, Machine, MemoryOptions};

use super::{Target, target, told, with_file};
use crate::target::Seeds;

pub const TARGETS: &[Target] = &[
    target("machine-file", |bytes| {
        with_file(bytes, |path| drop(told(Machine::load(&path.to_string_lossy()))));
    })
    .with_seeds(Seeds::Folder("machines")),
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
            let faulty = path.to_string_lossy();
            let faulty = Some(FaultyFrames::Listed(faulty.into_owned()));
            told(MemoryOptions { faulty, ..MemoryOptions::default() }.resolve());
        });
        if let Some(map) = told(FaultMap::from_lines(&String::from_utf8_lossy(bytes))) {
            told(map.frames(1 << 20, 7));
        }
    }),
];
