//! Runs, as many at once as there are processors.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use perforate_sim::linear_model::Measured;
use perforate_sim::{Comparison, Composition, Machine, MemoryState, SimError, Workload, compare};
use perforate_types::Counters;

/// One run.
#[derive(Clone)]
pub struct Job {
    /// Name of a workload or path of a trace.
    pub workload: String,
    /// Hardware.
    pub machine: Machine,
    /// What translates.
    pub scheme: &'static str,
    /// Memory of the guest, over that of the host.
    pub memory: MemoryState,
    /// Seed of workload and memory.
    pub seed: u64,
    /// Instructions, warm-up included.
    pub instructions: u64,
}

/// What a run left.
pub struct Figures {
    /// Cycles measured.
    pub cycles: f64,
    counters: Counters,
}

impl Figures {
    /// A counter of the run.
    pub fn counter(&self, name: &str) -> f64 {
        self.counters.get(name).unwrap_or_else(|| panic!("runs have a counter {name}"))
    }

    /// What D's models need of it.
    pub fn measured(&self) -> Measured {
        Measured {
            cycles: self.cycles,
            misses: self.counter("l2_tlb_misses"),
            walk_cycles: self.counter("walk_cycles"),
        }
    }
}

/// The figures of all jobs, in their order.
///
/// # Errors
/// The first job's that went wrong.
pub fn run(what: &str, jobs: &[Job]) -> Result<Vec<Figures>, SimError> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let outcomes: Vec<Mutex<Option<Result<Figures, SimError>>>> =
        jobs.iter().map(|_| Mutex::new(None)).collect();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let is_shown = std::io::stderr().is_terminal();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { break };
                    let outcome = run_one(job);
                    let place = &outcomes[index];
                    *place.lock().expect("no run panics") = Some(outcome);
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if is_shown {
                        eprint!("\r\x1b[K{what}: {done} of {} runs", jobs.len());
                        let _ = std::io::stderr().flush();
                    }
                }
            });
        }
    });
    if is_shown {
        eprint!("\r\x1b[K");
    }
    let done = outcomes.into_iter().map(|place| place.into_inner().expect("no run panics"));
    done.map(|outcome| outcome.expect("every job was run")).collect()
}

fn run_one(job: &Job) -> Result<Figures, SimError> {
    let workload =
        Workload { name: job.workload.clone(), skip: 0, instructions: Some(job.instructions) };
    let comparison = Comparison {
        workload,
        machine: job.machine.clone(),
        schemes: vec![Composition::find(job.scheme)?],
        memory: job.memory.clone(),
        seed: job.seed,
        functional: false,
        check: false,
        warmup: Some(job.instructions / 3),
    };
    let result = compare(&comparison, &mut |_| {})?.remove(0);
    Ok(Figures { cycles: result.cycles.expect("a timed run") as f64, counters: result.counters })
}
