//! Measures instructions per second of whole runs. Prints one JSON line per scheme, workload and
//! mode: `cargo bench -p perforate-sim [-- PART-OF-NAME…]`. Only the simulation is timed, on one
//! core; the benchmark of the trace crate times the decoder.

use std::time::{Duration, Instant};

use perforate_os::KernelConfig;
use perforate_sim::{
    Composition, Machine, MemoryState, RunOptions, Simulation, SystemOptions, Workload,
    open_workload,
};
use perforate_types::Chunk;

/// Number of instructions before the measured ones for synthetic workloads. They touch all data, so
/// that the measurement shows translation rather than first touches.
const SYNTHETIC_WARMUP: u64 = 20_000_000;
/// Number of instructions before the measured ones for traces, which were recorded after
/// initialisation.
const TRACE_WARMUP: u64 = 1_000_000;
const MEASURED: u64 = 10_000_000;
/// Schemes, each after the scheme with which its rate is compared ([`yardstick`]). Superpages and
/// coalescing have the same TLB misses as 4KB pages.
const SCHEMES: [&str; 12] = [
    "4k",
    "gt-pde-4m",
    "gt-pde-1m",
    "p-gt-pde-2m",
    "4k-colt-8",
    "thp",
    "perforated",
    "ideal",
    "4k+4k",
    "thp+thp",
    "perforated+perforated",
    "4k+segment",
];

/// Returns the scheme with which a scheme's rate is compared; `None` for no comparison.
fn yardstick(scheme: &str) -> Option<&str> {
    match scheme.split_once('+') {
        Some((guest, _)) => Some(guest),
        None => (scheme.contains("gt-pde") || scheme.contains("colt")).then_some("4k"),
    }
}

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut workloads = vec!["random".to_owned(), "sequential".to_owned(), "chase".to_owned()];
    workloads.extend(bundled_traces());
    for workload in workloads {
        let name = workload.rsplit('/').next().unwrap_or(&workload).to_owned();
        for functional in [false, true] {
            let mut rates: Vec<(&str, f64)> = Vec::new();
            for scheme in SCHEMES {
                let mode = if functional { "functional" } else { "timing" };
                let case = format!("{name}/{scheme}/{mode}");
                if wanted.is_empty() || wanted.iter().any(|part| case.contains(part.as_str())) {
                    let other = yardstick(scheme);
                    let other = rates.iter().find(|(known, _)| Some(*known) == other).copied();
                    let rate = measure(&workload, (&name, scheme), functional, other);
                    rates.push((scheme, rate));
                }
            }
        }
    }
}

fn bundled_traces() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");
    let mut traces: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.path().to_str().map(str::to_owned))
        .filter(|path| path.ends_with(".trace"))
        .collect();
    traces.sort();
    traces
}

/// Measures the instructions per second of one scheme. `other` is the scheme to compare with, and
/// its rate.
fn measure(
    workload: &str,
    (name, scheme): (&str, &str),
    functional: bool,
    other: Option<(&str, f64)>,
) -> f64 {
    let fragmentation = perforate_config::read("portion=50%,holes=25%,clustered");
    let fragmentation = fragmentation.expect("a right fragmentation");
    let memory = {
        let memory = MemoryState::of(MemoryState::DEFAULT_BYTES);
        let kernel = KernelConfig { fragmentation, ..memory.kernel };
        MemoryState { kernel, ..memory }
    };
    let machine = Machine::load(Machine::DEFAULT).expect("a bundled machine");
    let warmup = if workload.ends_with(".trace") { TRACE_WARMUP } else { SYNTHETIC_WARMUP };
    let instructions = Some(warmup + MEASURED);
    let workload = Workload { instructions, ..Workload::named(workload) };
    let mut source = open_workload(&workload, &memory, 1).expect("a right workload");
    let implicit_maps = !source.metadata().has_events;
    let system = SystemOptions { check: false, implicit_maps, counts_only: functional };
    let options = RunOptions { functional, system, warmup: 0 };
    let scheme = Composition::find(scheme).expect("a scheme");
    let mut simulation =
        Simulation::new(&machine, scheme, &memory, 1, options).expect("a simulation");
    let mut chunk = Chunk::default();
    let mut elapsed = Duration::ZERO;
    let (mut instructions, mut accesses) = (0, 0);
    while source.next_chunk(&mut chunk).expect("a whole trace") {
        let measured = simulation.instructions() >= warmup;
        let start = Instant::now();
        simulation.run(&chunk).expect("a run");
        if measured {
            elapsed += start.elapsed();
            instructions += chunk.instructions.len();
            accesses += chunk.accesses.len();
        }
    }
    let seconds = elapsed.as_secs_f64();
    let rate = instructions as f64 / seconds;
    let mut line = serde_json::json!({
        "workload": name,
        "scheme": scheme.name(),
        "mode": if functional { "functional" } else { "timing" },
        "instructions_per_second": rate as u64,
        "accesses_per_second": (accesses as f64 / seconds) as u64,
    });
    if let Some((other, other_rate)) = other {
        line["compared_with"] = other.into();
        line["share_of_its_rate"] = format!("{:.2}", rate / other_rate).into();
    }
    println!("{line}");
    rate
}
