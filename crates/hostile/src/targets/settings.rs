//! Files that people write: machines, policies, experiments, measured counters, lists of faulty frames.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use perforate_experiment::Experiment;
use perforate_os::FaultMap;
use perforate_script::{
    AreaFacts, BlockFacts, Purpose, RegionFacts, Script, ScriptError, VictimFacts, WayFacts,
};
use perforate_sim::linear_model::{ResultSchemes, read_perf, read_results};
use perforate_sim::{FaultyFrames, Machine, MemoryOptions};

use super::{Target, target, told, with_file};
use crate::target::Seeds;

pub const TARGETS: &[Target] = &[
    target("machine-file", |bytes| {
        with_file(bytes, |path| drop(told(Machine::load(&path.to_string_lossy()))));
    })
    .with_seeds(Seeds::Folder("machines")),
    target("policy-file", |bytes| with_file(bytes, policy))
        .with_seeds(Seeds::Folder("examples/policies")),
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

/// A script that compiles is asked everything, and asked again: its answers are the same.
fn policy(path: &Path) {
    let Some(script) = told(Script::read(path)) else { return };
    let answers = || {
        [
            answer(script.order_for(AREA, Purpose::Fault, &[0, 9, 18])),
            answer(script.order_for(AREA, Purpose::Khugepaged, &[0, 9])),
            answer(script.with_holes(BLOCK)),
            answer(script.promote(REGION, &[WAY])),
            answer(script.patch(1)),
            answer(script.demote(BLOCK)),
            answer(script.reclaim(VICTIM)),
        ]
    };
    assert_eq!(answers(), answers());
}

/// An answer or an error in words.
fn answer<T: Debug>(outcome: Result<T, ScriptError>) -> Option<String> {
    told(outcome).map(|answer| format!("{answer:?}"))
}

const AREA: AreaFacts = AreaFacts {
    address: 0x7000_0020_0000,
    start: 0x7000_0000_0000,
    length: 2 << 30,
    kind: "anonymous",
    advice: "hugepage",
    shared: false,
    writable: true,
    executable: false,
    memory_bytes: 4 << 30,
    free_bytes: 1 << 30,
    free_blocks: 17,
};
const BLOCK: BlockFacts = BlockFacts { holes: 77, regions_with_holes: 3, aged: true };
const REGION: RegionFacts = RegionFacts { pages_present: 500, pages_absent: 12, pages_shared: 1 };
const WAY: WayFacts = WayFacts {
    name: "collapse",
    frames_copied: 500,
    frames_migrated: 3,
    frames_zeroed: 12,
    holes: 0,
};
const VICTIM: VictimFacts = VictimFacts {
    address: 0x7000_0020_0000,
    pages_present: 512,
    large: true,
    holes: 0,
    advice: "none",
};
