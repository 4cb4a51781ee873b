//! Pages and tables of real runs and experiments, compared with `tests/data/real.txt`. `UPDATE_KEPT=1` writes it after
//! an intended change, of the model, too.
//!
//! `tests/data/experiments.jsonl` has the results of experiments of all kinds, as the program wrote them.

use std::fmt::Write as _;

use perforate_config::OptionTexts;
use perforate_kept::{self as kept, TextHash};
use perforate_records::{ExperimentResults, read_experiments, read_results};
use perforate_report::{
    Rows, experiments_html, experiments_table, html, summary_html, table, varied_table,
};
use perforate_sim::{Composition, Machine, MemorySnapshot, RunSpec, Silent};

use crate::kept::add_page;
use crate::vocabulary::{options, vocabulary};

/// Schemes, workload, machine and options of runs.
const RUNS: [(&str, &str, &str, &str); 12] = [
    ("4k,thp,perforated,ideal", "random:size=96M", "perforated-table2", "memory=256M"),
    (
        "thp,gt-pde-4m,gt-pde-process",
        "stride:size=64M,stride=4K",
        "gtsm-table4",
        "faulty=uniform=1% memory=256M",
    ),
    ("4k,segment,range", "churn:size=8M,piece=2M,between=100", "haswell-ex", "memory=96M swap=64M"),
    ("4k+4k,segment+segment,4k+shadow-4k", "random:size=64M", "sandy-bridge-table6", "memory=128M"),
    (
        "perforated+perforated,thp+thp",
        "zipf:size=48M",
        "ice-lake-sp",
        "memory=128M host-khugepaged=every=3K",
    ),
    (
        "4k,mthp-64k,perforated-lazy",
        "readers:heap=4M,processes=3,reads=300,warmup=50,slice=40",
        "neoverse-n1",
        "memory=96M cores=2 contents=default ksm=every=3K",
    ),
    (
        "thp,perforated-reserve",
        "fork:heap=8M,written=20%,case=a,reads=300",
        "zen4-genoa",
        "memory=96M khugepaged=every=4K",
    ),
    (
        "4k,thp",
        "random:size=64M",
        "ice-lake-sp",
        "memory=256M timing=sampled=500/4k window-warmup=500 age=desktop-day",
    ),
    ("4k,1g,ideal", "sequential:size=32M", "sapphire-rapids", "memory=2G functional=true"),
    (
        "4k,thp-madvise",
        "random:size=32M",
        "zen2-rome",
        "beside=chase:size=8M threads-per-core=2 memory=128M madvise=0x1000-0x7ffffffff000",
    ),
    (
        "perforated,perforated-scripted",
        "gups:size=16M",
        "perforated-table2",
        "memory=96M fragmentation=portion=80%,holes=40%,clustered",
    ),
    (
        "segment+4k,4k+segment",
        "redis",
        "sandy-bridge-table6",
        "memory=96M hot-add=64M modes=compute,every=2K",
    ),
];

/// Results of a run with all pictures, a line each, without the version of the program.
fn lines((schemes, workload, machine, texts): (&str, &str, &str, &str)) -> String {
    let mut given = OptionTexts::default();
    for option in texts.split_whitespace().chain(["instructions=24000"]) {
        let (key, value) = option.split_once('=').unwrap();
        given.insert(key, value);
    }
    let machine = Machine::load(machine).unwrap();
    let schemes = Composition::list(schemes).unwrap();
    let run = RunSpec::read(given).unwrap();
    let run = run.resolve(workload.into(), machine, schemes, &MemorySnapshot::load).unwrap();
    let results = perforate_sim::run(&run, &mut Silent).unwrap().into_iter().map(|result| {
        let mut result = serde_json::to_value(result).unwrap();
        result.as_object_mut().unwrap().remove("version");
        result.to_string()
    });
    results.collect::<Vec<_>>().join(
        "
",
    )
}

#[test]
fn pages_and_tables_of_real_runs_are_as_they_were() {
    let (vocabulary, options, mut kept) = (vocabulary(), options("Real", "p"), String::new());
    for run in RUNS {
        let name = format!("{} {}", run.0, run.1);
        let records = read_results(&lines(run)).unwrap();
        add_page(&mut kept, &name, &html(&records, &options));
        add_page(&mut kept, &format!("{name}, summary"), &summary_html(&records, &vocabulary));
        let text = table(&records, &vocabulary, 100, Rows::All);
        let varied = varied_table(&records, &vocabulary, 100).unwrap_or_default();
        writeln!(kept, "{name} | tables {} {}", TextHash::of(&text), TextHash::of(&varied))
            .unwrap();
    }
    let experiments = read_experiments(include_str!("../data/experiments.jsonl")).unwrap();
    add_page(&mut kept, "experiments", &experiments_html(&experiments, &options));
    for one in experiments.experiments {
        let name = one.experiment.clone();
        let alone = ExperimentResults { experiments: vec![one], joint: Vec::new() };
        add_page(&mut kept, &name, &experiments_html(&alone, &options));
        let text = experiments_table(&alone, 90);
        writeln!(kept, "{name} | tables {}", TextHash::of(&text)).unwrap();
    }
    kept::compare(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/real.txt"), &kept);
}
