//! Walks that the analysis counts, compared with the counters of whole simulations.

use perforate_advice::{Analysis, MeasuredPart, analyse};
use perforate_sim::{
    Composition, Machine, MeasuringOptions, MemoryState, ResolvedRun, Silent, WarmupLength,
    Workload, open_workload,
};

/// A functional run of 4KB pages and of 2MB pages in unfragmented memory, without a warm-up.
fn resolved(workload: &str, machine: &str, instructions: u64) -> ResolvedRun {
    let measuring = MeasuringOptions {
        functional: true,
        warmup: Some(WarmupLength::Instructions(0)),
        ..MeasuringOptions::default()
    };
    let name = perforate_trace::bundled::resolve(workload);
    let workload = Workload { instructions: Some(instructions), ..Workload::named(name) };
    let schemes = Composition::list("4k,thp").unwrap();
    ResolvedRun {
        machine: Machine::load(machine).unwrap(),
        measuring,
        memory: MemoryState::of(32 << 30),
        ..ResolvedRun::new(workload, schemes)
    }
}

fn analysed(run: &ResolvedRun) -> Analysis {
    let mut source = open_workload(&run.workload, &run.memory, run.seed).unwrap();
    let part = MeasuredPart { warmup: 0 };
    analyse(&mut source, part, &run.machine.tlb, 2, &mut |_| {}).unwrap()
}

/// Capacity misses and compulsory misses of the second-level TLB, by scheme.
fn simulated(run: &ResolvedRun) -> Vec<[u64; 2]> {
    let results = perforate_sim::run(run, &mut Silent).unwrap();
    let counted = results.iter().map(|result| {
        let get = |name: &str| result.counters.get(name).unwrap() as u64;
        let compulsory = get("l2_tlb_compulsory_misses");
        [get("l2_tlb_misses") - compulsory, compulsory]
    });
    counted.collect()
}

#[test]
fn walks_are_those_of_a_simulation() {
    for workload in [
        "random:size=64M",
        "zipf:size=256M",
        "strided:size=64M",
        "churned",
        "redis",
        "xz",
        "bfs",
        "mummer",
    ] {
        for machine in ["perforated-table2", "ice-lake-sp", "sandy-bridge-table6", "neoverse-n1"] {
            let run = resolved(workload, machine, 300_000);
            let analysis = analysed(&run);
            let found = [analysis.base, analysis.all_large]
                .map(|counts| [counts.walks, counts.first_walks]);
            println!("{workload} {machine}: {found:?} {:?}", simulated(&run));
        }
    }
}
