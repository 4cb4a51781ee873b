//! Targets for the grammars of options. An input has one example per line.

use std::fmt::Display;

use perforate_config::{Address, Count, OptionTexts, Share, Size, read};
use perforate_experiment::Design;
use perforate_os::{Ageing, ContentDistribution, FaultMap, Fragmentation};
use perforate_sim::{Composition, MemorySnapshot, RunSpec, WarmupLength};
use perforate_trace::split_format;
use perforate_workloads::WorkloadSpec;
use serde::de::DeserializeOwned;

use super::{Target, each_line, target};

pub const TARGETS: &[Target] = &[
    target("option-fragmentation", |bytes| each_line(bytes, printed::<Fragmentation>)),
    target("option-age", |bytes| each_line(bytes, printed::<Ageing>)),
    target("option-faulty", |bytes| {
        each_line(bytes, |line| {
            printed::<FaultMap>(line);
            if let Ok(map) = read::<FaultMap>(line) {
                let faulty = map.frames(4096, 1).expect("shares are of any memory");
                assert!(faulty.len() <= 4096);
            }
        });
    }),
    target("option-perforation", |bytes| each_line(bytes, |line| memory(&[("perforation", line)]))),
    target("option-segment", |bytes| each_line(bytes, |line| memory(&[("segment", line)]))),
    target("option-superpages", |bytes| each_line(bytes, |line| memory(&[("superpages", line)]))),
    target("option-khugepaged", |bytes| each_line(bytes, |line| memory(&[("khugepaged", line)]))),
    target("option-ksm", |bytes| {
        each_line(bytes, |line| memory(&[("ksm", line), ("contents", "zero=5%")]));
    }),
    target("option-contents", |bytes| {
        each_line(bytes, |line| {
            printed::<ContentDistribution>(line);
            memory(&[("ksm", "default"), ("contents", line)]);
        });
    }),
    target("option-zones", |bytes| each_line(bytes, |line| memory(&[("zones", line)]))),
    target("option-size", |bytes| {
        each_line(bytes, |line| {
            units(line);
            for key in ["memory", "swap", "hot-add", "host-memory"] {
                memory(&[(key, line)]);
            }
        });
    }),
    target("option-words", |bytes| {
        each_line(bytes, |line| {
            for key in ["defrag", "compaction", "io-gap", line] {
                memory(&[(key, line)]);
            }
            drop(read::<WarmupLength>(line));
            split_format(line.as_ref());
        });
    }),
    target("option-modes", |bytes| each_line(bytes, |line| memory(&[("modes", line)]))),
    target("scheme-name", |bytes| {
        each_line(bytes, |line| {
            if let Ok(found) = Composition::find(line) {
                Composition::find(&found.name()).expect("names are found again");
            }
            drop(Composition::list(line));
            drop(Composition::pairs(line, "4k,thp"));
            drop(Composition::pairs("4k,thp", line));
        });
    }),
    target("design-name", |bytes| {
        each_line(bytes, |line| drop(Design::parse(line)));
    }),
    target("workload-name", |bytes| {
        each_line(bytes, |line| {
            if let Ok(spec) = WorkloadSpec::parse(line) {
                let text = spec.to_string();
                let again = WorkloadSpec::parse(&text).expect("what is printed can be read");
                assert_eq!(again.to_string(), text);
                spec.host_bytes();
            }
        });
    }),
];

/// Asserts that an option value that can be parsed is printed in a form that can be parsed again.
fn printed<T: DeserializeOwned + Display>(line: &str) {
    let Ok(value) = read::<T>(line) else { return };
    let text = value.to_string();
    if let Err(error) = read::<T>(&text) {
        panic!("{line:?} is printed as {text:?}: {error}");
    }
}

/// Parses a line as a size, a count, a share, and an address, and prints the values.
fn units(line: &str) {
    printed::<Size>(line);
    printed::<Count>(line);
    printed::<Share>(line);
    printed::<Address>(line);
}

/// Resolves options of the simulated memory, and describes the resulting memory.
fn memory(options: &[(&str, &str)]) {
    let given: OptionTexts = options.iter().copied().collect();
    if let Ok(spec) = RunSpec::read(given) {
        let memory = spec.memory.resolve(&MemorySnapshot::load);
        drop(memory.map(|memory| memory.describe()));
    }
}
