//! The runs and what they leave.

use perforate_sim::linear_model::Measured;
use perforate_sim::{Comparison, Composition, Machine, MemoryState, SimError, Workload, compare};
use perforate_types::Counters;

use crate::parallel_runs;

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
    parallel_runs::run(what, jobs, run_one)
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
