//! Measures the cost of first touches compared with the steady state. Prints one JSON line per
//! scheme: `cargo bench -p perforate-sim --bench first_touches [-- PART-OF-SCHEME…]`.
//!
//! Each program passes over new memory twice. The first round faults on accesses that only walk in
//! the second. Shares are the speed of the first round divided by that of the second.
//!
//! - *touching*: one store to every page and nothing else, translated without a clock. This is the
//!   worst case. If a fault cost as much as a walk, the share would be 50 %, because a fault
//!   includes the failed walk.
//! - *run*: three other instructions per store, as a whole run: functional, or timed as runs are by
//!   default.
//! - *filling*: a store to every word of every page, as in a program that initialises its memory.

use std::time::{Duration, Instant};

use perforate_os::KernelConfig;
use perforate_sim::{
    Machine, MemoryState, RunOptions, Scheme, Simulation, System, SystemOptions, Workload,
    open_workload,
};
use perforate_types::{AccessKind, Backing, Chunk, Permissions, ProgramEvent, VirtualAddress};

const START: u64 = 0x7f00_0000_0000;
/// Bytes of memory touched, page by page.
const TOUCHED_BYTES: u64 = 2 << 30;
const PAGE_BYTES: u64 = 4096;
/// Number of stores to each page when a program initialises its memory word by word.
const STORES_PER_PAGE: u64 = PAGE_BYTES / 8;
/// Number of instructions per store in whole runs, including the store.
const INSTRUCTIONS_PER_STORE: u64 = 4;
const OPTIONS: SystemOptions =
    SystemOptions { check: false, implicit_maps: false, counts_only: true };

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for scheme in ["4k", "thp", "perforated", "ideal"] {
        if wanted.is_empty() || wanted.iter().any(|part| scheme.contains(part.as_str())) {
            measure(scheme);
        }
    }
}

fn measure(scheme: &str) {
    let mut system = new_system(scheme);
    // Round 1 is the first touch of each page; round 2 walks without faults.
    let first = pass(&mut system, 1);
    let faults = system.work();
    let walks = pass(&mut system, 1);
    // The same two rounds, writing every word of each page.
    let mut system = new_system(scheme);
    let first_whole = pass(&mut system, STORES_PER_PAGE);
    let steady_whole = pass(&mut system, STORES_PER_PAGE);
    let pages = TOUCHED_BYTES / PAGE_BYTES;
    let per_page = |time: Duration| (time.as_nanos() as u64) / pages;
    let share = |steady: Duration, first: Duration| {
        (steady.as_secs_f64() / first.as_secs_f64() * 1000.0).round() / 1000.0
    };
    println!(
        "{}",
        serde_json::json!({
            "scheme": scheme,
            "faults_4k": faults.faults_4k,
            "faults_2m": faults.faults_2m,
            "faults_perforated": faults.faults_perforated,
            "first_touch_ns_per_page": per_page(first),
            "walk_ns_per_page": per_page(walks),
            "fault_over_walk": share(first.saturating_sub(walks), walks),
            "touching_speed_over_walking": share(walks, first),
            "run_speed_over_steady": whole_run(scheme, true, share),
            "timed_run_speed_over_steady": whole_run(scheme, false, share),
            "filling_speed_over_refilling": share(steady_whole, first_whole),
        })
    );
}

/// Returns the speed of the first round of a whole run divided by that of the second.
fn whole_run(scheme: &str, functional: bool, share: impl Fn(Duration, Duration) -> f64) -> f64 {
    let name = format!("stride:size={TOUCHED_BYTES}B,stride={PAGE_BYTES}B,writes=1,others=3");
    let workload = Workload::named(name);
    let mut source = open_workload(&workload, &memory(), 1).expect("a right workload");
    let system = SystemOptions { counts_only: functional, ..OPTIONS };
    let options = RunOptions { functional, system, warmup: 0 };
    let scheme = Scheme::find(scheme).expect("a scheme");
    let mut simulation =
        Simulation::new(&machine(), scheme, &memory(), 1, options).expect("a simulation");
    let mut chunk = Chunk::default();
    let mut round = |rounds: u64| {
        let mut elapsed = Duration::ZERO;
        while simulation.instructions()
            < rounds * TOUCHED_BYTES / PAGE_BYTES * INSTRUCTIONS_PER_STORE
        {
            source.next_chunk(&mut chunk).expect("an endless workload");
            for (_, event) in &mut chunk.events {
                if let ProgramEvent::Map { populate, .. } = event {
                    *populate = false;
                }
            }
            let start = Instant::now();
            simulation.run(&chunk).expect("a run");
            elapsed += start.elapsed();
        }
        elapsed
    };
    let first = round(1);
    share(round(2), first)
}

fn machine() -> Machine {
    Machine::load(Machine::DEFAULT).expect("a bundled machine")
}

fn memory() -> MemoryState {
    let fragmentation = perforate_config::read("portion=50%,holes=25%,clustered");
    let fragmentation = fragmentation.expect("a right fragmentation");
    {
        let memory = MemoryState::of(8 << 30);
        let kernel = KernelConfig { fragmentation, ..memory.kernel };
        MemoryState { kernel, ..memory }
    }
}

fn new_system(scheme: &str) -> System {
    let scheme = Scheme::find(scheme).expect("a scheme");
    let mut system = System::new(&machine(), scheme, &memory(), 1, OPTIONS).expect("a system");
    let map = ProgramEvent::Map {
        start: VirtualAddress::new(START),
        length: TOUCHED_BYTES,
        permissions: Permissions::READ_WRITE,
        accessible: true,
        backing: Backing::Anonymous,
        shared: false,
        populate: false,
    };
    system.event(&map).expect("room for it");
    system
}

/// Writes `stores` words of every page, in order. Returns the time.
fn pass(system: &mut System, stores: u64) -> Duration {
    let start = Instant::now();
    for page in 0..TOUCHED_BYTES / PAGE_BYTES {
        for word in 0..stores {
            let address = VirtualAddress::new(START + page * PAGE_BYTES + word * 8);
            let found = system.translate(AccessKind::Write, address).expect("enough memory");
            std::hint::black_box(found);
        }
    }
    start.elapsed()
}
