//! Seeded runs with options of all kinds, whose results are kept in a file.

use std::fmt::Write;

use perforate_config::OptionTexts;
use perforate_kept::{self as kept, TextHash};
use perforate_sim::{
    Composition, Machine, MemorySnapshot, ResolvedRun, RunResult, RunSpec, Silent, SimError,
};
use perforate_types::Random;

const RUNS: u64 = 48;

const MACHINES: [&str; 6] = [
    Machine::DEFAULT,
    "ice-lake-sp",
    "sandy-bridge-table6",
    "gtsm-table4",
    "zen4-genoa",
    "sapphire-rapids",
];

const NATIVE: [&str; 12] = [
    "4k",
    "thp",
    "1g",
    "perforated",
    "perforated-on-demand",
    "perforated-lazy",
    "perforated-reserve",
    "segment",
    "range",
    "gt-pde-4m",
    "mthp-64k",
    "ideal",
];

const PAIRS: [&str; 10] = [
    "4k+4k",
    "thp+thp",
    "4k+thp",
    "perforated+thp",
    "thp+perforated",
    "perforated+perforated",
    "segment+segment",
    "4k+segment",
    "4k+shadow-4k",
    "thp+shadow-thp",
];

const WORKLOADS: [&str; 6] = [
    "random:size=24M",
    "random:size=90M",
    "sequential:size=20M",
    "chase:size=40M",
    "churn:size=16M",
    "redis",
];

/// Groups of options that exclude each other: a run has one of a group in so many runs.
pub const OPTIONS: [(u64, &[&str]); 20] = [
    (5, &["skip=3000"]),
    (5, &["beside=random:size=12M", "beside=sequential:size=8M+random:size=8M"]),
    (6, &["threads=2", "threads=3"]),
    (
        1,
        &[
            "",
            "",
            "functional=true",
            "functional=true cores=2",
            "cores=2",
            "cores=3 side-by-side=5000",
            "threads-per-core=2 side-by-side=0",
            "cores=2 threads-per-core=2",
            "timing=sampled=1k/4k",
            "timing=sampled=500/2k window-warmup=300",
            "timing=sampled=300/1k window-warmup=0 precision=20%",
            "timing=sampled=500/4k precision=1%",
        ],
    ),
    (2, &["warmup=1", "warmup=4000", "warmup=9999", "warmup=auto", "warmup=auto", "warmup=12K"]),
    (3, &["check=true"]),
    (
        2,
        &[
            "fragmentation=none",
            "fragmentation=portion=100%,holes=25%,dispersed",
            "age=weeks",
            "age=desktop-day compaction=background",
        ],
    ),
    (4, &["swap=256M"]),
    (4, &["defrag=always", "defrag=madvise"]),
    (5, &["mthp=64K", "mthp=16K,1M"]),
    (3, &["khugepaged=every=5K", "khugepaged=every=3K,pages-to-scan=2048"]),
    (5, &["contents=default ksm=every=5K", "contents=zero=50% ksm=every=3K"]),
    (6, &["io-gap=pc"]),
    (
        4,
        &[
            "hot-add=64M self-balloon=every=5K",
            "hot-add=128M modes=big-memory,every=3K",
            "modes=compute,every=2K,frames=100",
        ],
    ),
    (8, &["faulty=uniform=1%"]),
    (8, &["zones=x86", "zones=dma=16M,dma32=32M"]),
    (5, &["perforation=max-hole-share=50%", "perforation=max-hole-share=1%", "segment=min=8M"]),
    (8, &["madvise=0x1000-0x7ffffffff000", "madvise=0x1000-0x7ffffffff000=64K"]),
    (4, &["host-khugepaged=every=5K", "host-swap=512M host-memory=32M", "host-memory=2G"]),
    (4, &["host-fragmentation=portion=50%,holes=25%,clustered", "host-age=weeks"]),
];

pub fn one_of<T: Copy>(random: &mut Random, all: &[T]) -> T {
    all[random.below(all.len() as u64) as usize]
}

/// Results of a run, or the error that its options make.
pub fn results(
    given: OptionTexts,
    schemes: &str,
    workload: &str,
    machine: Machine,
) -> Result<Vec<RunResult>, SimError> {
    let schemes = Composition::list(schemes)?;
    let run: ResolvedRun =
        RunSpec::read(given)?.resolve(workload.into(), machine, schemes, &MemorySnapshot::load)?;
    // Sums of so few instructions lack the parts of walks that began in the warm-up.
    perforate_sim::run(&run, &mut Silent)
}

/// A run with some of the options, or the error that they make.
fn run_of(random: &mut Random) -> (String, Result<Vec<RunResult>, SimError>) {
    let mut given = OptionTexts::default();
    let (mut name, machine) = (String::new(), one_of(random, &MACHINES));
    let mut insert = |key: &str, value: &str| {
        write!(name, " {key}={value}").unwrap();
        given.insert(key, value);
    };
    let schemes = match random.below(3) {
        0 => one_of(random, &PAIRS).to_owned(),
        _ => [one_of(random, &NATIVE), one_of(random, &NATIVE)].join(","),
    };
    insert("instructions", one_of(random, &["12000", "20000"]));
    insert("seed", one_of(random, &["1", "2", "77"]));
    insert("memory", one_of(random, &["64M", "192M", "192M", "1G"]));
    for (one_in, texts) in OPTIONS {
        if random.below(one_in) == 0 {
            for option in one_of(random, texts).split_whitespace() {
                let (key, value) = option.split_once('=').unwrap();
                insert(key, value);
            }
        }
    }
    let workload = one_of(random, &WORKLOADS);
    let machine_named = Machine::load(machine).unwrap();
    let results = results(given, &schemes, workload, machine_named);
    (format!("{schemes} {workload} {machine}{name}"), results)
}

/// Returns the main figures of a result, and a hash of each of its parts.
fn line(seed: u64, result: &RunResult) -> String {
    let mut line = format!("  {}:", result.scheme);
    for name in ["cycles", "operating_system_cycles", "page_faults", "walks"] {
        if let Some(value) = result.counters.get(name) {
            write!(line, " {name} {value}").unwrap();
        }
    }
    let serde_json::Value::Object(parts) = serde_json::to_value(result).unwrap() else {
        panic!("a result is an object")
    };
    // A few runs show that their record has all options.
    let is_kept = |name: &str| name != "version" && (name != "config" || seed < 6);
    for (name, part) in parts.iter().filter(|part| is_kept(part.0)) {
        let is_plain = part.is_null() || part.as_array().is_some_and(Vec::is_empty);
        if !is_plain {
            write!(line, " {name} {}", TextHash::of(&part.to_string())).unwrap();
        }
    }
    line + "\n"
}

/// A change of the model or of a note renews the file with `UPDATE_KEPT=1`; any other change leaves it as it
/// is.
#[test]
fn runs_have_the_results_that_are_kept() {
    let mut lines = String::new();
    for seed in 0..RUNS {
        let (name, results) = run_of(&mut Random::keyed(seed, 3, 0));
        writeln!(lines, "{seed}: {name}").unwrap();
        match results {
            Ok(results) => results.iter().for_each(|result| lines += &line(seed, result)),
            Err(error) => writeln!(lines, "  {error}").unwrap(),
        }
    }
    kept::compare(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/kept.txt"), &lines);
}
