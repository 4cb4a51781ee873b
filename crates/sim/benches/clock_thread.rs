//! Measures the speed-up from running the clock on a separate thread: `cargo bench -p perforate-sim
//! --bench clock_thread [-- PART-OF-NAME…]`. Instructions are decoded beforehand, so a run uses one
//! thread or two, in turn. Each line has the median of five pairs of runs, with minimum and
//! maximum.

use std::sync::Arc;
use std::time::Instant;

use perforate_sim::{
    Composition, Machine, MemoryState, RunOptions, Simulation, SystemOptions, TimedWindows,
    Workload, open_workload,
};
use perforate_types::Chunk;

const INSTRUCTIONS: u64 = 10_000_000;
/// Number of pairs of runs per case.
const PAIRS: usize = 5;
const WINDOWS: TimedWindows = TimedWindows { window: 10_000, period: 500_000 };
const CASES: [(&str, &str); 6] = [
    ("random", "4k"),
    ("random", "4k+4k"),
    ("bfs", "4k"),
    ("redis", "4k"),
    ("redis", "perforated"),
    ("xz", "4k+4k"),
];

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    println!("{:<28} {:>6} {:>20}", "", "gain", "least, most of five");
    for (workload, scheme) in CASES {
        for windows in [None, Some(WINDOWS)] {
            let timing = if windows.is_some() { "sampled" } else { "full" };
            let case = format!("{workload} {scheme} {timing}");
            if wanted.is_empty() || wanted.iter().any(|part| case.contains(part.as_str())) {
                measure(&case, (workload, scheme), windows);
            }
        }
    }
}

fn measure(case: &str, (workload, scheme): (&str, &str), windows: Option<TimedWindows>) {
    let traces = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");
    let file = format!("{traces}/{workload}.trace");
    let name = if std::path::Path::new(&file).exists() { file } else { workload.to_owned() };
    let memory = MemoryState::default();
    let workload = Workload { instructions: Some(INSTRUCTIONS), ..Workload::named(name) };
    let mut source = open_workload(&workload, &memory, 1).expect("a right workload");
    let implicit_maps = !source.metadata().has_events;
    let system = SystemOptions { check: false, implicit_maps, counts_only: false };
    let options = RunOptions { functional: false, system, warmup: INSTRUCTIONS / 5 };
    let mut chunks = Vec::new();
    loop {
        let mut chunk = Chunk::default();
        if !source.next_chunk(&mut chunk).expect("a whole trace") {
            break;
        }
        chunks.push(Arc::new(chunk));
    }
    let machine = Machine::load(Machine::DEFAULT).expect("a bundled machine");
    let scheme = Composition::find(scheme).expect("a scheme");
    let run = |has_thread: bool| {
        let mut simulation =
            Simulation::new(&machine, scheme, &memory, 1, options).expect("a simulation");
        if let Some(windows) = windows {
            simulation = simulation.with_timed_windows(windows, 2000, 1);
        }
        if has_thread {
            simulation = simulation.with_clock_thread().expect("a thread can be started");
        }
        let start = Instant::now();
        for chunk in &chunks {
            simulation.run_shared(chunk).expect("a run");
        }
        simulation.into_counters().expect("a measured part");
        start.elapsed().as_secs_f64()
    };
    let mut gains: Vec<f64> = (0..PAIRS).map(|_| run(false) / run(true)).collect();
    gains.sort_by(f64::total_cmp);
    let (least, median, most) = (gains[0], gains[PAIRS / 2], gains[PAIRS - 1]);
    println!("{case:<28} {median:>5.2}× {:>20}", format!("{least:.2}–{most:.2}"));
}
