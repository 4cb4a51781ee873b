//! Options that several commands share.

use clap::Args;
use perforate_sim::{Comparison, Machine, MemoryState, Scheme, SimError, Workload};

use crate::bundled;

/// Fragmentation where none is named: what P §III.C found on a real machine.
const DEFAULT_FRAGMENTATION: &str = "portion=50%,holes=25%,clustered";

/// Machine, memory and length of a simulation.
#[derive(Args, Clone)]
pub struct SimulationOptions {
    /// Machine: a name from `perforate list machines` or a machine file
    #[arg(long, value_name = "NAME|FILE", default_value = Machine::DEFAULT)]
    pub machine: String,
    /// Physical memory [default: 16G]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Injected fragmentation: portion=P%,holes=H%,clustered|dispersed[,unallocated], or none
    #[arg(long, value_name = "SPEC", default_value = DEFAULT_FRAGMENTATION)]
    pub fragmentation: String,
    /// Policy for perforated pages: max-hole-share=25%,max-filter-bits=4,holes=eager|lazy
    #[arg(long, value_name = "SPEC")]
    pub perforation: Option<String>,
    /// Seed of workload and memory; the same seed gives the same results
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Instructions to run, warm-up included [default: the whole trace, 20 M of a workload]
    #[arg(long, value_name = "N")]
    pub instructions: Option<u64>,
    /// Instructions before measuring starts [default: a fifth of the run]
    #[arg(long, value_name = "N")]
    pub warmup: Option<u64>,
    /// Count events only, without a clock: faster, no IPC
    #[arg(long)]
    pub functional: bool,
    /// Compare every translation with the oracle
    #[arg(long)]
    pub check: bool,
}

impl SimulationOptions {
    /// The memory asked for.
    pub fn memory(&self) -> Result<MemoryState, SimError> {
        MemoryState::parse(
            self.memory.as_deref(),
            Some(&self.fragmentation),
            self.perforation.as_deref(),
        )
    }

    /// The comparison asked for.
    pub fn comparison(
        &self,
        workload: Option<&str>,
        schemes: &str,
        seed: u64,
    ) -> Result<Comparison, SimError> {
        Ok(Comparison {
            workload: Workload {
                name: bundled::resolve(workload.unwrap_or(bundled::DEFAULT)),
                instructions: self.instructions,
            },
            machine: Machine::load(&self.machine)?,
            schemes: Scheme::list(schemes)?,
            memory: self.memory()?,
            seed,
            functional: self.functional,
            check: self.check,
            warmup: self.warmup,
        })
    }
}
