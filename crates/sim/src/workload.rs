//! Where the instructions come from: a trace file or a synthetic workload, by name.

use std::path::Path;

use perforate_trace::{Limited, Source, WORKLOADS, WorkloadSpec};

use crate::sparse::Sparse;
use crate::{MemoryState, SimError};

/// What to run and how much of it.
#[derive(Clone, Debug)]
pub struct Workload {
    /// A workload with its parameters (`random:size=4G`) or the path of a trace.
    pub name: String,
    /// Instructions to run at most, warm-up included.
    pub instructions: Option<u64>,
}

impl Workload {
    /// Instructions of an endless workload where no number is given.
    pub const DEFAULT_INSTRUCTIONS: u64 = 20_000_000;
}

/// Opens the workload for one comparison.
///
/// # Errors
/// No such workload or file, or a file that is no trace.
pub fn open_workload(
    workload: &Workload,
    memory: &MemoryState,
    seed: u64,
) -> Result<Box<dyn Source>, SimError> {
    let source = open(workload, seed)?;
    Ok(match &memory.fragmentation {
        Some(fragmentation) if !fragmentation.allocated => {
            Box::new(Sparse::new(source, *fragmentation, seed))
        }
        _ => source,
    })
}

fn open(workload: &Workload, seed: u64) -> Result<Box<dyn Source>, SimError> {
    let name = &workload.name;
    let instructions = workload.instructions;
    if WorkloadSpec::is_workload(name) {
        let instructions = instructions.unwrap_or(Workload::DEFAULT_INSTRUCTIONS);
        return Ok(WorkloadSpec::parse(name)?.source(seed, Some(instructions)));
    }
    let path = Path::new(name);
    if !path.exists() {
        let known = WORKLOADS.iter().map(|workload| workload.name).collect::<Vec<_>>().join(", ");
        return Err(SimError::UnknownWorkload { name: name.into(), known });
    }
    let source = perforate_trace::open(path)?;
    Ok(match instructions {
        Some(instructions) => Box::new(Limited::new(source, instructions)),
        None => source,
    })
}
