//! Seeded runs of all schemes, machines and kinds of workloads, with options and settings of machines of all kinds. A
//! hash of all results of each is kept in a file.

use std::fmt::Write;

use perforate_config::OptionTexts;
use perforate_kept::{self as kept, TextHash};
use perforate_sim::{Machine, RunResult, SimError, scheme};
use perforate_types::Random;

use crate::kept::{OPTIONS, one_of, results};

const RUNS: u64 = 320;
/// Number of draws of a run, of which the first without an error counts.
const TRIES: usize = 4;

/// Hosts and guests of pairs.
const SIDES: [&str; 16] = [
    "4k",
    "4k-colt-8",
    "mthp-32k",
    "thp",
    "1g",
    "perforated-naive",
    "perforated-on-demand",
    "perforated-selective",
    "perforated-lazy",
    "perforated-reserve",
    "perforated",
    "perforated-scripted",
    "segment",
    "segment-thp",
    "range",
    "ideal",
];

const WORKLOADS: [&str; 30] = [
    "random:size=60M,writes=30%",
    "random:size=200M,dependent=yes",
    "random:size=8M,others=0",
    "sequential:size=9M,writes=50%,others=1",
    "stride:size=90M,stride=4K",
    "stride:size=64M,stride=260K,writes=10%",
    "zipf:size=70M,exponent=0.6",
    "zipf:size=12M,exponent=1.2,item=4K,writes=20%",
    "chase:size=30M,node=4K,scattered=yes,chains=4",
    "chase:size=6M,writes=40%",
    "churn:size=12M,piece=2M,between=100",
    "churn:size=6M,piece=40K,between=30,writes=60%",
    "churn:size=24M,piece=5M,between=900",
    "gups:size=16M,instructions=14",
    "canneal:size=2M",
    "canneal:size=4M,grows=yes",
    "dict:size=2M,batch=300",
    "btree:size=2M,grows=yes",
    "hash-join:size=2M",
    "xsbench:size=4M",
    "store:keys=300,value=6K,live=50%,reads=200",
    "store:keys=90,value=40K,live=30%,reads=100,grows=yes",
    "fork:heap=8M,written=20%,case=a,reads=300",
    "fork:heap=6M,written=5%,case=b,reads=300",
    "fork:heap=4M,written=50%,case=c,reads=300",
    "readers:heap=4M,processes=3,touch=yes,reads=300,warmup=50,slice=40",
    "readers:heap=2M,processes=5,reads=200,warmup=50,slice=30",
    "redis",
    "bfs",
    "jellyfish",
];

/// Options beside those of [`OPTIONS`], in groups that exclude each other: a run has one of a group in so many runs.
const MORE: [(u64, &[&str]); 13] = [
    (6, &["memory=48M swap=96M", "memory=40M swap=64M defrag=always"]),
    (6, &["age=kernel-build", "age=weeks,unusable=30%", "age=desktop-day,pinned=2%,free=40%"]),
    (
        8,
        &[
            "fragmentation=portion=70%,holes=60%,clustered,align=64",
            "fragmentation=portion=90%,holes=2%,dispersed",
        ],
    ),
    (8, &["faulty=clustered=3%", "faulty=uniform=0.2%"]),
    (
        5,
        &[
            "perforation=promote=punch khugepaged=every=4K",
            "perforation=promote=collapse,demote-above=5% khugepaged=every=4K",
            "perforation=max-filter-bits=2,holes=lazy",
            "perforation=create=reserve,hole-cost=9 khugepaged=every=2K,max-ptes-none=64",
        ],
    ),
    (
        5,
        &[
            "segment=min=2M,escapes=4,compact=no",
            "segment=min=4M,pages=2m",
            "segment=escapes=0,min=1M",
        ],
    ),
    (
        5,
        &[
            "superpages=least-blocks=48",
            "superpages=paired=yes,bs=4",
            "superpages=pages=2m",
            "superpages=from=64M,to=256M",
        ],
    ),
    (6, &["policy=madvise", "policy=large-areas", "policy=used khugepaged=every=3K"]),
    (
        6,
        &[
            "khugepaged=every=2K,max-ptes-none=0",
            "khugepaged=every=6K,max-ptes-shared=0,max-ptes-swap=0,defrag=no",
        ],
    ),
    (
        7,
        &[
            "contents=zero=30%,duplicate=40%,distinct=8,run=4 ksm=every=2K,pages-to-scan=300,max-page-sharing=3",
        ],
    ),
    (
        7,
        &[
            "host-contents=zero=40%,duplicate=30% host-ksm=every=3K",
            "host-faulty=uniform=2%",
            "host-defrag=always",
        ],
    ),
    (7, &["host-swap=512M host-memory=40M memory=64M", "host-age=kernel-build", "host-mthp=64K"]),
    (
        7,
        &[
            "mthp=32K=madvise,128K madvise=0x1000-0x7ffffffff000",
            "zones=dma=8M,dma32=48M",
            "compaction=background age=weeks",
        ],
    ),
];

/// Settings of machines. A run has one of them in so many runs.
const SETTINGS: [(u64, &[(&str, &str)]); 12] = [
    (
        4,
        &[
            ("tlb.l2", "{ entries = 96, ways = 6 }"),
            ("tlb.l2", "{ entries = 1024, ways = 8 }"),
            ("tlb.l1_data_4k", "{ entries = 16, ways = 2 }"),
        ],
    ),
    (6, &[("tlb.tagged", "false")]),
    (6, &[("tlb.l2_2m", "\"none\""), ("tlb.l2_2m", "\"all\"")]),
    (5, &[("walker.walkers", "1"), ("walker.walkers", "3"), ("walker.attach", "l2")]),
    (6, &[("walk_cache.level2_entries", "2"), ("walk_cache.level3_entries", "0")]),
    (6, &[("cache.l1d.prefetcher", "next-line"), ("cache.l2.prefetcher", "stride")]),
    (6, &[("cache.l1d.mshrs", "2"), ("cache.l2.mshrs", "3"), ("cache.llc.mshrs", "4")]),
    (
        6,
        &[
            ("core.reorder_buffer_entries", "32"),
            ("core.scheduler_entries", "12"),
            ("core.width", "2"),
        ],
    ),
    (6, &[("core.load_queue_entries", "6"), ("core.store_queue_entries", "4")]),
    (8, &[("dram.channels", "1"), ("dram.row_open_ns", "0.0")]),
    (
        8,
        &[
            ("branch_predictor.table_entries", "64"),
            ("branch_predictor.mispredict_penalty_cycles", "40"),
        ],
    ),
    (
        8,
        &[
            ("virtualization.escape_filter_bits", "16"),
            ("virtualization.escape_filter_functions", "1"),
        ],
    ),
];

/// One of each group that takes part.
fn chosen<T: Copy>(random: &mut Random, groups: &[(u64, &[T])]) -> Vec<T> {
    let mut chosen = Vec::new();
    for (one_in, choices) in groups {
        if random.below(*one_in) == 0 {
            chosen.push(one_of(random, choices));
        }
    }
    chosen
}

/// Name of a run, and its results or the error that it makes.
fn run_of(random: &mut Random) -> (String, Result<Vec<RunResult>, SimError>) {
    let native: Vec<&str> = scheme::all().map(|scheme| scheme.name).collect();
    let scheme = match random.below(5) {
        0 | 1 => [one_of(random, &SIDES), one_of(random, &SIDES)].join("+"),
        2 => format!("{}+{}", one_of(random, &SIDES), one_of(random, &["shadow-4k", "shadow-thp"])),
        _ => one_of(random, &native).to_owned(),
    };
    let machines: Vec<String> =
        Machine::bundled().into_iter().map(|machine| machine.name).collect();
    let machine = &machines[random.below(machines.len() as u64) as usize];
    let workload = one_of(random, &WORKLOADS);
    // Most combinations of many options are errors.
    let groups = [&OPTIONS[..], &MORE[..]].concat();
    let mut texts: Vec<&str> = chosen(random, &groups).into_iter().take(4).collect();
    texts.push(one_of(random, &["instructions=9000", "instructions=16000"]));
    texts.push(one_of(random, &["seed=3", "seed=4", "seed=55"]));
    if !texts.iter().any(|text| text.starts_with("memory=") || text.contains(" memory=")) {
        texts.push(one_of(random, &["memory=96M", "memory=256M", "memory=400M"]));
    }
    let settings = chosen(random, &SETTINGS);
    let name = format!("{scheme} {workload} {machine} {} {settings:?}", texts.join(" "));
    let mut given = OptionTexts::default();
    for option in texts.iter().flat_map(|text| text.split_whitespace()) {
        let (key, value) = option.split_once('=').unwrap();
        given.insert(key, value);
    }
    let machine = Machine::load_with(machine, settings.into_iter());
    (name, machine.and_then(|machine| results(given, &scheme, workload, machine)))
}

/// Line of a run with its number, cycles and a hash of its results, or its error.
fn line(number: u64) -> String {
    let mut random = Random::keyed(number, 5, 0);
    let mut errors = String::new();
    for _ in 0..TRIES {
        let (name, results) = run_of(&mut random);
        let results = match results {
            Ok(results) => results,
            Err(error) => {
                writeln!(errors, "{name}: {error}").unwrap();
                continue;
            }
        };
        let cycles = results[0].counters.get("cycles").unwrap_or_default().to_string();
        let mut results = serde_json::to_value(&results).unwrap();
        for result in results.as_array_mut().unwrap() {
            result.as_object_mut().unwrap().remove("version");
        }
        let hash = TextHash::of(&[errors, results.to_string()].concat());
        return format!("{number}: {name} | cycles {cycles} | {hash}");
    }
    format!("{number}: {}", errors.lines().last().unwrap())
}

/// A change of the model or of a note renews the file with `UPDATE_KEPT=1`; any other change leaves it as it
/// is.
#[test]
fn all_kinds_of_runs_have_the_results_that_are_kept() {
    let lines: Vec<String> = (0..RUNS).map(line).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/kept-wide.txt");
    kept::compare(path, &(lines.join("\n") + "\n"));
}
